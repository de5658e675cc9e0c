# EXPECT {"kind":"refused-op","operation":"index","devices":["cpu","cuda:0"],"operands":["points_range","same_level|indices"],"category":"created without device","line":["points_range = torch.arange(","candidates = points_range[same_level]"],"error":"indices should be either on cpu or on the same device as the indexed tensor \\(cpu\\)","thread":"https://github.com/open-mmlab/mmdetection/pull/10026","hard":"the message names the indexed tensor's device alone"}
# FIX points_range = torch.arange(len(points)) -> points_range = torch.arange(len(points), device=points.device)
import torch
from torch import nn


def assign_points(points, boxes, labels, nearest=2, scale=4):
    """Which box each point has to learn: every box takes the points of its own level that are nearest to its middle."""
    targets = torch.zeros_like(points[:, 0], dtype=torch.long)
    level_of_point = points[:, 2].log2().round()
    middles, sides = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    level_of_box = (sides.prod(1).sqrt() / scale).log2().floor()
    level_of_box = level_of_box.clamp(level_of_point.min(), level_of_point.max())

    points_range = torch.arange(len(points))
    for middle, side, level, label in zip(middles, sides, level_of_box, labels):
        same_level = level_of_point == level
        away = ((points[same_level, :2] - middle) / side).square().sum(1)
        candidates = points_range[same_level]
        targets[candidates[away.argsort()[:nearest]]] = label + 1
    return targets


class RepPointsHead(nn.Module):
    def __init__(self, channels=4, classes=3, strides=(4, 8)):
        super().__init__()
        self.strides = strides
        self.cls = nn.Conv2d(channels, classes + 1, 1)

    def points(self, feats):
        levels = []
        for feat, stride in zip(feats, self.strides):
            y, x = (torch.arange(size, device=feat.device) * float(stride) for size in feat.shape[-2:])
            grid = torch.cartesian_prod(x, y)
            levels.append(torch.cat((grid, torch.full_like(grid[:, :1], stride)), dim=1))
        return torch.cat(levels)

    def loss(self, feats, boxes, labels):
        scores = torch.cat([self.cls(feat)[0].flatten(1).T for feat in feats])
        targets = assign_points(self.points(feats), boxes, labels)
        return nn.functional.cross_entropy(scores, targets), int((targets > 0).sum())


torch.manual_seed(0)
head = RepPointsHead().cuda()
feats = [torch.rand(1, 4, 8, 8).cuda(), torch.rand(1, 4, 4, 4).cuda()]
boxes = torch.tensor([[2.0, 3.0, 20.0, 17.0], [1.0, 1.0, 30.0, 31.0]]).cuda()
loss, positives = head.loss(feats, boxes, torch.tensor([0, 2]).cuda())
print(f"loss {loss.item():.3f}, {positives} points assigned")
