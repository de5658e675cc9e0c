import torch
from torch import nn
from torch.nn import functional as F

device = "cuda:0" if torch.cuda.is_available() else "cpu"


class DWTForward(nn.Module):
    """Haar's transform: four bands of half the size, of which the smooth one can be split again."""

    def __init__(self, levels=1):
        super().__init__()
        self.levels = levels
        smooth, rough = torch.tensor([1.0, 1.0]) / 2, torch.tensor([1.0, -1.0]) / 2
        pairs = [(smooth, smooth), (smooth, rough), (rough, smooth), (rough, rough)]
        self.register_buffer("filters", torch.stack([torch.outer(a, b) for a, b in pairs]).unsqueeze(1))

    def forward(self, x):
        for _ in range(self.levels):
            batch, channels, height, width = x.shape
            bands = F.conv2d(x.reshape(batch * channels, 1, height, width), self.filters, stride=2)
            bands = bands.view(batch, channels, 4, height // 2, width // 2)
            x = bands[:, :, 0]
        return bands.flatten(1, 2)


xf1 = DWTForward(levels=1).to(device)
xf2 = DWTForward(levels=2).to(device)
