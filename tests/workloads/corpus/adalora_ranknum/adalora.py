import torch
from torch import nn


class SVDLinear(nn.Module):
    """A frozen layer, and beside it P E Q, whose rank is found while it learns."""

    def __init__(self, base_layer, name, r, lora_alpha):
        super().__init__()
        self.base_layer = base_layer
        self.lora_A, self.lora_E, self.lora_B, self.ranknum = (nn.ParameterDict() for _ in range(4))
        self.scaling = lora_alpha
        self.active = name
        self.update_layer(name, r)

    def update_layer(self, name, r):
        self.lora_A[name] = nn.Parameter(torch.randn(r, self.base_layer.in_features) * 0.02)
        self.lora_E[name] = nn.Parameter(torch.full((r, 1), 0.1))
        self.lora_B[name] = nn.Parameter(torch.randn(self.base_layer.out_features, r) * 0.02)
        self.ranknum[name] = nn.Parameter(torch.full((1,), float(r)), requires_grad=False)
        for part in (self.lora_A, self.lora_E, self.lora_B):
            part.to(self.base_layer.weight.device)

    def forward(self, x):
        lora_A, lora_E, lora_B = self.lora_A[self.active], self.lora_E[self.active], self.lora_B[self.active]
        rank = self.ranknum[self.active] + 1e-5
        return self.base_layer(x) + (x @ (lora_A * lora_E).T @ lora_B.T) * self.scaling / rank


def get_svd_model(model, target_modules, init_r, lora_alpha, adapter_name="default"):
    model.requires_grad_(False)
    for path, module in list(model.named_modules()):
        parent, _, child = path.rpartition(".")
        if child in target_modules:
            setattr(model.get_submodule(parent), child, SVDLinear(module, adapter_name, init_r, lora_alpha))
    return model
