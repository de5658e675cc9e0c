# EXPECT {"kind":"refused-op","operation":"stft|mul|_fft.*","devices":["cuda:0","cpu"],"operands":["window|self.window"],"category":"state not registered","line":["losses.py: self.window = getattr(torch, window)("],"error":"on the same device","thread":"https://github.com/csteinmetz1/auraloss/issues/17","hard":"the losses are in a ModuleList and were moved; the windows of them are plain attributes, made by the name that getattr is given"}
# FIX losses.py: self.window = getattr(torch, window)(win_length) -> self.register_buffer("window", getattr(torch, window)(win_length))
import torch

from losses import MultiResolutionSTFTLoss

torch.manual_seed(0)
loss = MultiResolutionSTFTLoss((64, 32), (16, 8), (48, 32)).cuda()
model = torch.nn.Conv1d(1, 1, 9, padding=4).cuda()
target = torch.rand(2, 1, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    value = loss(model(target), target)
    value.backward()
    optimizer.step()
print("loss", round(value.item(), 3))
