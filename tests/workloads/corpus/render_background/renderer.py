import torch
from torch import Tensor, nn


class RGBRenderer(nn.Module):
    """Composites samples along a ray over a background."""

    def __init__(self, background_color: Tensor) -> None:
        super().__init__()
        self.background_color = background_color

    @staticmethod
    def weights(density: Tensor) -> Tensor:
        alpha = 1.0 - torch.exp(-density)
        transmittance = torch.cumprod(1.0 - alpha, dim=-2)
        return alpha * torch.cat([torch.ones_like(alpha[..., :1, :]), transmittance[..., :-1, :]], dim=-2)

    def forward(self, rgb: Tensor, density: Tensor) -> Tensor:
        weights = self.weights(density)
        color = (weights * rgb).sum(dim=-2)
        opacity = weights.sum(dim=-2)
        background = self.background_color
        return color + background * (1.0 - opacity)
