"""nn.DataParallel on two devices; with `cpu` the bare module. Prints the losses as JSON."""

import json
import sys

import torch
from torch import nn


def main():
    torch.set_num_threads(1)
    torch.manual_seed(5)
    cpu = "cpu" in sys.argv
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.GELU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10))
    images, labels = torch.randn(8, 3, 12, 12), torch.randint(10, (8,))
    device = "cpu" if cpu else "cuda:0"
    model = module if cpu else nn.DataParallel(module.to(device), device_ids=[0, 1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(8):
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        outputs = model(images.to(device)).cpu()
    print(json.dumps({"losses": losses, "outputs": outputs[0].tolist()}))


if __name__ == "__main__":
    main()
