# EXPECT {"kind":"refused-op","operation":"mul|add|lerp|sub","devices":["cuda:0","cpu"],"operands":["slow|slow_params|fast|p"],"category":"optimizer","line":["main.py: model.to(device)","lookahead.py: self.slow = [","main.py: optimizer = Lookahead("],"error":"on the same device","thread":"https://github.com/kozistr/pytorch_optimizer/issues/306","hard":"an optimizer around an optimizer copied the weights before they were moved"}
# FIX lookahead.py: slow.lerp_(p, self.alpha) -> slow.data = slow.data.to(p.device).lerp_(p, self.alpha)
import torch
from torch import nn

from lookahead import Lookahead

torch.manual_seed(0)
device = "cuda:0"
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = Lookahead(torch.optim.SGD(model.parameters(), lr=0.1), k=2, alpha=0.5)
model.to(device)
for _ in range(4):
    loss = (model(torch.ones(3, 4).to(device)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
