# EXPECT {"kind":"refused-op","operation":"sub","devices":["cuda:0","cpu"],"operands":["arange|idx","mask|cumsum"],"category":"created without device","line":["idx = torch.arange("],"error":"on the same device","thread":"https://github.com/pyg-team/pytorch_geometric/issues/3390"}
# FIX idx = torch.arange(0, nnz).sub_(mask.logical_not_().cumsum(dim=0)) -> idx = torch.arange(0, nnz, device=edge_index.device).sub_(mask.logical_not_().cumsum(dim=0))
from typing import Optional

import torch
from torch import Tensor


def coalesce(edge_index: Tensor, edge_attr: Optional[Tensor] = None, num_nodes: Optional[int] = None):
    """Sorts edges and makes one of those that are there more than once; their attributes are added."""
    nnz = edge_index.size(1)
    num_nodes = int(edge_index.max()) + 1 if num_nodes is None else num_nodes

    keys = edge_index[0] * num_nodes + edge_index[1]
    keys, perm = keys.sort()
    edge_index = edge_index[:, perm]
    edge_attr = None if edge_attr is None else edge_attr[perm]

    mask = torch.cat([keys.new_ones(1, dtype=torch.bool), keys[1:] > keys[:-1]])
    if mask.all():
        return edge_index, edge_attr

    edge_index = edge_index[:, mask]
    if edge_attr is None:
        return edge_index, None
    dim_size = edge_index.size(1)
    idx = torch.arange(0, nnz).sub_(mask.logical_not_().cumsum(dim=0))
    out = edge_attr.new_zeros((dim_size,) + edge_attr.shape[1:])
    return edge_index, out.index_add_(0, idx, edge_attr)


def to_undirected(edge_index: Tensor, edge_attr: Tensor, num_nodes: Optional[int] = None):
    row, col = edge_index
    edge_index = torch.stack([torch.cat([row, col]), torch.cat([col, row])])
    return coalesce(edge_index, torch.cat([edge_attr, edge_attr]), num_nodes)


def propagate(x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
    row, col = edge_index
    return torch.zeros_like(x).index_add_(0, col, edge_attr.view(-1, 1) * x[row])


device = torch.device('cuda')
edge_index = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 3, 0]], device=device)
edge_attr = torch.tensor([1., 2., 3., 4., 5.], device=device)
edge_index, edge_attr = to_undirected(edge_index, edge_attr)
x = torch.eye(4, device=device)
for _ in range(2):
    x = propagate(x, edge_index, edge_attr)
print(edge_index.tolist(), x.diag().tolist())
