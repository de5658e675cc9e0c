# EXPECT {"kind":"refused-op","operation":"lt|less","devices":["cuda:0","cpu"],"operands":["current"],"category":"cached state|checkpoint","line":["self.best_k_models = state[","callback.load_state_dict(","return bool(torch.lt(current, worst).any())"],"error":"on the same device","thread":"https://github.com/Lightning-AI/pytorch-lightning/issues/14446","hard":"the first run is well; the scores of the callback come from the file of a run before, where they were put on the CPU; a metric without dimensions would do"}
# FIX return bool(torch.lt(current, worst).any()) -> return bool(torch.lt(current, worst.to(current.device)).any())
import os
import tempfile

import torch
from torch import nn


class ModelCheckpoint:
    """Keeps the best models, by the metric that is monitored."""

    def __init__(self, save_top_k):
        self.save_top_k = save_top_k
        self.best_k_models = {}

    def check_monitor_top_k(self, current):
        if len(self.best_k_models) < self.save_top_k:
            return True
        worst = max(self.best_k_models.values(), key=lambda score: score.item())
        return bool(torch.lt(current, worst).any())

    def on_validation_end(self, name, current):
        if self.check_monitor_top_k(current):
            self.best_k_models[name] = current
            while len(self.best_k_models) > self.save_top_k:
                worst = max(self.best_k_models, key=lambda name: self.best_k_models[name].item())
                del self.best_k_models[worst]

    def state_dict(self):
        return {"best_k_models": self.best_k_models}

    def load_state_dict(self, state):
        self.best_k_models = state["best_k_models"]


class Trainer:
    def __init__(self, callback, device):
        self.callback, self.device = callback, device

    def fit(self, model, x, y, epochs, ckpt_path=None):
        start = 0
        if ckpt_path is not None:
            checkpoint = torch.load(ckpt_path, map_location="cpu")
            model.load_state_dict(checkpoint["model"])
            self.callback.load_state_dict(checkpoint["callback"])
            start = checkpoint["epoch"]
        model.to(self.device)
        x, y = x.to(self.device), y.to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(start, epochs):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            with torch.no_grad():
                self.callback.on_validation_end(f"epoch-{epoch}", (model(x) - y).square().mean(0))
        return {"model": model.state_dict(), "callback": self.callback.state_dict(), "epoch": epochs}


torch.manual_seed(0)
x, y = torch.rand(16, 3), torch.rand(16, 1)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.ckpt")
    torch.save(Trainer(ModelCheckpoint(2), "cuda:0").fit(nn.Linear(3, 1), x, y, 2), path)
    resumed = ModelCheckpoint(2)
    Trainer(resumed, "cuda:0").fit(nn.Linear(3, 1), x, y, 5, ckpt_path=path)
print("best", sorted(resumed.best_k_models))
