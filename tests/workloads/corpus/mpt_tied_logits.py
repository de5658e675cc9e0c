# EXPECT {"kind":"refused-op","operation":"mm|linear|addmm","devices":["cuda:1","cuda:0"],"operands":["hidden_states|input|self","wte.weight|weight|mat2"],"category":"tied weights|module split","line":["logits = F.linear(hidden_states, self.transformer.wte.weight)","device_map = {"],"error":"on the same device","thread":"https://github.com/rmihaylov/mpttune/pull/8","hard":"no module is called there, so none of the hooks moves anything"}
# FIX logits = F.linear(hidden_states, self.transformer.wte.weight) -> logits = F.linear(hidden_states.to(self.transformer.wte.weight.device), self.transformer.wte.weight)
import math

import torch
from accelerate import dispatch_model
from torch import nn
from torch.nn import functional as F


class MPTBlock(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.Wqkv, self.out_proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))

    def forward(self, x, attn_bias):
        q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in self.Wqkv(self.norm_1(x)).chunk(3, -1))
        weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + attn_bias).softmax(-1)
        x = x + self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        return x + self.ffn(self.norm_2(x))


class MPTModel(nn.Module):
    def __init__(self, d_model=8, n_heads=2, n_layers=3, vocab_size=28):
        super().__init__()
        self.n_heads = n_heads
        self.wte = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(MPTBlock(d_model, n_heads) for _ in range(n_layers))
        self.norm_f = nn.LayerNorm(d_model)

    def forward(self, input_ids):
        n = input_ids.shape[1]
        distance = torch.arange(n, device=input_ids.device) - torch.arange(n, device=input_ids.device)[:, None]
        slopes = 2.0 ** -torch.arange(1, self.n_heads + 1, device=input_ids.device)
        attn_bias = (slopes[:, None, None] * distance).masked_fill(distance > 0, float("-inf"))
        x = self.wte(input_ids)
        for block in self.blocks:
            x = block(x, attn_bias=attn_bias)
        return self.norm_f(x)


class MPTForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = MPTModel()

    def forward(self, input_ids):
        hidden_states = self.transformer(input_ids)
        # The output layer is the embedding.
        logits = F.linear(hidden_states, self.transformer.wte.weight)
        return logits


torch.manual_seed(0)
device_map = {"transformer.wte": 0, "transformer.blocks.0": 0, "transformer.blocks.1": 1, "transformer.blocks.2": 1, "transformer.norm_f": 1}
model = dispatch_model(MPTForCausalLM().eval(), device_map)
with torch.no_grad():
    logits = model(torch.randint(0, 28, (2, 6)).to("cuda:0"))
print("logits", tuple(logits.shape), round(logits.square().mean().item(), 3))
