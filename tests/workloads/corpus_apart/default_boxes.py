# EXPECT {"kind":"refused-op","operation":"cat","devices":["cuda:0","cpu"],"operands":["shifts|tensors","wh_pairs"],"category":"state not registered|created without device","line":["self._wh_pairs = [","default_box = torch.cat("],"error":"on the same device","thread":"https://github.com/pytorch/vision/issues/9414","hard":"a module that was moved, with tensors in a list"}
# FIX default_box = torch.cat((shifts, wh_pairs), dim=1) -> default_box = torch.cat((shifts, wh_pairs.to(shifts.device)), dim=1)
import math
from typing import List

import torch
from torch import Tensor, nn


class DefaultBoxGenerator(nn.Module):
    def __init__(self, aspect_ratios: List[List[int]], scales: List[float]):
        super().__init__()
        self.aspect_ratios = aspect_ratios
        self.scales = scales
        self._wh_pairs = [self._generate_wh_pairs(s_k, ratios) for s_k, ratios in zip(scales, aspect_ratios)]

    def _generate_wh_pairs(self, s_k: float, ratios: List[int], dtype=torch.float32) -> Tensor:
        pairs = [[s_k, s_k]]
        for ratio in ratios:
            root = math.sqrt(ratio)
            pairs += [[s_k * root, s_k / root], [s_k / root, s_k * root]]
        return torch.as_tensor(pairs, dtype=dtype)

    def _grid_default_boxes(self, grid_sizes: List[List[int]], like: Tensor) -> Tensor:
        default_boxes = []
        for k, (h, w) in enumerate(grid_sizes):
            shifts_x = ((torch.arange(0, w, device=like.device) + 0.5) / w).to(like.dtype)
            shifts_y = ((torch.arange(0, h, device=like.device) + 0.5) / h).to(like.dtype)
            shift_y, shift_x = torch.meshgrid(shifts_y, shifts_x, indexing="ij")
            wh_pairs = self._wh_pairs[k].repeat(h * w, 1)
            shifts = torch.stack((shift_x.flatten(), shift_y.flatten()), dim=-1)
            shifts = shifts.repeat_interleave(len(self._wh_pairs[k]), dim=0)
            default_box = torch.cat((shifts, wh_pairs), dim=1)
            default_boxes.append(default_box)
        return torch.cat(default_boxes, dim=0)

    def forward(self, feature_maps: List[Tensor]) -> Tensor:
        return self._grid_default_boxes([list(f.shape[-2:]) for f in feature_maps], feature_maps[0])


class SSD(nn.Module):
    def __init__(self, anchor_generator: DefaultBoxGenerator, boxes_per_cell: int):
        super().__init__()
        self.backbone = nn.ModuleList([nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.Conv2d(6, 6, 3, stride=2, padding=1)])
        self.head = nn.Conv2d(6, 4 * boxes_per_cell, 1)
        self.anchor_generator = anchor_generator

    def forward(self, images: Tensor) -> Tensor:
        features = []
        for layer in self.backbone:
            images = layer(images).relu()
            features.append(images)
        offsets = torch.cat([self.head(f).permute(0, 2, 3, 1).reshape(len(f), -1, 4) for f in features], dim=1)
        return self.anchor_generator(features) + 0.1 * offsets


torch.manual_seed(9414)
ssd = SSD(DefaultBoxGenerator([[2], [2]], [0.2, 0.5]), boxes_per_cell=3).cuda().eval()
with torch.no_grad():
    boxes = ssd(torch.rand(1, 3, 8, 8).cuda())
print(tuple(boxes.shape), round(boxes.mean().item(), 4))
