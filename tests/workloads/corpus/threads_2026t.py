# === sizes_of_batched_structures
# thread: https://github.com/vldgroup/graph-pes/pull/166
# about: structures that are on the GPU already are put together to a batch. At which atom each of them begins is counted in a list
# operation: div|true_divide on cuda:0, cpu
# operands: sizes|.*structure_sizes.*
# category: created-without-device
# line: atomic_graph.py: ptr = torch.tensor(
# line: atomic_graph.py: return self.ptr[1:] - self.ptr[:-1]
# line: atomic_graph.py: return AtomicGraph(Z, R, neighbours, batch, ptr)
# line: potential.py: errors = (model(graph) - energies) / sizes
# line: potential.py: sizes = graph.structure_sizes
# line: main.py: batch = to_batch(
# repair: atomic_graph.py: ptr = torch.tensor(starts) -> ptr = torch.tensor(starts, device=Z.device)
import torch

from atomic_graph import AtomicGraph, to_batch
from potential import PairPotential, fit

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(2)
structures, energies = [], []
for atoms in (4, 3, 5):
    positions, elements = 2 * torch.rand(atoms, 3, generator=generator), torch.randint(3, (atoms,), generator=generator)
    structures.append(AtomicGraph.from_positions(positions, elements, cutoff=1.8).to(device))
    energies.append(-0.5 * atoms)
batch = to_batch(structures)
model = PairPotential(elements=3, width=6).to(device)
print("losses", fit(model, batch, torch.tensor(energies, device=device), lr=0.05, steps=4))
# --- atomic_graph.py
from itertools import accumulate
from typing import NamedTuple

import torch

class AtomicGraph(NamedTuple):
    """One structure, or several behind each other: these have `batch` and `ptr`, too."""

    Z: torch.Tensor
    R: torch.Tensor
    neighbours: torch.Tensor
    batch: torch.Tensor | None = None
    ptr: torch.Tensor | None = None

    @classmethod
    def from_positions(cls, R, Z, cutoff):
        distances = torch.cdist(R, R).fill_diagonal_(torch.inf)
        return cls(Z, R, (distances < cutoff).nonzero().T)

    def to(self, device):
        return AtomicGraph(*(None if each is None else each.to(device) for each in self))

    @property
    def structure_sizes(self):
        return self.ptr[1:] - self.ptr[:-1]

def to_batch(graphs):
    starts = [0, *accumulate(len(graph.Z) for graph in graphs)]
    Z, R = (torch.cat([getattr(graph, name) for graph in graphs]) for name in ("Z", "R"))
    neighbours = torch.cat([graph.neighbours + start for graph, start in zip(graphs, starts)], dim=1)
    batch = torch.cat([torch.full_like(graph.Z, index) for index, graph in enumerate(graphs)])
    ptr = torch.tensor(starts)
    return AtomicGraph(Z, R, neighbours, batch, ptr)
# --- potential.py
import torch
from torch import nn

class PairPotential(nn.Module):
    def __init__(self, elements, width):
        super().__init__()
        self.embed = nn.Embedding(elements, width)
        self.net = nn.Sequential(nn.Linear(2 * width + 1, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, graph):
        """Each structure's energy."""
        first, second = graph.neighbours
        distances = torch.linalg.vector_norm(graph.R[first] - graph.R[second], dim=1, keepdim=True)
        pairs = self.net(torch.cat([self.embed(graph.Z[first]), self.embed(graph.Z[second]), distances], dim=1))
        local = torch.zeros_like(graph.R[:, 0]).index_add(0, first, pairs[:, 0])
        return local.new_zeros(len(graph.ptr) - 1).index_add(0, graph.batch, local)

def fit(model, graph, energies, lr, steps):
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    sizes = graph.structure_sizes
    for _ in range(steps):
        errors = (model(graph) - energies) / sizes
        loss = errors.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === grid_of_a_spatial_transform
# thread: https://github.com/ScrollPrize/villa/pull/913
# about: an augmentation was written for workers on the CPU: its grid, its matrix and its offsets are there. Here it is run in the loop, on images of the GPU
# operation: grid_sampler on cuda:0, cpu
# operands: grid|.*grid.*
# category: created-without-device|input-not-moved
# line: spatial.py: axes = [torch.linspace(
# line: spatial.py: matrix = torch.tensor(
# line: spatial.py: offsets = torch.tensor(
# line: spatial.py: grid = identity_grid(
# line: spatial.py: return nn.functional.grid_sample(
# line: spatial.py: return grid + elastic_offsets(
# line: spatial.py: grid = self.displaced_grid(
# repair: spatial.py: grid = self.displaced_grid(image.shape[-2:], parameters) -> grid = self.displaced_grid(image.shape[-2:], parameters).to(image.device)
import numpy as np
import torch

from spatial import SpatialTransform
from training import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rng = np.random.default_rng(5)
images = torch.from_numpy(rng.normal(size=(6, 1, 8, 8)).astype(np.float32))
labels = (images[:, 0] > 0.3).long()
transform = SpatialTransform(rotation=0.4, elastic=0.1, seed=1)
print("losses", train(images, labels, transform, device, epochs=3, lr=0.05))
# --- spatial.py
import math

import numpy as np
import torch
from torch import nn

def identity_grid(sizes):
    axes = [torch.linspace(-1, 1, size) for size in sizes]
    return torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], dim=-1)

def elastic_offsets(parameters, sizes):
    offsets = torch.tensor(parameters["offsets"], dtype=torch.float32)
    return nn.functional.interpolate(offsets[None], size=sizes, mode="bilinear", align_corners=True)[0].permute(1, 2, 0)

class SpatialTransform:
    """Turns and bends an image, and its labels alike."""

    def __init__(self, rotation, elastic, seed):
        self.rotation, self.elastic, self.rng = rotation, elastic, np.random.default_rng(seed)

    def get_parameters(self):
        angle = self.rng.uniform(-self.rotation, self.rotation)
        turn = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        return {"turn": turn, "offsets": self.elastic * self.rng.normal(size=(2, 3, 3))}

    def displaced_grid(self, sizes, parameters):
        grid = identity_grid(sizes)
        matrix = torch.tensor(parameters["turn"], dtype=torch.float32)
        grid = grid @ matrix
        return grid + elastic_offsets(parameters, sizes)

    def sample(self, values, grid, mode):
        batch = grid[None].expand(len(values), -1, -1, -1)
        return nn.functional.grid_sample(values, batch, mode=mode, padding_mode="border", align_corners=True)

    def __call__(self, image, segmentation):
        parameters = self.get_parameters()
        grid = self.displaced_grid(image.shape[-2:], parameters)
        warped = self.sample(segmentation[:, None].float(), grid, "nearest")
        return self.sample(image, grid, "bilinear"), warped[:, 0].long()
# --- training.py
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 1))

def train(images, labels, transform, device, epochs, lr):
    model, losses = build().to(device), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for image, label in zip(images.split(3), labels.split(3)):
            image, label = transform(image.to(device), label.to(device))
            loss = nn.functional.cross_entropy(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(round(total / 2, 4))
    return losses

# === device_of_the_first_parameter
# thread: https://github.com/unslothai/unsloth/pull/10569
# about: the table of words is kept in RAM, with hooks that take words there and what they mean back. The model says that it is where its first parameter is
# operation: mul on cpu, cuda:0
# operands: positions|.*positions.*
# category: module-split|input-not-moved
# line: model.py: return next(self.parameters()).device
# line: main.py: ids = tokenize(
# line: model.py: positions = torch.arange(
# line: model.py: angles = positions[:, None] * self.inv_freq
# line: model.py: cos, sin = self.rotary_emb(
# repair: model.py: return next(self.parameters()).device -> return self.lm_head.weight.device
import torch

from model import TinyCausalLM
from offload import offload_embedding

def tokenize(text, words=32):
    return torch.tensor([[sum(map(ord, word)) % words for word in text.split()]])

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinyCausalLM(words=32, dim=8, layers=2).to(device)
offload_embedding(model)
ids = tokenize("explain why the sky is blue").to(model.device)
print("tokens", model.generate(ids, count=5).tolist())
# --- offload.py
def offload_embedding(model):
    """The table of words is the largest tensor of a small model: it leaves the GPU, and few rows travel."""
    decoder = model.lm_head.weight.device
    model.embed_tokens.to("cpu")
    model.embed_tokens.register_forward_pre_hook(lambda module, args: (args[0].to(module.weight.device),))
    model.embed_tokens.register_forward_hook(lambda module, args, hidden: hidden.to(decoder))
# --- model.py
import torch
from torch import nn

class Rotary(nn.Module):
    def __init__(self, dim, base=50.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, positions):
        angles = positions[:, None] * self.inv_freq
        return angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, cos, sin):
        q, k, v = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
        q, k = (x * cos + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * sin for x in (q, k))
        return hidden + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

class TinyCausalLM(nn.Module):
    def __init__(self, words, dim, layers):
        super().__init__()
        self.embed_tokens, self.rotary_emb = nn.Embedding(words, dim), Rotary(dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        self.lm_head = nn.Linear(dim, words, bias=False)

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, ids):
        hidden = self.embed_tokens(ids)
        positions = torch.arange(ids.shape[1], device=ids.device)
        cos, sin = self.rotary_emb(positions)
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return self.lm_head(hidden)

    @torch.no_grad()
    def generate(self, ids, count):
        for _ in range(count):
            best = self(ids)[:, -1:].argmax(-1)
            ids = torch.cat([ids, best.to(ids.device)], dim=1)
        return ids[0, -count:]

# === actions_from_another_gpu
# thread: https://github.com/DexForce/EmbodiChain/pull/522
# about: a policy is judged on one GPU, and the simulation runs on the other. Observations are taken to the policy; its actions get another layout, and stay
# operation: add on cuda:0, cuda:1
# operands: action|.*action.*|other
# category: input-not-moved
# line: evaluation.py: return action.reshape(
# line: evaluation.py: action = convert_action_for_env(
# line: evaluation.py: observation, reward = env.step(
# line: env.py: target = self.robot.get_qpos() + self.scale * action
# line: env.py: target = self.action_term(
# repair: evaluation.py: return action.reshape(env.num_envs, env.joints) -> return action.reshape(env.num_envs, env.joints).to(env.device)
import torch

from env import ReachEnv
from evaluation import evaluate
from policy import GaussianPolicy

torch.manual_seed(0)
sim_device, device = (torch.device("cuda:0"), torch.device("cuda:1")) if torch.cuda.is_available() else (torch.device("cpu"),) * 2
env = ReachEnv(num_envs=3, joints=2, device=sim_device, seed=4)
policy = GaussianPolicy(observations=4, actions=2, width=8).to(device)
print("returns", evaluate(env, policy, device, steps=6))
# --- env.py
import torch

class Robot:
    def __init__(self, num_envs, joints, device):
        self.qpos = torch.zeros(num_envs, joints, device=device)

    def get_qpos(self):
        return self.qpos.clone()

    def set_target(self, target, stiffness=0.5):
        self.qpos += stiffness * (target.to(self.qpos.device) - self.qpos)

class DeltaJoints:
    """An action is by how much joints are to turn."""

    def __init__(self, robot, scale):
        self.robot, self.scale = robot, scale

    def __call__(self, action):
        target = self.robot.get_qpos() + self.scale * action
        return target.clamp(-1.5, 1.5)

class ReachEnv:
    def __init__(self, num_envs, joints, device, seed):
        self.num_envs, self.joints, self.device = num_envs, joints, device
        self.robot = Robot(num_envs, joints, device)
        self.action_term = DeltaJoints(self.robot, scale=0.5)
        self.goal = torch.randn(num_envs, joints, generator=torch.Generator().manual_seed(seed)).to(device)

    def observe(self):
        return torch.cat([self.robot.get_qpos(), self.goal], dim=1)

    def step(self, action):
        target = self.action_term(action)
        self.robot.set_target(target)
        reward = -(self.robot.get_qpos() - self.goal).square().sum(1)
        return self.observe(), reward
# --- policy.py
import torch
from torch import nn

class GaussianPolicy(nn.Module):
    def __init__(self, observations, actions, width):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(observations, width), nn.Tanh(), nn.Linear(width, actions))
        self.log_std = nn.Parameter(torch.zeros(actions))

    def get_action(self, observation, deterministic):
        mean = self.mean(observation)
        return mean if deterministic else mean + self.log_std.exp() * torch.randn_like(mean)
# --- evaluation.py
import torch

def prepare_observation(observation, device):
    return observation.to(device)

def convert_action_for_env(env, action):
    """A policy gives rows of numbers; the environment wants a row for each of its robots."""
    return action.reshape(env.num_envs, env.joints)

@torch.no_grad()
def evaluate(env, policy, device, steps):
    observation, total = env.observe(), torch.zeros(env.num_envs, device=env.device)
    for _ in range(steps):
        action = policy.get_action(prepare_observation(observation, device), deterministic=True)
        action = convert_action_for_env(env, action)
        observation, reward = env.step(action)
        total += reward
    return [round(value, 4) for value in total.tolist()]

# === spread_of_the_latents
# thread: https://github.com/huggingface/diffusers/pull/13666
# about: layers of an autoencoder come to the GPU one by one when they are called. What latents are normalized by is asked of a layer that is not
# operation: div|true_divide on cuda:0, cpu
# operands: std|.*std.*
# category: module-split|input-not-moved
# line: pipeline.py: std = (self.vae.bn.running_var
# line: pipeline.py: return (latents - mean) / std
# line: main.py: apply_group_offloading(
# repair: pipeline.py: std = (self.vae.bn.running_var.view(1, -1, 1, 1) + self.vae.bn.eps).sqrt() -> std = (self.vae.bn.running_var.view(1, -1, 1, 1) + self.vae.bn.eps).sqrt().to(latents.device)
import torch
from diffusers.hooks import apply_group_offloading

from autoencoder import Autoencoder
from pipeline import EditPipeline

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
vae = Autoencoder(channels=3, latent=4)
vae.bn.running_mean.copy_(torch.linspace(-0.2, 0.2, 4))
vae.bn.running_var.copy_(torch.linspace(0.5, 2.0, 4))
apply_group_offloading(vae, onload_device=device, offload_device=torch.device("cpu"), offload_type="leaf_level")
image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(3)).to(device)
edited = EditPipeline(vae)(image, strength=0.3, seed=1)
print("edited", [round(value, 4) for value in edited.mean((0, 2, 3)).tolist()])
# --- autoencoder.py
from torch import nn

class Autoencoder(nn.Module):
    """Its last batch norm is never called: it keeps the statistics of latents, which whoever diffuses them asks for."""

    def __init__(self, channels, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(channels, 8, 3, stride=2, padding=1), nn.SiLU(), nn.Conv2d(8, latent, 1))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(latent, 8, 2, stride=2), nn.SiLU(), nn.Conv2d(8, channels, 1))
        self.bn = nn.BatchNorm2d(latent, eps=1e-4, affine=False)
        self.eval().requires_grad_(False)

    def encode(self, image):
        return self.encoder(image)

    def decode(self, latents):
        return self.decoder(latents)
# --- pipeline.py
import torch

class EditPipeline:
    def __init__(self, vae):
        self.vae = vae

    def normalized(self, latents):
        mean = self.vae.bn.running_mean.view(1, -1, 1, 1).to(latents.device, latents.dtype)
        std = (self.vae.bn.running_var.view(1, -1, 1, 1) + self.vae.bn.eps).sqrt()
        return (latents - mean) / std

    def denormalized(self, latents):
        mean, variance = (each.view(1, -1, 1, 1).to(latents.device) for each in (self.vae.bn.running_mean, self.vae.bn.running_var))
        return latents * (variance + self.vae.bn.eps).sqrt() + mean

    @torch.no_grad()
    def __call__(self, image, strength, seed):
        latents = self.normalized(self.vae.encode(image))
        noise = torch.randn(latents.shape, generator=torch.Generator().manual_seed(seed)).to(latents.device)
        return self.vae.decode(self.denormalized((1 - strength) * latents + strength * noise))

# === carry_of_a_recursive_model
# thread: https://github.com/SamsungSAILMontreal/TinyRecursiveModels/pull/25
# about: what a model thinks so far is carried from step to step. The first carry is empty, and where it comes from, no device is said
# operation: where on cuda:0, cpu
# operands: .*z_H|carry.z_H
# category: created-without-device
# line: model.py: z_H, z_L = (torch.zeros(
# line: model.py: z_H = torch.where(
# line: train.py: carry = model.initial_carry(
# repair: model.py: z_H, z_L = (torch.zeros(size, self.tokens, self.dim) for _ in range(2)) -> z_H, z_L = (torch.zeros(size, self.tokens, self.dim, device=self.H_init.device) for _ in range(2))
import torch

from model import RecursiveReasoner
from train import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(7)
inputs = torch.randint(1, 6, (4, 5), generator=generator)
labels = inputs.flip(1)
model = RecursiveReasoner(vocabulary=6, tokens=5, dim=8, cycles=2, halt_after=3).to(device)
print("losses", train(model, {"inputs": inputs.to(device), "labels": labels.to(device)}, steps=5, lr=0.02))
# --- model.py
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class InnerCarry:
    z_H: torch.Tensor
    z_L: torch.Tensor

@dataclass
class Carry:
    inner: InnerCarry
    steps: torch.Tensor
    halted: torch.Tensor

class RecursiveReasoner(nn.Module):
    def __init__(self, vocabulary, tokens, dim, cycles, halt_after):
        super().__init__()
        self.tokens, self.dim, self.cycles, self.halt_after = tokens, dim, cycles, halt_after
        self.embed, self.head = nn.Embedding(vocabulary, dim), nn.Linear(dim, vocabulary)
        self.think = nn.TransformerEncoderLayer(dim, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True)
        self.register_buffer("H_init", 0.1 * torch.randn(dim))
        self.register_buffer("L_init", 0.1 * torch.randn(dim))

    def empty_carry(self, size):
        z_H, z_L = (torch.zeros(size, self.tokens, self.dim) for _ in range(2))
        return InnerCarry(z_H, z_L)

    def initial_carry(self, batch):
        size = len(batch["inputs"])
        halted = torch.ones(size, dtype=torch.bool, device=batch["inputs"].device)
        return Carry(self.empty_carry(size), torch.zeros_like(halted, dtype=torch.int32), halted)

    def reset_carry(self, halted, carry):
        """Who has halted begins anew."""
        fresh = halted[:, None, None]
        z_H = torch.where(fresh, self.H_init, carry.z_H)
        z_L = torch.where(fresh, self.L_init, carry.z_L)
        return InnerCarry(z_H, z_L)

    def forward(self, carry, batch):
        inner = self.reset_carry(carry.halted, carry.inner)
        z_H, z_L, embedded = inner.z_H, inner.z_L, self.embed(batch["inputs"])
        for _ in range(self.cycles):
            z_L = self.think(z_L + z_H + embedded)
            z_H = self.think(z_H + z_L)
        steps = torch.where(carry.halted, 0, carry.steps) + 1
        return Carry(InnerCarry(z_H.detach(), z_L.detach()), steps, steps >= self.halt_after), self.head(z_H)
# --- train.py
import torch
from torch import nn

def train(model, batch, steps, lr):
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=lr), []
    carry = model.initial_carry(batch)
    for _ in range(steps):
        carry, logits = model(carry, batch)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === voice_inside_the_inputs
# thread: https://github.com/huggingface/transformers/pull/38985
# about: what a processor gives is moved in one go. A voice that speech goes on from is a bundle of its own within it, and is no tensor
# operation: embedding|index_select on cuda:0, cpu
# operands: .*semantic_prompt.*|input|indices|index|history
# category: input-not-moved|input
# line: encoding.py: if isinstance(value, torch.Tensor):
# line: encoding.py: self.data[name] = value.to(device)
# line: main.py: inputs = processor(
# line: bark.py: past = self.embed_speech(history)
# line: bark.py: history = history_prompt["semantic_prompt"]
# repair: encoding.py: if isinstance(value, torch.Tensor): -> if hasattr(value, "to"):
import torch

from bark import SemanticModel
from processor import Processor

torch.manual_seed(5)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
processor = Processor(words=30, voices={"en_speaker_6": 6, "de_speaker_3": 3})
model = SemanticModel(words=30, units=12, dim=8).to(device)
inputs = processor("let us generate speech", voice_preset="en_speaker_6").to(device)
print("speech", model.generate(**inputs, count=6).tolist())
# --- encoding.py
from collections import UserDict

import torch

class Encoding(UserDict):
    """A model's inputs by name."""

    def to(self, device):
        for name, value in self.data.items():
            if isinstance(value, torch.Tensor):
                self.data[name] = value.to(device)
        return self
# --- processor.py
import torch

from encoding import Encoding

class Processor:
    def __init__(self, words, voices):
        self.words, self.voices = words, voices

    def load_voice(self, name):
        generator = torch.Generator().manual_seed(self.voices[name])
        return Encoding(semantic_prompt=torch.randint(12, (1, 4), generator=generator))

    def __call__(self, text, voice_preset=None):
        ids = torch.tensor([[sum(map(ord, word)) % self.words for word in text.split()]])
        encoded = Encoding(input_ids=ids, attention_mask=torch.ones_like(ids))
        if voice_preset is not None:
            encoded["history_prompt"] = self.load_voice(voice_preset)
        return encoded
# --- bark.py
import torch
from torch import nn

class SemanticModel(nn.Module):
    def __init__(self, words, units, dim):
        super().__init__()
        self.embed_text, self.embed_speech = nn.Embedding(words, dim), nn.Embedding(units, dim)
        self.rnn, self.head = nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, units)

    def prefix(self, input_ids, attention_mask, history_prompt):
        text = self.embed_text(input_ids) * attention_mask[:, :, None]
        if history_prompt is None:
            return text
        history = history_prompt["semantic_prompt"]
        past = self.embed_speech(history)
        return torch.cat([text, past], dim=1)

    @torch.no_grad()
    def generate(self, input_ids, attention_mask, history_prompt=None, count=4):
        hidden, state = self.rnn(self.prefix(input_ids, attention_mask, history_prompt))
        units = []
        for _ in range(count):
            unit = self.head(hidden[:, -1:]).argmax(-1)
            units.append(unit)
            hidden, state = self.rnn(self.embed_speech(unit), state)
        return torch.cat(units, dim=1)[0]

# === images_attached_to_the_batch
# thread: https://github.com/huggingface/trl/pull/6650
# about: a student is taught on answers of its own. For these its inputs are copied to the GPU; what the loss is taken of is put together anew, with the fields of images
# operation: conv on cpu, cuda:0
# operands: pixel_values|input
# error: should be the same
# category: input-not-moved|input
# line: trainer.py: return {"ids": ids, "prompt_length": prompt.shape[1], **fields}
# line: trainer.py: fields = {name: values for name, values in example.items()
# line: trainer.py: student = self.model(
# line: vlm.py: patches = self.vision(pixel_values)
# line: main.py: losses = [trainer.step(
# repair: trainer.py: return {"ids": ids, "prompt_length": prompt.shape[1], **fields} -> return {"ids": ids, "prompt_length": prompt.shape[1], **{name: values.to(self.device) for name, values in fields.items()}}
import torch

from trainer import DistillationTrainer
from vlm import TinyVLM

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(1)
examples = [
    {"prompt_ids": torch.randint(16, (2, 3), generator=generator), "pixel_values": torch.rand(2, 3, 4, 4, generator=generator)} for _ in range(3)
]
trainer = DistillationTrainer(TinyVLM(words=16, dim=8), TinyVLM(words=16, dim=8), device, lr=0.02)
losses = [trainer.step(example) for example in examples]
print("losses", losses)
# --- vlm.py
import torch
from torch import nn

class TinyVLM(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.vision, self.embed = nn.Conv2d(3, dim, 2, stride=2), nn.Embedding(words, dim)
        self.decoder, self.head = nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, words)

    def forward(self, ids, pixel_values):
        patches = self.vision(pixel_values)
        hidden = torch.cat([patches.flatten(2).transpose(1, 2), self.embed(ids)], dim=1)
        return self.head(self.decoder(hidden)[0][:, -ids.shape[1] :])

    @torch.no_grad()
    def generate(self, prompt_ids, pixel_values, count):
        ids = prompt_ids
        for _ in range(count):
            ids = torch.cat([ids, self(ids, pixel_values)[:, -1:].argmax(-1)], dim=1)
        return ids[:, prompt_ids.shape[1] :]
# --- trainer.py
import torch

class DistillationTrainer:
    def __init__(self, model, teacher, device, lr, completion=3):
        self.model, self.teacher, self.device = model.to(device), teacher.to(device).eval(), device
        self.optimizer, self.completion = torch.optim.AdamW(model.parameters(), lr=lr), completion

    def prepare(self, example):
        return {name: values.to(self.device) for name, values in example.items()}

    def tokenized(self, example):
        """The prompt, and what the student answers, as they go into the loss."""
        prompt = example["prompt_ids"].to(self.device)
        answer = self.model.generate(**self.prepare(example), count=self.completion)
        ids = torch.cat([prompt, answer], dim=1)
        fields = {name: values for name, values in example.items() if name != "prompt_ids"}
        return {"ids": ids, "prompt_length": prompt.shape[1], **fields}

    def loss(self, ids, prompt_length, **fields):
        with torch.no_grad():
            wanted = self.teacher(ids, **self.prepare(fields))[:, prompt_length - 1 : -1].log_softmax(-1)
        student = self.model(ids, **fields)[:, prompt_length - 1 : -1].log_softmax(-1)
        return (wanted.exp() * (wanted - student)).sum(-1).mean()

    def step(self, example):
        loss = self.loss(**self.tokenized(example))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return round(loss.item(), 4)

# === estimate_shared_by_all_groups
# thread: https://github.com/LoganBooker/prodigy-plus-schedule-free/issues/11
# about: an optimizer finds its own rate from sums over all parameters, which it keeps beside their states. A run goes on from a checkpoint read to the CPU
# operation: mul|add|lerp on cpu, cuda:0
# operands: .*shared.*|.*estimate.*|self
# category: optimizer|checkpoint
# line: prodigy.py: self.shared = saved["shared"]
# line: prodigy.py: self.shared["numerator"].lerp_(
# line: trainer.py: checkpoint = torch.load(
# line: trainer.py: self.optimizer.load_state_dict(
# repair: prodigy.py: self.shared = saved["shared"] -> self.shared = {name: value.to(self.param_groups[0]["params"][0].device) for name, value in saved["shared"].items()}
import torch

from trainer import Trainer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(3)
x = torch.randn(12, 4, generator=generator)
y = (x @ torch.tensor([0.5, -1.0, 0.2, 0.0]))[:, None]
first = Trainer(device)
before = first.run(x, y, steps=3)
first.save("last-state.pt")
second = Trainer(device)
second.resume("last-state.pt")
print("losses", before, second.run(x, y, steps=3))
# --- prodigy.py
import torch

class ProdigyLike(torch.optim.Optimizer):
    """Steps along signs of a moment; how far, a ratio of two sums says that all groups have in common."""

    def __init__(self, params, rate=1e-2, beta=0.9):
        super().__init__(params, {"beta": beta})
        device = self.param_groups[0]["params"][0].device
        self.shared = {"numerator": torch.full((1,), rate, device=device), "denominator": torch.ones(1, device=device)}

    def state_dict(self):
        return {**super().state_dict(), "shared": self.shared}

    def load_state_dict(self, saved):
        super().load_state_dict({name: saved[name] for name in ("state", "param_groups")})
        self.shared = saved["shared"]

    @torch.no_grad()
    def step(self):
        along, size = [], []
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                moment = state.setdefault("moment", torch.zeros_like(p))
                moment.lerp_(p.grad, 1 - group["beta"])
                along.append((moment * p.grad).sum().abs())
                size.append(p.grad.abs().sum())
        self.shared["numerator"].lerp_(torch.stack(along).sum()[None], 0.1)
        self.shared["denominator"].lerp_(torch.stack(size).sum()[None], 0.1)
        rate = 0.1 * self.shared["numerator"] / self.shared["denominator"]
        for group in self.param_groups:
            for p in group["params"]:
                p -= rate * self.state[p]["moment"].sign()
# --- trainer.py
import torch
from torch import nn

from prodigy import ProdigyLike

class Trainer:
    def __init__(self, device):
        self.device, self.model = device, nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).to(device)
        self.optimizer = ProdigyLike(self.model.parameters())

    def run(self, x, y, steps):
        x, y, losses = x.to(self.device), y.to(self.device), []
        for _ in range(steps):
            loss = (self.model(x) - y).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def resume(self, path):
        checkpoint = torch.load(path, map_location="cpu")
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])

# === residual_of_a_step_left_out
# thread: https://github.com/welltop-cn/ComfyUI-TeaCache/issues/71
# about: steps of a sampler that change little are left out: what blocks added last time is added again. It waits on the device that has been chosen for the cache
# operation: add on cuda:0, cpu
# operands: self.previous_residual|previous_residual|other
# category: cached-state|input-not-moved
# line: teacache.py: hidden = hidden + self.previous_residual
# line: teacache.py: self.previous_residual = (output - hidden).to(
# repair: teacache.py: hidden = hidden + self.previous_residual -> hidden = hidden + self.previous_residual.to(hidden.device)
import torch

from sampler import sample
from teacache import TeaCache
from transformer import Denoiser

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
offload_device = torch.device("cpu")
model = Denoiser(dim=6, blocks=3).to(device)
cache = TeaCache(threshold=0.12, cache_device=offload_device)
latents = torch.randn(1, 5, 6, generator=torch.Generator().manual_seed(9)).to(device)
result = sample(model, latents, torch.linspace(1.0, 0.0, 9).tolist(), cache)
print("skipped", cache.skipped, "latents", [round(value, 4) for value in result[0, 0].tolist()])
# --- transformer.py
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.shift = nn.LayerNorm(dim), nn.Linear(1, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def modulated(self, hidden, time):
        return self.norm(hidden) + self.shift(time)

    def forward(self, hidden, time):
        return hidden + self.mlp(self.modulated(hidden, time))

class Denoiser(nn.Module):
    def __init__(self, dim, blocks):
        super().__init__()
        self.blocks, self.out = nn.ModuleList(Block(dim) for _ in range(blocks)), nn.Linear(dim, dim)

    def forward(self, latents, time, cache):
        time = torch.full((1, 1), time, device=latents.device)
        return self.out(cache.run(self.blocks, latents, time))
# --- teacache.py
class TeaCache:
    """Runs all blocks, or none if the first one's input is about what it was."""

    def __init__(self, threshold, cache_device):
        self.threshold, self.cache_device = threshold, cache_device
        self.previous_input = self.previous_residual = None
        self.distance, self.skipped = 0.0, 0

    def may_skip(self, modulated):
        if self.previous_input is None:
            return False
        before = self.previous_input.to(modulated.device)
        self.distance += ((modulated - before).abs().mean() / before.abs().mean()).item()
        return self.distance < self.threshold

    def run(self, blocks, hidden, time):
        modulated = blocks[0].modulated(hidden, time)
        skip = self.may_skip(modulated)
        self.previous_input = modulated.to(self.cache_device)
        if skip:
            self.skipped += 1
            hidden = hidden + self.previous_residual
            return hidden
        output, self.distance = hidden, 0.0
        for block in blocks:
            output = block(output, time)
        self.previous_residual = (output - hidden).to(self.cache_device)
        return output
# --- sampler.py
import torch

@torch.no_grad()
def sample(model, latents, times, cache):
    for now, after in zip(times, times[1:]):
        latents = latents + (after - now) * model(latents, now, cache)
    return latents

# === module_that_moves_its_own_kind
# thread: https://github.com/metatensor/metatensor/issues/1027
# about: a kind of module takes along what no other does: maps of tensors among its attributes. A model of this kind has a plain tensor, too
# operation: index on cpu, cuda:0
# operands: self.type_to_index|.*type_to_index|index|.*types.*
# category: state-not-registered
# line: composition.py: self.type_to_index = torch.full(
# line: composition.py: columns = self.type_to_index[types]
# line: maps.py: if isinstance(value, TensorMap):
# repair: composition.py: self.type_to_index = torch.full((max(types) + 1,), -1) -> self.register_buffer("type_to_index", torch.full((max(types) + 1,), -1))
import torch

from composition import CompositionModel

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(8)
types = [1, 6, 8]
systems = [torch.tensor(types)[torch.randint(3, (atoms,), generator=generator)] for atoms in (3, 5, 4, 6)]
targets = torch.randn(4, 2, generator=generator)
model = CompositionModel(types, properties=["energy", "dipole"])
model.fit(systems, targets)
model.to(device)
predicted = model([system.to(device) for system in systems])
print("predicted", [[round(value, 4) for value in row] for row in predicted.tolist()])
# --- maps.py
from torch import nn

class TensorMap:
    """Tensors by their names."""

    def __init__(self, blocks):
        self.blocks = dict(blocks)

    def __getitem__(self, name):
        return self.blocks[name]

    def map(self, function):
        return TensorMap((name, function(block)) for name, block in self.blocks.items())

class MapModule(nn.Module):
    """A module whose maps go where it goes."""

    def _apply(self, function, recurse=True):
        super()._apply(function, recurse)
        for name, value in list(vars(self).items()):
            if isinstance(value, TensorMap):
                setattr(self, name, value.map(function))
        return self
# --- composition.py
import torch

from maps import MapModule, TensorMap

class CompositionModel(MapModule):
    """What a system has by the number of its atoms of each type alone."""

    def __init__(self, types, properties):
        super().__init__()
        self.properties, self.count = properties, len(types)
        self.type_to_index = torch.full((max(types) + 1,), -1)
        self.type_to_index[types] = torch.arange(len(types))
        self.weights = TensorMap((name, torch.zeros(len(types))) for name in properties)

    def counts(self, systems):
        rows = []
        for types in systems:
            columns = self.type_to_index[types]
            rows.append(torch.nn.functional.one_hot(columns, self.count).sum(0).float())
        return torch.stack(rows)

    def fit(self, systems, targets, penalty=0.1):
        counts = self.counts(systems)
        inner = counts.T @ counts + penalty * torch.eye(self.count)
        solved = torch.linalg.solve(inner, counts.T @ targets)
        self.weights = TensorMap(zip(self.properties, solved.T))

    def forward(self, systems):
        counts = self.counts(systems)
        return torch.stack([counts @ self.weights[name] for name in self.properties], dim=1)

# === stores_of_a_bucket_model
# thread: https://github.com/mhpi/hydrodl2/pull/28
# about: a model of rivers counts water in stores that begin almost empty, on "the" GPU. What drives it is on the one that its file of settings names
# operation: add on cuda:1, cuda:0
# operands: .*snow|.*soil|self|other
# category: default-or-current-device
# line: hbv.py: snow, soil = (on_gpu(
# line: tools.py: return tensor.cuda() if
# repair: hbv.py: snow, soil = (on_gpu(torch.full((precipitation.shape[1],), 1e-3)) for _ in range(2)) -> snow, soil = (torch.full((precipitation.shape[1],), 1e-3, device=precipitation.device) for _ in range(2))
import torch

from calibration import calibrate
from hbv import HbvModel

torch.manual_seed(0)
config = {"device": "cuda:1" if torch.cuda.is_available() else "cpu", "epochs": 4, "lr": 0.1}
generator = torch.Generator().manual_seed(2)
precipitation = 5 * torch.rand(12, 3, generator=generator)
temperature = 3 * torch.randn(12, 3, generator=generator)
observed = torch.rand(12, 3, generator=generator)
model = HbvModel(basins=3).to(config["device"])
print("losses", calibrate(model, precipitation, temperature, observed, config))
# --- tools.py
import torch

def on_gpu(tensor):
    return tensor.cuda() if torch.cuda.is_available() else tensor

def scaled(raw, low, high):
    """A parameter within its bounds."""
    return low + (high - low) * raw.sigmoid()
# --- hbv.py
import torch
from torch import nn

from tools import on_gpu, scaled

class HbvModel(nn.Module):
    """Precipitation is snow when it is cold; snow melts into the soil, and the soil gives some of its water to the river."""

    def __init__(self, basins):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(3, basins))

    def forward(self, precipitation, temperature):
        melt_rate, release, threshold = scaled(self.raw[0], 0.5, 5.0), scaled(self.raw[1], 0.01, 0.5), scaled(self.raw[2], -2.5, 2.5)
        snow, soil = (on_gpu(torch.full((precipitation.shape[1],), 1e-3)) for _ in range(2))
        flows = []
        for falls, warmth in zip(precipitation, temperature):
            cold = (threshold - warmth).sigmoid()
            rain_or_snow = falls * cold
            snow = snow + rain_or_snow
            melt = torch.minimum(snow, melt_rate * (warmth - threshold).relu())
            snow, soil = snow - melt, soil + melt + falls * (1 - cold)
            flow = release * soil
            soil = soil - flow
            flows.append(flow)
        return torch.stack(flows)
# --- calibration.py
import torch

def calibrate(model, precipitation, temperature, observed, config):
    forcing = [each.to(config["device"]) for each in (precipitation, temperature)]
    observed, losses = observed.to(config["device"]), []
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    for _ in range(config["epochs"]):
        loss = (model(*forcing) - observed).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === matrices_of_gates_from_numpy
# thread: https://github.com/qiboteam/qiboml/issues/76
# about: a backend counts circuits in PyTorch and begins them on its device. Matrices of gates are those of another backend, of NumPy, and are cast
# operation: mm|bmm|matmul|dot on cpu, cuda:0
# operands: matrix|self|mat1|.*matrix.*
# category: created-without-device
# line: backend.py: return torch.as_tensor(
# line: backend.py: matrix = self.cast(
# line: backend.py: state = matrix @ state
# line: backend.py: state = self.apply(
# repair: backend.py: return torch.as_tensor(array, dtype=torch.complex64) -> return torch.as_tensor(array, dtype=torch.complex64, device=self.device)
import math

import torch

from backend import PyTorchBackend
from circuit import Circuit

backend = PyTorchBackend()
backend.set_device("cuda:0" if torch.cuda.is_available() else "cpu")
circuit = Circuit(qubits=3)
circuit.add("H", 0)
circuit.add("CNOT", 0, 1)
circuit.add("RX", 2, angle=math.pi / 5)
circuit.add("CNOT", 1, 2)
probabilities = backend.execute(circuit)
print("probabilities", [round(value, 4) for value in probabilities.tolist()])
# --- circuit.py
class Circuit:
    """Gates in order: name, qubits, parameters."""

    def __init__(self, qubits):
        self.qubits, self.queue = qubits, []

    def add(self, name, *qubits, **parameters):
        if max(qubits) >= self.qubits:
            raise ValueError(f"{name} on qubits {qubits}, of {self.qubits}")
        self.queue.append((name, qubits, parameters))
# --- npmatrices.py
import numpy as np

class NumpyMatrices:
    H = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    CNOT = np.eye(4)[[0, 1, 3, 2]]

    @staticmethod
    def RX(angle):
        cos, sin = np.cos(angle / 2), -1j * np.sin(angle / 2)
        return np.array([[cos, sin], [sin, cos]])
# --- backend.py
import torch

from npmatrices import NumpyMatrices

class PyTorchBackend:
    def __init__(self):
        self.matrices, self.device = NumpyMatrices(), torch.device("cpu")

    def set_device(self, device):
        self.device = torch.device(device)

    def cast(self, array):
        return torch.as_tensor(array, dtype=torch.complex64)

    def zero_state(self, qubits):
        state = torch.zeros(2**qubits, dtype=torch.complex64, device=self.device)
        state[0] = 1
        return state

    def matrix_of(self, name, parameters):
        gate = getattr(self.matrices, name)
        matrix = self.cast(gate(**parameters) if callable(gate) else gate)
        return matrix

    def apply(self, matrix, state, qubits, total):
        """The gate's qubits come first, all others make up columns."""
        order = [*qubits, *(each for each in range(total) if each not in qubits)]
        state = state.reshape([2] * total).permute(order).reshape(2 ** len(qubits), -1)
        state = matrix @ state
        back = [order.index(each) for each in range(total)]
        return state.reshape([2] * total).permute(back).reshape(-1)

    def execute(self, circuit):
        state = self.zero_state(circuit.qubits)
        for name, qubits, parameters in circuit.queue:
            state = self.apply(self.matrix_of(name, parameters), state, qubits, circuit.qubits)
        return state.abs().square()

# === pictures_of_a_numbered_gpu
# thread: https://github.com/haosulab/SAPIEN/pull/273
# about: a renderer keeps pictures in arrays that know the number of their GPU. As tensors they are asked for on "cuda", and the scene is on the second one
# operation: mul on cuda:0, cuda:1
# operands: .*depth.*|.*position.*|self|other
# category: default-or-current-device
# line: cuda_array.py: device = "cuda" if
# line: cuda_array.py: return torch.empty(
# line: observe.py: depth = camera.get_picture(
# repair: cuda_array.py: device = "cuda" if self.cuda_id is not None else "cpu" -> device = f"cuda:{self.cuda_id}" if self.cuda_id is not None else "cpu"
import torch

from observe import PointCloudObserver
from render import Camera, Scene

render_device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
scene = Scene(spheres=[(0.0, 0.0, 3.0, 1.0), (0.5, 0.4, 2.0, 0.4)], device=render_device)
observer = PointCloudObserver(Camera(scene, size=6, field=0.8), near=0.5, far=4.0)
cloud = observer.observe()
print("points", len(cloud), [round(value, 4) for value in cloud.mean(0).tolist()])
# --- cuda_array.py
import torch

class CudaArray:
    """Memory of the renderer. To PyTorch it is given as a copy, which outlives the next picture."""

    def __init__(self, memory):
        self.memory, self.shape = memory, tuple(memory.shape)
        self.cuda_id = memory.device.index if memory.is_cuda else None

    def torch(self):
        device = "cuda" if self.cuda_id is not None else "cpu"
        return torch.empty(self.shape, device=device).copy_(self.memory)
# --- render.py
import torch

from cuda_array import CudaArray

class Scene:
    def __init__(self, spheres, device):
        self.spheres, self.device = torch.tensor(spheres, device=device), device

class Camera:
    def __init__(self, scene, size, field):
        self.scene, self.size, self.picture = scene, size, None
        axis = torch.linspace(-field, field, size, device=scene.device)
        rows, columns = torch.meshgrid(axis, axis, indexing="ij")
        self.directions = torch.nn.functional.normalize(torch.stack([columns, rows, torch.ones_like(rows)], dim=-1), dim=-1)

    def take_picture(self):
        """How far the nearest sphere is along each ray, or 0."""
        along = self.directions @ self.scene.spheres[:, :3].T
        inside = self.scene.spheres[:, 3] ** 2 - self.scene.spheres[:, :3].square().sum(1) + along**2
        distance = torch.where(inside > 0, along - inside.clamp(min=0).sqrt(), torch.inf).amin(-1)
        self.picture = CudaArray(torch.where(distance.isfinite(), distance, 0.0))

    def get_picture(self):
        return self.picture
# --- observe.py
class PointCloudObserver:
    def __init__(self, camera, near, far):
        self.camera, self.near, self.far = camera, near, far
        self.rays = camera.directions

    def observe(self):
        camera = self.camera
        camera.take_picture()
        depth = camera.get_picture().torch()[:, :, None]
        points = depth * self.rays
        visible = (depth[:, :, 0] > self.near) & (depth[:, :, 0] < self.far)
        return points[visible]

# === frequencies_left_by_the_offload
# thread: https://github.com/huggingface/transformers/issues/45859
# about: parameters of each module are on the GPU while it runs and wait on the CPU otherwise. One module has no parameters, and a buffer that is no part of checkpoints
# operation: mul on cpu, cuda:0
# operands: self.inv_freq|.*inv_freq.*|.*frequencies.*
# category: module-split
# line: qwen.py: frequencies = self.inv_freq[None, :, None].expand(
# line: qwen.py: angles = frequencies * positions[:, None, :].float()
# line: offload.py: for tensor in module.parameters(recurse=False):
# line: main.py: offload_parameters(
# repair: qwen.py: frequencies = self.inv_freq[None, :, None].expand(len(positions), -1, -1) -> frequencies = self.inv_freq.to(hidden.device)[None, :, None].expand(len(positions), -1, -1)
import torch

from offload import offload_parameters
from qwen import TinyQwen
from train import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = TinyQwen(words=20, dim=8, layers=2)
offload_parameters(model, device)
ids = torch.randint(20, (2, 6), generator=torch.Generator().manual_seed(3)).to(device)
print("losses", train(model, ids, steps=3, lr=0.02))
# --- offload.py
def move(module, device):
    for tensor in module.parameters(recurse=False):
        tensor.data = tensor.data.to(device)
        if tensor.grad is not None:
            tensor.grad = tensor.grad.to(device)

def offload_parameters(model, device):
    """Modules come to the device when they are called. After the backward pass all go back: `model.put_away()`."""
    for module in model.modules():
        module.register_forward_pre_hook(lambda module, args: move(module, device))
    model.put_away = lambda: [move(module, "cpu") for module in model.modules()]
# --- qwen.py
import torch
from torch import nn

class TextRotary(nn.Module):
    def __init__(self, dim, base=40.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, hidden, positions):
        frequencies = self.inv_freq[None, :, None].expand(len(positions), -1, -1)
        angles = frequencies * positions[:, None, :].float()
        angles = torch.cat([angles, angles], dim=1).transpose(1, 2)
        return angles.cos().to(hidden.dtype), angles.sin().to(hidden.dtype)

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def rotated(self, x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-second, first], dim=-1) * sin

    def forward(self, hidden, cos, sin):
        q, k, v = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        return hidden + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

class TinyQwen(nn.Module):
    def __init__(self, words, dim, layers):
        super().__init__()
        self.embed, self.rotary = nn.Embedding(words, dim), TextRotary(dim)
        self.layers, self.head = nn.ModuleList(Layer(dim) for _ in range(layers)), nn.Linear(dim, words)

    def forward(self, ids):
        hidden = self.embed(ids)
        positions = torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1)
        cos, sin = self.rotary(hidden, positions)
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return self.head(hidden)
# --- train.py
import torch
from torch import nn

def train(model, ids, steps, lr):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=lr), []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        model.put_away()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === scalings_of_the_first_pass
# thread: https://github.com/EricLBuehler/xlora/pull/37
# about: how much each adapter counts is told by a classifier that looks at what the model computes, so the model runs twice. In the first run all count the same
# operation: mul on cuda:0, cpu
# operands: .*scalings.*|.*weights.*|other
# category: created-without-device
# line: xlora.py: return torch.full(
# line: xlora.py: self.set_scalings(self.dummy_scalings(
# line: layers.py: result = result + scalings[:, index] * up(down(x))
# line: layers.py: scalings = self.shared["scalings"][:, self.number]
# line: xlora.py: self.shared["scalings"] = scalings
# repair: xlora.py: return torch.full((batch, len(self.adapted), self.adapters), 1 / self.adapters) -> return torch.full((batch, len(self.adapted), self.adapters), 1 / self.adapters, device=next(self.classifier.parameters()).device)
import torch

from base import Tagger
from xlora import XLoraModel

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
base = Tagger(features=5, dim=8, classes=3)
model = XLoraModel(base, adapters=3, rank=2).to(device)
generator = torch.Generator().manual_seed(4)
x, y = torch.randn(6, 5, generator=generator).to(device), torch.randint(3, (6,), generator=generator).to(device)
print("losses", model.fit(x, y, steps=4, lr=0.05))
# --- base.py
from torch import nn

class Tagger(nn.Module):
    def __init__(self, features, dim, classes):
        super().__init__()
        self.inner, self.middle, self.head = nn.Linear(features, dim), nn.Linear(dim, dim), nn.Linear(dim, classes)

    def features(self, x):
        return self.middle(self.inner(x).relu()).relu()

    def forward(self, x):
        return self.head(self.features(x))
# --- layers.py
import torch
from torch import nn

class XLoraLayer(nn.Module):
    def __init__(self, base, adapters, rank, number, shared):
        super().__init__()
        self.base, self.number, self.shared = base.requires_grad_(False), number, shared
        self.downs = nn.ModuleList(nn.Linear(base.in_features, rank, bias=False) for _ in range(adapters))
        self.ups = nn.ModuleList(nn.Linear(rank, base.out_features, bias=False) for _ in range(adapters))

    def forward(self, x):
        result = self.base(x)
        scalings = self.shared["scalings"][:, self.number]
        scalings = scalings[:, :, None]
        for index, (down, up) in enumerate(zip(self.downs, self.ups)):
            result = result + scalings[:, index] * up(down(x))
        return result
# --- xlora.py
import torch
from torch import nn

from layers import XLoraLayer

class XLoraModel(nn.Module):
    def __init__(self, model, adapters, rank):
        super().__init__()
        self.model, self.adapters, self.shared = model, adapters, {}
        self.adapted = ["inner", "middle"]
        dim = model.head.in_features
        for number, name in enumerate(self.adapted):
            setattr(model, name, XLoraLayer(getattr(model, name), adapters, rank, number, self.shared))
        self.classifier = nn.Linear(dim, len(self.adapted) * adapters)

    def set_scalings(self, scalings):
        self.shared["scalings"] = scalings

    def dummy_scalings(self, batch):
        return torch.full((batch, len(self.adapted), self.adapters), 1 / self.adapters)

    def forward(self, x):
        self.set_scalings(self.dummy_scalings(len(x)))
        with torch.no_grad():
            seen = self.model.features(x)
        scalings = self.classifier(seen).view(len(x), len(self.adapted), self.adapters).softmax(-1)
        self.set_scalings(scalings)
        return self.model(x)

    def fit(self, x, y, steps, lr):
        trained = [p for p in self.parameters() if p.requires_grad]
        optimizer, losses = torch.optim.Adam(trained, lr=lr), []
        for _ in range(steps):
            loss = nn.functional.cross_entropy(self(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

# === voice_encoded_apart
# thread: https://github.com/index-tts/index-tts/pull/795
# about: who speaks is found out of a recording once, by encoders that can have a device of their own. Speech is made on the GPU, and they are told to stay on the CPU
# operation: cat on cpu, cuda:0
# operands: style|.*style.*|tensors.*
# category: input-not-moved|cached-state|module-split
# line: infer.py: self.voices[name] = style
# line: infer.py: prefix = torch.cat([style
# line: infer.py: style = self.voice(
# line: infer.py: style = self.reference(
# repair: infer.py: self.voices[name] = style -> self.voices[name] = style = style.to(self.device)
import torch

from infer import IndexSpeech

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
recordings = {name: torch.randn(1, 1, 24, generator=torch.Generator().manual_seed(seed)) for name, seed in (("anna", 1), ("ben", 2))}
speech = IndexSpeech(words=20, dim=6, recordings=recordings, device=device, reference_device="cpu")
spoken = [speech.say("good morning", "anna"), speech.say("good night", "ben"), speech.say("thank you", "anna")]
print("spoken", [round(value, 4) for value in spoken], "voices", len(speech.voices))
# --- encoders.py
import torch
from torch import nn

class ReferenceEncoder(nn.Module):
    """A recording becomes a vector; how such vectors are spread is known."""

    def __init__(self, dim):
        super().__init__()
        self.conv = nn.Conv1d(1, dim, 5, stride=2)
        self.register_buffer("mean", torch.full((dim,), 0.1))
        self.register_buffer("std", torch.full((dim,), 0.5))

    def forward(self, wave):
        return (self.conv(wave).mean(-1) - self.mean) / self.std

class Speaker(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(words, dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, 4)
# --- infer.py
import torch

from encoders import ReferenceEncoder, Speaker

class IndexSpeech:
    def __init__(self, words, dim, recordings, device, reference_device=None):
        self.device, self.reference_device = device, torch.device(reference_device or device)
        self.reference = ReferenceEncoder(dim).to(self.reference_device)
        self.speaker = Speaker(words, dim).to(device)
        self.words, self.recordings, self.voices = words, recordings, {}

    def voice(self, name):
        if name not in self.voices:
            wave = self.recordings[name].to(self.reference_device)
            style = self.reference(wave)
            self.voices[name] = style
        return self.voices[name]

    @torch.no_grad()
    def say(self, text, name):
        style = self.voice(name)
        ids = torch.tensor([[sum(map(ord, word)) % self.words for word in text.split()]], device=self.device)
        prefix = torch.cat([style[:, None], self.speaker.embed(ids)], dim=1)
        hidden, _ = self.speaker.rnn(prefix)
        return self.speaker.out(hidden).abs().sum().item()

# === masks_by_kind_of_layer
# thread: https://github.com/huggingface/transformers/issues/45482
# about: layers look at all words or at the nearest few, and there is a mask for each kind. Between GPUs hooks take tensors along that a layer is called with, and these masks are in a dict
# operation: masked_fill|where|add|.*attention.* on cuda:1, cuda:0
# operands: mask|attn_mask|.*mask.*
# category: module-split|input-not-moved
# line: gemma.py: scores = scores.masked_fill(~mask
# line: gemma.py: mask = masks[self.kind]
# line: dispatch.py: args = tuple(each.to(device) if isinstance(each, torch.Tensor) else each for each in args)
# line: gemma.py: hidden = layer(hidden, masks)
# repair: gemma.py: mask = masks[self.kind] -> mask = masks[self.kind].to(hidden.device)
import torch

from dispatch import dispatch
from gemma import TinyGemma

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
model = TinyGemma(words=24, dim=8, kinds=["sliding", "full", "sliding", "full"], window=2)
device_map = {"embed": devices[0], "layers.0": devices[0], "layers.1": devices[0], "layers.2": devices[1], "layers.3": devices[1], "head": devices[1]}
dispatch(model, device_map)
ids = torch.randint(24, (1, 6), generator=torch.Generator().manual_seed(6))
logits = model(ids.to(devices[0]))
print("logits", [round(value, 4) for value in logits[0, -1, :5].tolist()])
# --- dispatch.py
import torch

def dispatch(model, device_map):
    """Puts modules on devices; what they are called with follows them."""
    for name, device in device_map.items():
        module = model.get_submodule(name).to(device)

        def bring(module, args, device=device):
            args = tuple(each.to(device) if isinstance(each, torch.Tensor) else each for each in args)
            return args

        module.register_forward_pre_hook(bring)
# --- gemma.py
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, dim, kind):
        super().__init__()
        self.kind, self.norm = kind, nn.RMSNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, masks):
        q, k, v = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
        mask = masks[self.kind]
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~mask, -torch.inf)
        return hidden + self.out(scores.softmax(-1) @ v)

class TinyGemma(nn.Module):
    def __init__(self, words, dim, kinds, window):
        super().__init__()
        self.embed, self.window = nn.Embedding(words, dim), window
        self.layers, self.head = nn.ModuleList(Layer(dim, kind) for kind in kinds), nn.Linear(dim, words)

    def masks(self, length, device):
        positions = torch.arange(length, device=device)
        back = positions[:, None] - positions[None]
        return {"full": back >= 0, "sliding": (back >= 0) & (back < self.window)}

    @torch.no_grad()
    def forward(self, ids):
        hidden = self.embed(ids)
        masks = self.masks(ids.shape[1], hidden.device)
        for layer in self.layers:
            hidden = layer(hidden, masks)
        return self.head(hidden)
