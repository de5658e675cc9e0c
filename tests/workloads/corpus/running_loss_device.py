# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:0","cuda:1"],"operands":["tr_loss","tr_loss_step|loss"],"category":"default or current device|module split|input not moved|cached state","line":["tr_loss = torch.tensor(0.0).to(args.device)","tr_loss += tr_loss_step","return loss.detach() / self.args.accumulation"],"error":"on the same device","thread":"https://github.com/huggingface/trl/pull/1919","hard":"the trainer believes that a loss is on its device; the model's last part is on another one"}
# FIX tr_loss += tr_loss_step -> tr_loss += tr_loss_step.to(tr_loss.device)
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class TrainingArguments:
    steps: int = 3
    accumulation: int = 1
    lr: float = 0.05

    @property
    def device(self):
        return torch.device("cuda:0")


class TwoStage(nn.Module):
    """As a device map would lay it out: the body on one device, the head on the next."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, width).to("cuda:0")
        self.head = nn.Linear(width, 1).to("cuda:1")

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)).to("cuda:1"))


class Trainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)

    def training_step(self, inputs):
        chosen, rejected = (self.model(inputs[name].to(self.args.device)) for name in ("chosen", "rejected"))
        loss = -nn.functional.logsigmoid(chosen - rejected).mean()
        loss.backward()
        return loss.detach() / self.args.accumulation

    def train(self, batches):
        args = self.args
        tr_loss = torch.tensor(0.0).to(args.device)
        for step in range(args.steps):
            tr_loss_step = self.training_step(batches[step % len(batches)])
            tr_loss += tr_loss_step
            self.optimizer.step()
            self.optimizer.zero_grad()
        return tr_loss.item() / args.steps


torch.manual_seed(0)
batches = [{"chosen": torch.rand(4, 6), "rejected": torch.rand(4, 6)} for _ in range(2)]
print("mean loss", round(Trainer(TwoStage(6), TrainingArguments()).train(batches), 4))
