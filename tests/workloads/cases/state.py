# === llamafactory_1751
# thread: https://github.com/hiyouga/LLaMA-Factory/issues/1751
# about: an attention of an older style joins past_key_value with the new keys; the cache comes from a prefix that was computed on the first GPU, the layer
#   is on the second.
# category: cached-state-elsewhere
# operands: past_key_value[0] cuda:0, key cuda:1
# fails: key = torch.cat((past_key_value[0], key), dim=1)
# fix: past_key_value = tuple(value.to(key.device) for value in past_key_value)
# fix: key = torch.cat((past_key_value[0], key), dim=1)


import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_key_value = nn.Linear(16, 48)

    def forward(self, hidden_states, past_key_value):
        query, key, value = self.query_key_value(hidden_states).chunk(3, dim=-1)
        key = torch.cat((past_key_value[0], key), dim=1)
        value = torch.cat((past_key_value[1], value), dim=1)
        return nn.functional.scaled_dot_product_attention(query, key, value)


prefix = torch.nn.Embedding(4, 32).to("cuda:0")
with torch.no_grad():
    past_key_values = prefix(torch.arange(4, device="cuda:0"))[None].chunk(2, dim=-1)
layer = Attention().to("cuda:1")
layer(torch.randn(1, 3, 16).to("cuda:1"), past_key_values)

# === pipeline_frequencies
# about: Of no thread: a pipeline over two GPUs keeps its rotary frequencies where the first layer is.
# category: state-not-registered
# operands: freqs_cis cuda:0



import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(8, 8)

    def forward(self, x, freqs_cis):
        xq = self.wq(x)
        return xq * freqs_cis


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.freqs_cis = torch.rand(8).to("cuda:0")

    def forward(self, x):
        for layer in self.layers:
            x = layer(x.to(layer.wq.weight.device), self.freqs_cis)
        return x


model = Transformer()
model.layers[0].to("cuda:0")
model.layers[1].to("cuda:1")
model(torch.randn(1, 3, 8).to("cuda:0"))

# === pytorch_1515
# thread: https://github.com/pytorch/pytorch/issues/1515
# about: the way most people meet it: training goes on from a checkpoint, and the model goes to the GPU after the optimizer's state was made on the CPU.
# category: optimizer-state
# operands: optimizer.state[…]["exp_avg"] cpu
# fails: optimizer.step()
# fix: model.to("cuda:0")
# fix: optimizer.load_state_dict(optimizer.state_dict())



import torch
from torch import nn

model = nn.Linear(6, 3)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)


def step(device):
    optimizer.zero_grad()
    model(torch.randn(4, 6, device=device)).square().mean().backward()
    optimizer.step()


step("cpu")
model.to("cuda:0")
step("cuda:0")

# === pytorch_yolov4_296
# thread: https://github.com/Tianxiaomo/pytorch-YOLOv4/issues/296
# about: the anchors are a plain tensor of the detection layer, which .cuda() does not move.
# category: state-not-registered
# operands: self.anchors cpu
# fails: return torch.exp(sizes) * self.anchors
# fix: self.register_buffer("anchors", torch.tensor([[12.0, 16.0], [19.0, 36.0], [40.0, 28.0]]), persistent=False)


import torch
from torch import nn


class YoloLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.anchors = torch.tensor([[12.0, 16.0], [19.0, 36.0], [40.0, 28.0]])
        self.head = nn.Conv2d(8, 6, 1)

    def forward(self, features):
        sizes = self.head(features).flatten(2).transpose(1, 2).unflatten(-1, (3, 2))
        return torch.exp(sizes) * self.anchors


layer = YoloLayer().cuda()
layer(torch.randn(1, 8, 5, 5).cuda())

# === transformers_28051
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
