# EXPECT {"kind":"refused-op","operation":"cat","devices":["cuda:0","cpu"],"operands":["X|H|tensors"],"category":"created without device","line":["H = torch.zeros(","Z = torch.cat("],"error":"on the same device","thread":"https://github.com/benedekrozemberczki/pytorch_geometric_temporal/issues/18"}
# FIX H = torch.zeros(X.shape[0], self.out_channels) -> H = torch.zeros(X.shape[0], self.out_channels, device=X.device)
import torch
from torch import nn


class DiffusionConv(nn.Module):
    def __init__(self, in_channels, out_channels, hops):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hops + 1, in_channels, out_channels) * 0.2)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, X, edges):
        adjacency = torch.zeros(len(X), len(X), device=X.device).index_put((edges[0], edges[1]), torch.ones((), device=X.device))
        walk = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
        out = X @ self.weight[0]
        for hop in self.weight[1:]:
            X = walk @ X
            out = out + X @ hop
        return out + self.bias


class DCRNN(nn.Module):
    """A gated recurrent unit whose gates look at neighbours."""

    def __init__(self, in_channels, out_channels, hops=2):
        super().__init__()
        self.out_channels = out_channels
        self.update = DiffusionConv(in_channels + out_channels, out_channels, hops)
        self.candidate = DiffusionConv(in_channels + out_channels, out_channels, hops)

    def _hidden(self, X, H):
        if H is None:
            H = torch.zeros(X.shape[0], self.out_channels)
        return H

    def forward(self, X, edges, H=None):
        H = self._hidden(X, H)
        Z = torch.cat([X, H], dim=1)
        gate = torch.sigmoid(self.update(Z, edges))
        return gate * H + (1 - gate) * torch.tanh(self.candidate(Z, edges))


torch.manual_seed(0)
cell = DCRNN(3, 5).to("cuda:0")
edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]]).to("cuda:0")
state = None
for _ in range(3):
    state = cell(torch.randn(4, 3).to("cuda:0"), edges, state)
print("state", tuple(state.shape), round(state.sum().item(), 4))
