import torch


class ShiftAndScale:
    def __init__(self, shift, scale):
        self.shift, self.scale = torch.tensor(shift), torch.tensor(scale)

    def __call__(self, x):
        return (x - self.shift) / self.scale

    def inverse(self, x):
        return x * self.scale + self.shift


class Pipeline:
    def __init__(self, normalizers):
        self.normalizers = normalizers

    def __call__(self, sample):
        return {name: self.normalizers[name](value) for name, value in sample.items()}

    def inverse(self, name, value):
        return self.normalizers[name].inverse(value)
