# EXPECT {"kind":"refused-op","operation":"mul|bmm|matmul","devices":["cuda:1","cuda:0"],"operands":["position_ids|positions","self.inv_freq|inv_freq"],"category":"module split|input not moved","line":["model.rotary_emb.to(device)","freqs = positions * self.inv_freq"],"error":"on the same device","thread":"https://github.com/casper-hansen/AutoAWQ/pull/668","hard":"a hook that was attached before the module was moved takes its inputs to the old device"}
# FIX model.rotary_emb.to(device) -> from accelerate.hooks import remove_hook_from_module; remove_hook_from_module(model.rotary_emb.to(device))
import torch
from accelerate import dispatch_model
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, position_ids):
        positions = position_ids[..., None].float()
        freqs = positions * self.inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, cos, sin):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        q, k = (part * cos + part.roll(part.shape[-1] // 2, -1) * sin for part in (q, k))
        return hidden + self.out((q @ k.transpose(-1, -2)).softmax(-1) @ v)


class Qwen(nn.Module):
    def __init__(self, dim=8, layers=4):
        super().__init__()
        self.embed_tokens = nn.Embedding(32, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        self.rotary_emb = RotaryEmbedding(dim)

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        cos, sin = self.rotary_emb(torch.arange(input_ids.shape[1], device=input_ids.device)[None])
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return hidden


def move_embed(model, device):
    """What stands before the first layer goes to where that is calibrated."""
    model.embed_tokens.to(device)
    model.rotary_emb.to(device)


torch.manual_seed(0)
device_map = {"embed_tokens": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "rotary_emb": 1}
model = dispatch_model(Qwen().eval(), device_map)
move_embed(model, "cuda:0")
with torch.no_grad():
    hidden = model(torch.randint(0, 32, (2, 7)).to("cuda:0"))
print("calibrated", round(hidden.square().mean().item(), 4))
