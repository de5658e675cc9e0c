# EXPECT {"kind":"refused-op","operation":"index","devices":["cpu","cuda:0"],"operands":["tensor|self.alphas|self.sigmas|alphas|sigmas","t"],"category":"cached state|state not registered","line":["diffusion.py: self.sigmas, self.alphas =","diffusion.py: return tensor[t]","main.py: diffusion = Diffusion("],"error":"indices should be either on cpu or on the same device as the indexed tensor \\(cpu\\)","thread":"https://github.com/modelscope/modelscope/issues/220","hard":"the table is in a plain object; a free function is given it"}
# FIX diffusion.py: return tensor[t].view(shape).to(x) -> return tensor[t.to(tensor.device)].view(shape).to(x)
import torch
from torch import nn

from diffusion import Diffusion, schedule


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width + 1, width)

    def forward(self, x, t):
        return self.body(torch.cat([x, t[:, None] / 10], dim=1))


torch.manual_seed(0)
diffusion = Diffusion(schedule(10))
model = Denoiser(4).to("cuda:0").eval()
noise = torch.randn(3, 4).to("cuda:0")
image = diffusion.sample(model, noise, steps=5)
print("image", round(image.sum().item(), 4))
