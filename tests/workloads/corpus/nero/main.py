# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:0","cpu"],"operands":["exp_avg_sq|state","norm|square|grad"],"category":"optimizer","line":["main.py: optimizer = Nero(","nero.py: state[\"exp_avg_sq\"] = self.beta","main.py: net.cuda()"],"error":"on the same device","thread":"https://github.com/jxbz/nero/issues/1","hard":"an optimizer that makes its state when it is made, before the network is moved"}
# FIX main.py: optimizer = Nero(net.parameters(), lr=0.01) -> optimizer = Nero(net.cuda().parameters(), lr=0.01)
import torch
from torch import nn

from nero import Nero

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
optimizer = Nero(net.parameters(), lr=0.01)
net.cuda()

x = torch.randn(12, 8).cuda()
y = (torch.arange(12) % 3).cuda()
for step in range(3):
    loss = nn.functional.cross_entropy(net(x), y)
    net.zero_grad()
    loss.backward()
    optimizer.step()
print("loss after %d steps: %.4f" % (step + 1, loss.item()))
