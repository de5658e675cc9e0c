# EXPECT {"kind":"refused-op","operation":"linear|mm|matmul|addmm","devices":["cuda:0","cuda:1"],"operands":["x|input|hidden","lora_A|weight"],"category":"default or current device","line":["adapters.py: weights = load_peft_weights(","adapters.py: device = infer_device()","adapters.py: return torch.load("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/issues/33744","hard":"the device is inferred two calls down; an argument that says it exists, but is not passed on"}
# FIX adapters.py: weights = load_peft_weights(checkpoint) -> weights = load_peft_weights(checkpoint, device=model.device)
import io

import torch
from torch import nn

from adapters import LoraLinear, load_adapter


class Model(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.q_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 3)

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, x):
        return self.out(self.q_proj(x).sigmoid() * self.v_proj(x))


def from_pretrained(device_map, adapter=None):
    torch.manual_seed(33744)
    model = Model().to(device_map)
    if adapter is not None:
        load_adapter(model, adapter)
    return model.eval()


def trained_adapter(rank=2, dim=8):
    torch.manual_seed(7)
    weights = {}
    for target in ("q_proj", "v_proj"):
        weights[target + ".lora_A"] = torch.randn(rank, dim)
        weights[target + ".lora_B"] = torch.randn(dim, rank)
    file = io.BytesIO()
    torch.save(weights, file)
    return io.BytesIO(file.getvalue())


model = from_pretrained(device_map="cuda:1", adapter=trained_adapter())
assert isinstance(model.v_proj, LoraLinear)
with torch.no_grad():
    logits = model(torch.linspace(-1, 1, 16).view(2, 8).to("cuda:1"))
print("logits:", [[round(v, 3) for v in row] for row in logits.tolist()])
