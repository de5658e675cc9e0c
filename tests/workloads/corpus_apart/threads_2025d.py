# === policy_preprocessor
# thread: https://github.com/huggingface/lerobot/pull/1795
# about: one step brings what it is given to the device that it is told; the next makes tensors of its numbers, and is told none
# operation: sub on cuda:1, cpu
# operands: value|tensor|self, .*mean.*|other
# category: created-without-device|input-not-moved|cached-state
# line: normalize.py: stats = self._tensors[
# line: normalize.py: return (value - stats["mean"])
# line: main.py: {"normalizer":
# repair: normalize.py: stats = self._tensors[key] -> stats = {name: number.to(value.device) for name, number in self._tensors[key].items()}
import numpy as np
import torch
from torch import nn

from normalize import NormalizerStep  # noqa: F401
from pipeline import build

class Policy(nn.Module):
    def __init__(self, state, action):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.actor = nn.Linear(4 + state, action)

    def forward(self, batch):
        return self.actor(torch.cat([self.encoder(batch["observation.image"]), batch["observation.state"]], dim=-1))

torch.manual_seed(0)
rng = np.random.default_rng(1)
states = rng.normal(3, 2, (20, 5)).astype(np.float32)
stats = {"observation.state": {"mean": states.mean(0), "std": states.std(0)}, "observation.image": {"mean": np.full((3, 1, 1), 0.5), "std": np.full((3, 1, 1), 0.2)}}
policy = Policy(5, 2).to("cuda:1").eval()
preprocess = build([
    {"rename": {"names": {"image": "observation.image", "state": "observation.state"}}},
    {"batch": {}},
    {"device": {"device": "cuda:1"}},
    {"normalizer": {"stats": stats}},
])  # fmt: skip
with torch.no_grad():
    actions = [policy(preprocess({"image": torch.rand(3, 6, 6), "state": torch.from_numpy(state)})) for state in states[:3]]
print("actions", round(torch.cat(actions).double().abs().sum().item(), 4))
# --- pipeline.py
from dataclasses import dataclass

import torch

STEPS = {}

def register(name):
    def add(step):
        STEPS[name] = step
        return step

    return add

@register("rename")
@dataclass
class RenameStep:
    names: dict

    def __call__(self, transition):
        return {self.names.get(name, name): value for name, value in transition.items()}

@register("batch")
@dataclass
class AddBatchStep:
    def __call__(self, transition):
        return {name: value.unsqueeze(0) for name, value in transition.items()}

@register("device")
@dataclass
class DeviceStep:
    device: str

    def __call__(self, transition):
        return {name: value.to(self.device) if isinstance(value, torch.Tensor) else value for name, value in transition.items()}

def build(description):
    steps = [STEPS[name](**options) for step in description for name, options in step.items()]

    def run(transition):
        for step in steps:
            transition = step(transition)
        return transition

    return run
# --- normalize.py
from dataclasses import dataclass, field
from typing import Optional

import torch

from pipeline import register

def as_tensors(stats, device):
    return {key: {name: torch.as_tensor(number, dtype=torch.float32, device=device) for name, number in numbers.items()} for key, numbers in stats.items()}

@register("normalizer")
@dataclass
class NormalizerStep:
    stats: dict
    device: Optional[str] = None
    eps: float = 1e-6
    _tensors: dict = field(init=False, repr=False)

    def __post_init__(self):
        self._tensors = as_tensors(self.stats, self.device)

    def normalize(self, key, value):
        stats = self._tensors[key]
        return (value - stats["mean"]) / (stats["std"] + self.eps)

    def __call__(self, transition):
        return {key: self.normalize(key, value) if key in self.stats else value for key, value in transition.items()}

# === group_rollouts
# thread: https://github.com/facebookresearch/BenchMARL/issues/213
# about: rollouts stay where they were collected; minibatches of them are brought to where training is, the values of all of them are asked for before
# operation: addmm|linear|mm on cpu, cuda:0
# operands: input|.*obs.*|mat1, weight|bias|.*weight|self
# category: input-not-moved
# line: experiment.py: group_batch = self.algorithm.process_batch(
# line: experiment.py: for group, batch in self.collector.collect(
# line: collector.py: yield group,
# repair: experiment.py: group_batch = self.algorithm.process_batch(group, batch) -> group_batch = self.algorithm.process_batch(group, batch.to(self.config.train_device))
import torch

from experiment import Config, Experiment

torch.manual_seed(0)
experiment = Experiment(Config(groups={"walkers": 2, "birds": 3}, observation=4, sampling_device="cpu", train_device="cuda:0"))
losses = experiment.run(iterations=2)
print("losses", {group: round(loss, 4) for group, loss in losses.items()})
# --- collector.py
from dataclasses import dataclass, fields, replace

import torch

@dataclass
class Rollout:
    obs: torch.Tensor
    next_obs: torch.Tensor
    reward: torch.Tensor
    advantage: torch.Tensor = None
    target: torch.Tensor = None

    def to(self, device):
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{name: value if value is None else value.to(device) for name, value in values.items()})

    def minibatches(self, size, generator):
        for rows in torch.randperm(len(self.obs), generator=generator).split(size):
            yield replace(self, **{each.name: getattr(self, each.name)[rows.to(self.obs.device)] for each in fields(self)})

class Collector:
    def __init__(self, config):
        self.config = config
        self.generator = torch.Generator(config.sampling_device).manual_seed(0)

    def collect(self, steps):
        for group, agents in self.config.groups.items():
            states = torch.randn(steps + 1, agents, self.config.observation, generator=self.generator, device=self.config.sampling_device)
            states = states.cumsum(0)
            yield group, Rollout(states[:-1], states[1:], -states[1:].abs().mean(-1, keepdim=True))
# --- ppo.py
import torch
from torch import nn

class PPO:
    def __init__(self, config, lmbda=0.9, gamma=0.95):
        self.lmbda, self.gamma = lmbda, gamma
        self.critics = nn.ModuleDict({
            group: nn.Sequential(nn.Linear(config.observation, 8), nn.Tanh(), nn.Linear(8, 1)) for group in config.groups
        }).to(config.train_device)  # fmt: skip

    @torch.no_grad()
    def process_batch(self, group, batch):
        critic = self.critics[group]
        values, following = critic(batch.obs), critic(batch.next_obs)
        delta = batch.reward + self.gamma * following - values
        advantage, running = torch.zeros_like(delta), torch.zeros_like(delta[0])
        for step in range(len(delta) - 1, -1, -1):
            running = delta[step] + self.gamma * self.lmbda * running
            advantage[step] = running
        batch.advantage, batch.target = advantage, advantage + values
        return batch

    def loss(self, group, batch):
        return (self.critics[group](batch.obs) - batch.target).pow(2).mean()
# --- experiment.py
from dataclasses import dataclass

import torch

from collector import Collector
from ppo import PPO

@dataclass
class Config:
    groups: dict
    observation: int
    sampling_device: str = "cpu"
    train_device: str = "cpu"
    minibatch: int = 3

class Experiment:
    def __init__(self, config):
        self.config, self.collector, self.algorithm = config, Collector(config), PPO(config)
        self.optimizer = torch.optim.Adam(self.algorithm.critics.parameters(), lr=0.02)

    def run(self, iterations):
        losses, generator = {}, torch.Generator().manual_seed(1)
        for _ in range(iterations):
            for group, batch in self.collector.collect(steps=6):
                group_batch = self.algorithm.process_batch(group, batch)
                for minibatch in group_batch.minibatches(self.config.minibatch, generator):
                    loss = self.algorithm.loss(group, minibatch.to(self.config.train_device))
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    losses[group] = loss.item()
        return losses

# === layer_norms
# thread: https://github.com/Nerogar/OneTrainer/pull/1224
# about: an optimizer sums over all parameters of a layer, of both groups, into a number that lies with the first of them; offloading keeps that one on the CPU
# operation: add on cpu, cuda:0
# operands: .*accumulator.*|self, .*grad.*|other
# category: optimizer|input-not-moved|cached-state
# line: optimizer.py: self.layer_state[key]["accumulator"] += grad
# line: optimizer.py: "accumulator": torch.zeros(
# line: optimizer.py: self.layer_state[key] = new_layer(
# repair: optimizer.py: self.layer_state[key]["accumulator"] += grad.detach().pow(2).sum() -> self.layer_state[key]["accumulator"] += grad.detach().pow(2).sum().to(self.layer_state[key]["accumulator"].device)
import torch
from torch.nn import functional as F

from model import Denoiser
from optimizer import LayerwiseAdam

torch.manual_seed(0)
model = Denoiser(width=6, layers=3, device="cuda:0", kept=2)
layers = {parameter: f"layer {i}" for i, layer in enumerate(model.layers) for parameter in layer.parameters()}
groups = [{"params": [], "weight_decay": 0.01}, {"params": [], "weight_decay": 0.0}]
for parameter in model.parameters():
    groups[parameter.ndim < 2]["params"].append(parameter)
optimizer = LayerwiseAdam(groups, layer_key=layers.get, lr=0.02)
clean = torch.randn(8, 6)
for _ in range(3):
    noise = torch.randn_like(clean)
    loss = F.mse_loss(model((clean + noise).to("cuda:0")), noise.to("cuda:0"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4), sorted(optimizer.layer_state))
# --- model.py
import torch
from torch import nn

class OffloadedLinear(nn.Linear):
    """Its weight stays in host memory, and comes along for each use."""

    def forward(self, x):
        return nn.functional.linear(x, self.weight.to(x.device), self.bias)

class Layer(nn.Module):
    def __init__(self, width, offloaded):
        super().__init__()
        self.linear = (OffloadedLinear if offloaded else nn.Linear)(width, width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x + self.scale * torch.tanh(self.linear(x))

class Denoiser(nn.Module):
    def __init__(self, width, layers, device, kept):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, offloaded=i >= kept) for i in range(layers))
        for module in self.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                if not (isinstance(module, OffloadedLinear) and name == "weight"):
                    setattr(module, name, nn.Parameter(parameter.detach().to(device)))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
# --- optimizer.py
import torch

def new_layer(parameter):
    return {"accumulator": torch.zeros((), device=parameter.device), "average": None}

class LayerwiseAdam(torch.optim.Optimizer):
    """Beta2 falls in a layer whose gradients are suddenly larger than they were."""

    def __init__(self, params, layer_key, lr=1e-3, beta1=0.9, beta2=(0.9, 0.99)):
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2, "weight_decay": 0.0})
        self.layer_key, self.layer_state = layer_key, {}

    def observe(self, parameter, grad):
        key = self.layer_key(parameter)
        if key not in self.layer_state:
            self.layer_state[key] = new_layer(parameter)
        self.layer_state[key]["accumulator"] += grad.detach().pow(2).sum()

    def adapt(self, low, high):
        betas = {}
        for key, layer in self.layer_state.items():
            norm = layer["accumulator"].sqrt().item()
            average = norm if layer["average"] is None else 0.9 * layer["average"] + 0.1 * norm
            betas[key] = high - (high - low) * max(0.0, 1 - average / (norm + 1e-12))
            layer["average"] = average
            layer["accumulator"].zero_()
        return betas

    @torch.no_grad()
    def step(self):
        active = [(group, each) for group in self.param_groups for each in group["params"] if each.grad is not None]
        for _, parameter in active:
            self.observe(parameter, parameter.grad)
        betas = self.adapt(*self.defaults["beta2"])
        for group, parameter in active:
            state = self.state[parameter]
            if not state:
                state["m"], state["v"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
            beta2 = betas[self.layer_key(parameter)]
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            state["m"].lerp_(parameter.grad, 1 - group["beta1"])
            state["v"].mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
            parameter.addcdiv_(state["m"], state["v"].sqrt().add_(1e-8), value=-group["lr"])

# === relative_lengths
# thread: https://github.com/speechbrain/speechbrain/issues/2809
# about: encode_batch() brings waves and lengths to the model by itself; the lengths that the caller has, for the searcher, are still his own
# operation: ge|greater_equal on cuda:0, cpu
# operands: .*places.*|.*arange.*|self, .*lengths.*|other
# category: input-not-moved
# line: main.py: tokens, scores = asr.searcher(
# line: main.py: waves, wav_lens = batch(
# line: searcher.py: lengths = (
# line: searcher.py: outside = places
# repair: main.py: tokens, scores = asr.searcher(encoded, wav_lens) -> tokens, scores = asr.searcher(encoded, wav_lens.to(encoded.device))
import torch

from interface import EncoderDecoderASR

def batch(waves):
    longest = max(len(wave) for wave in waves)
    padded = torch.zeros(len(waves), longest)
    for row, wave in zip(padded, waves):
        row[: len(wave)] = wave
    return padded, torch.tensor([len(wave) / longest for wave in waves])

torch.manual_seed(0)
asr = EncoderDecoderASR(width=8, vocabulary=9, run_opts={"device": "cuda:0"})
recordings = [torch.randn(n) for n in (64, 40, 52)]
waves, wav_lens = batch(recordings)
plain = asr.transcribe_batch(waves, wav_lens)
encoded = asr.encode_batch(waves, wav_lens)
tokens, scores = asr.searcher(encoded, wav_lens)
best = tokens[:, 0].tolist()
print("hypotheses", tuple(tokens.shape), best == plain, round(scores[:, 0].double().sum().item(), 3))
# --- interface.py
import torch
from torch import nn

from searcher import BeamSearcher

class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.frontend = nn.Conv1d(1, width, kernel_size=8, stride=4)
        self.rnn = nn.GRU(width, width, batch_first=True)

    def forward(self, waves, wav_lens):
        frames = torch.relu(self.frontend(waves.unsqueeze(1))).transpose(1, 2)
        weights = torch.arange(frames.shape[1], device=frames.device) < wav_lens[:, None] * frames.shape[1]
        return self.rnn(frames * weights.unsqueeze(-1))[0]

class EncoderDecoderASR:
    def __init__(self, width, vocabulary, run_opts=None):
        self.device = torch.device((run_opts or {}).get("device", "cpu"))
        self.mods = nn.ModuleDict({"encoder": Encoder(width), "searcher": BeamSearcher(width, vocabulary, beam=3)})
        self.mods.to(self.device).eval()

    @property
    def searcher(self):
        return self.mods["searcher"]

    @torch.no_grad()
    def encode_batch(self, waves, wav_lens):
        waves, wav_lens = waves.to(self.device), wav_lens.to(self.device)
        return self.mods["encoder"](waves, wav_lens)

    def transcribe_batch(self, waves, wav_lens):
        wav_lens = wav_lens.to(self.device)
        encoded = self.encode_batch(waves, wav_lens)
        tokens, _ = self.searcher(encoded, wav_lens)
        return tokens[:, 0].tolist()
# --- searcher.py
import torch
from torch import nn

class BeamSearcher(nn.Module):
    def __init__(self, width, vocabulary, beam, steps=4):
        super().__init__()
        self.embed, self.out = nn.Embedding(vocabulary, width), nn.Linear(2 * width, vocabulary)
        self.beam, self.steps = beam, steps

    def attend(self, query, encoded, outside):
        scores = torch.einsum("bkw,btw->bkt", query, encoded) / query.shape[-1] ** 0.5
        return scores.masked_fill(outside[:, None], -torch.inf).softmax(-1) @ encoded

    @torch.no_grad()
    def forward(self, encoded, wav_lens):
        lengths = (wav_lens * encoded.shape[1]).round().long()
        places = torch.arange(encoded.shape[1], device=encoded.device)
        outside = places[None] >= lengths[:, None]
        tokens = torch.zeros(len(encoded), 1, 1, dtype=torch.long, device=encoded.device)
        scores = torch.zeros(len(encoded), 1, device=encoded.device)
        for _ in range(self.steps):
            query = self.embed(tokens[..., -1])
            context = self.attend(query, encoded, outside)
            logp = self.out(torch.cat([query, context], dim=-1)).log_softmax(-1)
            scores, flat = (scores.unsqueeze(-1) + logp).flatten(1).topk(self.beam)
            parent = flat // logp.shape[-1]
            history = tokens.gather(1, parent.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
            tokens = torch.cat([history, (flat % logp.shape[-1]).unsqueeze(-1)], dim=-1)
        return tokens[..., 1:], scores
