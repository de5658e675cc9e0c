"""What a launch, a copy and a training step cost the host, as JSON: costs.py WAY LAUNCHES STEPS LAYERS, the least of some rounds. WAY `history`: under
torch.cuda.memory._record_memory_history()."""

import json
import sys
import time

import torch
from torch import nn

way, (launches, steps, layers) = sys.argv[1], map(int, sys.argv[2:])
if way == "history":
    torch.cuda.memory._record_memory_history()
torch.manual_seed(0)
here, there = torch.zeros(1024, device="cuda:0"), torch.zeros(1024).pin_memory()
layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to("cuda:0")
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
data = torch.randn(8, 64, 256, device="cuda:0")


def step():
    optimizer.zero_grad()
    (model(data) - data).pow(2).mean().backward()
    optimizer.step()


def least(work, count, rounds=5):
    """Seconds of one, with what is queued behind it done."""
    work()
    best = None
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            work()
        torch.cuda.synchronize()
        took = (time.perf_counter() - begin) / count
        best = took if best is None else min(best, took)
    return best


print(json.dumps({
    "launch": least(lambda: here.add_(1), launches),
    "allocation, launch and free": least(lambda: here + 1, launches),
    "copy of 4 KiB": least(lambda: here.copy_(there, non_blocking=True), launches),
    "training step": least(step, steps),
}))
