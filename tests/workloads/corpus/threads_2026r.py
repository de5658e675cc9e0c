# === filler_of_the_teacher
# thread: https://github.com/arcee-ai/DistillKit/pull/37
# about: a student knows fewer words than its teacher, which has a card of its own. What fills its logits up is made in the likeness of the teacher's
# operation: cat on cuda:0, cuda:1
# operands: filler|student_logits
# category: input-not-moved|module-split
# line: losses.py: filler = torch.zeros(
# line: losses.py: return torch.cat([student_logits, filler]
# line: losses.py: student_logits, teacher_logits = pad_logits(
# line: trainer.py: teacher_logits = self.teacher(
# line: trainer.py: loss = distillation_loss(
# repair: losses.py: filler = torch.zeros((*teacher_logits.shape[:-1], abs(missing)), device=teacher_logits.device) -> filler = (student_logits if missing > 0 else teacher_logits).new_zeros((*teacher_logits.shape[:-1], abs(missing)))
import torch

from models import TinyCausalLM
from trainer import DistillationTrainer

torch.manual_seed(0)
last = torch.cuda.device_count() - 1
student = TinyCausalLM(words=20, dim=8).to("cuda:0")
teacher = TinyCausalLM(words=24, dim=16).to(f"cuda:{last}")
trainer = DistillationTrainer(student, teacher, temperature=2.0, alpha=0.5, lr=0.05)
generator = torch.Generator().manual_seed(4)
batches = [torch.randint(20, (3, 6), generator=generator) for _ in range(3)]
print("losses", [trainer.step(batch) for batch in batches])
# --- models.py
from torch import nn

class TinyCausalLM(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(words, dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, words)

    @property
    def device(self):
        return self.head.weight.device

    def forward(self, ids):
        return self.head(self.mix(self.embed(ids))[0])
# --- losses.py
import torch
from torch.nn import functional as F

def pad_logits(student_logits, teacher_logits):
    """Both get as many words as the larger vocabulary has."""
    missing = teacher_logits.shape[-1] - student_logits.shape[-1]
    if missing == 0:
        return student_logits, teacher_logits
    filler = torch.zeros((*teacher_logits.shape[:-1], abs(missing)), device=teacher_logits.device)
    if missing > 0:
        return torch.cat([student_logits, filler], dim=-1), teacher_logits
    return student_logits, torch.cat([teacher_logits, filler], dim=-1)

def distillation_loss(student_logits, teacher_logits, temperature):
    student_logits, teacher_logits = pad_logits(student_logits, teacher_logits)
    student_logps = F.log_softmax(student_logits / temperature, dim=-1)
    teacher_probs = F.softmax(teacher_logits.to(student_logits.device) / temperature, dim=-1)
    return F.kl_div(student_logps, teacher_probs, reduction="batchmean") * temperature**2
# --- trainer.py
import torch
from torch.nn import functional as F

from losses import distillation_loss

class DistillationTrainer:
    def __init__(self, student, teacher, temperature, alpha, lr):
        self.student, self.teacher = student, teacher.eval().requires_grad_(False)
        self.temperature, self.alpha = temperature, alpha
        self.optimizer = torch.optim.AdamW(student.parameters(), lr=lr)

    def step(self, ids):
        logits = self.student(ids[:, :-1].to(self.student.device))
        with torch.no_grad():
            teacher_logits = self.teacher(ids[:, :-1].to(self.teacher.device))
        labels = ids[:, 1:].to(logits.device)
        known = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss = distillation_loss(logits, teacher_logits, self.temperature)
        total = self.alpha * loss / ids.shape[1] + (1 - self.alpha) * known
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        return round(total.item(), 4)

# === stats_of_the_default_device
# thread: https://github.com/AnswerDotAI/fasttransform/issues/8
# about: the statistics that images are normalized by go to the GPU wherever there is one, as batches do. Here the same steps are tried on a single image
# operation: sub on cpu, cuda:0
# operands: self.mean|mean
# category: default-or-current-device|input-not-moved
# line: preview.py: Normalize.from_stats(
# line: transforms.py: mean, std = (each.to(default_device())
# line: transforms.py: return (image - self.mean)
# line: preview.py: image = steps(
# line: transforms.py: def from_stats(
# repair: preview.py: steps = Pipeline([read_image, Resize(6), to_float, Normalize.from_stats(*STATS)]) -> steps = Pipeline([read_image, Resize(6), to_float, Normalize.from_stats(*STATS, cuda=False)])
import torch

from learner import Learner
from preview import STATS, preview
from transforms import default_device

torch.manual_seed(0)
generator = torch.Generator().manual_seed(2)
photos = (torch.rand(8, 3, 12, 12, generator=generator) * 255).to(torch.uint8)
labels = torch.arange(8) % 2
learner = Learner(classes=2, stats=STATS, device=default_device())
losses = [learner.fit_batch(photos, labels) for _ in range(2)]
print("losses", losses, "preview", preview(photos[0].numpy()))
# --- transforms.py
import torch

def default_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

def to_float(image):
    return image.float() / 255

class Resize:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        return torch.nn.functional.adaptive_avg_pool2d(image.float(), self.size)

class Normalize:
    """Channels that have a mean of 0 and a deviation of 1."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    @classmethod
    def from_stats(cls, mean, std, cuda=True):
        mean, std = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]
        if cuda:
            mean, std = (each.to(default_device()) for each in (mean, std))
        return cls(mean, std)

    def __call__(self, image):
        return (image - self.mean) / self.std

class Pipeline:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, item):
        for step in self.steps:
            item = step(item)
        return item
# --- preview.py
import torch

from transforms import Normalize, Pipeline, Resize, to_float

STATS = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

def read_image(pixels):
    return torch.from_numpy(pixels.copy())

def preview(pixels):
    steps = Pipeline([read_image, Resize(6), to_float, Normalize.from_stats(*STATS)])
    image = steps(pixels)
    return [round(value, 4) for value in image.mean((1, 2)).tolist()]
# --- learner.py
import torch
from torch import nn

from transforms import Normalize, Pipeline, Resize, to_float

class Learner:
    def __init__(self, classes, stats, device, lr=0.1):
        self.device = device
        self.after_batch = Pipeline([Resize(6), to_float, Normalize.from_stats(*stats)])
        self.model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def fit_batch(self, photos, labels):
        x, y = self.after_batch(photos.to(self.device)), labels.to(self.device)
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return round(loss.item(), 4)

# === simulator_by_its_own_default
# thread: https://github.com/NVlabs/ProtoMotions/issues/127
# about: the trainer's device is set in its file. The simulator is an application with flags of its own; one of these would have to say the same
# operation: addmm|linear on cuda:0, cuda:1
# operands: .*obs.*|input|mat1
# category: default-or-current-device|input-not-moved
# line: main.py: flags = {
# line: main.py: simulator = launch(
# line: simulator.py: return Simulator(
# line: agent.py: actions = self.actor(
# line: agent.py: obs = self.env.reset(
# line: environment.py: return self.simulator.observe(
# repair: main.py: flags = {"headless": True, "num_envs": 6} -> flags = {"headless": True, "num_envs": 6, "device": str(config.device)}
import torch

from agent import Agent, AgentConfig
from environment import ReachEnvironment
from simulator import launch

torch.manual_seed(0)
config = AgentConfig(device=torch.device(f"cuda:{torch.cuda.device_count() - 1}"), lr=0.05, horizon=5)
flags = {"headless": True, "num_envs": 6}
simulator = launch(flags)
environment = ReachEnvironment(simulator, target=0.5)
agent = Agent(config, environment, observations=4, actions=2)
print("returns", [agent.iterate() for _ in range(3)])
# --- simulator.py
import torch

class Simulator:
    """Point masses that are pushed about."""

    def __init__(self, num_envs, device, step=0.1):
        self.device = torch.device(device)
        self.step_size = step
        self.state = torch.zeros(num_envs, 4, device=self.device)

    def reset(self, seed):
        places = torch.rand(self.state.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
        self.state = places.to(self.device)

    def apply(self, forces):
        position, velocity = self.state.chunk(2, dim=1)
        velocity = 0.9 * velocity + self.step_size * forces.to(self.device)
        self.state = torch.cat([position + self.step_size * velocity, velocity], dim=1)

    def observe(self):
        return self.state.clone()

def launch(flags):
    return Simulator(flags["num_envs"], flags.get("device", "cuda:0"))
# --- environment.py
class ReachEnvironment:
    def __init__(self, simulator, target):
        self.simulator, self.target = simulator, target

    def reset(self, seed):
        self.simulator.reset(seed)
        return self.simulator.observe()

    def step(self, actions):
        self.simulator.apply(actions)
        observed = self.simulator.observe()
        return observed, -(observed[:, :2] - self.target).norm(dim=1)
# --- agent.py
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class AgentConfig:
    device: torch.device
    lr: float
    horizon: int

class Agent:
    def __init__(self, config, env, observations, actions):
        self.config, self.env, self.seed = config, env, 0
        self.actor = nn.Sequential(nn.Linear(observations, 8), nn.Tanh(), nn.Linear(8, actions)).to(config.device)
        self.optimizer = torch.optim.Adam(self.actor.parameters(), lr=config.lr)

    def iterate(self):
        """The simulator can be differentiated: the return itself is what is followed."""
        self.seed += 1
        obs = self.env.reset(self.seed)
        total = torch.zeros(len(obs), device=self.config.device)
        for _ in range(self.config.horizon):
            actions = self.actor(obs)
            obs, rewards = self.env.step(actions)
            total = total + rewards
        self.optimizer.zero_grad()
        (-total.mean()).backward()
        self.optimizer.step()
        return round(total.mean().item(), 4)

# === policy_of_the_tutorial
# thread: https://github.com/isaac-sim/IsaacLab/pull/2250
# about: a policy that was exported as a script is loaded from bytes. The environment runs where the command line says, the policy where it was exported
# operation: addmm|linear on cuda:0, cpu
# operands: .*weight|.*bias
# category: module-split|checkpoint|input-not-moved
# line: play.py: policy = torch.jit.load(
# line: play.py: action = policy(
# repair: play.py: policy = torch.jit.load(file) -> policy = torch.jit.load(file, map_location=env.device)
import torch

from environment import Arguments, CartEnv
from play import export, play
from policy import Policy

torch.manual_seed(0)
export(Policy(observations=4, actions=1), "policy.pt")
args = Arguments(device="cuda:0" if torch.cuda.is_available() else "cpu", num_envs=3)
print("rewards", play(args, CartEnv(args), "policy.pt", steps=4))
# --- policy.py
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self, observations: int, actions: int):
        super().__init__()
        self.body, self.head = nn.Linear(observations, 8), nn.Linear(8, actions)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.head(torch.nn.functional.elu(self.body(obs))))
# --- environment.py
from dataclasses import dataclass

import torch

@dataclass
class Arguments:
    device: str
    num_envs: int

class CartEnv:
    def __init__(self, args, step=0.05):
        self.device, self.step_size = torch.device(args.device), step
        self.num_envs, self.gravity = args.num_envs, torch.tensor([0.0, 9.8], device=self.device)

    def reset(self):
        start = torch.rand(self.num_envs, 4, generator=torch.Generator().manual_seed(1)) - 0.5
        self.state = start.to(self.device)
        return self.state

    def step(self, action):
        place, speed = self.state[:, :2], self.state[:, 2:]
        push = torch.cat([action, -action], dim=1) + self.gravity * place
        speed = speed + self.step_size * push
        self.state = torch.cat([place + self.step_size * speed, speed], dim=1)
        return self.state, 1 - self.state[:, 1].abs()
# --- play.py
import io
from pathlib import Path

import torch

def export(policy, path):
    torch.jit.script(policy.eval()).save(path)

@torch.inference_mode()
def play(args, env, path, steps):
    file = io.BytesIO(Path(path).read_bytes())
    policy = torch.jit.load(file)
    obs = env.reset()
    rewards = []
    for _ in range(steps):
        action = policy(obs)
        obs, reward = env.step(action)
        rewards.append(round(reward.mean().item(), 4))
    return rewards

# === difference_added_to_a_cast_weight
# thread: https://github.com/Comfy-Org/embedded-docs/issues/65
# about: weights stay on the CPU and are cast to where the input is, layer by layer. Functions that then change them have low-rank parts, which are trained
# operation: add on cuda:0, cpu
# operands: .*diff.*|weight
# category: module-split|created-without-device|input-not-moved
# line: train.py: adapter = LowRankDiff(
# line: adapter.py: return weight + self.scale *
# line: model.py: weight = function(
# line: train.py: module.weight_functions.append(
# line: train.py: adapters.append(
# repair: train.py: adapter = LowRankDiff(module.weight.shape, rank) -> adapter = LowRankDiff(module.weight.shape, rank).to(device)
import torch

from model import Denoiser
from train import TrainNode

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
node = TrainNode(Denoiser(dim=6), device)
generator = torch.Generator().manual_seed(3)
latents = torch.randn(8, 6, generator=generator)
losses = node.train(latents, rank=2, steps=4, lr=0.1, seed=5)
print("losses", losses)
# --- model.py
import torch
from torch import nn

class Linear(nn.Linear):
    """Its weight waits elsewhere; it is cast to its input's device for as long as it is needed."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.weight_functions = []

    def cast_bias_weight(self, x):
        weight, bias = self.weight.to(x.device), self.bias.to(x.device)
        for function in self.weight_functions:
            weight = function(weight)
        return weight, bias

    def forward(self, x):
        weight, bias = self.cast_bias_weight(x)
        return nn.functional.linear(x, weight, bias)

class Denoiser(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inner, self.outer = Linear(dim + 1, 2 * dim), Linear(2 * dim, dim)

    def forward(self, noisy, level):
        hidden = torch.cat([noisy, level.expand(len(noisy), 1)], dim=1)
        return self.outer(nn.functional.silu(self.inner(hidden)))
# --- adapter.py
import torch
from torch import nn

class LowRankDiff(nn.Module):
    def __init__(self, shape, rank, scale=0.5):
        super().__init__()
        self.up = nn.Parameter(torch.zeros(shape[0], rank))
        self.down = nn.Parameter(torch.randn(rank, shape[1]) / rank)
        self.scale = scale

    def forward(self, weight):
        diff = self.up @ self.down
        return weight + self.scale * diff.reshape(weight.shape)
# --- train.py
import torch

from adapter import LowRankDiff
from model import Linear

class TrainNode:
    def __init__(self, model, device):
        self.model, self.device = model.requires_grad_(False), device

    def attach(self, rank, device):
        adapters = []
        for module in self.model.modules():
            if isinstance(module, Linear):
                adapter = LowRankDiff(module.weight.shape, rank)
                module.weight_functions.append(adapter)
                adapters.append(adapter)
        return adapters

    def train(self, latents, rank, steps, lr, seed):
        adapters = self.attach(rank, self.device)
        optimizer = torch.optim.AdamW([p for adapter in adapters for p in adapter.parameters()], lr=lr)
        generator, latents, losses = torch.Generator().manual_seed(seed), latents.to(self.device), []
        for _ in range(steps):
            noise = torch.randn(latents.shape, generator=generator).to(self.device)
            level = torch.rand(1, 1, generator=generator).to(self.device)
            loss = (self.model(latents.lerp(noise, level), level) - (noise - latents)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

# === normalizers_of_a_resumed_run
# thread: https://github.com/facebookresearch/fairchem/pull/813
# about: what targets are normalized by is in objects of a trainer, no modules. They are told where to be when they are made; a checkpoint is read to the CPU
# operation: mul on cuda:0, cpu
# operands: self.rmsd|rmsd
# category: checkpoint|state-not-registered
# line: trainer.py: checkpoint = torch.load(
# line: normalizer.py: self.mean, self.rmsd = state["mean"]
# line: trainer.py: self.normalizers[name].load_state_dict(
# line: normalizer.py: return value * self.rmsd
# repair: trainer.py: checkpoint = torch.load(path, map_location="cpu", weights_only=True) -> checkpoint = torch.load(path, map_location=self.device, weights_only=True)
import torch

from model import EnergyForces
from trainer import Trainer

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
generator = torch.Generator().manual_seed(6)
systems = torch.randn(10, 5, generator=generator)
targets = {"energy": systems.sum(1) * 3 - 40, "forces": systems[:, :3] * 0.2}
first = Trainer(EnergyForces(features=5), device, lr=0.02)
first.fit_normalizers(targets)
before = [first.train_step(systems, targets) for _ in range(3)]
first.save("run.pt")
resumed = Trainer(EnergyForces(features=5), device, lr=0.02)
resumed.load_checkpoint("run.pt")
print("losses", before, "error", resumed.validate(systems, targets))
# --- model.py
from torch import nn

class EnergyForces(nn.Module):
    def __init__(self, features, width=8):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.SiLU())
        self.energy, self.forces = nn.Linear(width, 1), nn.Linear(width, 3)

    def forward(self, systems):
        hidden = self.body(systems)
        return {"energy": self.energy(hidden)[:, 0], "forces": self.forces(hidden)}
# --- normalizer.py
import torch

class Normalizer:
    def __init__(self, mean, rmsd, device):
        self.mean, self.rmsd = torch.tensor([mean], device=device), torch.tensor([rmsd], device=device)

    def norm(self, value):
        return (value - self.mean) / self.rmsd

    def denorm(self, value):
        return value * self.rmsd + self.mean

    def state_dict(self):
        return {"mean": self.mean, "rmsd": self.rmsd}

    def load_state_dict(self, state):
        self.mean, self.rmsd = state["mean"], state["rmsd"]
# --- trainer.py
import torch

from normalizer import Normalizer

class Trainer:
    def __init__(self, model, device, lr):
        self.model, self.device = model.to(device), torch.device(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.normalizers = {name: Normalizer(0.0, 1.0, self.device) for name in ("energy", "forces")}

    def fit_normalizers(self, targets):
        for name, values in targets.items():
            self.normalizers[name] = Normalizer(values.mean().item(), values.std().item(), self.device)

    def train_step(self, systems, targets):
        predicted, loss = self.model(systems.to(self.device)), 0.0
        for name, values in targets.items():
            loss = loss + (predicted[name] - self.normalizers[name].norm(values.to(self.device))).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return round(loss.item(), 4)

    def save(self, path):
        normalizers = {name: each.state_dict() for name, each in self.normalizers.items()}
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "normalizers": normalizers}, path)

    def load_checkpoint(self, path):
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        for name, state in checkpoint["normalizers"].items():
            self.normalizers[name].load_state_dict(state)

    @torch.no_grad()
    def validate(self, systems, targets):
        predicted = self.model(systems.to(self.device))
        errors = {name: (self.normalizers[name].denorm(predicted[name]).cpu() - values).abs().mean() for name, values in targets.items()}
        return {name: round(error.item(), 4) for name, error in errors.items()}

# === identity_of_the_penalty
# thread: https://github.com/AdaptInfer/Contextualized/issues/254
# about: graphs that a network says are kept free of circles by a penalty, a power of matrices. One of these matrices is the same for every graph
# operation: add on cpu, cuda:0
# operands: identity
# category: created-without-device
# line: penalties.py: identity = torch.eye(
# line: penalties.py: powers = torch.linalg.matrix_power(
# line: penalties.py: step = identity +
# repair: penalties.py: identity = torch.eye(count) -> identity = torch.eye(count, device=graphs.device)
import torch

from contextual import ContextualGraphs, fit

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(8)
contexts = torch.randn(16, 3, generator=generator)
values = torch.randn(16, 4, generator=generator)
values[:, 1] = values[:, 0] * contexts[:, 0] + 0.1 * values[:, 1]
model = ContextualGraphs(contexts=3, variables=4, archetypes=2).to(device)
losses = fit(model, contexts.to(device), values.to(device), epochs=4, lr=0.05)
print("losses", losses)
# --- penalties.py
import torch

def sparsity(graphs):
    return graphs.abs().mean()

def acyclicity(graphs):
    """Zero for graphs without circles: the trace of a polynomial of the squared weights."""
    count = graphs.shape[-1]
    identity = torch.eye(count)
    step = identity + graphs.square() / count
    powers = torch.linalg.matrix_power(step, count)
    return (powers.diagonal(dim1=-2, dim2=-1).sum(-1) - count).mean()
# --- contextual.py
import torch
from torch import nn

from penalties import acyclicity, sparsity

class ContextualGraphs(nn.Module):
    """A mixture of archetypes for each context."""

    def __init__(self, contexts, variables, archetypes):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(contexts, 8), nn.ReLU(), nn.Linear(8, archetypes), nn.Softmax(dim=-1))
        self.archetypes = nn.Parameter(torch.randn(archetypes, variables, variables) * 0.1)
        self.register_buffer("off_diagonal", 1 - torch.eye(variables))

    def forward(self, contexts):
        return torch.einsum("ba,aij->bij", self.encoder(contexts), self.archetypes) * self.off_diagonal

def fit(model, contexts, values, epochs, lr, strength=0.5, sparse=0.01):
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for _ in range(epochs):
        graphs = model(contexts)
        predicted = torch.einsum("bi,bij->bj", values, graphs)
        fitted = (predicted - values).square().mean()
        loss = fitted + strength * acyclicity(graphs) + sparse * sparsity(graphs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === relabelled_nodes
# thread: https://github.com/pyg-team/pytorch_geometric/pull/845
# about: a part of a graph is cut out, and its nodes get numbers of their own. The table from old numbers to new ones is on the CPU, nodes and edges are not
# operation: index on cpu, cuda:0
# operands: table
# category: created-without-device
# line: subgraph.py: table = torch.zeros(
# line: subgraph.py: edge_index = table[
# line: cluster.py: sub_edges = subgraph(
# repair: subgraph.py: table = torch.zeros(nodes, dtype=torch.long) -> table = torch.zeros(nodes, dtype=torch.long, device=subset.device)
# repair: subgraph.py: table[subset] = torch.arange(len(subset)) -> table[subset] = torch.arange(len(subset), device=subset.device)
import torch

from cluster import ClusterTrainer
from convolution import GraphNet

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(1)
x = torch.randn(12, 5, generator=generator)
around = torch.arange(12)
edge_index = torch.cat([torch.stack([around, (around + step) % 12]) for step in (1, 2, 5)], dim=1)
y = torch.randint(3, (12,), generator=generator)
trainer = ClusterTrainer(GraphNet(5, 8, 3).to(device), lr=0.05)
parts = [around[:5].to(device), around[4:9].to(device), around[8:].to(device)]
print("losses", trainer.epoch(x.to(device), edge_index.to(device), y.to(device), parts))
# --- subgraph.py
import torch

def subgraph(subset, edge_index, nodes):
    """The edges between nodes of `subset`, by the places that these have in it."""
    inside = torch.zeros(nodes, dtype=torch.bool, device=edge_index.device)
    inside[subset] = True
    kept = inside[edge_index[0]] & inside[edge_index[1]]
    table = torch.zeros(nodes, dtype=torch.long)
    table[subset] = torch.arange(len(subset))
    edge_index = table[edge_index[:, kept]]
    return edge_index
# --- convolution.py
import torch
from torch import nn

class MeanConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.near = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, edge_index):
        source, target = edge_index
        total = torch.zeros_like(x).index_add(0, target, x[source])
        count = torch.ones(len(x), 1, device=x.device).index_add(0, target, torch.ones(len(source), 1, device=x.device))
        return self.own(x) + self.near(total / count)

class GraphNet(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.inner, self.outer = MeanConv(features, width), MeanConv(width, classes)

    def forward(self, x, edge_index):
        return self.outer(torch.relu(self.inner(x, edge_index)), edge_index)
# --- cluster.py
import torch
from torch import nn

from subgraph import subgraph

class ClusterTrainer:
    """A step for each cluster, which sees nothing of the others."""

    def __init__(self, model, lr):
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters(), lr=lr)

    def epoch(self, x, edge_index, y, parts):
        losses = []
        for part in parts:
            sub_edges = subgraph(part, edge_index, len(x))
            loss = nn.functional.cross_entropy(self.model(x[part], sub_edges), y[part])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

# === cache_of_no_card_in_particular
# thread: https://github.com/TransformerLensOrg/TransformerLens/issues/217
# about: a model is asked to keep what its layers compute, by hooks. Where to is not said, and then it is "cuda"; this model is on another GPU
# operation: mm|matmul|addmm|linear|bmm on cuda:0, cuda:1
# operands: residual|.*cache.*|.*hook.*
# category: default-or-current-device
# line: cache.py: device = "cuda" if
# line: lens.py: logits, cache = run_with_cache(
# line: cache.py: cache[name] = output.detach().to(
# line: lens.py: residual = cache[
# line: lens.py: early = model.unembed(
# line: cache.py: def run_with_cache(
# repair: cache.py: device = "cuda" if torch.cuda.is_available() else "cpu" -> device = next(model.parameters()).device
import torch

from lens import logit_lens
from model import HookedTransformer

torch.manual_seed(0)
last = torch.cuda.device_count() - 1
model = HookedTransformer(words=18, dim=8, depth=3).to(f"cuda:{last}").eval()
ids = torch.tensor([[1, 5, 9, 2], [4, 4, 7, 3]])
with torch.inference_mode():
    print("lens", logit_lens(model, ids))
# --- model.py
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        before = x.cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return x + self.down(torch.relu(self.up(self.norm(before))))

class HookedTransformer(nn.Module):
    def __init__(self, words, dim, depth):
        super().__init__()
        self.embed, self.unembed = nn.Embedding(words, dim), nn.Linear(dim, words, bias=False)
        self.blocks, self.final = nn.ModuleList(Block(dim) for _ in range(depth)), nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.embed(ids.to(self.embed.weight.device))
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.final(x))
# --- cache.py
import torch

def run_with_cache(model, ids, names, device=None):
    """What the model says, and what each of the named modules gave."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    cache, handles = {}, []

    def keep_as(name):
        def hook(module, inputs, output):
            cache[name] = output.detach().to(device)
        return hook

    for name in names:
        handles.append(model.get_submodule(name).register_forward_hook(keep_as(name)))
    try:
        return model(ids), cache
    finally:
        for handle in handles:
            handle.remove()
# --- lens.py
from cache import run_with_cache

def logit_lens(model, ids):
    """After how many blocks the last word is what it will be, for each text."""
    names = [f"blocks.{index}" for index in range(len(model.blocks))]
    logits, cache = run_with_cache(model, ids, names)
    answer = logits[:, -1].argmax(-1).tolist()
    agreed = []
    for name in names:
        residual = cache[name][:, -1]
        centred = (residual - residual.mean(-1, keepdim=True)) / residual.std(-1, keepdim=True)
        early = model.unembed(centred)
        agreed.append([word == final for word, final in zip(early.argmax(-1).tolist(), answer)])
    return answer, agreed

# === magnitude_of_the_first_stream
# thread: https://github.com/huggingface/transformers/pull/42303
# about: hooks take a module's inputs to its GPU and leave its outputs there. Between modules, projected streams are given the magnitude of the one that they come from
# operation: mul on cuda:1, cuda:0
# operands: other|target
# category: module-split|input-not-moved
# line: streams.py: other = projection(
# line: streams.py: other = other * target
# line: main.py: device_map = {
# repair: streams.py: other = projection(hidden) -> other = projection(hidden).to(hidden.device)
import torch
from accelerate import dispatch_model

from decoder import StreamDecoder
from generate import generate

torch.manual_seed(0)
cards = torch.cuda.device_count()
model = StreamDecoder(words=20, dim=8, depth=2, streams=3).eval()
device_map = {"embed": 0, "spread": cards - 1, "layers.0": 0, "layers.1": cards - 1, "merge": cards - 1, "head": cards - 1}
model = dispatch_model(model, device_map=device_map)
print("words", generate(model, [[3, 1, 4], [1, 5, 9]], new_tokens=4))
# --- streams.py
import torch
from torch import nn

def magnitude(hidden):
    return hidden.square().mean(-1, keepdim=True).clamp(min=1e-5).sqrt()

class Merge(nn.Module):
    def __init__(self, streams):
        super().__init__()
        self.weights = nn.Parameter(torch.ones(streams) / streams)

    def forward(self, streams):
        return torch.einsum("s,sbtd->btd", self.weights, streams)

def spread(hidden, projections):
    """More streams of the same words, as strong as they are."""
    target, streams = magnitude(hidden), [hidden]
    for projection in projections:
        other = projection(hidden)
        other = other * target / magnitude(other)
        streams.append(other)
    return torch.stack(streams)
# --- decoder.py
from torch import nn

from streams import Merge, spread

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, dim)

    def forward(self, streams):
        predicted = self.out(self.mix(self.norm(streams[0]))[0])
        return streams + predicted

class StreamDecoder(nn.Module):
    def __init__(self, words, dim, depth, streams):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.spread = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(streams - 1))
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.merge, self.head = Merge(streams), nn.Linear(dim, words)

    def forward(self, ids):
        streams = spread(self.embed(ids), self.spread)
        for layer in self.layers:
            streams = layer(streams)
        return self.head(self.merge(streams))
# --- generate.py
import torch

@torch.no_grad()
def generate(model, prompts, new_tokens):
    ids = torch.tensor(prompts)
    for _ in range(new_tokens):
        logits = model(ids)
        ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True).to(ids.device)], dim=1)
    return ids[:, -new_tokens:].tolist()

# === head_that_takes_the_embedding_along
# thread: https://github.com/huggingface/transformers/pull/46806
# about: parts of a model are placed on GPUs by a map of names. Its first part and its last one have a weight in common, and are to be on different ones
# operation: embedding|index_select on cuda:1, cuda:0
# operands: .*weight|ids|input|.*args.*
# category: tied-weights|module-split
# line: main.py: device_map = {
# line: placing.py: model.get_submodule(name).to(
# line: model.py: self.head.weight = self.embed.weight
# line: model.py: hidden = self.embed(
# line: placing.py: return tuple(each.to(device)
# repair: main.py: device_map = {"embed": cards[0], "blocks.0": cards[0], "blocks.1": cards[-1], "norm": cards[-1], "head": cards[-1]} -> device_map = {"embed": cards[0], "blocks.0": cards[0], "blocks.1": cards[-1], "norm": cards[-1], "head": cards[0]}
import torch

from model import TiedModel
from placing import place
from train import finetune

torch.manual_seed(0)
cards = [torch.device(f"cuda:{index}") for index in range(torch.cuda.device_count())]
model = TiedModel(words=16, dim=8, depth=2)
device_map = {"embed": cards[0], "blocks.0": cards[0], "blocks.1": cards[-1], "norm": cards[-1], "head": cards[-1]}
place(model, device_map)
texts = torch.randint(16, (4, 7), generator=torch.Generator().manual_seed(9))
print("losses", finetune(model, texts, steps=4, lr=0.05))
# --- model.py
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix, self.up, self.down = nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, hidden):
        hidden = hidden + self.mix(hidden)[0]
        return hidden + self.down(torch.relu(self.up(hidden)))

class TiedModel(nn.Module):
    def __init__(self, words, dim, depth):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(words, dim), nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        hidden = self.embed(ids)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))
# --- placing.py
def to_device(device):
    def hook(module, args):
        return tuple(each.to(device) for each in args)
    return hook

def place(model, device_map):
    """Each part goes to its device, and its inputs come after it."""
    for name, device in device_map.items():
        model.get_submodule(name).to(device)
    for name, device in device_map.items():
        module = model.get_submodule(name)
        module.register_forward_pre_hook(to_device(device))
    return model
# --- train.py
import torch
from torch import nn

def finetune(model, texts, steps, lr):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=lr), []
    for _ in range(steps):
        logits = model(texts[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten().to(logits.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === batch_without_predictions
# thread: https://github.com/ultralytics/yolov5/pull/7539
# about: what was found in each image is gathered, and put together at the end. An image that has labels and no predictions adds rows of its own
# operation: cat on cuda:0, cpu
# operands: nothing|column.*|stats.*
# category: created-without-device
# line: validate.py: nothing = torch.zeros(
# line: validate.py: stats.append((nothing,
# line: validate.py: correct, scores, labels = (torch.cat(
# repair: validate.py: nothing = torch.zeros(0, len(self.thresholds), dtype=torch.bool) -> nothing = torch.zeros(0, len(self.thresholds), dtype=torch.bool, device=self.device)
import torch

from detector import GridDetector
from validate import Validator

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(5)
images = torch.rand(3, 3, 16, 16, generator=generator)
images[1] = 0
targets = [torch.tensor([[2.0, 2.0, 10.0, 10.0]]), torch.tensor([[4.0, 4.0, 12.0, 12.0]]), torch.tensor([[0.0, 0.0, 9.0, 9.0]])]
detector = GridDetector(width=4, confidence=0.5).to(device).eval()
print("found", Validator(detector, device).run(images, targets))
# --- boxes.py
import torch

def box_iou(left, right):
    low = torch.max(left[:, None, :2], right[None, :, :2])
    high = torch.min(left[:, None, 2:], right[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (left, right)]
    return shared / (areas[0][:, None] + areas[1][None] - shared)
# --- detector.py
import torch
from torch import nn

class GridDetector(nn.Module):
    """A box around the middle of each cell whose score is high enough: boxes and scores for each image."""

    def __init__(self, width, confidence, cell=8):
        super().__init__()
        self.cell, self.confidence = cell, confidence
        self.body, self.head = nn.Conv2d(3, width, cell, stride=cell, bias=False), nn.Conv2d(width, 2, 1, bias=False)

    def forward(self, images):
        scores, sizes = self.head(torch.relu(self.body(images))).tanh().abs().add(0.48).unbind(1)
        found = []
        for score, size, image in zip(scores, sizes, images):
            rows, columns = torch.where(score > (self.confidence if image.any() else 1))
            middle = torch.stack([columns, rows], dim=1) * self.cell + self.cell / 2
            half = size[rows, columns][:, None] * self.cell
            found.append((torch.cat([middle - half, middle + half], dim=1), score[rows, columns]))
        return found
# --- validate.py
import torch

from boxes import box_iou

class Validator:
    def __init__(self, detector, device):
        self.detector, self.device = detector, device
        self.thresholds = torch.tensor([0.2, 0.4], device=device)

    @torch.inference_mode()
    def run(self, images, targets):
        stats = []
        for (boxes, scores), target in zip(self.detector(images.to(self.device)), targets):
            target = target.to(self.device)
            if len(boxes) == 0:
                nothing = torch.zeros(0, len(self.thresholds), dtype=torch.bool)
                stats.append((nothing, scores, target))
                continue
            best = box_iou(boxes, target).amax(1)
            stats.append((best[:, None] > self.thresholds, scores, target))
        correct, scores, labels = (torch.cat(column, dim=0).cpu().numpy() for column in zip(*stats))
        return {"right": correct.sum(0).tolist(), "predicted": len(scores), "labels": len(labels)}

# === matrix_of_the_krylov_space
# thread: https://github.com/pasqal-io/emulators/pull/245
# about: a state moves on in time by way of a small space. The matrix of that space is filled value by value and starts as zeros; vectors are where the state is
# operation: mv|mm|matmul|addmv on cuda:0, cpu
# operands: .*coefficients.*|.*exponential.*
# category: created-without-device
# line: krylov.py: small = torch.zeros(
# line: krylov.py: exponential = torch.linalg.matrix_exp(
# line: krylov.py: evolved = torch.stack(
# line: krylov.py: coefficients = exponential[
# repair: krylov.py: small = torch.zeros(size + 1, size + 1, dtype=v.dtype) -> small = torch.zeros(size + 1, size + 1, dtype=v.dtype, device=v.device)
import torch

from chain import IsingChain
from evolve import evolve

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
chain = IsingChain(spins=4, coupling=1.0, field=0.7, device=device)
state = torch.rand(16, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(device)
energies = evolve(chain, state / state.norm(), steps=5, dt=0.3)
print("energies", energies)
# --- chain.py
import torch

class IsingChain:
    """Neighbours that want to be alike, in a field across; all states of a few spins."""

    def __init__(self, spins, coupling, field, device):
        signs = 1 - 2 * ((torch.arange(2**spins)[:, None] >> torch.arange(spins)) & 1).double()
        self.diagonal = (-coupling * (signs[:, 1:] * signs[:, :-1]).sum(1)).to(device)
        self.flipped = (torch.arange(2**spins)[:, None] ^ (1 << torch.arange(spins))).to(device)
        self.field = field

    def apply(self, state):
        return self.diagonal * state - self.field * state[self.flipped].sum(1)

    def energy(self, state):
        return torch.dot(state, self.apply(state)).item()
# --- krylov.py
import torch

def krylov_exp(operator, v, factor, size, tolerance=1e-10):
    """exp(factor * operator) of the vector, in the space that the operator makes of it."""
    norm = v.norm()
    vectors = [v / norm]
    small = torch.zeros(size + 1, size + 1, dtype=v.dtype)
    for column in range(size):
        following = operator(vectors[-1])
        for row in range(max(0, column - 1), column + 1):
            small[row, column] = torch.dot(vectors[row], following)
            following = following - small[row, column] * vectors[row]
        rest = following.norm()
        if rest < tolerance:
            break
        small[column + 1, column] = small[column, column + 1] = rest
        vectors.append(following / rest)
    count = len(vectors)
    exponential = torch.linalg.matrix_exp(factor * small[:count, :count])
    coefficients = exponential[:, 0]
    evolved = torch.stack(vectors, dim=1) @ coefficients
    return norm * evolved
# --- evolve.py
from krylov import krylov_exp

def evolve(system, state, steps, dt, size=6):
    """In imaginary time: what is left in the end is the state of least energy."""
    energies = [round(system.energy(state), 5)]
    for _ in range(steps):
        state = krylov_exp(system.apply, state, -dt, size)
        state = state / state.norm()
        energies.append(round(system.energy(state), 5))
    return energies

# === observations_of_workers
# thread: https://github.com/ray-project/ray/issues/9437
# about: workers give observations as arrays, in dicts. A helper makes tensors of them, on a device if it is told one, which one of the two callers does
# operation: addmm|linear on cpu, cuda:0
# operands: .*obs.*|input|mat1|features
# category: input-not-moved
# line: policy.py: inputs = convert_to_torch_tensor(obs)
# line: policy.py: logits, _ = self.model(
# line: convert.py: return tensor if device is None
# line: policy.py: features = torch.cat(
# line: convert.py: tensor = torch.from_numpy(
# repair: policy.py: inputs = convert_to_torch_tensor(obs) -> inputs = convert_to_torch_tensor(obs, self.device)
import torch

from policy import TorchPolicy
from worker import RolloutWorker

torch.manual_seed(0)
policy = TorchPolicy(position=3, goal=2, actions=4, device="cuda" if torch.cuda.is_available() else "cpu")
workers = [RolloutWorker(policy, seed=seed) for seed in range(2)]
losses = []
for _ in range(3):
    for worker in workers:
        losses.append(policy.learn_on_batch(worker.sample(steps=6)))
print("losses", losses)
# --- convert.py
import numpy as np
import torch

def convert_to_torch_tensor(data, device=None):
    """Arrays become tensors, at any depth of dicts and lists."""
    if isinstance(data, dict):
        return {name: convert_to_torch_tensor(each, device) for name, each in data.items()}
    tensor = torch.from_numpy(np.asarray(data))
    if tensor.is_floating_point():
        tensor = tensor.float()
    return tensor if device is None else tensor.to(device)
# --- policy.py
import torch
from torch import nn
from torch.nn import functional as F

from convert import convert_to_torch_tensor

class ActorCritic(nn.Module):
    def __init__(self, position, goal, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(position + goal, 8), nn.Tanh())
        self.logits, self.value = nn.Linear(8, actions), nn.Linear(8, 1)

    def forward(self, obs):
        features = torch.cat([obs["position"], obs["goal"]], dim=1)
        hidden = self.body(features)
        return self.logits(hidden), self.value(hidden)[:, 0]

class TorchPolicy:
    def __init__(self, position, goal, actions, device, lr=0.02):
        self.device = torch.device(device)
        self.model = ActorCritic(position, goal, actions).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    @torch.no_grad()
    def compute_actions(self, obs, rng):
        inputs = convert_to_torch_tensor(obs)
        logits, _ = self.model(inputs)
        chances = logits.softmax(-1).cpu().double().numpy()
        return [int(rng.choice(len(row), p=row / row.sum())) for row in chances]

    def learn_on_batch(self, batch):
        batch = convert_to_torch_tensor(batch, self.device)
        logits, values = self.model(batch["obs"])
        advantages = batch["rewards"] - values
        logps = -F.cross_entropy(logits, batch["actions"], reduction="none")
        loss = -(logps * advantages.detach()).mean() + 0.5 * advantages.square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return round(loss.item(), 4)
# --- worker.py
import numpy as np

class RolloutWorker:
    def __init__(self, policy, seed):
        self.policy, self.rng = policy, np.random.default_rng(seed)

    def sample(self, steps):
        obs = {"position": self.rng.normal(size=(steps, 3)), "goal": self.rng.normal(size=(steps, 2))}
        actions = self.policy.compute_actions(obs, self.rng)
        rewards = [float(action == int(row.argmax())) for action, row in zip(actions, obs["position"])]
        return {"obs": obs, "actions": actions, "rewards": rewards}

# === engine_put_away
# thread: https://github.com/diodiogod/TTS-Audio-Suite/issues/216
# about: engines of speech are kept between requests; when another one is asked, the one before leaves the GPU. Whether an engine is loaded it tells by a flag
# operation: embedding|index_select on cpu, cuda:0
# operands: .*weight|ids|tokens
# category: module-split|cached-state
# line: registry.py: self.current.model.to("cpu")
# line: engine.py: if not self.loaded:
# line: registry.py: engine = self.engines[name]
# line: engine.py: tokens = self.frontend(
# line: engine.py: self.loaded = True
# repair: registry.py: self.current.model.to("cpu") -> self.current.model.to("cpu"); self.current.loaded = False
import torch

from registry import EngineRegistry

torch.manual_seed(0)
registry = EngineRegistry("cuda" if torch.cuda.is_available() else "cpu")
registry.add("small", words=24, dim=6)
registry.add("large", words=24, dim=10)
requests = [("small", "good morning"), ("large", "how are you"), ("small", "see you later")]
waves = [registry.get(name).speak(text) for name, text in requests]
print("waves", [wave.shape[0] for wave in waves], [round(wave.abs().mean().item(), 5) for wave in waves])
# --- voice.py
import torch
from torch import nn

class VoiceModel(nn.Module):
    """Words to tokens of speech, these to frames of sound."""

    def __init__(self, words, dim, frame=8):
        super().__init__()
        self.embed_tokens, self.llm = nn.Embedding(words, dim), nn.GRU(dim, dim, batch_first=True)
        self.flow = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, frame))

    def forward(self, ids):
        hidden, _ = self.llm(self.embed_tokens(ids))
        return self.flow(hidden).tanh().flatten(1)
# --- engine.py
import torch

from voice import VoiceModel

class SpeechEngine:
    def __init__(self, words, dim, device):
        self.words, self.device, self.loaded = words, torch.device(device), False
        self.model = VoiceModel(words, dim).eval()

    def load(self):
        if not self.loaded:
            self.model.to(self.device)
            self.loaded = True

    def frontend(self, text):
        ids = [ord(letter) % self.words for letter in text]
        return torch.tensor([ids], device=self.device)

    @torch.inference_mode()
    def speak(self, text):
        self.load()
        tokens = self.frontend(text)
        return self.model(tokens)[0].cpu()
# --- registry.py
from engine import SpeechEngine

class EngineRegistry:
    """There is room for one engine on the GPU."""

    def __init__(self, device):
        self.device, self.engines, self.current = device, {}, None

    def add(self, name, **options):
        self.engines[name] = SpeechEngine(device=self.device, **options)

    def get(self, name):
        engine = self.engines[name]
        if self.current is not None and self.current is not engine:
            self.current.model.to("cpu")
        self.current = engine
        return engine

# === state_rebuilt_after_validation
# thread: https://github.com/securefederatedai/openfederatedlearning/issues/298
# about: tasks of a round choose their devices: training the GPU, validation the CPU. Between rounds model and optimizer are rebuilt from arrays, where the model is then
# operation: lerp.*|add.*|mul.* on cpu, cuda:0
# operands: .*exp_avg.*
# category: optimizer
# line: adapter.py: where = next(model.parameters()).device
# line: tasks.py: model.to(device).train()
# line: adapter.py: state[name] = torch.from_numpy(
# line: collaborator.py: set_tensor_dict(
# line: tasks.py: model.to(device).eval()
# line: tasks.py: optimizer.step()
# repair: adapter.py: where = next(model.parameters()).device -> where = device
import torch

from collaborator import Collaborator
from tasks import TaskDevices

torch.manual_seed(0)
devices = TaskDevices(train="cuda:0" if torch.cuda.is_available() else "cpu", validate="cpu")
generator = torch.Generator().manual_seed(2)
collaborators = []
for _ in range(2):
    x = torch.randn(12, 4, generator=generator)
    collaborators.append(Collaborator(x, (x[:, 0] > 0).long(), devices))
for _ in range(2):
    results = [collaborator.run_round() for collaborator in collaborators]
print("results", results)
# --- tasks.py
from dataclasses import dataclass

import torch
from torch.nn import functional as F

@dataclass
class TaskDevices:
    train: str
    validate: str

def train(model, optimizer, x, y, device, steps=2):
    model.to(device).train()
    for _ in range(steps):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return round(loss.item(), 4)

@torch.no_grad()
def validate(model, x, y, device):
    model.to(device).eval()
    return round((model(x.to(device)).argmax(1) == y.to(device)).float().mean().item(), 4)
# --- adapter.py
import torch

def get_tensor_dict(model, optimizer):
    """All that a round has changed, as arrays that can be sent."""
    weights = {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}
    states = []
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        states.append({name: value.cpu().numpy() for name, value in state.items() if name != "step"} | {"step": int(state["step"])})
    return {"model": weights, "optimizer": states}

def set_tensor_dict(tensors, model, optimizer, device):
    where = next(model.parameters()).device
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in tensors["model"].items()})
    for parameter, saved in zip(model.parameters(), tensors["optimizer"]):
        state = optimizer.state[parameter]
        state["step"] = torch.tensor(float(saved["step"]))
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.from_numpy(saved[name].copy()).to(where)
# --- collaborator.py
import torch
from torch import nn

from adapter import get_tensor_dict, set_tensor_dict
from tasks import train, validate

class Collaborator:
    def __init__(self, x, y, devices):
        self.x, self.y, self.devices, self.tensors = x, y, devices, None
        self.model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)

    def run_round(self):
        if self.tensors is not None:
            set_tensor_dict(self.tensors, self.model, self.optimizer, self.devices.train)
        loss = train(self.model, self.optimizer, self.x, self.y, self.devices.train)
        accuracy = validate(self.model, self.x, self.y, self.devices.validate)
        self.tensors = get_tensor_dict(self.model, self.optimizer)
        return loss, accuracy
