# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:1","cuda:0"],"operands":["hidden","self.mid_position_embeddings|mid_position_embeddings|middle"],"category":"module split","line":["hidden = hidden + middle[i]","hidden = layer(hidden)"],"error":"on the same device","thread":"https://github.com/huggingface/transformers/pull/46886","hard":"a parameter of the encoder itself is used between its layers, which hooks have spread"}
# FIX hidden = hidden + middle[i] -> hidden = hidden + middle[i].to(hidden.device)
import torch
from accelerate import dispatch_model
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, hidden):
        return hidden + torch.tanh(self.mlp(self.norm(hidden)))


class Encoder(nn.Module):
    """Positions are added again behind every layer, resized to the picture."""

    def __init__(self, width, layers, positions):
        super().__init__()
        self.layer = nn.ModuleList(Layer(width) for _ in range(layers))
        self.mid_position_embeddings = nn.Parameter(torch.randn(layers, 1, width, positions) * 0.1)

    def interpolate(self, length):
        flat = self.mid_position_embeddings.flatten(0, 1)
        return nn.functional.interpolate(flat, size=length, mode="linear").unsqueeze(1).transpose(-1, -2)

    def forward(self, hidden):
        middle = self.interpolate(hidden.shape[1])
        for i, layer in enumerate(self.layer):
            hidden = layer(hidden)
            hidden = hidden + middle[i]
        return hidden


torch.manual_seed(0)
encoder = Encoder(6, 3, positions=4).eval()
encoder = dispatch_model(encoder, {"mid_position_embeddings": 0, "layer.0": 0, "layer.1": 1, "layer.2": 1}, main_device=0)
with torch.no_grad():
    hidden = encoder(torch.rand(1, 8, 6).to("cuda:0"))
print("hidden", round(hidden.sum().item(), 4))
