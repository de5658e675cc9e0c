# EXPECT {"kind":"refused-op","operation":"mul|addcmul|lerp|sub|add","devices":["cuda:0","cpu"],"operands":["self.running_mean|running_mean"],"category":"state not registered","line":["value_norm.py: self.tpdv = dict(","value_norm.py: returns = returns.to(**self.tpdv)","main.py: normalizer = ValueNorm("],"error":"on the same device","thread":"https://github.com/marlbenchmark/on-policy/pull/107","hard":"the input is moved to a device that the module wrote down in a dict before it was moved itself"}
# FIX main.py: normalizer = ValueNorm(1).to(device) -> normalizer = ValueNorm(1, device=device)
import torch
from torch import nn

from value_norm import ValueNorm

torch.manual_seed(0)
device = torch.device("cuda:0")
critic = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
normalizer = ValueNorm(1).to(device)
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
for _ in range(3):
    observations, returns = torch.randn(32, 5).to(device), torch.randn(32, 1).to(device)
    normalizer.update(returns)
    loss = (critic(observations) - normalizer.normalize(returns)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("value loss", round(loss.item(), 3))
