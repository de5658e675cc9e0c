# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:0","cuda:1"],"operands":["tr_loss","tr_loss_step"],"category":"module split|input not moved|created without device","line":["tr_loss += tr_loss_step","return loss.detach() /","tr_loss = torch.tensor(0.0)"],"error":"on the same device","thread":"https://github.com/huggingface/transformers/pull/29144","hard":"two scalars; the loss comes from the last of the model's devices, what it is added to from the arguments"}
# FIX return loss.detach() / self.args.gradient_accumulation_steps -> return loss.detach().to(self.args.device) / self.args.gradient_accumulation_steps
from types import SimpleNamespace

import torch
from torch import nn


class TwoStage(nn.Module):
    def __init__(self, features=6, hidden=10, classes=3):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(features, hidden), nn.GELU()).to("cuda:0")
        self.second = nn.Linear(hidden, classes).to("cuda:1")

    def forward(self, features, labels):
        logits = self.second(self.first(features).to("cuda:1"))
        return nn.functional.cross_entropy(logits, labels.to(logits.device)), logits


class Trainer:
    def __init__(self, model, args, batches):
        self.model, self.args, self.batches = model, args, batches
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
        self.log_history = []

    def compute_loss(self, model, inputs):
        return model(**inputs)[0]

    def training_step(self, model, inputs):
        inputs = {name: value.to(self.args.device) for name, value in inputs.items()}
        loss = self.compute_loss(model, inputs)
        (loss / self.args.gradient_accumulation_steps).backward()
        return loss.detach() / self.args.gradient_accumulation_steps

    def train(self):
        tr_loss = torch.tensor(0.0).to(self.args.device)
        for step, inputs in enumerate(self.batches, start=1):
            tr_loss_step = self.training_step(self.model, inputs)
            tr_loss += tr_loss_step
            if step % self.args.gradient_accumulation_steps == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
            if step % self.args.logging_steps == 0:
                self.log_history.append(round(tr_loss.item() / self.args.logging_steps, 4))
                tr_loss.zero_()
        return self.log_history


torch.manual_seed(0)
args = SimpleNamespace(device="cuda:0", learning_rate=0.2, gradient_accumulation_steps=2, logging_steps=4)
batches = [{"features": torch.randn(4, 6), "labels": torch.tensor([0, 1, 2, 1])} for _ in range(8)]
print("log", Trainer(TwoStage(), args, batches).train())
