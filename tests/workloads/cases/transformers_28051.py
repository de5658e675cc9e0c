# thread: https://github.com/huggingface/transformers/issues/28051
# about: a cache object keeps each layer's keys where they came first; a layer that runs elsewhere in the next step joins them with its own.
# category: cached-state-elsewhere
# operands: self.key_cache[0] cuda:0, key_states cuda:1
# fails: self.key_cache[layer] = torch.cat([self.key_cache[layer], key_states], dim=-2)
# fix: self.key_cache[layer] = torch.cat([self.key_cache[layer].to(key_states.device), key_states], dim=-2)



import torch
from torch import nn


class DynamicCache:
    def __init__(self):
        self.key_cache = []

    def update(self, key_states, layer):
        if len(self.key_cache) <= layer:
            self.key_cache.append(key_states)
        else:
            self.key_cache[layer] = torch.cat([self.key_cache[layer], key_states], dim=-2)
        return self.key_cache[layer]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.k_proj = nn.Linear(8, 8)

    def forward(self, x, cache):
        return cache.update(self.k_proj(x), 0)


cache = DynamicCache()
layer = Layer().to("cuda:0")
layer(torch.randn(1, 5, 8).to("cuda:0"), cache)
layer.to("cuda:1")
layer(torch.randn(1, 1, 8).to("cuda:1"), cache)
