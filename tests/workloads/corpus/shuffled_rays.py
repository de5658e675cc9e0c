# EXPECT {"kind":"refused-op","operation":"randperm|random_","devices":["cuda:0","cpu"],"operands":["generator"],"category":"generator|default or current device","line":["loader = DataLoader(","torch.set_default_tensor_type("],"error":"Expected a 'cuda' device type for generator but found 'cpu'","thread":"https://github.com/NarcissusEx/CuNeRF/issues/8","hard":"raised in the loader's sampler; the default tensor type was set elsewhere; one of the two is no tensor"}
# FIX loader = DataLoader(dataset, batch_size=cfg["batch"], shuffle=True) -> loader = DataLoader(dataset, batch_size=cfg["batch"], shuffle=True, generator=torch.Generator(device="cuda"))
import sys
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")  # set_default_tensor_type is deprecated
cfg = dict(batch=4, rays=12, depth=5)


class Rays(Dataset):
    def __init__(self, count):
        self.origins = torch.zeros(count, 3)
        self.directions = torch.nn.functional.normalize(torch.arange(3.0 * count).view(count, 3) + 1, dim=1)

    def __len__(self):
        return len(self.origins)

    def __getitem__(self, i):
        return self.origins[i], self.directions[i]


def density(points):
    return torch.exp(-points.square().sum(-1))


def main():
    if torch.cuda.is_available():
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
    dataset = Rays(cfg["rays"])
    loader = DataLoader(dataset, batch_size=cfg["batch"], shuffle=True)
    z_vals = torch.linspace(0.1, 1.0, cfg["depth"])
    total = 0.0
    for origins, directions in loader:
        points = origins[:, None] + directions[:, None] * z_vals[:, None]
        total += density(points).sum().item()
    print("density", round(total, 3))


if __name__ == "__main__":
    sys.exit(main())
