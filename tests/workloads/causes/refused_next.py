# The line that a fix changes is not the last one in which what it brings along meets what stays.
import time

import torch
from torch import nn
torch.manual_seed(0)

# === what else was computed from the argument
# category: created-without-device
# confidence: medium
# repairs: line
# fix: beam = (height[:, None].to(edges.device) > edges).sum(1)
# also: return torch.stack([beam.float(), angle.abs().to(beam.device), (-points[:, 2]).to(beam.device)], 1)
def raster(points, edges):
    height = points[:, 1] / points[:, 2]
    beam = (height[:, None] > edges).sum(1)
    angle = points[:, 0] * 2
    return torch.stack([beam.float(), angle.abs(), -points[:, 2]], 1)
def run(points, device):
    return raster(points, torch.linspace(0, 1, 4, device=device)).to(device)
run(torch.rand(6, 3), "cuda:0")

# === what the caller computes with the result
# category: unknown
# confidence: low
# repairs: line
# fix: return x.to(scale.device) * scale
# also: return y - means.to(y.device)
def scaled(x, scale):
    return x * scale
def normal(x, scale, means):
    y = scaled(x, scale)
    return y - means
normal(torch.ones(3), torch.ones(3, device="cuda:0"), torch.ones(3))

# === what may lie anywhere stays
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: x = torch.ones(3, device=scale.device)
class Kept:
    def __init__(self):
        self.last, self.order = torch.zeros(3), torch.tensor([2, 0, 1])
    def run(self, scale):
        x = torch.ones(3)
        y = x * scale
        y = y[self.order]
        self.last.copy_(y)
        for each in self.last.tolist():
            y = y + each
        return y + self.last[0] * 2
Kept().run(torch.ones(3, device="cuda:0"))

# === the module that the next line calls
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: seen = self.eyes(pixels.to(next(self.eyes.parameters()).device))
# also: felt = self.hand(state.to(next(self.hand.parameters()).device))
class Robot:
    def __init__(self, device):
        self.eyes, self.hand = nn.Linear(3, 4).to(device), nn.Linear(2, 4).to(device)
    def act(self, pixels, state):
        seen = self.eyes(pixels)
        felt = self.hand(state)
        return seen + felt
def stated():
    return torch.ones(1, 2)
Robot("cuda:0").act(torch.ones(1, 3), stated())

# === what a cache is given
# category: cached-state-elsewhere
# confidence: medium
# repairs: line
# fix: self.keys[layer][:, places.to(self.keys[layer].device)] = keys.to(self.keys[layer].device)
class StaticCache:
    def __init__(self, layers, device):
        self.keys = [torch.zeros(1, 4, 3, device=device) for _ in range(layers)]
    def update(self, layer, keys, places):
        self.keys[layer][:, places] = keys
        return self.keys[layer]
def run(cache, x):
    for layer, device in enumerate(("cuda:0", "cuda:1")):
        x = cache.update(layer, x.to(device), torch.arange(2, device=device))[:, :2]
    return x
cache = StaticCache(2, "cuda:0")
time.sleep(0.02)  # the clock of allocations is coarse
run(cache, torch.ones(1, 2, 3))

# === the best of each row, further down
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: places = torch.arange(3, device=heights.device)
# also: return taken - peaks.max(dim=1)[0].to(taken.device)
def above(heights, peaks):
    places = torch.arange(3)
    taken = (heights * places).sum(1)
    return taken - peaks.max(dim=1)[0]
above(torch.ones(2, 3, device="cuda:0"), torch.ones(2, 3).cumsum(1))

# === two tensors that one line makes, further down
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: x = torch.tensor(rows, device=next(model.parameters()).device)
# also: unit = torch.distributions.Normal(torch.zeros(1, device=next(model.parameters()).device), torch.ones(1, device=next(model.parameters()).device))
def chances(model, rows):
    x = torch.tensor(rows)
    unit = torch.distributions.Normal(torch.zeros(1), torch.ones(1))
    return unit.cdf(model(x))
chances(nn.Linear(2, 1).to("cuda:0"), [[0.5, 1.0], [2.0, -1.0]])

# === a name that a line further down gives a new value of its own
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: mask = torch.arange(5, device=kept["rows"].device) < counts[:, None].to(kept["rows"].device)
# also: return rows / counts[:, None].to(rows.device)
def means(kept, counts):
    mask = torch.arange(5) < counts[:, None]
    counts = counts - 1
    rows = (kept["rows"] * mask).sum(1, keepdim=True)
    return rows / counts[:, None]
means({"rows": torch.ones(2, 5, device="cuda:0")}, torch.tensor([4, 3]))
