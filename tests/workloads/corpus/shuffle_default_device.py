# EXPECT {"kind":"refused-op","operation":"randperm|random","devices":["cuda:0","cpu"],"operands":["generator"],"category":"generator|default or current device","line":["dataloader = DataLoader("],"error":"Expected a 'cuda' device type for generator but found 'cpu'","thread":"https://github.com/pyro-ppl/pyro/pull/3264","hard":"the generator is made in torch's sampler, the device is the default one"}
# FIX dataloader = DataLoader(TensorDataset(x, t, y), batch_size=batch_size, shuffle=True) -> dataloader = DataLoader(TensorDataset(x, t, y), batch_size=batch_size, shuffle=True, generator=torch.Generator("cuda").manual_seed(0))
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cuda")


class EffectNet(nn.Module):
    """What comes of a treatment, or of none."""

    def __init__(self, width):
        super().__init__()
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(width, 6), nn.ELU(), nn.Linear(6, 1)) for _ in range(2))

    def forward(self, x, t):
        outcomes = torch.stack([head(x).squeeze(-1) for head in self.heads], -1)
        return outcomes.gather(-1, t[:, None]).squeeze(-1)


def fit(model, x, t, y, epochs, batch_size):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    dataloader = DataLoader(TensorDataset(x, t, y), batch_size=batch_size, shuffle=True)
    seen = 0
    for _ in range(epochs):
        for each_x, each_t, each_y in dataloader:
            loss = (model(each_x, each_t) - each_y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(each_x)
    return seen


x, t = torch.rand(10, 3), torch.arange(10) % 2
print("seen", fit(EffectNet(3), x, t, x.sum(-1) + t, epochs=2, batch_size=4))
