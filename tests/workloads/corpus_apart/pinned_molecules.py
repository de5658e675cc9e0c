# EXPECT {"kind":"refused-op","operation":"pin_memory|_pin_memory|","devices":["cuda:0"],"operands":[],"category":"input","line":["train_loader = DataLoader(","return nodes.to(device), adjacency.to(device), torch.stack(values).to(device)","pin_memory=True"],"error":"cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned","thread":"https://github.com/DavidWBressler/GCNN/issues/2","hard":"the collate function brings the batch to the GPU; it is the loader that then pins it, in PyTorch's files"}
# FIX train_loader = DataLoader(molecules, batch_size=4, collate_fn=pad_collate, pin_memory=True) -> train_loader = DataLoader(molecules, batch_size=4, collate_fn=pad_collate, pin_memory=False)
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Molecules(Dataset):
    def __init__(self, n, n_features=5):
        generator = torch.Generator().manual_seed(2)
        self.items = []
        for i in range(n):
            size = 3 + i % 4
            nodes = torch.rand(size, n_features, generator=generator)
            ring = torch.eye(size).roll(1, dims=0)
            self.items.append((nodes, ring + ring.T, nodes.sum()))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def pad_collate(items):
    """Molecules differ in size: all get as many atoms as the largest one."""
    largest = max(len(nodes) for nodes, _, _ in items)
    nodes = torch.zeros(len(items), largest, items[0][0].shape[1])
    adjacency = torch.zeros(len(items), largest, largest)
    values = []
    for i, (atoms, bonds, value) in enumerate(items):
        nodes[i, : len(atoms)] = atoms
        adjacency[i, : len(atoms), : len(atoms)] = bonds
        values.append(value)
    return nodes.to(device), adjacency.to(device), torch.stack(values).to(device)


class GraphConvolutions(nn.Module):
    def __init__(self, n_features=5, width=8):
        super().__init__()
        self.first = nn.Linear(n_features, width)
        self.second = nn.Linear(width, 1)

    def forward(self, nodes, adjacency):
        hidden = torch.relu(self.first(nodes + adjacency @ nodes))
        return self.second(hidden).sum(dim=(1, 2))


torch.manual_seed(0)
molecules = Molecules(10)
train_loader = DataLoader(molecules, batch_size=4, collate_fn=pad_collate, pin_memory=True)
model = GraphConvolutions().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(2):
    total = 0.0
    for nodes, adjacency, values in train_loader:
        optimizer.zero_grad()
        loss = (model(nodes, adjacency) - values).abs().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
print("loss", round(total, 3))
