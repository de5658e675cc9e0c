# EXPECT {"kind":"refused-op","operation":"DataParallel","devices":["cpu","cuda:0"],"operands":["weight|bias"],"category":"data parallel|module split","line":["model = nn.DataParallel(","out = model("],"error":"module must have its parameters and buffers on device cuda:0","thread":"https://github.com/otenim/GLCIC-PyTorch/issues/8"}
# FIX model = nn.DataParallel(model, device_ids=[0, 1]) -> model = nn.DataParallel(model.to("cuda:0"), device_ids=[0, 1])
import torch
from torch import nn


class CompletionNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 3, 1)

    def forward(self, x):
        return torch.sigmoid(self.out(torch.relu(self.conv(x))))


def predict(model, image, mask):
    x = torch.cat([image * (1 - mask), mask], dim=1)
    out = model(x)
    return image * (1 - mask) + out.to(image.device) * mask


torch.manual_seed(0)
model = CompletionNetwork()
model = nn.DataParallel(model, device_ids=[0, 1])
image, mask = torch.rand(2, 3, 8, 8), torch.zeros(2, 1, 8, 8)
mask[:, :, 2:5, 2:5] = 1
with torch.no_grad():
    inpainted = predict(model, image, mask)
print("inpainted", tuple(inpainted.shape), round(inpainted.sum().item(), 3))
