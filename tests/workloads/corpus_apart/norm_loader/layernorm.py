import torch
from torch import nn


class GemmaRMSNorm(nn.Module):
    """Its weights are kept as what they differ from one by."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(hidden_size), requires_grad=False)
        self.weight.weight_loader = self._weight_loader
        self.register_buffer("gemma_weight", torch.ones(hidden_size), persistent=False)

    def _weight_loader(self, param, loaded_weight):
        param.data.copy_(loaded_weight)
        # Once here, and not in every forward.
        torch.add(param.data, 1.0, out=self.gemma_weight)

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.gemma_weight
