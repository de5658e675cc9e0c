# EXPECT {"kind":"refused-op","operation":"add","devices":["cpu","cuda:0"],"operands":["exp_avg","grad_B|grad"],"category":"optimizer","line":["main.py: saved = torch.load(","lorafa.py: exp_avg, exp_avg_sq = state["],"error":"on the same device","thread":"https://github.com/MakazhanAlpamys/Soup/pull/962","hard":"load_state_dict casts the states of parameters; these are kept by a name"}
# FIX main.py: saved = torch.load(path, map_location="cpu") -> saved = torch.load(path, map_location="cuda:0")
import tempfile
from pathlib import Path

import torch
from torch import nn

from lora import add_lora
from lorafa import LoraFAOptimizer


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 4))
    model = add_lora(model, r=2).to("cuda:0")
    return model, LoraFAOptimizer(model.named_parameters(), lr=0.05)


def train(model, optimizer, batches):
    for features, labels in batches:
        loss = nn.functional.cross_entropy(model(features.to("cuda:0")), labels.to("cuda:0"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def resume(path):
    model, optimizer = build()
    saved = torch.load(path, map_location="cpu")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return model, optimizer


torch.manual_seed(1)
batches = [(torch.randn(8, 6), torch.arange(8) % 4) for _ in range(6)]
with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "checkpoint.pt"
    model, optimizer = build()
    train(model, optimizer, batches[:3])
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
    model, optimizer = resume(checkpoint)
print("loss", round(train(model, optimizer, batches[3:]), 4))
