# === frozen_bounds
# about: bounds of actions are fields of a frozen dataclass, each made by a factory; a policy of the GPU rescales what it gives by them
# operation: mul|add|sub|clamp|.*max.*|.*min.* on cuda:0, cpu
# operands: .*
# category: created-without-device|cached-state|input-not-moved
# line: space.py: low: torch.Tensor = field(default_factory=
# line: space.py: high: torch.Tensor = field(default_factory=
# line: space.py: return self.low + (squashed + 1) * 0.5 * (self.high - self.low)
# line: policy.py: self.space = Space()
# line: policy.py: return self.space.rescale(
# repair: policy.py: return self.space.rescale(self.net(state).tanh()) -> return self.space.rescale(self.net(state).tanh().cpu()).to(state.device)
import torch

from policy import Policy

torch.manual_seed(0)
policy = Policy(4, 2).to("cuda:0")
with torch.no_grad():
    print("actions", [round(value, 4) for value in policy(torch.ones(1, 4).to("cuda:0"))[0].tolist()])
# --- space.py
from dataclasses import dataclass, field

import torch

@dataclass(frozen=True)
class Space:
    low: torch.Tensor = field(default_factory=lambda: torch.tensor([-2.0, 0.0]))
    high: torch.Tensor = field(default_factory=lambda: torch.tensor([2.0, 1.0]))

    def rescale(self, squashed):
        return self.low + (squashed + 1) * 0.5 * (self.high - self.low)
# --- policy.py
from torch import nn

from space import Space

class Policy(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.net = nn.Linear(states, actions)
        self.space = Space()

    def forward(self, state):
        return self.space.rescale(self.net(state).tanh())

# === queued_batches
# about: a thread reads arrays and puts them into a queue as tensors; who takes them out gives the first of each pair to the model as it is
# operation: addmm|mm|linear|.* on cpu, cuda:0
# operands: .*
# category: input-not-moved
# line: reader.py: self.queue.put(
# line: main.py: for x, y in Reader(
# line: main.py: out = model(x)
# repair: main.py: out = model(x) -> out = model(x.to(device))
import torch
from torch import nn

from reader import Reader

torch.manual_seed(0)
device = torch.device("cuda", 0)
model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1)).to(device)
total = 0.0
for x, y in Reader(batches=3):
    out = model(x)
    total += (out.squeeze(-1) - y.to(device)).abs().mean().item()
print("total", round(total, 4))
# --- reader.py
import queue
import threading

import numpy as np
import torch

class Reader:
    def __init__(self, batches):
        self.queue, self.batches = queue.Queue(maxsize=2), batches
        self.thread = threading.Thread(target=self.read, daemon=True)

    def read(self):
        generator = np.random.default_rng(0)
        for _ in range(self.batches):
            x = generator.standard_normal((4, 3)).astype(np.float32)
            self.queue.put((torch.from_numpy(x), torch.from_numpy(x.sum(1))))
        self.queue.put(None)

    def __iter__(self):
        self.thread.start()
        while (item := self.queue.get()) is not None:
            yield item

# === squared_norms
# about: squares of gradients' norms are added up in a tensor that begins without a device
# operation: add_|add|copy_ on cpu, cuda:0
# operands: .*
# error: same device
# category: created-without-device
# line: clip.py: total = torch.zeros(1)
# line: clip.py: total = total + torch.stack(
# line: clip.py: for parameter in parameters:
# repair: clip.py: total = torch.zeros(1) -> total = torch.zeros(1, device=parameters[0].device)
import torch
from torch import nn

from clip import clip_

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).to("cuda:0")
model(torch.ones(2, 3).to("cuda:0")).sum().backward()
print("norm", round(clip_(list(model.parameters()), most=1.0), 4))
# --- clip.py
import torch

def clip_(parameters, most):
    total = torch.zeros(1)
    total = total + torch.stack([parameter.grad.norm() ** 2 for parameter in parameters]).sum(0, keepdim=True)
    norm = total.sqrt()
    for parameter in parameters:
        parameter.grad.mul_((most / (norm + 1e-6)).clamp(max=1.0))
    return norm.item()

# === last_stage_loss
# about: a model's stages lie on two GPUs; labels go where the first stage is, and the loss is computed behind the last one
# operation: .*nll_loss.*|.*cross_entropy.*|gather on cuda:1, cuda:0
# operands: .*
# category: input-not-moved|module-split
# line: train.py: inputs, labels = inputs.to(self.model.first), labels.to(self.model.first)
# line: train.py: loss = self.criterion(
# repair: train.py: loss = self.criterion(self.model(inputs), labels) -> loss = self.criterion(self.model(inputs), labels.to(self.model.last))
import torch

from stages import Stages
from train import Trainer

torch.manual_seed(0)
trainer = Trainer(Stages(4, 8, 3, ["cuda:0", "cuda:1"]))
print("losses", [round(trainer.step(torch.ones(2, 4), torch.tensor([0, 2])), 4) for _ in range(3)])
# --- stages.py
import torch
from torch import nn

class Stages(nn.Module):
    def __init__(self, inputs, width, classes, devices):
        super().__init__()
        self.first, self.last = (torch.device(device) for device in devices)
        self.encode = nn.Sequential(nn.Linear(inputs, width), nn.ReLU()).to(self.first)
        self.decode = nn.Linear(width, classes).to(self.last)

    def forward(self, x):
        return self.decode(self.encode(x).to(self.last))
# --- train.py
import torch
from torch import nn

class Trainer:
    def __init__(self, model):
        self.model, self.criterion = model, nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(self, inputs, labels):
        inputs, labels = inputs.to(self.model.first), labels.to(self.model.first)
        loss = self.criterion(self.model(inputs), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === counted_mean
# about: a mean over groups counts the members of each in a tensor made for it, into which ones of the device are added
# operation: index_add_|scatter_add_ on cpu, cuda:1
# operands: .*
# category: created-without-device
# line: groups.py: counts = torch.zeros(groups)
# line: groups.py: counts.index_add_(
# repair: groups.py: counts = torch.zeros(groups) -> counts = torch.zeros(groups, device=x.device)
import torch

from layer import Pool

torch.manual_seed(0)
pool = Pool(4).to("cuda:1")
x, batch = torch.randn(6, 4, device="cuda:1"), torch.tensor([0, 0, 1, 2, 2, 2], device="cuda:1")
with torch.no_grad():
    print("pooled", [round(value, 4) for value in pool(x, batch).sum(1).tolist()])
# --- groups.py
import torch

def mean_of(x, group):
    groups = int(group.max()) + 1
    sums = x.new_zeros(groups, x.shape[1]).index_add_(0, group, x)
    counts = torch.zeros(groups)
    counts.index_add_(0, group, torch.ones_like(group, dtype=x.dtype))
    return sums / counts[:, None]
# --- layer.py
from torch import nn

from groups import mean_of

class Pool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, width)

    def forward(self, x, batch):
        return mean_of(self.score(x).relu(), batch)

# === gathered_answers
# about: answers of a model are gathered on the CPU in a list of tuples, zipped into columns and compared with the labels of the GPU
# operation: eq|.*nll.*|sub|.*eq.* on cpu, cuda:0
# operands: .*
# category: input-not-moved|module-split
# line: evaluate.py: answers.append((ids, model(
# line: evaluate.py: hits = (predicted == labels[order])
# line: evaluate.py: order, predicted = torch.cat(
# line: evaluate.py: labels = labels.to(device)
# repair: evaluate.py: hits = (predicted == labels[order]).sum() -> hits = (predicted.to(device) == labels[order]).sum()
import torch
from torch import nn

from evaluate import accuracy

torch.manual_seed(0)
model = nn.Linear(3, 4)
x, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 3, 0, 1])
print("accuracy", round(accuracy(model, x, labels, torch.device("cuda:0")), 4))
# --- evaluate.py
import torch

@torch.no_grad()
def accuracy(model, x, labels, device):
    model, labels = model.to(device).eval(), labels
    labels = labels.to(device)
    answers = []
    for ids in torch.randperm(len(x), generator=torch.Generator().manual_seed(1)).split(2):
        answers.append((ids, model(x[ids].to(device)).argmax(-1).cpu()))
    columns = list(zip(*answers))
    order, predicted = torch.cat(columns[0]).to(device), torch.cat(columns[1])
    hits = (predicted == labels[order]).sum()
    return hits.item() / len(labels)
