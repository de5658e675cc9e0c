# EXPECT {"kind":"refused-op","operation":"index","devices":["cuda:1","cuda:0"],"operands":["points|res|features","inds|point2voxel_map|inverse"],"category":"default or current device","line":["inds = torch.from_numpy(","voxels = points[inds]"],"error":"indices should be either on cpu or on the same device","thread":"https://github.com/open-mmlab/mmdetection3d/pull/3140","hard":"what came back from NumPy goes to the device that is current"}
# FIX inds = torch.from_numpy(inds).cuda() -> inds = torch.from_numpy(inds).to(points.device)
import numpy
import torch
from torch import nn


class Voxelizer:
    def __init__(self, size):
        self.size = size

    def sparse_quantize(self, coordinates):
        """One point of every voxel, and the voxel of every point."""
        return numpy.unique(coordinates, axis=0, return_index=True, return_inverse=True)[1:]

    def __call__(self, points):
        coordinates = (points[:, :3] / self.size).floor().int()
        inds, inverse = self.sparse_quantize(coordinates.cpu().numpy())
        inds = torch.from_numpy(inds).cuda()
        voxels = points[inds]
        return voxels, torch.from_numpy(inverse.reshape(-1)).to(points.device)


torch.manual_seed(0)
device = torch.device("cuda:1")
voxelize, encoder = Voxelizer(0.25), nn.Linear(4, 6).to(device)
points = torch.rand(20, 4).to(device)
voxels, inverse = voxelize(points)
features = encoder(voxels)[inverse]
print("features", tuple(features.shape), len(voxels))
