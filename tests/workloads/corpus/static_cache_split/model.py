import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, layer_idx, heads=2, width=8):
        super().__init__()
        self.layer_idx, self.heads = layer_idx, heads
        self.qkv = nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden, past_key_values, cache_position):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(hidden).chunk(3, dim=-1))
        k, v = past_key_values.update(k, v, self.layer_idx, cache_position)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        future = torch.arange(k.shape[2], device=k.device) > cache_position[:, None]
        scores = scores.masked_fill(future, float("-inf"))
        hidden = hidden + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return hidden + self.mlp(hidden)


class TinyDecoder(nn.Module):
    def __init__(self, layers, vocabulary=32, width=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(i) for i in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, past_key_values, cache_position):
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = layer(hidden, past_key_values=past_key_values, cache_position=cache_position)
        return self.head(hidden)
