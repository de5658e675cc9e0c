# === sliced_plan
# thread: https://github.com/PythonOT/POT/issues/845
# about: plans are computed where the points are; the costs that they are multiplied with are filled row by row into a matrix of the default device
# operation: mul on cuda:0, cpu
# operands: .*plan.*|self, .*costs.*|other
# category: created-without-device
# line: costs.py: out = torch.zeros(len(x), len(y))
# line: sliced.py: costs = pairwise(x, y, power=2)
# line: sliced.py: return (plan * costs).sum()
# repair: costs.py: out = torch.zeros(len(x), len(y)) -> out = torch.zeros(len(x), len(y), device=x.device)
import torch

from sliced import expected_cost

torch.manual_seed(0)
device = torch.device("cuda")
x, y = torch.rand(5, 2, device=device), torch.rand(5, 2, device=device)
print("cost", round(expected_cost(x, y, projections=6).item(), 4))
# --- costs.py
import torch

def pairwise(x, y, power):
    out = torch.zeros(len(x), len(y))
    for i, point in enumerate(x):
        out[i] = ((point - y).abs() ** power).sum(-1)
    return out
# --- sliced.py
import math

import torch

from costs import pairwise

def plan_along(direction, x, y):
    plan = torch.zeros(len(x), len(y), device=x.device)
    order_x, order_y = (x @ direction).argsort(), (y @ direction).argsort()
    plan[order_x, order_y] = 1 / len(x)
    return plan

def expected_cost(x, y, projections):
    angles = torch.arange(projections, device=x.device) * math.pi / projections
    directions = torch.stack([angles.cos(), angles.sin()], dim=1)
    plan = sum(plan_along(direction, x, y) for direction in directions) / projections
    costs = pairwise(x, y, power=2)
    return (plan * costs).sum()

# === ewald_extension
# thread: https://github.com/openmm/openmm/issues/5269
# about: a model is read from a file as a whole and moved; an object that it has for long ranges is no module and has vectors of its own
# operation: mm|matmul|bmm|addmm|mul on cuda:0, cpu
# operands: .*
# category: state-not-registered|cached-state|checkpoint
# line: ewald.py: self.vectors = torch.stack(
# line: ewald.py: phases = positions @ self.vectors.T
# line: model.py: self.ewald = Ewald(
# line: calculator.py: self.model = torch.load(
# repair: calculator.py: self.model = torch.load(path, map_location="cpu", weights_only=False).to(self.device).eval() -> self.model = torch.load(path, map_location="cpu", weights_only=False).to(self.device).eval(); self.model.ewald.vectors = self.model.ewald.vectors.to(self.device)
import tempfile

import torch

from calculator import Calculator
from model import ChargedModel

torch.manual_seed(0)
with tempfile.NamedTemporaryFile(suffix=".pt") as file:
    torch.save(ChargedModel(species=3, width=8, cutoff=2), file.name)
    calculator = Calculator(file.name, device="cuda:0")
positions, numbers = torch.rand(6, 3).numpy(), [0, 1, 2, 0, 0, 1]
print("energy", round(calculator.energy(positions, numbers), 4))
# --- ewald.py
import itertools

import torch

class Ewald:
    def __init__(self, cutoff, box=6.0):
        grid = [k for k in itertools.product(range(-cutoff, cutoff + 1), repeat=3) if any(k)]
        self.vectors = torch.stack([torch.tensor(k, dtype=torch.float32) for k in grid]) * 6.2832 / box

    def energy(self, positions, charges):
        phases = positions @ self.vectors.T
        structure = (charges[:, None] * phases.cos()).sum(0) ** 2 + (charges[:, None] * phases.sin()).sum(0) ** 2
        return (structure / (self.vectors**2).sum(-1)).sum()
# --- model.py
import torch
from torch import nn

from ewald import Ewald

class ChargedModel(nn.Module):
    def __init__(self, species, width, cutoff):
        super().__init__()
        self.embed = nn.Embedding(species, width)
        self.net = nn.Sequential(nn.Linear(width + 3, width), nn.SiLU(), nn.Linear(width, 2))
        self.ewald = Ewald(cutoff)

    def forward(self, positions, species):
        energies, charges = self.net(torch.cat([self.embed(species), positions], dim=-1)).unbind(-1)
        return energies.sum() + self.ewald.energy(positions, charges)
# --- calculator.py
import torch

class Calculator:
    def __init__(self, path, device):
        self.device = torch.device(device)
        self.model = torch.load(path, map_location="cpu", weights_only=False).to(self.device).eval()

    @torch.no_grad()
    def energy(self, positions, numbers):
        at = torch.as_tensor(positions, device=self.device)
        return self.model(at, torch.tensor(numbers, device=self.device)).item()

# === prefix_timestep
# thread: https://github.com/physical-superintelligence-lab/Psi0/pull/68
# about: actions that are given already have time 0, the others the scheduler's; the choice is made before its result is brought to the device
# operation: where on cuda:0, cpu
# operands: .*
# category: input-not-moved|cached-state|created-without-device
# line: policy.py: times = torch.where(given
# line: policy.py: for timestep in self.scheduler.timesteps:
# line: scheduler.py: self.timesteps = torch.linspace(
# line: scheduler.py: def set_timesteps(
# line: policy.py: self.scheduler.set_timesteps(
# repair: policy.py: times = torch.where(given, torch.zeros_like(actions[..., 0]), timestep[None, None]).to(self.device) -> times = torch.where(given, torch.zeros_like(actions[..., 0]), timestep[None, None].to(self.device))
import torch

from policy import Policy

torch.manual_seed(0)
policy = Policy(features=5, actions=2, horizon=4, device="cuda:0")
observation = torch.rand(3, 5)
first = policy.predict(observation)
second = policy.predict(observation, prefix=first[:, :2])
print("actions", [round(value, 4) for value in second.mean((0, 2)).tolist()])
# --- scheduler.py
import torch

class FlowScheduler:
    def __init__(self, shift):
        self.shift, self.timesteps = shift, None

    def set_timesteps(self, steps):
        self.timesteps = torch.linspace(1, 0, steps + 1)[:-1]
        self.delta = 1 / steps

    def step(self, velocity, sample):
        return sample - velocity * self.delta * self.shift
# --- policy.py
import torch
from torch import nn

from scheduler import FlowScheduler

class Policy:
    def __init__(self, features, actions, horizon, device):
        self.device, self.shape = torch.device(device), (horizon, actions)
        self.net = nn.Sequential(nn.Linear(features + actions + 1, 16), nn.SiLU(), nn.Linear(16, actions)).to(self.device)
        self.scheduler = FlowScheduler(shift=0.9)

    @torch.no_grad()
    def predict(self, observation, prefix=None):
        observation = observation.to(self.device)
        actions = torch.ones(len(observation), *self.shape, device=self.device)
        given = torch.zeros(actions.shape[:2], dtype=torch.bool, device=self.device)
        if prefix is not None:
            actions[:, : prefix.shape[1]], given[:, : prefix.shape[1]] = prefix, True
        self.scheduler.set_timesteps(5)
        for timestep in self.scheduler.timesteps:
            times = torch.where(given, torch.zeros_like(actions[..., 0]), timestep[None, None]).to(self.device)
            seen = observation[:, None].expand(-1, actions.shape[1], -1)
            velocity = self.net(torch.cat([seen, actions, times[..., None]], dim=-1))
            actions = torch.where(given[..., None], actions, self.scheduler.step(velocity, actions))
        return actions

# === namespace_grid
# thread: https://github.com/KUL-recon-lab/parallelproj/pull/120
# about: code for any array library asks an argument for its namespace and makes what it needs with that, without saying where
# operation: mul|sub|add|matmul|mm|where|.*distance on cuda:0, cpu
# operands: .*
# category: created-without-device
# line: geometry.py: offsets = xp.arange(
# line: geometry.py: return center + offsets[:, None] * direction
# line: projector.py: points = sample_points(
# repair: geometry.py: offsets = xp.arange(count, dtype=center.dtype) * spacing -> offsets = xp.arange(count, dtype=center.dtype, device=center.device) * spacing
import torch

from projector import LineProjector

torch.manual_seed(0)
image = torch.rand(4, 4, 4, device="cuda:0")
projector = LineProjector(spacing=0.5, samples=6)
starts = torch.zeros(3, 3, device="cuda:0")
directions = torch.nn.functional.normalize(torch.rand(3, 3), dim=-1).to("cuda:0")
print("projections", [round(value, 4) for value in projector(image, starts, directions).tolist()])
# --- compat.py
import numpy
import torch

def get_namespace(array):
    return torch if isinstance(array, torch.Tensor) else numpy
# --- geometry.py
from compat import get_namespace

def sample_points(center, direction, count, spacing):
    xp = get_namespace(center)
    offsets = xp.arange(count, dtype=center.dtype) * spacing
    return center + offsets[:, None] * direction

def to_voxels(points, shape):
    xp = get_namespace(points)
    voxels = xp.floor(points).long() if hasattr(points, "long") else xp.floor(points).astype(int)
    inside = (voxels < shape[0]).all(-1)
    return voxels, inside
# --- projector.py
from geometry import sample_points, to_voxels

class LineProjector:
    def __init__(self, spacing, samples):
        self.spacing, self.samples = spacing, samples

    def along(self, image, start, direction):
        points = sample_points(start, direction, self.samples, self.spacing)
        voxels, inside = to_voxels(points, image.shape)
        i, j, k = voxels[inside].unbind(-1)
        return image[i, j, k].sum() * self.spacing

    def __call__(self, image, starts, directions):
        import torch
        return torch.stack([self.along(image, start, direction) for start, direction in zip(starts, directions)])

# === evaluator_network
# thread: https://github.com/gml16/rl-medical/pull/24
# about: an evaluator builds a network of its own and reads the agent's weights into it; states that it plays come from where the agent learns
# operation: addmm|mm|linear|.*conv.* on cpu, cuda:0
# operands: .*
# category: module-split|input-not-moved
# line: evaluator.py: self.network = network_type(**shape)
# line: evaluator.py: self.network.load_state_dict(
# line: evaluator.py: values = self.network(
# line: main.py: evaluator = Evaluator(
# repair: evaluator.py: self.network = network_type(**shape) -> self.network = network_type(**shape).to(next(iter(weights.values())).device)
import torch

from agent import Agent, QNetwork
from environment import Volume
from evaluator import Evaluator

torch.manual_seed(0)
device = torch.device("cuda:0")
shape = {"inputs": 6, "actions": 3}
environment = Volume(size=6, device=device)
agent = Agent(QNetwork(**shape).to(device))
loss = [agent.learn(environment) for _ in range(3)]
evaluator = Evaluator(QNetwork, shape, agent.weights())
print("score", round(evaluator.play(environment, steps=4), 4), "loss", round(loss[-1], 4))
# --- environment.py
import torch

class Volume:
    def __init__(self, size, device):
        self.target = torch.linspace(-1, 1, size, device=device)
        self.size, self.device = size, device

    def reset(self):
        self.state = torch.zeros(self.size, device=self.device)
        return self.state

    def step(self, action):
        self.state = self.state + (action - 1) * 0.1
        return self.state, -(self.state - self.target).abs().mean()
# --- agent.py
import torch
from torch import nn

class QNetwork(nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, actions))

    def forward(self, state):
        return self.net(state[None])[0]

class Agent:
    def __init__(self, network):
        self.network = network
        self.optimizer = torch.optim.Adam(network.parameters(), lr=0.01)

    def learn(self, environment):
        state = environment.reset()
        value = self.network(state)
        _, reward = environment.step(value.argmax().item())
        loss = (value.max() - reward) ** 2
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def weights(self):
        return self.network.state_dict()
# --- evaluator.py
import torch

class Evaluator:
    def __init__(self, network_type, shape, weights):
        self.network = network_type(**shape)
        self.network.load_state_dict(weights)
        self.network.eval()

    @torch.no_grad()
    def play(self, environment, steps):
        state, total = environment.reset(), 0.0
        for _ in range(steps):
            values = self.network(state)
            state, reward = environment.step(values.argmax().item())
            total += reward.item()
        return total

# === fisher_on_host
# about: what a first task has taught is kept on the CPU to save memory; a penalty of the second task compares it with the weights
# operation: sub|mul on cuda:0, cpu
# operands: .*
# category: cached-state|module-split|input-not-moved
# line: ewc.py: self.anchors = {name: parameter.detach().cpu().clone()
# line: ewc.py: drift = (parameter - self.anchors[name]) ** 2
# line: ewc.py: total = total + (self.fisher[name] * drift).sum()
# line: main.py: ewc.consolidate(
# repair: ewc.py: drift = (parameter - self.anchors[name]) ** 2 -> drift = (parameter - self.anchors[name].to(parameter.device)) ** 2
# repair: ewc.py: total = total + (self.fisher[name] * drift).sum() -> total = total + (self.fisher[name].to(drift.device) * drift).sum()
import torch
from torch import nn

from ewc import ElasticWeights

torch.manual_seed(0)
device = torch.device("cuda:0")
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ewc = ElasticWeights(strength=10.0)
tasks = [(torch.randn(6, 4), torch.tensor([0, 1, 0, 1, 1, 0])), (torch.randn(6, 4), torch.tensor([1, 1, 0, 0, 1, 0]))]
for x, y in tasks:
    x, y = x.to(device), y.to(device)
    for _ in range(2):
        loss = nn.functional.cross_entropy(model(x), y) + ewc.penalty(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ewc.consolidate(model, x, y)
print("loss", round(loss.item(), 4))
# --- ewc.py
from torch import nn

class ElasticWeights:
    def __init__(self, strength):
        self.strength, self.anchors, self.fisher = strength, {}, {}

    def consolidate(self, model, x, y):
        model.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        self.fisher = {name: parameter.grad.detach().square().cpu() for name, parameter in model.named_parameters()}
        self.anchors = {name: parameter.detach().cpu().clone() for name, parameter in model.named_parameters()}

    def penalty(self, model):
        total = 0.0
        for name, parameter in model.named_parameters():
            if name not in self.anchors:
                continue
            drift = (parameter - self.anchors[name]) ** 2
            total = total + (self.fisher[name] * drift).sum()
        return self.strength * total

# === memory_bank
# about: a tracker keeps what it has seen of earlier frames in host memory, as dataclasses in a deque; the next frame attends to all of it
# operation: .*attention.*|bmm|matmul|mm|cat|add|.* on cuda:0, cpu
# operands: .*
# category: input-not-moved|cached-state|module-split
# line: bank.py: self.entries.append(Entry(features.to(self.storage)
# line: bank.py: return torch.cat([entry.features for entry in self.entries], dim=1)
# line: tracker.py: memory = self.bank.read()
# line: tracker.py: attended, _ = self.attention(
# line: main.py: tracker = Tracker(
# repair: tracker.py: memory = self.bank.read() -> memory = self.bank.read().to(frame.device)
import torch

from tracker import Tracker

torch.manual_seed(0)
tracker = Tracker(width=8, offload=True).to("cuda:1").eval()
scores = []
with torch.inference_mode():
    for number in range(3):
        frame = torch.rand(1, 4, 8).to("cuda:1")
        scores.append(round(tracker(frame, number).item(), 4))
print("scores", scores)
# --- bank.py
from collections import deque
from dataclasses import dataclass

import torch

@dataclass
class Entry:
    features: torch.Tensor
    number: int

class MemoryBank:
    def __init__(self, size, storage):
        self.entries, self.storage = deque(maxlen=size), torch.device(storage)

    def write(self, features, number):
        self.entries.append(Entry(features.to(self.storage), number))

    def read(self):
        return torch.cat([entry.features for entry in self.entries], dim=1)
# --- tracker.py
import torch
from torch import nn

from bank import MemoryBank

class Tracker(nn.Module):
    def __init__(self, width, offload):
        super().__init__()
        self.encode = nn.Linear(width, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.head = nn.Linear(width, 1)
        self.bank = MemoryBank(size=4, storage="cpu" if offload else "cuda")

    def forward(self, frame, number):
        x = self.encode(frame)
        if number > 0:
            memory = self.bank.read()
            attended, _ = self.attention(x, memory, memory)
            x = x + attended
        self.bank.write(x, number)
        return self.head(x).mean()

# === fused_mapping
# thread: https://github.com/deepseek-ai/TileKernels/issues/28
# about: a mapping of tokens to experts is allocated on "cuda", behind a decorator that measures; what it maps is on the second GPU
# operation: index_select|index|gather|scatter.*|index_put_?|copy_|.* on cuda:1, cuda:0
# operands: .*
# category: default-or-current-device
# line: mapping.py: places = torch.zeros(experts.numel()
# line: mapping.py: places = places.scatter(
# line: layer.py: places = fused_mapping(
# repair: mapping.py: places = torch.zeros(experts.numel(), dtype=torch.long, device="cuda") -> places = torch.zeros(experts.numel(), dtype=torch.long, device=experts.device)
import torch

from layer import MoELayer

torch.manual_seed(0)
device = torch.device("cuda", 1)
layer = MoELayer(width=8, experts=3, top=2).to(device).eval()
tokens = torch.randn(5, 8, device=device)
with torch.no_grad():
    print("out", [round(value, 4) for value in layer(tokens).sum(-1).tolist()])
# --- timing.py
import functools
import time

TIMES = {}

def measured(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            TIMES[function.__name__] = TIMES.get(function.__name__, 0.0) + time.perf_counter() - began
    return wrapper
# --- mapping.py
import torch

from timing import measured

@measured
def fused_mapping(experts):
    """Where each pair of a token and an expert stands when they are sorted by expert."""
    order = experts.flatten().argsort(stable=True)
    places = torch.zeros(experts.numel(), dtype=torch.long, device="cuda")
    places = places.scatter(0, order, torch.arange(len(order), device=order.device))
    return order, places
# --- layer.py
import torch
from torch import nn

from mapping import fused_mapping

class MoELayer(nn.Module):
    def __init__(self, width, experts, top):
        super().__init__()
        self.gate, self.top = nn.Linear(width, experts), top
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        weights, experts = self.gate(x).softmax(-1).topk(self.top, dim=-1)
        order, places = fused_mapping(experts)
        grouped = x.repeat_interleave(self.top, dim=0)[order]
        sizes = experts.flatten().bincount(minlength=len(self.experts)).tolist()
        done = torch.cat([expert(part) for expert, part in zip(self.experts, grouped.split(sizes))])
        return (done[places].view(len(x), self.top, -1) * weights[..., None]).sum(1)

# === image_statistics
# about: an object that prepares images has their mean and deviation as properties, which make them anew from its settings
# operation: sub|div on cuda:0, cpu
# operands: .*, .*
# category: created-without-device
# line: prepare.py: return torch.tensor(self.settings["mean"])
# line: prepare.py: images = (images - self.mean) / self.std
# line: prepare.py: return torch.tensor(self.settings["std"])
# repair: prepare.py: images = (images - self.mean) / self.std -> images = (images - self.mean.to(images.device)) / self.std.to(images.device)
import torch

from model import Classifier
from prepare import Preparation

torch.manual_seed(0)
preparation = Preparation({"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28], "size": 6})
model = Classifier(classes=4).to("cuda:0").eval()
images = torch.rand(2, 3, 8, 8).to("cuda:0")
with torch.no_grad():
    print("logits", [round(value, 4) for value in model(preparation(images)).flatten().tolist()[:4]])
# --- prepare.py
import torch
from torch.nn import functional as F

class Preparation:
    def __init__(self, settings):
        self.settings = settings

    @property
    def mean(self):
        return torch.tensor(self.settings["mean"]).view(1, 3, 1, 1)

    @property
    def std(self):
        return torch.tensor(self.settings["std"]).view(1, 3, 1, 1)

    def __call__(self, images):
        images = F.interpolate(images, size=(self.settings["size"],) * 2, mode="nearest")
        images = (images - self.mean) / self.std
        return images
# --- model.py
from torch import nn

class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.features(images).mean((2, 3)))

# === collate_pad
# about: a loader's collate function is a partial function with a value for what is missing, which was made on the GPU; samples are the host's
# operation: where|masked_fill.*|copy_|cat|add|mul|.* on cpu, cuda:0
# operands: .*
# category: input-not-moved|created-without-device|default-or-current-device|cached-state
# line: main.py: missing = torch.full(
# line: main.py: collate = partial(collate_series
# line: data.py: return torch.where(known, values, missing), known
# line: main.py: missing=missing
# repair: main.py: missing = torch.full((1, 1, 3), -1.0, device=device) -> missing = torch.full((1, 1, 3), -1.0)
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader

from data import Series, collate_series

torch.manual_seed(0)
device = torch.device("cuda:0")
missing = torch.full((1, 1, 3), -1.0, device=device)
collate = partial(collate_series, missing=missing)
model = nn.GRU(3, 4, batch_first=True).to(device)
sums = []
for values, known in DataLoader(Series(4), batch_size=2, collate_fn=collate):
    out, _ = model(values.to(device))
    sums.append(round((out * known.to(device).any(-1, keepdim=True)).sum().item(), 4))
print("sums", sums)
# --- data.py
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

class Series(Dataset):
    def __init__(self, count):
        self.items = [torch.linspace(0, i + 1, 3 * (i + 2)).view(-1, 3) for i in range(count)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

def collate_series(items, missing):
    values = pad_sequence(items, batch_first=True, padding_value=float("nan"))
    known = ~values.isnan()
    return torch.where(known, values, missing), known

# === averaged_first
# about: PyTorch's own average of a model is made with the model, before both are handed to what moves the one and not the other
# operation: .*lerp.*|.*add.*|.*mul.*|.*sub.* on cpu, cuda:0
# operands: .*
# category: module-split|cached-state|input-not-moved
# line: main.py: averaged = AveragedModel(model
# line: trainer.py: self.model = model.to(device)
# line: trainer.py: self.averaged.update_parameters(self.model)
# line: trainer.py: self.averaged = averaged
# repair: trainer.py: self.averaged = averaged -> self.averaged = averaged.to(device)
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

from trainer import Trainer

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
averaged = AveragedModel(model, avg_fn=get_ema_avg_fn(0.9))
trainer = Trainer(model, averaged, "cuda:0")
x, y = torch.randn(8, 3), torch.randn(8, 1)
losses = [trainer.step(x, y) for _ in range(3)]
print("loss", round(losses[-1], 4), "averaged", round(trainer.evaluate(x, y), 4))
# --- trainer.py
import torch
from torch import nn

class Trainer:
    def __init__(self, model, averaged, device):
        self.device = torch.device(device)
        self.model = model.to(device)
        self.averaged = averaged
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def loss(self, model, x, y):
        return nn.functional.mse_loss(model(x.to(self.device)), y.to(self.device))

    def step(self, x, y):
        loss = self.loss(self.model, x, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.averaged.update_parameters(self.model)
        return loss.item()

    @torch.no_grad()
    def evaluate(self, x, y):
        return self.loss(self.averaged, x, y).item()

# === retrieval_index
# about: an index of embeddings is built in batches whose results are gathered on the host; a query is embedded on the GPU and compared
# operation: mm|matmul|mv|linear on cuda:0, cpu
# operands: .*
# category: input-not-moved|cached-state
# line: index.py: parts.append(self.encoder(tokens.to(self.device)).cpu())
# line: index.py: self.embeddings = torch.cat(parts)
# line: index.py: scores = query @ self.embeddings.T
# line: index.py: query = self.encoder(
# repair: index.py: scores = query @ self.embeddings.T -> scores = query.cpu() @ self.embeddings.T
import torch

from encoder import Encoder
from index import Index

torch.manual_seed(0)
index = Index(Encoder(vocabulary=12, width=8), device="cuda:0", batch_size=2)
index.build([torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[7, 8, 9], [10, 11, 1]])])
best, score = index.search(torch.tensor([[4, 5, 7]]))
print("best", best, round(score, 4))
# --- encoder.py
import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.project = nn.Linear(width, width)

    def forward(self, tokens):
        return nn.functional.normalize(self.project(self.embed(tokens).mean(1)), dim=-1)
# --- index.py
import torch

class Index:
    def __init__(self, encoder, device, batch_size):
        self.device, self.batch_size = torch.device(device), batch_size
        self.encoder = encoder.to(self.device).eval()

    @torch.inference_mode()
    def build(self, batches):
        parts = []
        for tokens in batches:
            parts.append(self.encoder(tokens.to(self.device)).cpu())
        self.embeddings = torch.cat(parts)

    @torch.inference_mode()
    def search(self, tokens):
        query = self.encoder(tokens.to(self.device))
        scores = query @ self.embeddings.T
        best = scores[0].argmax().item()
        return best, scores[0, best].item()
