# EXPECT {"kind":"refused-op","operation":"mm|addmm|index|embedding|bmm","devices":["cuda:0","cpu"],"operands":["weight","features|x|node|input|positions|edges|lengths"],"category":"module split","line":["calculator.py: self.model = to_fast(","convert.py: def to_fast("],"error":"on the same device","thread":"https://github.com/TorchSim/torch-sim/issues/440","hard":"the model is on the GPU, what a conversion makes of it is on the CPU: its own default"}
# FIX calculator.py: self.model = to_fast(self.model) -> self.model = to_fast(self.model, device=self.device)
import torch

from calculator import EnergyModel
from network import Network

torch.manual_seed(0)
model = EnergyModel(Network(4, 8), device="cuda:0", fast=True)
positions = torch.randn(6, 3).to("cuda:0")
energies = [model.energy(positions + 0.01 * step) for step in range(2)]
print("energies", [round(energy, 3) for energy in energies])
