# EXPECT {"kind":"refused-op","operation":"mul|add","devices":["cuda:1","cuda:0"],"operands":["per_layer_input|per_layer_inputs|hidden|gated|gate","gate|hidden|per_layer_input"],"category":"module split","line":["hidden = layer(hidden, per_layer[i])","gated = torch.nn.functional.gelu("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/issues/45823","hard":"placed by hand, layer by layer; a second stream of embeddings is used by all layers"}
# FIX hidden = layer(hidden, per_layer[i]) -> hidden = layer(hidden, per_layer[i].to(hidden.device))
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, side):
        super().__init__()
        self.norm, self.gate, self.up = nn.LayerNorm(width), nn.Linear(width, side), nn.Linear(side, width)

    def forward(self, hidden, per_layer_input):
        gated = torch.nn.functional.gelu(self.gate(self.norm(hidden))) * per_layer_input
        return hidden + self.up(gated)


class TextModel(nn.Module):
    """Each layer is given an embedding of its own of every token, besides what the layer before has made."""

    def __init__(self, vocabulary, width, side, layers):
        super().__init__()
        self.side = side
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.embed_per_layer = nn.Embedding(vocabulary, layers * side)
        self.layers = nn.ModuleList(Layer(width, side) for _ in range(layers))

    def spread(self, devices):
        """The embeddings on the first device, the layers over all of them."""
        self.embed_tokens.to(devices[0])
        self.embed_per_layer.to(devices[0])
        for i, layer in enumerate(self.layers):
            layer.to(devices[i * len(devices) // len(self.layers)])
        return self

    def forward(self, ids):
        hidden = self.embed_tokens(ids)
        per_layer = self.embed_per_layer(ids).unflatten(-1, (len(self.layers), self.side)).unbind(-2)
        for i, layer in enumerate(self.layers):
            hidden = hidden.to(layer.norm.weight.device)
            hidden = layer(hidden, per_layer[i])
        return hidden


torch.manual_seed(0)
model = TextModel(24, 8, 4, layers=4).spread(["cuda:0", "cuda:1"]).eval()
with torch.no_grad():
    hidden = model(torch.arange(6)[None].to("cuda:0"))
print("hidden", round(hidden.abs().sum().item(), 3))
