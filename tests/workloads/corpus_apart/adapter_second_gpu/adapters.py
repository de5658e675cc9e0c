import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base_layer, lora_A, lora_B, scaling=0.5):
        super().__init__()
        self.base_layer = base_layer
        self.lora_A = nn.Parameter(lora_A)
        self.lora_B = nn.Parameter(lora_B)
        self.scaling = scaling

    def forward(self, x):
        result = self.base_layer(x)
        hidden = nn.functional.linear(x, self.lora_A)
        return result + nn.functional.linear(hidden, self.lora_B) * self.scaling


def infer_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def load_peft_weights(file, device=None):
    if device is None:
        device = infer_device()
    return torch.load(file, map_location=torch.device(device))


def load_adapter(model, checkpoint):
    """Puts the adapters of a checkpoint over the layers they are for."""
    weights = load_peft_weights(checkpoint)
    for name in sorted({key.split(".")[0] for key in weights}):
        layer = getattr(model, name)
        setattr(model, name, LoraLinear(layer, weights[name + ".lora_A"], weights[name + ".lora_B"]))
