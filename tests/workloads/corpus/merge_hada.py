# EXPECT {"kind":"refused-op","operation":"add|mul","devices":["cpu","cuda:0"],"operands":["orig_weight|original","diff|delta|scale"],"category":"input not moved|module split","line":["return orig_weight + ","merge(model.state_dict(), adapter","adapter = {"],"error":"on the same device","thread":"https://github.com/KohakuBlueleaf/LyCORIS/issues/87","hard":"two checkpoints; the device of the merge was asked for and applied to one of them"}
# FIX return orig_weight + scale * diff -> return orig_weight + scale * diff.to(orig_weight.device)
import torch
from torch import nn


def rebuild_weight(factors, orig_weight, scale):
    diff = (factors["w1_a"] @ factors["w1_b"]) * (factors["w2_a"] @ factors["w2_b"])
    return orig_weight + scale * diff


@torch.no_grad()
def merge(state, adapter, scale, device):
    adapter = {name: {key: value.to(device) for key, value in factors.items()} for name, factors in adapter.items()}
    merged = {}
    for name, weight in state.items():
        merged[name] = rebuild_weight(adapter[name], weight, scale) if name in adapter else weight
    return merged


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
adapter = {}
for name, weight in model.state_dict().items():
    if weight.ndim == 2:
        rows, columns = weight.shape
        adapter[name] = {"w1_a": torch.randn(rows, 2), "w1_b": torch.randn(2, columns), "w2_a": torch.randn(rows, 2), "w2_b": torch.randn(2, columns)}
model.load_state_dict(merge(model.state_dict(), adapter, 0.1, device="cuda:0"))
print("merged", round(model(torch.ones(1, 6)).sum().item(), 4))
