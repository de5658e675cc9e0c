# about: Of no thread: a pipeline over two GPUs keeps its rotary frequencies where the first layer is.
# category: state-not-registered
# operands: freqs_cis cuda:0



import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(8, 8)

    def forward(self, x, freqs_cis):
        xq = self.wq(x)
        return xq * freqs_cis


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.freqs_cis = torch.rand(8).to("cuda:0")

    def forward(self, x):
        for layer in self.layers:
            x = layer(x.to(layer.wq.weight.device), self.freqs_cis)
        return x


model = Transformer()
model.layers[0].to("cuda:0")
model.layers[1].to("cuda:1")
model(torch.randn(1, 3, 8).to("cuda:0"))
