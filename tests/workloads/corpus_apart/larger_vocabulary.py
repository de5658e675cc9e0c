# EXPECT {"kind":"refused-op","operation":"linear|mm|matmul","devices":["cuda:0","cuda:1"],"operands":["hidden|input","lm_head.weight|weight"],"category":"module split|created without device","line":["model.lm_head = resized(","device_map = {","return self.lm_head("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/issues/25554","hard":"the layer that takes the old one's place has its device, but not its hook"}
# FIX model.lm_head = resized(model.lm_head, n_tokens) -> model.lm_head = accelerate.hooks.add_hook_to_module(resized(model.lm_head, n_tokens), model.lm_head._hf_hook)
import accelerate
import torch
from torch import nn


class LlamaLike(nn.Module):
    def __init__(self, vocab_size=20, dim=8, n_layers=4):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList([nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU()) for _ in range(n_layers)])
        self.lm_head = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden)


def resized(old_head, n_tokens):
    old_tokens, dim = old_head.weight.shape
    new_head = nn.Linear(dim, n_tokens, bias=False)
    new_head.to(old_head.weight.device)
    with torch.no_grad():
        new_head.weight[:old_tokens] = old_head.weight
    return new_head


def add_special_tokens(model, n_tokens):
    """The rows of the tokens there were stay as they are."""
    model.lm_head = resized(model.lm_head, n_tokens)
    return model


torch.manual_seed(25554)
model = LlamaLike().eval()
device_map = {"embed_tokens": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "lm_head": 0}
model = accelerate.dispatch_model(model, device_map=device_map)
model = add_special_tokens(model, 24)
with torch.no_grad():
    logits = model(torch.tensor([[1, 7, 13, 19]]))
print(list(logits.shape), round(logits[..., :20].abs().sum().item(), 4), flush=True)
