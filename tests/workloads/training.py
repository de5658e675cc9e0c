"""A model in two halves, each on its own device, is trained with AdamW. With `cpu` both halves are on the CPU. Prints the losses as JSON."""

import json
import sys

import torch
from torch import nn


class Halves(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second
        self.embedding = nn.Embedding(50, 32).to(first)
        self.lower = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True).to(first)
        self.upper = nn.LSTM(32, 24, batch_first=True).to(second)
        self.norm = nn.LayerNorm(24).to(second)
        self.head = nn.Linear(24, 50).to(second)

    def forward(self, tokens):
        hidden = self.lower(self.embedding(tokens.to(self.first)))
        hidden, _ = self.upper(hidden.to(self.second))
        return self.head(self.norm(hidden))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(11)
    first, second = ("cpu", "cpu") if "cpu" in sys.argv else ("cuda:0", "cuda:1")
    data = torch.randint(50, (4, 13))
    model = Halves(first, second)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=12)
    losses, norms = [], []
    for _ in range(12):
        optimizer.zero_grad()
        logits = model(data[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), data[:, 1:].flatten().to(second))
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    state = torch.cat([value.flatten().cpu() for value in model.state_dict().values()])
    print(json.dumps({"losses": losses, "norms": norms, "weights": [state.mean().item(), state.std().item()]}))


if __name__ == "__main__":
    main()
