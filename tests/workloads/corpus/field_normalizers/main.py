# EXPECT {"kind":"refused-op","operation":"mul|add|sub|div","devices":["cuda:0","cpu"],"operands":["x|value|prediction","self.scale|scale|self.shift|shift"],"category":"cached state|state not registered","line":["normalizers.py: return x * self.scale","normalizers.py: return (x - self.shift)","normalizers.py: self.shift, self.scale"],"error":"on the same device","thread":"https://github.com/Emmi-AI/noether/pull/156","hard":"in the data pipeline it is right on the CPU; the trainer uses it again for what the model gives"}
# FIX normalizers.py: return x * self.scale + self.shift -> return x * self.scale.to(x.device) + self.shift.to(x.device)
import torch
from torch import nn

from normalizers import Pipeline, ShiftAndScale

torch.manual_seed(0)
pipeline = Pipeline({"pressure": ShiftAndScale([1.0], [2.0]), "velocity": ShiftAndScale([0.0, 1.0, 0.5], [1.0, 3.0, 2.0])})
model = nn.Linear(3, 1).to("cuda:0")
errors = []
for step in range(2):
    sample = pipeline({"pressure": torch.rand(5, 1), "velocity": torch.rand(5, 3)})
    prediction = model(sample["velocity"].to("cuda:0"))
    physical = pipeline.inverse("pressure", prediction)
    errors.append(round((physical - pipeline.inverse("pressure", sample["pressure"].to("cuda:0"))).abs().mean().item(), 4))
print("errors", errors)
