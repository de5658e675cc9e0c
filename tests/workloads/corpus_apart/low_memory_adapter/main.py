# EXPECT {"kind":"refused-op","operation":"linear|mm|matmul|addmm","devices":["cuda:0","cpu"],"operands":["weight|lora_A","x|input|hidden_states|hidden"],"category":"module split|created without device|input not moved","line":["loaders.py: model.load_state_dict(state_dict, strict=False, assign=True)","loaders.py: state_dict = torch.load(","main.py: pipe.load_lora_weights("],"error":"on the same device","thread":"https://github.com/huggingface/peft/pull/2113","hard":"the model is where it was asked to be; parameters that it got later, by assignment, are where their file was read to"}
# FIX loaders.py: state_dict = torch.load(file, map_location="cpu") -> state_dict = torch.load(file, map_location=next(model.parameters()).device)
import io

import torch
from torch import nn

from loaders import LoraLoaderMixin


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.to_q, self.to_k = nn.Linear(width, width), nn.Linear(width, width)
        self.to_v, self.proj_out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, hidden_states):
        scores = self.to_q(hidden_states) @ self.to_k(hidden_states).transpose(-1, -2)
        return hidden_states + self.proj_out(scores.softmax(-1) @ self.to_v(hidden_states))


class Pipeline(LoraLoaderMixin):
    def __init__(self):
        self.transformer = nn.Sequential(Attention(), Attention())

    def to(self, device):
        self.transformer.to(device)
        self.device = torch.device(device)
        return self

    @torch.no_grad()
    def __call__(self, latents, num_inference_steps):
        latents = latents.to(self.device)
        for _ in range(num_inference_steps):
            latents = latents - 0.1 * self.transformer(latents)
        return latents


def trained_adapter(rank=2, width=8):
    generator = torch.Generator().manual_seed(2113)
    weights = {}
    for block in (0, 1):
        for layer in ("to_q", "proj_out"):
            weights[f"{block}.{layer}.lora_A.weight"] = torch.randn(rank, width, generator=generator)
            weights[f"{block}.{layer}.lora_B.weight"] = torch.randn(width, rank, generator=generator)
    file = io.BytesIO()
    torch.save(weights, file)
    return io.BytesIO(file.getvalue())


torch.manual_seed(9510)
pipe = Pipeline().to("cuda")
pipe.load_lora_weights(trained_adapter(), adapter_name="hound", low_cpu_mem_usage=True)
image = pipe(torch.linspace(-1, 1, 24).view(1, 3, 8), num_inference_steps=2)
print("image", round(image.abs().sum().item(), 3))
