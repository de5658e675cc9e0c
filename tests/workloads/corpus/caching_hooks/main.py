# EXPECT {"kind":"refused-op","operation":"mm|matmul|mv|addmm|dot|bmm","devices":["cuda:0","cuda:1"],"operands":["resid|residual|activation|stack|cache[^\"]*\"\\]","unembed|direction|weight|W_U"],"category":"default or current device","line":["hook_points.py: device = \"cuda\"","main.py: cache = add_caching_hooks("],"error":"on the same device","thread":"https://github.com/TransformerLensOrg/TransformerLens/issues/202","hard":"hooks bring what they keep to \"the\" GPU, a closure's variable"}
# FIX main.py: cache = add_caching_hooks(model) -> cache = add_caching_hooks(model, device="cuda:1")
import torch
from torch import nn

from hook_points import add_caching_hooks

torch.manual_seed(0)
device = "cuda:1"
model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(3)), nn.Linear(8, 5)).to(device)
cache = add_caching_hooks(model)
with torch.no_grad():
    logits = model(torch.randn(4, 8).to(device))
    direction = model[-1].weight[2] - model[-1].weight[1]
    lenses = {}
    for name, activation in cache.items():
        if activation.shape[-1] == 8:
            lenses[name] = round((activation @ direction).mean().item(), 4)
print("logit lens", lenses)
