# EXPECT {"kind":"refused-op","operation":"mse_loss|sub|broadcast|binary","devices":["cuda:1","cuda:0"],"operands":["targets|target|spike_targets","mem_out|step|input|mem"],"category":"default or current device","line":["losses.py: device = \"cuda\"","losses.py: wanted = torch.full("],"error":"on the same device","thread":"https://github.com/jeshraghian/snntorch/pull/188","hard":"a base class says cuda or cpu, and means the device of what it was given"}
# FIX losses.py: device = "cuda" if out.is_cuda else "cpu" -> device = out.device
import torch
from torch import nn

from losses import MembraneLoss

torch.manual_seed(0)
device = torch.device("cuda:1")
net = nn.Linear(5, 3).to(device)
loss_fn = MembraneLoss(on=1.2, off=0.1)
mem = torch.stack([torch.sigmoid(net(torch.rand(4, 5).to(device))) for _ in range(6)])
loss = loss_fn(mem, torch.tensor([0, 2, 1, 0]).to(device))
loss.backward()
print("membrane", round(loss.item(), 4))
