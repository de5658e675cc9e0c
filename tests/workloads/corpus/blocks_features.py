# EXPECT {"kind":"refused-op","operation":"index","devices":["cuda:0","cpu"],"operands":["nfeat","input_nodes|seeds|nids"],"category":"input not moved|default or current device","line":["for step, (input_nodes, seeds, blocks)","return nfeat[input_nodes].to(device), labels[seeds]","batch_inputs, batch_labels = load_subtensor("],"error":"indices should be either on cpu or on the same device as the indexed tensor \\(cpu\\)","thread":"https://github.com/dmlc/dgl/pull/4242","hard":"the features are to stay on the CPU; it is the indices that came to the GPU with the blocks"}
# FIX return nfeat[input_nodes].to(device), labels[seeds].to(device) -> return nfeat[input_nodes.to(nfeat.device)].to(device), labels[seeds.to(labels.device)].to(device)
import torch
from torch import nn


class NeighborLoader:
    """For some nodes at a time: who their neighbours are, and the edges to these."""

    def __init__(self, adjacency, nodes, batch_size, device):
        self.adjacency, self.nodes, self.batch_size, self.device = adjacency, nodes, batch_size, device

    def __iter__(self):
        for start in range(0, len(self.nodes), self.batch_size):
            seeds = self.nodes[start : start + self.batch_size]
            near = self.adjacency[seeds].any(0)
            near[seeds] = True
            input_nodes = near.nonzero().squeeze(1)
            block = self.adjacency[seeds][:, input_nodes].float()
            yield input_nodes.to(self.device), seeds.to(self.device), [block.to(self.device)]


class SAGE(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.fc = nn.Linear(width, classes)

    def forward(self, blocks, x):
        return self.fc(blocks[0] @ x / blocks[0].sum(1, keepdim=True).clamp_min(1))


def load_subtensor(nfeat, labels, seeds, input_nodes, device):
    return nfeat[input_nodes].to(device), labels[seeds].to(device)


torch.manual_seed(0)
device = torch.device("cuda:0")
adjacency = torch.rand(12, 12) < 0.4
nfeat, labels = torch.rand(12, 6), torch.arange(12) % 3
model = SAGE(6, 3).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
dataloader = NeighborLoader(adjacency, torch.arange(12), batch_size=4, device=device)
for step, (input_nodes, seeds, blocks) in enumerate(dataloader):
    batch_inputs, batch_labels = load_subtensor(nfeat, labels, seeds, input_nodes, device)
    loss = nn.functional.cross_entropy(model(blocks, batch_inputs), batch_labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3))
