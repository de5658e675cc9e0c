# EXPECT {"kind":"refused-op","operation":"eq|index|nms|add|mul","devices":["cuda:0","cpu"],"operands":["categories|idxs|offsets|boxes"],"category":"created without device","line":["categories = torch.zeros(","keep = batched_nms("],"error":"same device","thread":"https://github.com/facebookresearch/segment-anything/issues/17","hard":"given to a function of a library, which meets it far inside"}
# FIX categories = torch.zeros(len(boxes)) -> categories = torch.zeros(len(boxes), device=boxes.device)
import torch
from torch import nn


def iou(a, b):
    low, high = torch.maximum(a[:2], b[:, :2]), torch.minimum(a[2:], b[:, 2:])
    inside = (high - low).clamp(min=0).prod(1)
    return inside / ((a[2:] - a[:2]).prod() + (b[:, 2:] - b[:, :2]).prod(1) - inside)


def nms(boxes, scores, threshold):
    keep, order = [], scores.argsort(descending=True)
    while len(order):
        keep.append(order[0])
        order = order[1:][iou(boxes[order[0]], boxes[order[1:]]) <= threshold]
    return torch.stack(keep)


def batched_nms(boxes, scores, idxs, threshold):
    """Boxes of different categories do not suppress one another: each lies in a plane of its own."""
    offsets = idxs * (boxes.max() + 1)
    return nms(boxes + offsets[:, None], scores, threshold)


class MaskDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 5)

    def forward(self, points):
        out = self.head(points)
        boxes = torch.cat([points - 0.1, points + 0.05 + out[:, :2].abs()], dim=1)
        return boxes, out[:, 4].sigmoid()


def generate(model, points, threshold=0.3):
    boxes, scores = model(points)
    categories = torch.zeros(len(boxes))
    keep = batched_nms(boxes, scores, categories, threshold)
    return boxes[keep]


torch.manual_seed(0)
model = MaskDecoder().to("cuda:0").eval()
side = torch.linspace(0.1, 0.9, 4)
points = torch.cartesian_prod(side, side).to("cuda:0")
with torch.no_grad():
    boxes = generate(model, points)
print("boxes", 0 < len(boxes) <= 16, len(boxes))
