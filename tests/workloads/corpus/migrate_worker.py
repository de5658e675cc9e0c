# EXPECT {"kind":"refused-op","operation":"lerp","devices":["cuda:0","cuda:1"],"operands":["exp_avg|state","grad"],"category":"optimizer","line":["self.model.to(device)"],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/1442","hard":"raised in torch/optim; the parameters have moved under the optimizer, its state has not"}
# FIX self.model.to(device) -> self.model.to(device); self.optimizer.load_state_dict(self.optimizer.state_dict())
from __future__ import annotations

import torch
from torch import Tensor, nn


class Worker:
    """Trains on whichever GPU the scheduler of the cluster has free for it."""

    def __init__(self, model: nn.Module, device: str) -> None:
        self.device = device
        self.model = model.to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2, foreach=False)

    def migrate(self, device: str) -> None:
        self.device = device
        self.model.to(device)

    def train(self, batches: list[tuple[Tensor, Tensor]]) -> float:
        for x, y in batches:
            prediction = self.model(x.to(self.device))
            loss = nn.functional.mse_loss(prediction, y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(1442)
    x = torch.randn(32, 5)
    batches = list(zip(x.split(8), x.sum(dim=1, keepdim=True).split(8)))
    worker = Worker(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)), "cuda:0")
    before = worker.train(batches)
    worker.migrate("cuda:1")
    print("still learning after the move:", worker.train(batches) < before)
