import torch
from torch import nn


class Augmentation(nn.Module):
    """Changes each image of a batch with probability p."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def generate(self, count):
        draws = torch.rand(count)
        return {"to_apply": draws < self.p, "count": count}

    def blend(self, changed, images, params):
        gate = params["to_apply"].view(-1, 1, 1, 1)
        return torch.where(gate, changed, images)

    def forward(self, images):
        params = self.generate(len(images))
        return self.blend(self.apply_transform(images), images, params)


class RandomInvert(Augmentation):
    def apply_transform(self, images):
        return 1 - images


class RandomShift(Augmentation):
    def apply_transform(self, images):
        return images.roll(1, dims=-1)
