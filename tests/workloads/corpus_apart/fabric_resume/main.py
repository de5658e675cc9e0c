# EXPECT {"kind":"refused-op","operation":"add|mul|lerp","devices":["cuda:0","cpu"],"operands":["momentum_buffer|bufs|buf|state","device_grads|grad"],"category":"optimizer","line":["main.py: optimizer.load_state_dict(","main.py: fabric.setup(model, optimizer)","fabric.py: module.to(self.device)"],"error":"on the same device","thread":"https://github.com/Lightning-AI/pytorch-lightning/issues/19225","hard":"raised in torch/optim; what sets the run up moves the model and leaves the optimizer's state"}
# FIX main.py: optimizer.load_state_dict(checkpoint["optimizer"]) -> model, optimizer = fabric.setup(model, optimizer)  # first
# FIX main.py: model, optimizer = fabric.setup(model, optimizer) -> optimizer.load_state_dict(checkpoint["optimizer"])  # then
import io

import torch
from torch import nn

from fabric import Fabric


def batches(n):
    generator = torch.Generator().manual_seed(19225)
    return [torch.randn(8, 5, generator=generator) for _ in range(n)]


def fit(accelerator, n_batches, checkpoint=None):
    torch.manual_seed(1)
    fabric = Fabric(accelerator)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if checkpoint is not None:
        checkpoint = torch.load(checkpoint, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        model, optimizer = fabric.setup(model, optimizer)
    else:
        model, optimizer = fabric.setup(model, optimizer=optimizer)
    for batch in fabric.setup_dataloader(batches(n_batches)):
        optimizer.zero_grad()
        loss = (model(batch) - batch.mean(1, keepdim=True)).square().mean()
        fabric.backward(loss)
        optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    return file, loss.item()


saved, _ = fit("cpu", 3)
_, loss = fit("gpu", 3, checkpoint=saved)
print("loss", round(loss, 4))
