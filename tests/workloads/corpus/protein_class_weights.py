# EXPECT {"kind":"refused-op","operation":"nll_loss|cross_entropy","devices":["cuda:0","cpu"],"operands":["weight|self.weight|class_weights"],"category":"module split|created without device","line":["return torch.tensor(","criterion = nn.CrossEntropyLoss(","class_weights = "],"error":"on the same device","thread":"https://github.com/sacdallago/biotrainer/issues/67"}
# FIX criterion = nn.CrossEntropyLoss(weight=class_weights, ignore_index=-100) -> criterion = nn.CrossEntropyLoss(weight=class_weights, ignore_index=-100).to(device)
from collections import Counter

import torch
from torch import nn


def weights_of(targets, classes):
    """A class counts the more the rarer it is."""
    counts = Counter(label for sequence in targets for label in sequence)
    total = sum(counts.values())
    return torch.tensor([total / (classes * counts[label]) for label in range(classes)])


class ResidueCNN(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(width, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, classes, 1))

    def forward(self, x):
        return self.layers(x.transpose(1, 2))


class Solver:
    def __init__(self, network, optimizer, criterion, device):
        self.network, self.optimizer, self.criterion, self.device = network.to(device), optimizer, criterion, device

    def step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        loss = self.criterion(self.network(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
device = torch.device("cuda:0")
targets = [[0, 1, 2, 2, 1], [2, 2, 2, 0, 1]]
network = ResidueCNN(6, 3)
class_weights = weights_of(targets, 3)
criterion = nn.CrossEntropyLoss(weight=class_weights, ignore_index=-100)
solver = Solver(network, torch.optim.Adam(network.parameters(), lr=1e-2), criterion, device)
losses = [solver.step(torch.ones(2, 5, 6), torch.tensor(targets)) for _ in range(3)]
print("falls", losses[-1] < losses[0])
