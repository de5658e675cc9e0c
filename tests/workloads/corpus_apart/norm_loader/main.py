# EXPECT {"kind":"refused-op","operation":"add","devices":["cpu","cuda:0"],"operands":["param|weight|self","self.gemma_weight|gemma_weight|out"],"category":"module split|input not moved","line":["layernorm.py: torch.add(param.data, 1.0, out=self.gemma_weight)","offloader.py: param.data = param.data.to("],"error":"on the same device","thread":"https://github.com/sgl-project/sglang/pull/36510","hard":"parameters were taken to the CPU on purpose, what is derived from one of them is a buffer; the third tensor is an out= argument"}
# FIX layernorm.py: torch.add(param.data, 1.0, out=self.gemma_weight) -> torch.add(param.data.to(self.gemma_weight.device), 1.0, out=self.gemma_weight)
import torch
from torch import nn

from layernorm import GemmaRMSNorm
from offloader import Offloader


class Layer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.norm = GemmaRMSNorm(hidden_size)
        self.mlp = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self, offloader, vocab_size=20, hidden_size=8, n_layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(offloader.wrap(Layer(hidden_size).to("cuda")) for _ in range(n_layers))
        self.embed.to("cuda")

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, loaded in weights:
            loader = getattr(params[name], "weight_loader", lambda param, weight: param.data.copy_(weight))
            loader(params[name], loaded)

    @torch.no_grad()
    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return x @ self.embed.weight.T


def checkpoint(model):
    generator = torch.Generator().manual_seed(36510)
    for name, param in model.named_parameters():
        yield name, torch.rand(param.shape, generator=generator) - 0.5


model = Model(Offloader(budget=150))
model.load_weights(checkpoint(model))
logits = model(torch.tensor([3, 1, 4, 15], device="cuda"))
print("next", logits.argmax(-1).tolist(), round(logits.abs().mean().item(), 3))
