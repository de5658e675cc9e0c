import torch
from torch import nn


class ValueNorm(nn.Module):
    """Normalizes returns with a debiased running mean and variance."""

    def __init__(self, width, beta=0.9, device=torch.device("cpu")):
        super().__init__()
        self.beta = beta
        self.tpdv = dict(dtype=torch.float32, device=device)
        self.running_mean = nn.Parameter(torch.zeros(width), requires_grad=False).to(**self.tpdv)
        self.running_mean_sq = nn.Parameter(torch.zeros(width), requires_grad=False).to(**self.tpdv)
        self.debias = nn.Parameter(torch.tensor(0.0), requires_grad=False).to(**self.tpdv)

    def statistics(self):
        mean = self.running_mean / self.debias.clamp(min=1e-5)
        variance = self.running_mean_sq / self.debias.clamp(min=1e-5) - mean**2
        return mean, variance.clamp(min=1e-2)

    @torch.no_grad()
    def update(self, returns):
        returns = returns.to(**self.tpdv)
        self.running_mean.mul_(self.beta).add_(returns.mean(0) * (1 - self.beta))
        self.running_mean_sq.mul_(self.beta).add_(returns.square().mean(0) * (1 - self.beta))
        self.debias.mul_(self.beta).add_(1 - self.beta)

    def normalize(self, returns):
        returns = returns.to(**self.tpdv)
        mean, variance = self.statistics()
        return (returns - mean) / variance.sqrt()
