# EXPECT {"kind":"refused-op","operation":"convolution|conv|addmm","devices":["cuda:1","cuda:0"],"operands":["weight|bias","input|x"],"category":"data parallel","line":["self.model = ListModule(","out = self.model[i](","return getattr(self.module"],"error":"same device|Input type|on the same device","thread":"https://github.com/junyanz/BicycleGAN/pull/40","hard":"a helper object, no module, holds the original: each replica asks it for its parts"}
# FIX out = self.model[i](x) -> out = getattr(self, f"scale_{i}")(x)
import torch
from torch import nn


class ListModule:
    """Lets a module's numbered parts be indexed."""

    def __init__(self, module, prefix, parts):
        self.module, self.prefix, self.count = module, prefix, len(parts)
        for number, part in enumerate(parts):
            module.add_module(f"{prefix}{number}", part)

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        return getattr(self.module, f"{self.prefix}{number}")


class MultiScaleDiscriminator(nn.Module):
    def __init__(self, channels, scales):
        super().__init__()
        parts = [nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 1)) for _ in range(scales)]
        self.model = ListModule(self, "scale_", parts)
        self.down = nn.AvgPool2d(2)

    def forward(self, x):
        results = []
        for i in range(len(self.model)):
            out = self.model[i](x)
            results.append(out.mean((1, 2, 3)))
            x = self.down(x)
        return torch.stack(results, dim=1)


torch.manual_seed(0)
net = nn.DataParallel(MultiScaleDiscriminator(3, 2).cuda(), device_ids=[0, 1])
scores = net(torch.rand(4, 3, 8, 8).cuda())
print("scores", tuple(scores.shape), round(scores.sum().item(), 4))
