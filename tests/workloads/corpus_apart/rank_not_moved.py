# EXPECT {"kind":"refused-op","operation":"|DistributedDataParallel","devices":["cpu","cuda:0"],"operands":[],"category":"data parallel|module split|input not moved","line":["model = DistributedDataParallel(","model = create_model("],"error":"DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules or CPU modules, but got device_ids \\[0\\], output_device 0, and module parameters \\{device\\(type='cpu'\\)\\}","thread":"https://github.com/pytorch/pytorch/issues/100243","hard":"raised in Python, by the wrapper's own check; the device was chosen three lines above, for the data alone"}
# FIX model = create_model(n_classes=4) -> model = create_model(n_classes=4).to(device)
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


def create_model(n_classes):
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, n_classes)
    )


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = total = 0
    for images, labels in loader:
        scores = model(images.to(device))
        correct += (scores.argmax(1) == labels.to(device)).sum().item()
        total += len(labels)
    return correct, total


def main():
    torch.cuda.set_device(LOCAL_RANK)
    device = torch.device("cuda", LOCAL_RANK)
    torch.manual_seed(100243)
    model = create_model(n_classes=4)
    model = DistributedDataParallel(model, device_ids=[LOCAL_RANK], output_device=LOCAL_RANK)
    loader = [(torch.rand(5, 3, 8, 8), torch.arange(5) % 4) for _ in range(2)]
    correct, total = evaluate(model, loader, device)
    if dist.get_rank() == 0:
        print("of", total, "images", correct, "are right")


with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=LOCAL_RANK, world_size=WORLD_SIZE)
    try:
        main()
    finally:
        dist.destroy_process_group()
