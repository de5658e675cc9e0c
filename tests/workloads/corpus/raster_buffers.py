# EXPECT {"kind":"refused-op","operation":"mul|index|index_add","devices":["cuda:0","cuda:1"],"operands":["touched|binning|buffer|radii","grad_image|opacity|grad|means|near|depth"],"category":"default or current device","line":["touched = torch.zeros(len(means), height * width, device=\"cuda\")"],"error":"on the same device","thread":"https://github.com/graphdeco-inria/diff-gaussian-rasterization/pull/82","hard":"buffers that an autograd function makes for itself, on whatever device is current"}
# FIX touched = torch.zeros(len(means), height * width, device="cuda") -> touched = torch.zeros(len(means), height * width, device=means.device)
import torch
from torch import nn


class RasterizeGaussians(torch.autograd.Function):
    @staticmethod
    def forward(ctx, means, opacity, settings):
        height, width = settings
        touched = torch.zeros(len(means), height * width, device="cuda")
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        pixels = torch.stack((rows, columns), -1).view(-1, 2).to(means)
        near = (-torch.cdist(means, pixels).square()).exp()
        touched += (near > 0.1).float().to(touched.device)
        ctx.save_for_backward(near, touched)
        return (near * opacity[:, None]).sum(0).view(height, width)

    @staticmethod
    def backward(ctx, grad_image):
        near, touched = ctx.saved_tensors
        grad_opacity = (near * grad_image.reshape(1, -1) * touched).sum(1)
        return None, grad_opacity, None


class GaussianModel(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.register_buffer("means", torch.rand(count, 2) * 6)
        self.opacity = nn.Parameter(torch.full((count,), 0.5))

    def render(self, height, width):
        return RasterizeGaussians.apply(self.means, self.opacity, (height, width))


torch.manual_seed(0)
gaussians = GaussianModel(5).to("cuda:1")
target = torch.ones(6, 6).to("cuda:1")
optimizer = torch.optim.Adam(gaussians.parameters(), lr=0.05)
for _ in range(3):
    loss = (gaussians.render(6, 6) - target).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
