# EXPECT {"kind":"refused-op","operation":"index","devices":["cuda:0","cpu"],"operands":["node_mask","edge_index|select"],"category":"input not moved|created without device","line":["subset = largest_component(","node_mask = torch.zeros(","edge_mask = node_mask["],"error":"indices should be either on cpu or on the same device as the indexed tensor \\(cpu\\)","thread":"https://github.com/pyg-team/pytorch_geometric/issues/8817"}
# FIX subset = largest_component(data.edge_index, len(data.x)) -> subset = largest_component(data.edge_index, len(data.x)).to(data.x.device)
import dataclasses

import numpy as np
import torch
from torch import nn


@dataclasses.dataclass
class Data:
    x: torch.Tensor
    edge_index: torch.Tensor

    def to(self, device):
        return Data(**{f.name: getattr(self, f.name).to(device) for f in dataclasses.fields(self)})


def largest_component(edge_index, num_nodes):
    label = np.arange(num_nodes)
    source, target = edge_index.cpu().numpy()
    for _ in range(num_nodes):
        np.minimum.at(label, target, label[source])
        np.minimum.at(label, source, label[target])
    return torch.from_numpy(np.flatnonzero(label == np.bincount(label).argmax()))


def subgraph(subset, edge_index, num_nodes):
    node_mask = torch.zeros(num_nodes, dtype=torch.bool, device=subset.device)
    node_mask[subset] = True
    edge_mask = node_mask[edge_index[0]] & node_mask[edge_index[1]]
    return edge_index[:, edge_mask]


class EdgeConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Linear(2 * dim, dim)

    def forward(self, x, edge_index):
        source, target = edge_index
        messages = self.mlp(torch.cat((x[target], x[source] - x[target]), dim=1))
        return torch.zeros_like(x).index_add(0, target, messages)


torch.manual_seed(8817)
data = Data(torch.randn(7, 4), torch.tensor([[0, 1, 2, 3, 5], [1, 2, 0, 0, 6]])).to("cuda:0")
conv = EdgeConv(4).to("cuda:0")
subset = largest_component(data.edge_index, len(data.x))
edge_index = subgraph(subset, data.edge_index, len(data.x))
print("edges", edge_index.size(1), "out", round(conv(data.x, edge_index).sum().item(), 4))
