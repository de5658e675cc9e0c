# The line that a fix changes is not the last one in which what it brings along meets what stays.
import torch
from torch import nn
torch.manual_seed(0)

# === what else was computed from the argument
# category: unknown
# fix: beam = (height[:, None].to(edges.device) > edges).sum(1)
# also: return torch.stack([beam.float(), angle.abs().to(edges.device), (-points[:, 2]).to(edges.device)], 1)
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
# fix: return x.to(scale.device) * scale
# also: return y - means.to(y.device)
def scaled(x, scale):
    return x * scale
def normal(x, scale, means):
    y = scaled(x, scale)
    return y - means
normal(torch.ones(3), torch.ones(3, device="cuda:0"), torch.ones(3))

# === what may lie anywhere stays
# category: unknown
# fix: y = x.to(scale.device) * scale
def run(x, scale, order, kept):
    y = x * scale
    y = y[order]
    kept.copy_(y)
    for each in kept.tolist():
        y = y + each
    return y + kept[0] * 2, kept + x
run(torch.ones(3), torch.ones(3, device="cuda:0"), torch.tensor([2, 0, 1]), torch.zeros(3))
