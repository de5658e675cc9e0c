"""An epoch of a small convolutional network on made-up images, then its accuracy: ordinary_bench.py starts it with the device."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = sys.argv[1]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(0.25)
        self.fc1, self.fc2 = nn.Linear(32 * 7 * 7, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.fc2(self.dropout(F.relu(self.fc1(x.flatten(1)))))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    patterns = torch.randn(10, 1, 28, 28)
    labels = torch.randint(0, 10, (2048,))
    images = patterns[labels] + 0.5 * torch.randn(2048, 1, 28, 28)
    model = Net().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True):
        x, y = x.to(DEVICE), y.to(DEVICE)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x.to(DEVICE)).argmax(1).cpu() == y).sum().item() for x, y in zip(images.split(256), labels.split(256)))
    assert right > 1800, right


main()
