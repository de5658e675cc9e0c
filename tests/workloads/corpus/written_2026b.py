# === yolo_ema
# about: the average of a detector's weights is a deep copy that is taken before the trainer moves the model; floating entries are updated in place
# operation: add_|mul_|add|lerp_? on cpu, cuda:0
# operands: .*value.*|self|.*, .*state.*|other|.*
# category: cached-state|module-split
# line: trainer.py: self.ema = ModelEMA(model)
# line: trainer.py: self.model = model.to(self.device)
# line: ema.py: self.ema = deepcopy(model).eval()
# line: ema.py: value += (1 - decay) * state[name].detach()
# repair: trainer.py: self.model = model.to(self.device) -> self.model = model.to(self.device); self.ema = ModelEMA(self.model)
import torch

from model import Detector
from trainer import Trainer

torch.manual_seed(0)
trainer = Trainer(Detector(width=8, classes=3), {"device": "0", "lr": 0.05})
images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 2, 1, 1])
for _ in range(3):
    loss = trainer.step(images, labels)
print("loss", round(loss, 4), "ema", round(trainer.ema.size(), 3))
# --- ema.py
import math
from copy import deepcopy

import torch

class ModelEMA:
    """Updated exponential moving average of everything in the model's state dict."""

    def __init__(self, model, decay=0.9999, tau=2000, updates=0):
        self.ema = deepcopy(model).eval()
        self.updates = updates
        self.decay = lambda x: decay * (1 - math.exp(-x / tau))
        for parameter in self.ema.parameters():
            parameter.requires_grad_(False)

    def update(self, model):
        self.updates += 1
        decay = self.decay(self.updates)
        state = model.state_dict()
        for name, value in self.ema.state_dict().items():
            if value.dtype.is_floating_point:
                value *= decay
                value += (1 - decay) * state[name].detach()

    def size(self):
        return sum(parameter.abs().sum().item() for parameter in self.ema.parameters())
# --- model.py
import torch
from torch import nn

class Detector(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.SiLU())
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        return self.head(self.stem(images).mean(dim=(2, 3)))
# --- trainer.py
import torch
from torch import nn

from ema import ModelEMA

def select_device(name):
    return torch.device("cpu") if name == "cpu" else torch.device(f"cuda:{name}")

class Trainer:
    def __init__(self, model, options):
        self.options = options
        self.device = select_device(options["device"])
        self.ema = ModelEMA(model)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options["lr"], momentum=0.9)

    def preprocess(self, images, labels):
        return images.to(self.device, non_blocking=True).float(), labels.to(self.device)

    def step(self, images, labels):
        images, labels = self.preprocess(images, labels)
        loss = nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.ema.update(self.model)
        return loss.item()

# === packed_batch
# about: a collate function gives a NamedTuple; what is a tensor in it is moved, but the lengths of each level are a tuple of tensors
# operation: .*lt.*|.*less.*|arange.*|ge|gt|le|le.* on cuda:0, cpu
# operands: .*positions.*|self|steps|.*, .*lengths.*|other|.*
# category: input-not-moved
# line: data.py: return Batch(*(field.to(device) if torch.is_tensor(field) else field for field in batch))
# line: model.py: mask = steps < lengths[:, None]
# line: model.py: fine, coarse = batch.lengths
# line: main.py: batch = to_device(batch, device)
# repair: data.py: return Batch(*(field.to(device) if torch.is_tensor(field) else field for field in batch)) -> return Batch(*(field.to(device) if torch.is_tensor(field) else tuple(each.to(device) for each in field) for field in batch))
import torch
from torch.utils.data import DataLoader

from data import Recordings, collate, to_device
from model import Recognizer

torch.manual_seed(0)
device = torch.device("cuda:0")
loader = DataLoader(Recordings(6), batch_size=3, collate_fn=collate)
model = Recognizer(features=4, width=8, tokens=5).to(device).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for batch in loader:
    batch = to_device(batch, device)
    loss = model(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- data.py
from typing import NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

class Batch(NamedTuple):
    audio: torch.Tensor
    targets: torch.Tensor
    lengths: tuple

class Recordings(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.items = [(torch.randn(4 + i % 3, 4, generator=generator), torch.tensor(i % 5)) for i in range(count)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

def collate(items):
    audio = pad_sequence([each for each, _ in items], batch_first=True)
    lengths = torch.tensor([len(each) for each, _ in items])
    return Batch(audio, torch.stack([target for _, target in items]), (lengths, (lengths + 1) // 2))

def to_device(batch, device):
    return Batch(*(field.to(device) if torch.is_tensor(field) else field for field in batch))
# --- model.py
import torch
from torch import nn

class Recognizer(nn.Module):
    def __init__(self, features, width, tokens):
        super().__init__()
        self.encoder = nn.GRU(features, width, batch_first=True)
        self.out = nn.Linear(width, tokens)

    def pooled(self, states, lengths):
        steps = torch.arange(states.shape[1], device=states.device)
        mask = steps < lengths[:, None]
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def forward(self, batch):
        states, _ = self.encoder(batch.audio)
        fine, coarse = batch.lengths
        logits = self.out(self.pooled(states, fine) + self.pooled(states[:, ::2], coarse))
        return nn.functional.cross_entropy(logits, batch.targets)

# === added_time_ids
# about: an image's sizes become a tensor in a pipeline's helper and reach the network in a dict of keyword arguments
# operation: cat on cuda:0, cpu
# operands: .*text_embeds.*|.*, .*time_embeds.*
# category: created-without-device|input-not-moved
# line: pipeline.py: return torch.tensor([list(original_size + crop + target_size)], dtype=dtype)
# line: pipeline.py: time_ids = self._get_add_time_ids(
# line: pipeline.py: added = {"text_embeds": pooled, "time_ids": time_ids}
# line: network.py: time_ids = added_cond_kwargs["time_ids"]
# line: network.py: time_embeds = timestep_embedding(
# line: network.py: emb = emb + self.added(
# repair: pipeline.py: added = {"text_embeds": pooled, "time_ids": time_ids} -> added = {"text_embeds": pooled, "time_ids": time_ids.to(self.device)}
import torch

from network import Network, TextEncoder
from pipeline import Pipeline

torch.manual_seed(0)
pipeline = Pipeline(TextEncoder(10, 8), Network(4, 8)).to("cuda:0")
image = pipeline([3, 1, 4], steps=2, original_size=(16, 16), target_size=(8, 8))
print("image", [round(value, 4) for value in image.flatten()[:4].tolist()])
# --- pipeline.py
import torch

class Pipeline:
    def __init__(self, text_encoder, network):
        self.text_encoder, self.network = text_encoder, network

    @property
    def device(self):
        return next(self.network.parameters()).device

    def to(self, device):
        for part in (self.text_encoder, self.network):
            part.to(device)
        return self

    def encode_prompt(self, prompt):
        return self.text_encoder(torch.tensor([prompt], device=self.device))

    def _get_add_time_ids(self, original_size, crop, target_size, dtype):
        return torch.tensor([list(original_size + crop + target_size)], dtype=dtype)

    @torch.no_grad()
    def __call__(self, prompt, steps, original_size, target_size, crop=(0, 0)):
        hidden, pooled = self.encode_prompt(prompt)
        latents = torch.ones(1, 4, device=self.device, dtype=hidden.dtype)
        time_ids = self._get_add_time_ids(original_size, crop, target_size, dtype=hidden.dtype)
        added = {"text_embeds": pooled, "time_ids": time_ids}
        for step in reversed(range(steps)):
            noise = self.network(latents, step, encoder_hidden_states=hidden, added_cond_kwargs=added)
            latents = latents - 0.1 * noise
        return latents
# --- network.py
import math

import torch
from torch import nn

def timestep_embedding(timesteps, width):
    half = width // 2
    frequencies = torch.exp(-math.log(10000) * torch.arange(half, device=timesteps.device) / half)
    arguments = timesteps[:, None].float() * frequencies[None]
    return torch.cat([arguments.cos(), arguments.sin()], dim=-1)

class TextEncoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        return hidden, hidden.mean(1)

class Network(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.width = width
        self.into, self.out = nn.Linear(channels, width), nn.Linear(width, channels)
        self.time, self.added = nn.Linear(width, width), nn.Linear(width + 6 * width, width)

    def forward(self, sample, timestep, encoder_hidden_states, added_cond_kwargs=None):
        timesteps = torch.full((sample.shape[0],), timestep, device=sample.device)
        emb = self.time(timestep_embedding(timesteps, self.width))
        time_ids = added_cond_kwargs["time_ids"]
        time_embeds = timestep_embedding(time_ids.flatten(), self.width).reshape(sample.shape[0], -1)
        emb = emb + self.added(torch.cat([added_cond_kwargs["text_embeds"], time_embeds], dim=-1))
        return self.out(torch.tanh(self.into(sample) + emb + encoder_hidden_states.mean(1)))

# === schedule_free
# about: an optimizer that needs no schedule takes copies of the weights when it is constructed, and the model is moved by the engine afterwards
# operation: .*sub_?.*|.*add_?.*|.*lerp_?.* on cpu, cuda:0
# operands: .*z.*|self|.*, .*grad.*|other|end|.*
# category: optimizer|cached-state|module-split
# line: optimizer.py: self.state[parameter]["z"] = parameter.detach().clone()
# line: optimizer.py: z.sub_(parameter.grad, alpha=group["lr"])
# line: optimizer.py: z = self.state[parameter]["z"]
# line: main.py: optimizer = ScheduleFreeSGD(
# line: engine.py: self.model, self.optimizer = model.to(device), optimizer
# repair: main.py: optimizer = ScheduleFreeSGD(model.parameters(), lr=0.1) -> optimizer = ScheduleFreeSGD(model.to("cuda:0").parameters(), lr=0.1)
import torch
from torch import nn

from engine import Engine
from optimizer import ScheduleFreeSGD

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = ScheduleFreeSGD(model.parameters(), lr=0.1)
engine = Engine(model, optimizer, torch.device("cuda", 0))
x, y = torch.randn(6, 5), torch.tensor([0, 1, 0, 1, 1, 0])
losses = [engine.train_batch(x, y) for _ in range(4)]
print("losses", [round(loss, 4) for loss in losses])
# --- optimizer.py
import torch

class ScheduleFreeSGD(torch.optim.Optimizer):
    def __init__(self, params, lr, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta, "k": 0})
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["z"] = parameter.detach().clone()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["k"] += 1
            weight = 1 / group["k"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                z = self.state[parameter]["z"]
                z.sub_(parameter.grad, alpha=group["lr"])
                parameter.lerp_(z, weight * (1 - group["beta"]))
# --- engine.py
from torch import nn

class Engine:
    def __init__(self, model, optimizer, device):
        self.device = device
        self.model, self.optimizer = model.to(device), optimizer

    def train_batch(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === prehook_kwargs
# about: a model's blocks lie on two cards and forward pre-hooks carry what goes into each over; they see positional arguments alone
# operation: add|masked_fill|mul|where on cuda:1, cuda:0
# operands: .*scores.*|self|.*, .*mask.*|.*bias.*|other|.*
# category: module-split|input-not-moved
# line: placement.py: block.register_forward_pre_hook(carry_to(device))
# line: placement.py: return tuple(each.to(device) if torch.is_tensor(each) else each for each in args)
# line: model.py: x = block(x, attention_mask=mask)
# line: model.py: scores = scores + attention_mask
# repair: model.py: scores = scores + attention_mask -> scores = scores + attention_mask.to(scores.device)
import torch

from model import Encoder
from placement import spread

torch.manual_seed(0)
encoder = spread(Encoder(vocabulary=12, width=8, depth=4), ["cuda:0", "cuda:1"]).eval()
tokens = torch.tensor([[3, 4, 5, 0], [7, 2, 0, 0]]).to("cuda:0")
with torch.no_grad():
    pooled = encoder(tokens)
print("pooled", [round(value, 4) for value in pooled[:, 0].tolist()])
# --- placement.py
import torch

def carry_to(device):
    def hook(module, args):
        return tuple(each.to(device) if torch.is_tensor(each) else each for each in args)
    return hook

def spread(model, devices):
    size = len(model.blocks) // len(devices)
    model.embed.to(devices[0])
    for number, block in enumerate(model.blocks):
        device = torch.device(devices[number // size])
        block.to(device)
        block.register_forward_pre_hook(carry_to(device))
    return model
# --- model.py
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, attention_mask=None):
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        if attention_mask is not None:
            scores = scores + attention_mask
        return scores.softmax(-1) @ self.v(x)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width)

    def forward(self, x, **kwargs):
        return x + self.attention(self.norm(x), **kwargs)

class Encoder(nn.Module):
    def __init__(self, vocabulary, width, depth):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, tokens):
        mask = torch.where(tokens == 0, -1e4, 0.0)[:, None, :]
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, attention_mask=mask)
        return x.mean(1)

# === rotary_table
# about: cosines and sines of a decoder are worked out once in its constructor, kept as a dataclass and handed down to every layer
# operation: mul on cuda:0, cpu
# operands: x|self|.*, .*cos.*|other|.*
# category: state-not-registered|cached-state|created-without-device
# line: decoder.py: self.rotary = rotary_table(
# line: decoder.py: table = self.rotary.slice(
# line: rotary.py: positions = torch.arange(length).float()
# line: rotary.py: angles = torch.outer(
# line: rotary.py: return Table(
# line: rotary.py: cos, sin = table.cos, table.sin
# line: rotary.py: return x * cos + rotate_half(x) * sin
# repair: decoder.py: table = self.rotary.slice(0, tokens.shape[1]) -> table = self.rotary.slice(0, tokens.shape[1]).to(tokens.device)
import torch

from decoder import Decoder

torch.manual_seed(0)
model = Decoder(vocabulary=16, width=8, depth=2, limit=32)
model = model.to("cuda:0")
tokens = torch.tensor([[1, 5, 9, 2]], device="cuda:0")
print("next", model(tokens)[0, -1].argmax().item(), round(model(tokens).abs().mean().item(), 4))
# --- rotary.py
from dataclasses import dataclass

import torch

@dataclass
class Table:
    cos: torch.Tensor
    sin: torch.Tensor

    def slice(self, begin, end):
        return Table(self.cos[begin:end], self.sin[begin:end])

    def to(self, device):
        return Table(self.cos.to(device), self.sin.to(device))

def rotary_table(width, length, base=10000.0):
    frequencies = base ** -(torch.arange(0, width, 2).float() / width)
    positions = torch.arange(length).float()
    angles = torch.outer(positions, frequencies).repeat(1, 2)
    return Table(angles.cos(), angles.sin())

def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)

def rotate(x, table):
    cos, sin = table.cos, table.sin
    return x * cos + rotate_half(x) * sin
# --- decoder.py
import torch
from torch import nn

from rotary import rotary_table, rotate

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, table):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k = rotate(q, table), rotate(k, table)
        return x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, depth, limit):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.rotary = rotary_table(width, limit)

    def forward(self, tokens):
        table = self.rotary.slice(0, tokens.shape[1])
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, table)
        return x @ self.embed.weight.T

# === camera_rays
# about: poses of cameras are read with NumPy and chosen by a batch's indices; directions of the pixels are made on the card
# operation: mul|bmm|matmul|mm|sum|einsum on cuda:0, cpu
# operands: .*dirs.*|self|.*, .*poses.*|other|mat2|.*
# category: input-not-moved|created-without-device|cached-state
# line: dataset.py: self.poses = torch.from_numpy(
# line: dataset.py: return {"poses": self.poses[views]
# line: rays.py: directions = dirs[None] @ poses[:, :3, :3].transpose(1, 2)
# line: render.py: rays = get_rays(
# line: main.py: dataset = Views(
# repair: render.py: rays = get_rays(batch["poses"], batch["intrinsics"], batch["size"], self.device) -> rays = get_rays(batch["poses"].to(self.device), batch["intrinsics"], batch["size"], self.device)
import torch

from dataset import Views
from render import Renderer

torch.manual_seed(0)
dataset = Views(count=5, size=(2, 3))
renderer = Renderer(hidden=8, device="cuda:0")
losses = [renderer.train_step(dataset.collate([i, (i + 1) % 5])) for i in range(3)]
print("losses", [round(loss, 4) for loss in losses])
# --- dataset.py
import numpy as np
import torch

class Views:
    def __init__(self, count, size):
        self.size = size
        random = np.random.default_rng(0)
        poses = np.tile(np.eye(4, dtype=np.float32), (count, 1, 1))
        poses[:, :3, 3] = random.standard_normal((count, 3))
        images = random.random((count, size[0] * size[1], 3), dtype=np.float32)
        self.poses = torch.from_numpy(poses)
        self.images = torch.from_numpy(images)
        self.intrinsics = (2.0, 2.0, size[1] / 2, size[0] / 2)

    def collate(self, views):
        return {"poses": self.poses[views], "images": self.images[views], "intrinsics": self.intrinsics, "size": self.size}
# --- rays.py
import torch

def get_rays(poses, intrinsics, size, device):
    fx, fy, cx, cy = intrinsics
    rows, columns = torch.meshgrid(torch.arange(size[0], device=device), torch.arange(size[1], device=device), indexing="ij")
    rows, columns = rows.flatten() + 0.5, columns.flatten() + 0.5
    dirs = torch.stack([(columns - cx) / fx, (rows - cy) / fy, torch.ones_like(rows)], dim=-1)
    directions = dirs[None] @ poses[:, :3, :3].transpose(1, 2)
    origins = poses[:, None, :3, 3].expand_as(directions)
    return {"origins": origins, "directions": directions}
# --- render.py
import torch
from torch import nn

from rays import get_rays

class Renderer:
    def __init__(self, hidden, device):
        self.device = torch.device(device)
        self.model = nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, 3)).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def train_step(self, batch):
        images = batch["images"].to(self.device)
        rays = get_rays(batch["poses"], batch["intrinsics"], batch["size"], self.device)
        colors = self.model(torch.cat([rays["origins"], rays["directions"]], dim=-1)).sigmoid()
        loss = nn.functional.mse_loss(colors, images)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === focal_registry
# about: a registry builds a loss with weights of the classes as a buffer, and who trains moves the model alone
# operation: gather|index_select|take|mul|nll_loss.*|index.* on cpu, cuda:0
# operands: .*alpha.*|self|input, .*targets.*|index|.*
# category: module-split|input-not-moved|created-without-device
# line: train.py: criterion = build(config["loss"])
# line: train.py: model = build(config["model"]).to(device)
# line: losses.py: self.register_buffer("alpha"
# line: losses.py: weight = self.alpha.gather(0, targets)
# line: train.py: loss = criterion(model(inputs), targets)
# repair: train.py: criterion = build(config["loss"]) -> criterion = build(config["loss"]).to(device)
import torch

import losses
import model
from train import run

torch.manual_seed(0)
config = {
    "model": {"type": "Classifier", "inputs": 6, "classes": 3},
    "loss": {"type": "FocalLoss", "alpha": [0.2, 0.5, 0.3], "gamma": 2.0},
    "device": "cuda:0",
}
batches = [(torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])) for _ in range(3)]
print("losses", [round(value, 4) for value in run(config, batches)])
# --- registry.py
REGISTRY = {}

def register(cls):
    REGISTRY[cls.__name__] = cls
    return cls

def build(config):
    options = dict(config)
    return REGISTRY[options.pop("type")](**options)
# --- losses.py
import torch
from torch import nn

from registry import register

@register
class FocalLoss(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.register_buffer("alpha", torch.tensor(alpha))
        self.gamma = gamma

    def forward(self, logits, targets):
        log_p = logits.log_softmax(-1).gather(1, targets[:, None]).squeeze(1)
        weight = self.alpha.gather(0, targets)
        return -(weight * (1 - log_p.exp()) ** self.gamma * log_p).mean()
# --- model.py
from torch import nn

from registry import register

@register
class Classifier(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 8), nn.GELU(), nn.Linear(8, classes))

    def forward(self, x):
        return self.net(x)
# --- train.py
import torch

from registry import build

def run(config, batches):
    device = torch.device(config["device"])
    model = build(config["model"]).to(device)
    criterion = build(config["loss"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for inputs, targets in batches:
        inputs, targets = inputs.to(device), targets.to(device)
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()

# === diffusion_tables
# about: tables of a noise schedule are NumPy's, become tensors in an object that is no module, and are looked up by a helper with steps of the card
# operation: gather|index_select|take|index.* on cpu, cuda:0
# operands: .*, .*
# category: cached-state|created-without-device|state-not-registered|input-not-moved
# line: schedule.py: out = table.gather(-1, t)
# line: schedule.py: self.sqrt_alphas_cumprod = to_torch(
# line: schedule.py: return extract(self.sqrt_alphas_cumprod
# line: schedule.py: to_torch = partial(torch.tensor, dtype=torch.float32)
# line: train.py: self.schedule = Schedule(
# repair: schedule.py: out = table.gather(-1, t) -> out = table.to(t.device).gather(-1, t)
import torch

from train import Trainer

torch.manual_seed(0)
trainer = Trainer(width=8, steps=20, device="cuda:0")
x = torch.randn(6, 4)
t = torch.tensor([1, 5, 9, 0, 19, 12])
print("losses", [round(trainer.step(x, t), 4) for _ in range(3)])
# --- schedule.py
from functools import partial

import numpy as np
import torch

def extract(table, t, shape):
    out = table.gather(-1, t)
    return out.reshape(t.shape[0], *((1,) * (len(shape) - 1)))

class Schedule:
    def __init__(self, steps, start=1e-4, end=2e-2):
        betas = np.linspace(start, end, steps, dtype=np.float64)
        alphas_cumprod = np.cumprod(1.0 - betas)
        to_torch = partial(torch.tensor, dtype=torch.float32)
        self.steps = steps
        self.sqrt_alphas_cumprod = to_torch(np.sqrt(alphas_cumprod))
        self.sqrt_one_minus_alphas_cumprod = to_torch(np.sqrt(1.0 - alphas_cumprod))

    def q_sample(self, x, t, noise):
        return extract(self.sqrt_alphas_cumprod, t, x.shape) * x + extract(self.sqrt_one_minus_alphas_cumprod, t, x.shape) * noise
# --- train.py
import torch
from torch import nn

from schedule import Schedule

class Denoiser(nn.Module):
    def __init__(self, width, steps):
        super().__init__()
        self.time = nn.Embedding(steps, width)
        self.into, self.out = nn.Linear(4, width), nn.Linear(width, 4)

    def forward(self, x, t):
        return self.out(torch.tanh(self.into(x) + self.time(t)))

class Trainer:
    def __init__(self, width, steps, device):
        self.device = device
        self.model = Denoiser(width, steps).to(device)
        self.schedule = Schedule(steps)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def step(self, x, t):
        x, t = x.to(self.device), t.to(self.device)
        noise = torch.ones_like(x) * 0.5
        loss = nn.functional.mse_loss(self.model(self.schedule.q_sample(x, t, noise), t), noise)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === beam_state
# about: a beam search keeps scores and what has ended in an object of its own, begun without a device; its first step meets the logits
# operation: add|masked_fill.*|where|mul on cuda:0, cpu
# operands: .*, .*
# category: created-without-device|cached-state
# line: beams.py: self.scores = torch.full((batch, beams), float("-inf"))
# line: beams.py: self.ended = torch.zeros(batch, beams, dtype=torch.bool)
# line: search.py: total = log_probs + state.scores[..., None]
# line: search.py: state = BeamState(
# repair: beams.py: self.scores = torch.full((batch, beams), float("-inf")) -> self.scores = torch.full((batch, beams), float("-inf"), device=start.device)
# repair: beams.py: self.ended = torch.zeros(batch, beams, dtype=torch.bool) -> self.ended = torch.zeros(batch, beams, dtype=torch.bool, device=start.device)
import torch

from model import Decoder
from search import beam_search

torch.manual_seed(0)
model = Decoder(vocabulary=9, width=8).to("cuda:0").eval()
prompt = torch.tensor([[4], [7]], device="cuda:0")
print("best", beam_search(model, prompt, beams=3, steps=4, end=8))
# --- beams.py
import torch

class BeamState:
    def __init__(self, start, beams):
        batch = start.shape[0]
        self.tokens = start[:, None, :].repeat(1, beams, 1)
        self.scores = torch.full((batch, beams), float("-inf"))
        self.scores[:, 0] = 0.0
        self.ended = torch.zeros(batch, beams, dtype=torch.bool)

    def advance(self, scores, beam, token, end):
        self.scores = scores
        taken = self.tokens.gather(1, beam[..., None].expand(-1, -1, self.tokens.shape[-1]))
        self.tokens = torch.cat([taken, token[..., None]], dim=-1)
        self.ended = self.ended.gather(1, beam) | (token == end)
# --- model.py
import torch
from torch import nn

class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        states, _ = self.rnn(self.embed(tokens))
        return self.head(states[:, -1])
# --- search.py
import torch

from beams import BeamState

@torch.no_grad()
def beam_search(model, prompt, beams, steps, end):
    state = BeamState(prompt, beams)
    for _ in range(steps):
        log_probs = model(state.tokens.flatten(0, 1)).log_softmax(-1).unflatten(0, (-1, beams))
        total = log_probs + state.scores[..., None]
        vocabulary = total.shape[-1]
        scores, flat = total.flatten(1).topk(beams, dim=-1)
        state.advance(scores, flat // vocabulary, flat % vocabulary, end)
        if state.ended.all():
            break
    return state.tokens[:, 0].tolist()

# === sampled_adjacency
# about: a sampler of neighbours gives a list of NamedTuples, a level each; nodes are looked up on the card and edges stay on the host
# operation: index_select|index_add_?|index.*|gather|scatter.* on cuda:0, cpu
# operands: .*, .*
# category: input-not-moved
# line: train.py: for batch_size, nodes, levels in
# line: train.py: out = model(features[nodes.to(device)], levels)
# line: model.py: source, target = level.edge_index
# line: model.py: messages = x.index_select(0, source)
# line: sampler.py: levels.append(Level(
# repair: train.py: out = model(features[nodes.to(device)], levels) -> out = model(features[nodes.to(device)], [Level(level.edge_index.to(device), level.size) for level in levels])
import torch

from sampler import NeighborSampler
from train import train

torch.manual_seed(0)
edge_index = torch.tensor([[0, 1, 2, 3, 4, 5, 1, 2], [1, 2, 3, 4, 5, 0, 4, 0]])
features, labels = torch.randn(6, 5), torch.tensor([0, 1, 0, 1, 1, 0])
sampler = NeighborSampler(edge_index, depth=2)
print("losses", [round(loss, 4) for loss in train(sampler, features, labels, torch.device("cuda:0"))])
# --- sampler.py
from typing import NamedTuple

import torch

class Level(NamedTuple):
    edge_index: torch.Tensor
    size: int

class NeighborSampler:
    def __init__(self, edge_index, depth):
        self.edge_index, self.depth = edge_index, depth

    def sample(self, seeds):
        levels, nodes = [], seeds
        for _ in range(self.depth):
            keep = torch.isin(self.edge_index[1], nodes)
            edges = self.edge_index[:, keep]
            levels.append(Level(edges, 6))
            nodes = torch.cat([nodes, edges[0]]).unique()
        return len(seeds), torch.arange(6), levels[::-1]

    def __iter__(self):
        for seeds in torch.arange(6).split(3):
            yield self.sample(seeds)
# --- model.py
import torch
from torch import nn

class SAGE(nn.Module):
    def __init__(self, inputs, width, classes):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2 * inputs, width), nn.Linear(2 * width, classes)])

    def forward(self, x, levels):
        for layer, level in zip(self.layers, levels):
            source, target = level.edge_index
            messages = x.index_select(0, source)
            summed = torch.zeros_like(x).index_add(0, target, messages)
            x = torch.tanh(layer(torch.cat([x, summed], dim=-1)))
        return x
# --- train.py
import torch
from torch import nn

from model import SAGE
from sampler import Level

def train(sampler, features, labels, device):
    features, labels = features.to(device), labels.to(device)
    model = SAGE(features.shape[1], 8, 2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for batch_size, nodes, levels in sampler:
        out = model(features[nodes.to(device)], levels)
        loss = nn.functional.cross_entropy(out, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

# === soft_prompts
# about: a wrapper keeps the numbers of its virtual tokens in a dict, by adapter; the embedding they index moves with the model
# operation: embedding|index_select on cuda:0, cpu
# operands: .*weight.*|self|.*, .*|indices|index
# category: state-not-registered|cached-state|created-without-device
# line: wrapper.py: self.prompt_tokens[name] = torch.arange(
# line: wrapper.py: tokens = self.prompt_tokens[self.active].unsqueeze(0).expand(batch_size, -1)
# line: wrapper.py: prompts = self.prompt_encoder[self.active](tokens)
# line: encoder.py: return self.embedding(indices)
# repair: wrapper.py: tokens = self.prompt_tokens[self.active].unsqueeze(0).expand(batch_size, -1) -> tokens = self.prompt_tokens[self.active].unsqueeze(0).expand(batch_size, -1).to(inputs_embeds.device)
import torch

from wrapper import PromptModel
from base import BaseModel

torch.manual_seed(0)
model = PromptModel(BaseModel(vocabulary=14, width=8))
model.add_adapter("default", virtual_tokens=3)
model.to("cuda:0")
batch = {"input_ids": torch.tensor([[2, 5, 7], [1, 3, 4]]), "labels": torch.tensor([1, 0])}
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
losses = []
for _ in range(3):
    loss = model(**{key: value.to("cuda:0") for key, value in batch.items()})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- encoder.py
from torch import nn

class PromptEmbedding(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.embedding = nn.Embedding(count, width)

    def forward(self, indices):
        return self.embedding(indices)
# --- base.py
from torch import nn

class BaseModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, inputs_embeds, labels=None):
        states, _ = self.mix(inputs_embeds)
        logits = self.head(states[:, -1])
        return nn.functional.cross_entropy(logits, labels)
# --- wrapper.py
import torch
from torch import nn

from encoder import PromptEmbedding

class PromptModel(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.active = base, None
        self.base.requires_grad_(False)
        self.prompt_encoder = nn.ModuleDict()
        self.prompt_tokens = {}

    def add_adapter(self, name, virtual_tokens):
        self.prompt_encoder[name] = PromptEmbedding(virtual_tokens, self.base.width)
        self.prompt_tokens[name] = torch.arange(virtual_tokens).long()
        self.active = name

    def get_prompt(self, inputs_embeds, batch_size):
        tokens = self.prompt_tokens[self.active].unsqueeze(0).expand(batch_size, -1)
        prompts = self.prompt_encoder[self.active](tokens)
        return prompts

    def forward(self, input_ids, labels=None, **kwargs):
        inputs_embeds = self.base.embed(input_ids)
        prompts = self.get_prompt(inputs_embeds, input_ids.shape[0])
        return self.base(inputs_embeds=torch.cat([prompts, inputs_embeds], dim=1), labels=labels, **kwargs)
