# === sampler_takes_device
# thread: https://github.com/huggingface/trl/issues/3008
# about: the engine that samples makes its GPU the current one, and leaves it so; the trainer's device has no number
# operation: cat on cuda:0, cuda:1
# operands: prompt_ids|tensors|.*prompt.*, completion_ids|tensors|.*completion.*
# category: default-or-current-device
# line: grpo.py: completion_ids = [torch.tensor(
# line: grpo.py: device = self.device
# line: grpo.py: completion_ids = pad(
# line: grpo.py: prompt_completion_ids = torch.cat(
# line: grpo.py: self.device = torch.device("cuda")
# line: engine.py: torch.cuda.set_device(
# repair: grpo.py: completion_ids = [torch.tensor(ids, device=device) for ids in completions] -> completion_ids = [torch.tensor(ids, device=prompt_ids.device) for ids in completions]
import torch

from engine import Engine
from grpo import GRPOTrainer
from policy import Policy

def length_reward(completions):
    return [float(len(set(ids))) for ids in completions]

torch.manual_seed(0)
vocabulary = 14
trainer = GRPOTrainer(Policy(vocabulary, 8), length_reward, train_device="cuda:0")
trainer.use_engine(Engine(vocabulary, "cuda:1", eos_token=0))
prompts = [[5, 3, 9], [7, 2], [4, 4, 8, 1]]
losses = [trainer.training_step(prompts) for _ in range(2)]
print("losses", [round(loss, 4) for loss in losses])
# --- policy.py
from torch import nn

class Policy(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocabulary)

    def forward(self, input_ids):
        hidden, _ = self.rnn(self.embed(input_ids))
        return self.lm_head(hidden)
# --- engine.py
import torch

class Engine:
    """Samples with a table of its own, on a GPU that trains nothing."""

    def __init__(self, vocabulary, device, eos_token):
        self.device, self.eos_token = torch.device(device), eos_token
        torch.cuda.set_device(self.device)
        self.table = torch.arange(vocabulary, device="cuda").mul(5).add(3).remainder(vocabulary)

    def generate(self, prompts, max_tokens):
        outputs = []
        for prompt in prompts:
            tokens = [prompt[-1]]
            while len(tokens) <= max_tokens and (len(tokens) == 1 or tokens[-1] != self.eos_token):
                tokens.append(self.table[tokens[-1]].item())
            outputs.append(tokens[1:])
        return outputs
# --- grpo.py
import torch

def pad(sequences, value, side):
    longest = max(len(each) for each in sequences)
    rows = []
    for each in sequences:
        filling = each.new_full((longest - len(each),), value)
        rows.append(torch.cat([filling, each] if side == "left" else [each, filling]))
    return torch.stack(rows)

class GRPOTrainer:
    def __init__(self, model, reward_function, train_device):
        self.device = torch.device("cuda")
        self.model, self.reward_function = model.to(train_device), reward_function
        self.train_device = torch.device(train_device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def use_engine(self, engine):
        self.engine = engine

    def _prepare_inputs(self, prompts):
        device = self.device
        prompt_ids = pad([torch.tensor(ids) for ids in prompts], 0, side="left").to(self.train_device)
        completions = self.engine.generate(prompts, max_tokens=5)
        completion_ids = [torch.tensor(ids, device=device) for ids in completions]
        completion_ids = pad(completion_ids, 0, side="right")
        prompt_completion_ids = torch.cat([prompt_ids, completion_ids], dim=1)
        rewards = torch.tensor(self.reward_function(completions), device=prompt_completion_ids.device)
        return prompt_completion_ids, completion_ids.shape[1], (rewards - rewards.mean()) / (rewards.std() + 1e-4)

    def training_step(self, prompts):
        ids, kept, advantages = self._prepare_inputs(prompts)
        logits = self.model(ids)[:, -kept - 1 : -1]
        logps = logits.log_softmax(-1).gather(-1, ids[:, -kept:, None]).squeeze(-1)
        loss = -(logps.mean(dim=1) * advantages).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === sample_weights
# thread: https://github.com/chemprop/chemprop/pull/1296
# about: a registry makes the losses; a loss fills in what the caller leaves out, some of it like its argument and some of it not
# operation: mul on cuda:0, cpu
# operands: unreduced|self, weights.*|other
# category: created-without-device
# line: losses.py: weights = torch.ones(
# line: losses.py: weighted = unreduced *
# repair: losses.py: weights = torch.ones(len(targets)) if weights is None else weights -> weights = torch.ones(len(targets), device=targets.device) if weights is None else weights
import math

import torch
from torch import nn
from torch.utils.data import DataLoader

from losses import LOSSES
from network import Regressor

def molecules(count):
    generator = torch.Generator().manual_seed(2)
    for i in range(count):
        fingerprint = (torch.rand(12, generator=generator) < 0.3).float()
        yield fingerprint, torch.stack([fingerprint.sum(), fingerprint[:4].sum() if i % 3 else torch.tensor(math.nan)])

torch.manual_seed(0)
model = Regressor(12, 2, LOSSES.build("bounded-mse", task_weights=[1.0, 0.5])).to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for fingerprints, targets in DataLoader(list(molecules(12)), batch_size=4):
    loss = model.training_step(fingerprints.to("cuda:0"), targets.to("cuda:0"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- network.py
from torch import nn

class Regressor(nn.Module):
    def __init__(self, bits, tasks, criterion):
        super().__init__()
        self.ffn = nn.Sequential(nn.Linear(bits, 8), nn.ReLU(), nn.Linear(8, tasks))
        self.criterion = criterion

    def training_step(self, fingerprints, targets):
        mask = targets.isfinite()
        return self.criterion(self.ffn(fingerprints), targets.nan_to_num(0.0), mask, gt_mask=targets > 4)
# --- losses.py
import torch
from torch import nn

class Registry(dict):
    def register(self, name):
        def add(cls):
            self[name] = cls
            return cls

        return add

    def build(self, name, **kwargs):
        return self[name](**kwargs)

LOSSES = Registry()

class TaskLoss(nn.Module):
    def __init__(self, task_weights):
        super().__init__()
        self.register_buffer("task_weights", torch.tensor(task_weights).view(1, -1))

    def forward(self, preds, targets, mask=None, weights=None, lt_mask=None, gt_mask=None):
        mask = torch.ones_like(targets, dtype=torch.bool) if mask is None else mask
        weights = torch.ones(len(targets)) if weights is None else weights
        lt_mask = torch.zeros_like(mask) if lt_mask is None else lt_mask
        gt_mask = torch.zeros_like(mask) if gt_mask is None else gt_mask
        unreduced = self.unreduced(preds, targets, lt_mask, gt_mask)
        weighted = unreduced * weights.view(-1, 1) * self.task_weights * mask
        return weighted.sum() / mask.sum()

@LOSSES.register("mse")
class MSE(TaskLoss):
    def unreduced(self, preds, targets, lt_mask, gt_mask):
        return (preds - targets) ** 2

@LOSSES.register("bounded-mse")
class BoundedMSE(MSE):
    """A target may be no more than a bound."""

    def unreduced(self, preds, targets, lt_mask, gt_mask):
        preds = torch.where((preds < targets) & lt_mask, targets, preds)
        preds = torch.where((preds > targets) & gt_mask, targets, preds)
        return super().unreduced(preds, targets, lt_mask, gt_mask)

# === position_table
# thread: https://github.com/huggingface/transformers/pull/35763
# about: the map puts the table of positions with the second half; each table's result stays where its table is, and the model's forward adds them
# operation: add on cuda:0, cuda:1
# operands: inputs_embeds|self, position_embeds|other
# category: module-split|input-not-moved
# line: model.py: hidden = inputs_embeds + position_embeds
# line: model.py: position_embeds = self.wpe(
# line: main.py: "wpe": 1
# repair: model.py: hidden = inputs_embeds + position_embeds -> hidden = inputs_embeds + position_embeds.to(inputs_embeds.device)
import torch
from accelerate import dispatch_model

from generate import greedy
from model import Config, LMModel

torch.manual_seed(0)
model = LMModel(Config(vocabulary=20, width=8, positions=16, layers=3)).eval()
device_map = {
    "wte": 0, "wpe": 1, "drop": 0,
    "h.0": 0, "h.1": 1, "h.2": 1,
    "ln_f": 1, "lm_head": 1,
}  # fmt: skip
model = dispatch_model(model, device_map)
prompts = torch.randint(1, 20, (2, 4))
tokens = greedy(model, prompts.to(0), max_new_tokens=5)
print("tokens", tokens.tolist())
# --- generate.py
import torch

@torch.no_grad()
def greedy(model, tokens, max_new_tokens):
    caches, new = None, tokens
    for _ in range(max_new_tokens):
        logits, caches = model(new, caches)
        new = logits[:, -1].argmax(-1, keepdim=True).to(tokens.device)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens
# --- model.py
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

@dataclass
class Config:
    vocabulary: int
    width: int
    positions: int
    layers: int
    dropout: float = 0.1

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln = nn.LayerNorm(config.width)
        self.c_attn, self.c_proj = nn.Linear(config.width, 3 * config.width), nn.Linear(config.width, config.width)

    def forward(self, x, cache=None):
        q, k, v = self.c_attn(self.ln(x)).chunk(3, dim=-1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return x + self.c_proj(attended), (k, v)

class LMModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.positions, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, input_ids, caches=None):
        past = 0 if caches is None else caches[0][0].shape[1]
        position_ids = torch.arange(past, past + input_ids.shape[1], device=input_ids.device)
        inputs_embeds = self.wte(input_ids)
        position_embeds = self.wpe(position_ids)
        hidden = inputs_embeds + position_embeds
        hidden = self.drop(hidden)
        present = []
        for block, cache in zip(self.h, caches or [None] * len(self.h)):
            hidden, kept = block(hidden, cache)
            present.append(kept)
        return self.lm_head(self.ln_f(hidden)), present

# === simulated_on_cpu
# thread: https://github.com/mani-skill/ManiSkill/pull/1278
# about: the whole program's default is a GPU, the simulation is told to run on the CPU; what an actor makes without a device goes to the default
# operation: add on cuda:0, cpu
# operands: .*position.*|self, offset|other
# category: default-or-current-device|created-without-device
# line: actor.py: offset = torch.tensor(
# line: actor.py: return self.position + offset
# repair: actor.py: offset = torch.tensor([0.0, 0.0, self.half_size]) -> offset = torch.tensor([0.0, 0.0, self.half_size], device=self.scene.device)
import torch
from torch import nn

from env import PickCubeEnv

torch.set_default_device("cuda:0")
torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 3))
env = PickCubeEnv(num_envs=2, sim_backend="cpu")
observation, total = env.reset(), 0.0
for _ in range(4):
    with torch.no_grad():
        action = policy(observation.to("cuda:0"))
    observation, reward = env.step(action.to(env.device))
    total += reward.sum().item()
print("return", round(total, 4))
# --- scene.py
import numpy as np
import torch

class Scene:
    """Holds positions by name, as the simulator has them."""

    def __init__(self, num_envs, backend):
        self.device = torch.device("cuda:0" if backend == "gpu" else "cpu")
        self.num_envs, self._poses = num_envs, {}

    def place(self, name, position):
        self._poses[name] = np.tile(np.asarray(position, dtype=np.float32), (self.num_envs, 1))

    def read(self, name):
        return torch.from_numpy(self._poses[name]).to(self.device)

    def write(self, name, positions):
        self._poses[name] = positions.cpu().numpy()
# --- actor.py
import torch

class Actor:
    def __init__(self, scene, name, position, half_size=0.02):
        self.scene, self.name, self.half_size = scene, name, half_size
        scene.place(name, position)

    @property
    def position(self):
        return self.scene.read(self.name)

    @property
    def top(self):
        offset = torch.tensor([0.0, 0.0, self.half_size])
        return self.position + offset

    def move(self, delta):
        self.scene.write(self.name, self.position + delta)
# --- env.py
import torch

from actor import Actor
from scene import Scene

class PickCubeEnv:
    def __init__(self, num_envs, sim_backend):
        self.scene = Scene(num_envs, sim_backend)

    @property
    def device(self):
        return self.scene.device

    def reset(self):
        self.cube = Actor(self.scene, "cube", [0.1, -0.05, 0.02])
        self.gripper = Actor(self.scene, "gripper", [0.0, 0.0, 0.3], half_size=0.05)
        return self.observe()

    def observe(self):
        reach = self.cube.top - self.gripper.position
        return torch.cat([self.cube.position, self.gripper.position, reach], dim=-1)

    def step(self, action):
        self.gripper.move(action.clamp(-1, 1) * 0.05)
        observation = self.observe()
        return observation, -observation[:, -3:].norm(dim=-1)

# === normal_initialised
# thread: https://github.com/pytorch/pytorch/issues/166104
# about: one of PyTorch's functions that make tensors does not know of the default device
# operation: .*mm|matmul on cuda:0, cpu
# operands: x|self|mat1|grid|inside, weight|.*weight|mat2|other
# category: default-or-current-device|created-without-device
# line: layers.py: return torch.normal(
# line: layers.py: weight = scheme(
# line: layers.py: self.weight = nn.Parameter(
# line: main.py: net = PINN(
# repair: layers.py: return torch.normal(0.0, deviation, size=(inputs, outputs)) -> return torch.normal(0.0, deviation, size=(inputs, outputs), device=torch.get_default_device())
import math

import torch

from layers import PINN

torch.set_default_device("cuda:0")
torch.manual_seed(0)
net = PINN([2, 6, 6, 1])
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)
points = torch.linspace(0, 1, 5)
grid = torch.cartesian_prod(points, points)
edge = torch.stack([points, torch.zeros_like(points)], dim=1)

def closure():
    optimizer.zero_grad()
    inside = grid.clone().requires_grad_()
    (slope,) = torch.autograd.grad(net(inside).sum(), inside, create_graph=True)
    loss = (slope[:, 1] + slope[:, 0]).pow(2).mean() + (net(edge).squeeze(-1) - torch.sin(math.pi * points)).pow(2).mean()
    loss.backward()
    return loss

first = closure().item()
optimizer.step(closure)
print("better", closure().item() < first, len(list(net.parameters())))
# --- layers.py
import math

import torch
from torch import nn

def xavier_normal(inputs, outputs):
    deviation = math.sqrt(2.0 / (inputs + outputs))
    return torch.normal(0.0, deviation, size=(inputs, outputs))

def xavier_uniform(inputs, outputs):
    bound = math.sqrt(6.0 / (inputs + outputs))
    return bound * (2 * torch.rand(inputs, outputs) - 1)

SCHEMES = {"normal": xavier_normal, "uniform": xavier_uniform}

class Layer(nn.Module):
    def __init__(self, inputs, outputs, scheme):
        super().__init__()
        weight = scheme(inputs, outputs)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(outputs))

class PINN(nn.Module):
    def __init__(self, sizes, initialisation="normal"):
        super().__init__()
        scheme = SCHEMES[initialisation]
        self.layers = nn.ModuleList(Layer(inputs, outputs, scheme) for inputs, outputs in zip(sizes, sizes[1:]))

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = x @ layer.weight
            x = torch.tanh(x + layer.bias)
        return x @ last.weight + last.bias
