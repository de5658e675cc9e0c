from torch import nn


class VectorEncoder(nn.Module):
    def __init__(self, observation_size, hidden_units):
        super().__init__()
        sizes = (observation_size, *hidden_units)
        self.layers = nn.ModuleList(nn.Linear(one, other) for one, other in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


class VectorEncoderFactory:
    def __init__(self, hidden_units):
        self.hidden_units = hidden_units

    def create(self, observation_size):
        return VectorEncoder(observation_size, self.hidden_units)
