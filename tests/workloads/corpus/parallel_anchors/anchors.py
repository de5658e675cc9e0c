from torch import nn
import torch


class AnchorGenerator(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self._cache = {}

    def grid_anchors(self, grid_sizes, strides, device):
        anchors = []
        for (height, width), stride, size in zip(grid_sizes, strides, self.sizes):
            shift_x = torch.arange(width, dtype=torch.float32, device=device) * stride
            shift_y = torch.arange(height, dtype=torch.float32, device=device) * stride
            y, x = torch.meshgrid(shift_y, shift_x, indexing="ij")
            centers = torch.stack((x.flatten(), y.flatten()), dim=1)
            anchors.append(torch.cat((centers, torch.full_like(centers, size)), dim=1))
        return anchors

    def cached_grid_anchors(self, grid_sizes, strides, device):
        key = (tuple(grid_sizes), tuple(strides))
        if key in self._cache:
            return self._cache[key]
        anchors = self.grid_anchors(grid_sizes, strides, device)
        self._cache[key] = anchors
        return anchors

    def forward(self, feature_maps, strides):
        grid_sizes = [feature_map.shape[-2:] for feature_map in feature_maps]
        return self.cached_grid_anchors(grid_sizes, strides, feature_maps[0].device)
