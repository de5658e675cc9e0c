# EXPECT {"kind":"refused-op","operation":"mul|layer_norm|rms_norm","devices":["cuda:0","cuda:1"],"operands":["weight|norm.weight","hidden|x|core|variance"],"category":"default or current device|module split","line":["device=torch.cuda.current_device()"],"error":"on the same device","thread":"https://github.com/sgl-project/sglang/pull/37954","hard":"one parameter of a layer is made on the current device, in a model whose device a context says"}
# FIX self.norm = RMSNormGated(width, device=torch.cuda.current_device()) -> self.norm = RMSNormGated(width)
import torch
from torch import nn


class RMSNormGated(nn.Module):
    def __init__(self, width, eps=1e-6, device=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width, device=device))

    def forward(self, hidden, gate):
        variance = hidden.square().mean(-1, keepdim=True)
        return hidden * torch.rsqrt(variance + self.eps) * self.weight * nn.functional.silu(gate)


class GatedDelta(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.in_proj = nn.Linear(width, 2 * width, bias=False)
        self.norm = RMSNormGated(width, device=torch.cuda.current_device())
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        core, gate = self.in_proj(x).chunk(2, dim=-1)
        return x + self.out_proj(self.norm(core.cumsum(1), gate))


class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(GatedDelta(width) for _ in range(layers))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x @ self.embed.weight.T


def get_model(device):
    torch.manual_seed(0)
    with torch.device(device):
        return Decoder(vocabulary=11, width=8, layers=2).eval()


device = torch.device("cuda:1")
model = get_model(device)
with torch.inference_mode():
    logits = model(torch.tensor([[1, 4, 2]]).to(device))
print("logits", list(logits.shape), round(logits.float().abs().mean().item(), 3) > 0)
