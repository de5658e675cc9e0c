# EXPECT {"kind":"refused-op","operation":"mul|add","devices":["cpu","cuda:0"],"operands":["locations|locations\\[.*\\]","priors|self.priors"],"category":"state not registered","line":["self.priors = priors.to(self.device)","self.device = torch.device("],"error":"on the same device|cuda:0","thread":"https://github.com/qfgaohao/pytorch-ssd/issues/89","hard":"the table was brought to the GPU by the constructor; the network never was"}
# FIX self.priors = priors.to(self.device) -> self.register_buffer("priors", priors, persistent=False)
import torch
from torch import nn


def convert_locations_to_boxes(locations, priors, center_variance, size_variance):
    return torch.cat([
        locations[..., :2] * center_variance * priors[..., 2:] + priors[..., :2],
        torch.exp(locations[..., 2:] * size_variance) * priors[..., 2:],
    ], dim=-1)


class SSD(nn.Module):
    def __init__(self, priors, classes):
        super().__init__()
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.base = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.locations, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, classes, 1)
        self.priors = priors.to(self.device)

    def forward(self, images):
        features = torch.relu(self.base(images))
        locations = self.locations(features).flatten(2).transpose(1, 2)
        scores = self.scores(features).flatten(2).transpose(1, 2)
        return scores.softmax(-1), convert_locations_to_boxes(locations, self.priors, 0.1, 0.2)


torch.manual_seed(0)
centers = torch.cartesian_prod(torch.arange(4), torch.arange(4)) / 4 + 0.125
net = SSD(torch.cat([centers, torch.full_like(centers, 0.2)], dim=1), classes=3).eval()
with torch.no_grad():
    scores, boxes = net(torch.rand(1, 3, 8, 8))
print("boxes", tuple(boxes.shape), round(boxes.sum().item(), 3))
