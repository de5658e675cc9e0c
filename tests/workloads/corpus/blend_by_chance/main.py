# EXPECT {"kind":"refused-op","operation":"where|mul|add|index","devices":["cuda:0","cpu"],"operands":["to_apply|condition|chosen|gate|factor"],"category":"created without device","line":["augment.py: draws = torch.rand(","augment.py: gate = params[\"to_apply\"]"],"error":"on the same device","thread":"https://github.com/kornia/kornia/issues/4151","hard":"what was drawn stands in a dict of parameters that goes through three methods"}
# FIX augment.py: gate = params["to_apply"].view(-1, 1, 1, 1) -> gate = params["to_apply"].view(-1, 1, 1, 1).to(images.device)
import torch
from torch import nn

from augment import RandomInvert, RandomShift

torch.manual_seed(0)
augment = nn.Sequential(RandomInvert(p=0.5), RandomShift(p=0.5))
images = torch.rand(8, 3, 6, 6).to("cuda:0")
out = augment(images)
print("augmented", tuple(out.shape), bool(out.isfinite().all()))
