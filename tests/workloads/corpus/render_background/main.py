# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["background_color|background|color","opacity|sub|rsub"],"category":"created without device|input not moved|state not registered","line":["renderer.py: background = self.background_color","renderer.py: return color + background * (1.0 - opacity)","colors.py: WHITE = torch.tensor("],"error":"on the same device","thread":"https://github.com/nerfstudio-project/nerfstudio/pull/2381","hard":"a constant of a module, handed through a dataclass's default"}
# FIX renderer.py: background = self.background_color -> background = self.background_color.to(rgb.device)
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

import colors
from renderer import RGBRenderer


@dataclass
class NeRFConfig:
    samples: int = 8
    far: float = 2.0
    background_color: Tensor = field(default_factory=lambda: colors.WHITE)


class VanillaNeRF(nn.Module):
    def __init__(self, config: NeRFConfig):
        super().__init__()
        self.config = config
        self.field = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
        self.renderer_rgb = RGBRenderer(background_color=config.background_color)

    def forward(self, origins: Tensor, directions: Tensor) -> Tensor:
        steps = torch.linspace(0.0, self.config.far, self.config.samples, device=origins.device)
        points = origins[:, None] + steps[None, :, None] * directions[:, None]
        rgb, density = self.field(points).split([3, 1], dim=-1)
        return self.renderer_rgb(rgb.sigmoid(), density.relu() * self.config.far / self.config.samples)


torch.manual_seed(2381)
model = VanillaNeRF(NeRFConfig()).to("cuda:0")
directions = nn.functional.normalize(torch.randn(5, 3), dim=-1).to("cuda:0")
image = model(torch.zeros_like(directions), directions)
print("mean color", [round(channel, 4) for channel in image.mean(dim=0).tolist()])
