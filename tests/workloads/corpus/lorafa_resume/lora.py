import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base, r):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(r, base.in_features) * 0.3, requires_grad=False)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))

    def forward(self, x):
        return self.base(x) + x @ self.lora_A.T @ self.lora_B.T


def add_lora(model, r):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, LoraLinear(child, r))
    return model
