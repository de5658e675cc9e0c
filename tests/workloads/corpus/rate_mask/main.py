# EXPECT {"kind":"refused-op","operation":"mul|add","devices":["cuda:0","cpu"],"operands":["lr_mask|rates|mask"],"category":"optimizer","line":["automagic.py: state[\"lr_mask\"] = torch.tensor(","automagic.py: rates = state[\"lr_mask\"]","main.py: checkpoint = torch.load("],"error":"on the same device","thread":"https://github.com/wochenlong/lora-scripts-next/pull/320","hard":"an optimizer restores a part of its state itself, past what load_state_dict() casts"}
# FIX automagic.py: state["lr_mask"] = torch.tensor(saved["lr_mask"]) -> state["lr_mask"] = torch.tensor(saved["lr_mask"], device=p.device)
import io

import torch
from torch import nn

from automagic import Automagic


def train(model, optimizer, steps):
    for _ in range(steps):
        loss = (model(torch.ones(4, 6).to("cuda:0")) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
model = nn.Linear(6, 3).to("cuda:0")
optimizer = Automagic(model.parameters(), lr=0.05)
first = train(model, optimizer, 3)
file = io.BytesIO()
torch.save(optimizer.state_dict(), file)
file.seek(0)
checkpoint = torch.load(file, map_location="cpu")
optimizer = Automagic(model.parameters(), lr=0.05)
optimizer.load_state_dict(checkpoint)
print("lower", train(model, optimizer, 3) < first)
