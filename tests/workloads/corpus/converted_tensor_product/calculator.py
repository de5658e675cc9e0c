import torch

from convert import to_fast


class EnergyModel:
    def __init__(self, model, device, fast=False):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        if fast:
            self.model = to_fast(self.model)

    @torch.no_grad()
    def energy(self, positions):
        positions = positions.to(self.device)
        return self.model(torch.pdist(positions)).item()
