# === collated_mask
# about: a collate function pads sequences and makes their mask; the loop moves the ids only
# operation: .* on cuda:0, cpu
# operands: .*
# category: input-not-moved
# line: ids = batch["ids"].to(device)
# line: out = model(ids, batch["mask"])
# line: return {"ids":
# line: for batch in loader:
# repair: out = model(ids, batch["mask"]) -> out = model(ids, batch["mask"].to(device))
import torch
from torch import nn
from torch.utils.data import DataLoader

def collate(samples):
    length = max(map(len, samples))
    ids = torch.zeros(len(samples), length, dtype=torch.long)
    mask = torch.zeros(len(samples), length, dtype=torch.bool)
    for row, sample in enumerate(samples):
        ids[row, : len(sample)] = torch.tensor(sample)
        mask[row, : len(sample)] = True
    return {"ids": ids, "mask": mask}

class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, ids, mask):
        hidden = self.embed(ids)
        hidden = hidden.masked_fill(~mask[..., None], 0.0)
        return self.head(hidden.sum(1) / mask.sum(1, keepdim=True))

torch.manual_seed(0)
device = torch.device("cuda:0")
model = Pooled().to(device)
loader = DataLoader([[1, 2, 3], [4, 5]], batch_size=2, collate_fn=collate)
for batch in loader:
    ids = batch["ids"].to(device)
    out = model(ids, batch["mask"])
    print("out", [round(v, 4) for v in out.squeeze(-1).tolist()])

# === drawn_noise
# about: a sampler draws noise with a generator of the CPU, and adds it to what the model on the GPU has given
# operation: .* on cuda:0, cpu
# operands: .*
# category: created-without-device|generator
# line: sampler.py: noise = torch.randn(
# line: sampler.py: x = x - self.step *
# line: sampler.py: x = x + 
# repair: sampler.py: noise = torch.randn(shape, generator=self.generator) -> noise = torch.randn(shape, generator=self.generator).to(self.model.weight.device)
import torch
from torch import nn

from sampler import Sampler

torch.manual_seed(0)
model = nn.Linear(3, 3).cuda()
print("sample", [round(v, 4) for v in Sampler(model, seed=1).sample((1, 3)).flatten().tolist()])
# --- sampler.py
import torch

class Sampler:
    def __init__(self, model, seed, step=0.1):
        self.model, self.step = model, step
        self.generator = torch.Generator().manual_seed(seed)

    def noise(self, shape):
        noise = torch.randn(shape, generator=self.generator)
        return noise

    @torch.no_grad()
    def sample(self, shape, steps=2):
        x = torch.zeros(shape).to(self.model.weight.device)
        for _ in range(steps):
            x = x - self.step * self.model(x)
            x = x + self.step * self.noise(shape)
        return x

# === resumed_by_hand
# about: a trainer loads its optimizer's state from a file read to the CPU and puts it into the state by hand
# operation: .* on cuda:0, cpu
# operands: .*
# category: optimizer|checkpoint|cached-state
# line: resume.py: optimizer.state[parameter] =
# line: resume.py: saved = torch.load(
# line: main.py: optimizer.step()
# line: resume.py: for parameter, 
# repair: resume.py: optimizer.state[parameter] = {key: value for key, value in state.items()} -> optimizer.state[parameter] = {key: value.to(parameter.device) if key != "step" else value for key, value in state.items()}
import torch
from torch import nn

from resume import resume, save

torch.manual_seed(0)
model = nn.Linear(3, 1).to("cuda:0")
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
model(torch.ones(2, 3, device="cuda:0")).sum().backward()
optimizer.step()
save("state.pt", optimizer)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
resume("state.pt", optimizer)
model(torch.ones(2, 3, device="cuda:0")).sum().backward()
optimizer.step()
print("bias", round(model.bias.item(), 4))
# --- resume.py
import torch

def save(path, optimizer):
    torch.save(optimizer.state_dict()["state"], path)

def resume(path, optimizer):
    saved = torch.load(path, map_location="cpu")
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for parameter, state in zip(parameters, saved.values()):
        optimizer.state[parameter] = {key: value for key, value in state.items()}

# === graph_and_target
# about: a batch is a dataclass of dataclasses, whose to() forgets one of the inner ones
# operation: .* on cuda:0, cpu
# operands: .*
# category: input-not-moved
# line: data.py: return Batch(self.graph.to(device), self.target)
# line: main.py: batch = batch.to(
# line: main.py: loss = 
# repair: data.py: return Batch(self.graph.to(device), self.target) -> return Batch(self.graph.to(device), self.target.to(device))
import torch
from torch import nn

from data import Batch, Graph, Target

torch.manual_seed(0)
device = torch.device("cuda:0")
model = nn.Linear(2, 1).to(device)
batch = Batch(Graph(torch.ones(3, 2), torch.tensor([[0, 1], [1, 2]])), Target(torch.ones(3, 1), torch.tensor([1.0, 0.0, 1.0])))
batch = batch.to(device)
out = model(batch.graph.nodes)
loss = ((out - batch.target.values).pow(2).squeeze(-1) * batch.target.weights).mean()
print("loss", round(loss.item(), 4))
# --- data.py
from dataclasses import dataclass

import torch

@dataclass
class Graph:
    nodes: torch.Tensor
    edges: torch.Tensor

    def to(self, device):
        return Graph(self.nodes.to(device), self.edges.to(device))

@dataclass
class Target:
    values: torch.Tensor
    weights: torch.Tensor

    def to(self, device):
        return Target(self.values.to(device), self.weights.to(device))

@dataclass
class Batch:
    graph: Graph
    target: Target

    def to(self, device):
        return Batch(self.graph.to(device), self.target)

# === channel_properties
# about: means and spreads of channels are properties that make tensors of lists; both stand in one line
# operation: .* on cuda:0, cpu
# operands: .*
# category: created-without-device
# line: return torch.tensor(self.config["mean"])
# line: return torch.tensor(self.config["std"])
# line: return (images - self.mean[None, :, None, None]) / self.std[None, :, None, None]
# repair: return (images - self.mean[None, :, None, None]) / self.std[None, :, None, None] -> return (images - self.mean.to(images.device)[None, :, None, None]) / self.std.to(images.device)[None, :, None, None]
import torch

class Normalizer:
    def __init__(self, config):
        self.config = config

    @property
    def mean(self):
        return torch.tensor(self.config["mean"])

    @property
    def std(self):
        return torch.tensor(self.config["std"])

    def __call__(self, images):
        return (images - self.mean[None, :, None, None]) / self.std[None, :, None, None]

out = Normalizer({"mean": [0.5, 0.4], "std": [0.2, 0.1]})(torch.ones(1, 2, 2, 2, device="cuda:0"))
print("out", round(out.sum().item(), 4))

# === scripted_decay
# about: a function of TorchScript makes its positions without a device
# operation: .* on cuda:0, cpu
# operands: .*
# category: created-without-device
# line: where = torch.arange(x.size(1))
# line: return x * weights
# line: weights = torch.exp(
# repair: where = torch.arange(x.size(1)) -> where = torch.arange(x.size(1), device=x.device)
import torch

@torch.jit.script
def decayed(x):
    where = torch.arange(x.size(1))
    weights = torch.exp(-where.float())
    return x * weights

print("out", [round(v, 4) for v in decayed(torch.ones(1, 3, device="cuda:0"))[0].tolist()])

# === hooked_features
# about: a forward hook keeps features in a dict with .cpu(), and a loss compares them with those of now
# operation: .* on cuda:0, cpu
# operands: .*
# category: cached-state|input-not-moved
# line: kept[name] = out.detach().cpu()
# line: loss = (now - kept["body"]).abs().mean()
# repair: kept[name] = out.detach().cpu() -> kept[name] = out.detach()
import torch
from torch import nn

kept = {}

def keep(name):
    def hook(module, inputs, out):
        kept[name] = out.detach().cpu()
    return hook

torch.manual_seed(0)
model = nn.Sequential()
model.add_module("body", nn.Linear(3, 3))
model.add_module("head", nn.Linear(3, 1))
model.cuda()
handle = model.body.register_forward_hook(keep("body"))
x = torch.ones(1, 3, device="cuda")
model(x)
handle.remove()
now = model.body(x * 2)
loss = (now - kept["body"]).abs().mean()
print("loss", round(loss.item(), 4))

# === moved_slice
# about: one of two arguments is moved in a helper that is given a tuple
# operation: .* on cuda:0, cpu
# operands: .*
# category: input-not-moved
# line: moved = to_device(batch[:2], device)
# line: loss = weighted(model(moved[0]), moved[1], batch[2])
# line: return ((a - b) ** 2 * w).mean()
# repair: loss = weighted(model(moved[0]), moved[1], batch[2]) -> loss = weighted(model(moved[0]), moved[1], batch[2].to(device))
import torch
from torch import nn

def to_device(items, device):
    return tuple(item.to(device) for item in items)

def weighted(a, b, w):
    return ((a - b) ** 2 * w).mean()

torch.manual_seed(0)
device = torch.device("cuda:0")
model = nn.Linear(2, 1).to(device)
batch = (torch.ones(2, 2), torch.zeros(2, 1), torch.tensor([[1.0], [2.0]]))
moved = to_device(batch[:2], device)
loss = weighted(model(moved[0]), moved[1], batch[2])
print("loss", round(loss.item(), 4))

# === current_indices
# about: a worker's helper puts what it makes on torch.cuda.current_device(), the model lies on the second GPU
# operation: .* on cuda:1, cuda:0
# operands: .*
# category: default-or-current-device
# line: return torch.arange(count, device=torch.cuda.current_device())
# line: x = self.embed(indices(
# repair: x = self.embed(indices(3)) -> x = self.embed(indices(3).to(self.embed.weight.device))
import torch
from torch import nn

def indices(count):
    return torch.arange(count, device=torch.cuda.current_device())

class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4, 2)

    def forward(self):
        x = self.embed(indices(3))
        return x.sum()

torch.manual_seed(0)
print("sum", round(Table().to("cuda:1")().item(), 4))

# === forgotten_steps
# about: a scheduler's set_timesteps has a device that the pipeline does not give; its sigmas are indexed by steps
# operation: .* on cuda:0, cpu
# operands: .*
# category: created-without-device|cached-state|input-not-moved|default-or-current-device
# line: scheduler.py: self.timesteps = torch.arange(
# line: pipeline.py: self.scheduler.set_timesteps(
# line: pipeline.py: noise = self.net(
# line: scheduler.py: return x - 
# repair: pipeline.py: noise = self.net(torch.cat([x, t.expand(x.shape[0], 1)], -1)) -> noise = self.net(torch.cat([x, t.to(x.device).expand(x.shape[0], 1)], -1))
import torch
from torch import nn

from pipeline import Pipeline

torch.manual_seed(0)
print("x", [round(v, 4) for v in Pipeline(nn.Linear(3, 2)).to("cuda:0")(steps=2)[0].tolist()])
# --- scheduler.py
import torch

class Scheduler:
    def __init__(self, train_steps=10):
        self.train_steps = train_steps
        self.alphas = [1 - step / train_steps for step in range(train_steps)]

    def set_timesteps(self, steps, device=None):
        self.timesteps = torch.arange(self.train_steps - 1, -1, -(self.train_steps // steps), device=device).float()

    def step(self, noise, t, x):
        return x - self.alphas[int(t)] * noise
# --- pipeline.py
import torch

from scheduler import Scheduler

class Pipeline:
    def __init__(self, net):
        self.net, self.scheduler, self.device = net, Scheduler(), torch.device("cpu")

    def to(self, device):
        self.net.to(device)
        self.device = torch.device(device)
        return self

    @torch.no_grad()
    def __call__(self, steps):
        x = torch.ones(1, 2, device=self.device)
        self.scheduler.set_timesteps(steps)
        for t in self.scheduler.timesteps:
            noise = self.net(torch.cat([x, t.expand(x.shape[0], 1)], -1))
            x = self.scheduler.step(noise, t, x)
        return x
