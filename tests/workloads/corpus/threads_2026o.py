# === parked_prompts
# thread: https://github.com/vladmandic/sdnext/pull/4887
# about: prompts are encoded once and their embeddings wait on the CPU from stage to stage; the connectors that take them are on the GPU, as nothing is offloaded
# operation: addmm|linear on cpu, cuda:0
# operands: embeds|prompt_embeds|input|mat1
# category: cached-state|input-not-moved
# line: process.py: base = self.pipe(
# line: process.py: refined = self.pipe(
# line: pipeline.py: text = self.connectors(
# line: connectors.py: hidden = self.inner(
# repair: process.py: base = self.pipe(**self.parked, frames=frames, steps=self.steps, seed=seed) -> base = self.pipe(**unpark(self.parked, self.pipe.device), frames=frames, steps=self.steps, seed=seed)
# repair: process.py: refined = self.pipe(**self.parked, latents=upsampled, steps=self.steps // 2, seed=seed + 1) -> refined = self.pipe(**unpark(self.parked, self.pipe.device), latents=upsampled, steps=self.steps // 2, seed=seed + 1)
import torch

from pipeline import VideoPipeline
from process import LatentProcess

torch.manual_seed(0)
pipe = VideoPipeline(words=40, dim=12).to("cuda:0" if torch.cuda.is_available() else "cpu")
process = LatentProcess(pipe, steps=4)
video = process.run([3, 17, 9, 21], frames=3, seed=5)
print("frames", len(video), "energy", round(video.square().mean().item(), 5))
# --- process.py
import torch

def park(tensors):
    return {name: value.to("cpu") for name, value in tensors.items()}

def unpark(tensors, device):
    return {name: value.to(device) for name, value in tensors.items()}

class LatentProcess:
    """Base, upsample, refine: three stages that share a prompt."""

    def __init__(self, pipe, steps):
        self.pipe, self.steps = pipe, steps

    def upsample(self, latents):
        between = (latents[1:] + latents[:-1]) / 2
        doubled = [each for pair in zip(latents, between) for each in pair]
        return torch.stack([*doubled, latents[-1]])

    def run(self, tokens, frames, seed):
        embeds, mask = self.pipe.encode_prompt(tokens)
        self.parked = park({"prompt_embeds": embeds, "prompt_mask": mask})
        base = self.pipe(**self.parked, frames=frames, steps=self.steps, seed=seed)
        upsampled = self.upsample(base)
        refined = self.pipe(**self.parked, latents=upsampled, steps=self.steps // 2, seed=seed + 1)
        return self.pipe.decode(refined).cpu()
# --- connectors.py
import torch
from torch import nn

class TextConnectors(nn.Module):
    """From the encoder's space to that of the transformer; what is padded becomes a register."""

    def __init__(self, dim):
        super().__init__()
        self.inner, self.outer = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.register = nn.Parameter(torch.randn(dim) * 0.1)

    def forward(self, embeds, mask):
        hidden = self.inner(embeds)
        hidden = self.outer(torch.nn.functional.silu(hidden))
        return torch.where(mask[..., None], hidden, self.register)
# --- pipeline.py
import torch
from torch import nn

from connectors import TextConnectors

class VideoPipeline:
    def __init__(self, words, dim, length=6):
        self.length, self.dim = length, dim
        self.text_encoder = nn.Sequential(nn.Embedding(words, dim), nn.LayerNorm(dim), nn.Linear(dim, dim))
        self.connectors, self.transformer, self.vae = TextConnectors(dim), nn.Linear(2 * dim, dim), nn.Linear(dim, 8)

    @property
    def device(self):
        return self.vae.weight.device

    def to(self, device):
        for part in (self.text_encoder, self.connectors, self.transformer, self.vae):
            part.to(device).requires_grad_(False)
        return self

    def encode_prompt(self, tokens):
        padded = torch.tensor([tokens + [0] * (self.length - len(tokens))], device=self.device)
        return self.text_encoder(padded), padded != 0

    def __call__(self, prompt_embeds, prompt_mask, steps, seed, frames=None, latents=None):
        noise = torch.randn(frames or len(latents), self.dim, generator=torch.Generator().manual_seed(seed)).to(self.device)
        latents = noise if latents is None else latents + 0.3 * noise
        text = self.connectors(prompt_embeds, prompt_mask).mean(1)
        for _ in range(steps):
            velocity = self.transformer(torch.cat([latents, text.expand_as(latents)], dim=-1))
            latents = latents - velocity / steps
        return latents

    def decode(self, latents):
        return self.vae(latents).tanh()

# === finished_rows
# thread: https://github.com/xorbitsai/inference/pull/5479
# about: rows of a batch that are finished leave the cache. Which ones stay is written where the first layer's keys are; layers of the other GPU are asked for them, too
# operation: index on cuda:1, cuda:0
# operands: self.keys|keys, indices
# category: module-split|input-not-moved|created-without-device
# line: batching.py: keep = torch.tensor(
# line: batching.py: cache.batch_select_indices(
# line: batching.py: device = cache.layers[0].keys.device
# repair: batching.py: keep = torch.tensor(rows, device=device) -> keep = torch.tensor(rows, device="cpu")
import torch

from batching import BatchScheduler
from model import SplitDecoder

torch.manual_seed(0)
devices = ["cuda:0", f"cuda:{torch.cuda.device_count() - 1}"]
model = SplitDecoder(words=20, dim=16, heads=2, devices=devices).eval()
scheduler = BatchScheduler(model, stop=7)
answers = scheduler.run([[1, 4, 9], [2, 2, 5], [1, 3, 3]], limits=[2, 6, 4])
print("answers", answers)
# --- model.py
import torch
from torch import nn
from transformers import DynamicCache

class Layer(nn.Module):
    def __init__(self, index, dim, heads):
        super().__init__()
        self.index, self.heads = index, heads
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, cache):
        batch, length, dim = hidden.shape
        q, k, v = self.qkv(self.norm(hidden)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = cache.update(k, v, self.index)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        before = k.shape[-2] - length
        seen = torch.ones(length, k.shape[-2], dtype=torch.bool, device=scores.device).tril(before)
        mixed = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
        return hidden + self.out(mixed.transpose(1, 2).reshape(batch, length, dim))

class SplitDecoder(nn.Module):
    """As many layers as devices, one on each."""

    def __init__(self, words, dim, heads, devices):
        super().__init__()
        self.devices = devices
        self.embed = nn.Embedding(words, dim).to(devices[0])
        self.layers = nn.ModuleList(Layer(index, dim, heads).to(device) for index, device in enumerate(devices))
        self.head = nn.Linear(dim, words).to(devices[-1])

    def forward(self, tokens, cache=None):
        cache = DynamicCache() if cache is None else cache
        hidden = self.embed(tokens.to(self.devices[0]))
        for layer, device in zip(self.layers, self.devices):
            hidden = layer(hidden.to(device), cache)
        return self.head(hidden[:, -1]), cache
# --- batching.py
import torch

def reduce_cache(cache, rows):
    """The cache of these rows of the batch alone."""
    device = cache.layers[0].keys.device
    keep = torch.tensor(rows, device=device)
    cache.batch_select_indices(keep)
    return cache

class BatchScheduler:
    def __init__(self, model, stop):
        self.model, self.stop = model, stop

    @torch.inference_mode()
    def run(self, prompts, limits):
        answers, running = [[] for _ in prompts], list(range(len(prompts)))
        tokens, cache = torch.tensor(prompts), None
        while running:
            logits, cache = self.model(tokens, cache)
            chosen = logits.argmax(-1).tolist()
            for request, token in zip(running, chosen):
                answers[request].append(token)
            rows = [row for row, request in enumerate(running) if chosen[row] != self.stop and len(answers[request]) < limits[request]]
            if rows and len(rows) < len(running):
                cache = reduce_cache(cache, rows)
            running = [running[row] for row in rows]
            tokens = torch.tensor([[chosen[row]] for row in rows])
        return answers

# === acquisition_bounds
# thread: https://github.com/automl/neps/pull/279
# about: the surrogate is fitted on the GPU; what is proposed to its acquisition function is drawn between bounds that are made anew, on no device in particular
# operation: div on cpu, cuda:0
# operands: x1|x|candidates
# category: created-without-device|input-not-moved
# line: optimize.py: bounds = torch.tensor(
# line: optimize.py: points = draw(
# line: optimize.py: values = acq_fn(
# line: surrogate.py: near = self.kernel(
# line: surrogate.py: scaled = x1 /
# repair: optimize.py: bounds = torch.tensor([lower, upper], dtype=torch.float64) -> bounds = torch.tensor([lower, upper], dtype=torch.float64, device=next(acq_fn.parameters()).device)
import torch

from optimize import optimize_acq
from space import SearchSpace
from surrogate import ExpectedImprovement, GaussianProcess

def objective(config):
    return (config["lr"] - 0.3) ** 2 + 0.1 * (config["width"] - 40) ** 2 / 400

space = SearchSpace(lr=(0.0, 1.0), width=(8.0, 64.0))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
tried = [{"lr": 0.1, "width": 16.0}, {"lr": 0.9, "width": 60.0}, {"lr": 0.5, "width": 30.0}]
for trial in range(3):
    x, y = space.encode(tried).to(device), torch.tensor([objective(each) for each in tried], dtype=torch.float64, device=device)
    model = GaussianProcess(x, y)
    best = optimize_acq(ExpectedImprovement(model, y.min()), space, samples=32, seed=trial)
    tried.append(space.decode(best))
print("best", round(min(objective(each) for each in tried), 6), {name: round(value, 3) for name, value in tried[-1].items()})
# --- space.py
import torch

class SearchSpace:
    def __init__(self, **ranges):
        self.ranges = ranges

    @property
    def bounds(self):
        return [low for low, _ in self.ranges.values()], [high for _, high in self.ranges.values()]

    def encode(self, configs):
        return torch.tensor([[config[name] for name in self.ranges] for config in configs], dtype=torch.float64)

    def decode(self, point):
        return dict(zip(self.ranges, point.tolist()))
# --- surrogate.py
import torch
from torch import nn

class GaussianProcess(nn.Module):
    def __init__(self, x, y, noise=1e-4):
        super().__init__()
        self.lengthscale = nn.Parameter(x.std(0) + 1e-3)
        self.register_buffer("x", x)
        self.register_buffer("mean", y.mean())
        covariance = self.kernel(x, x) + noise * torch.eye(len(x), dtype=x.dtype, device=x.device)
        self.register_buffer("factor", torch.linalg.cholesky(covariance.detach()))
        self.register_buffer("alpha", torch.cholesky_solve((y - self.mean)[:, None], self.factor))

    def kernel(self, x1, x2):
        scaled = x1 / self.lengthscale
        return (-0.5 * torch.cdist(scaled, x2 / self.lengthscale).square()).exp()

    def forward(self, points):
        near = self.kernel(points, self.x)
        explained = (near * torch.cholesky_solve(near.T, self.factor).T).sum(-1)
        return self.mean + (near @ self.alpha)[:, 0], (1 - explained).clamp(min=1e-9).sqrt()

class ExpectedImprovement(nn.Module):
    def __init__(self, model, best):
        super().__init__()
        self.model = model
        self.register_buffer("best", best)

    def forward(self, points):
        mean, deviation = self.model(points)
        z = (self.best - mean) / deviation
        normal = torch.distributions.Normal(torch.zeros_like(z), torch.ones_like(z))
        return deviation * (z * normal.cdf(z) + normal.log_prob(z).exp())
# --- optimize.py
import torch

def draw(bounds, samples, seed):
    unit = torch.rand(samples, bounds.shape[1], dtype=bounds.dtype, generator=torch.Generator().manual_seed(seed))
    return bounds[0] + (bounds[1] - bounds[0]) * unit.to(bounds.device)

def optimize_acq(acq_fn, space, samples, seed):
    """The best of points drawn everywhere, then of points drawn around it."""
    lower, upper = space.bounds
    bounds = torch.tensor([lower, upper], dtype=torch.float64)
    points = draw(bounds, samples, seed)
    with torch.no_grad():
        for round in range(2):
            values = acq_fn(points)
            best = points[values.argmax()]
            width = (bounds[1] - bounds[0]) * 0.1
            points = draw(torch.stack([(best - width).maximum(bounds[0]), (best + width).minimum(bounds[1])]), samples, seed + round)
    return best

# === muon_while_backward
# thread: https://github.com/deepspeedai/DeepSpeed/pull/8464
# about: momentum is offloaded to the host. For one stage the update is orthogonalised while the backward pass runs, in a hook that meets gradients of the GPU
# operation: lerp on cpu, cuda:0
# operands: momentum|self, grad|end
# category: optimizer|input-not-moved
# line: stage3.py: update = muon_update(
# line: muon.py: momentum.lerp_(
# repair: stage3.py: update = muon_update(param.grad, momentum, beta=self.beta) -> update = muon_update(param.grad.to(momentum.device), momentum, beta=self.beta)
import torch

from model import tower
from stage3 import OffloadedMuon

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = tower(dim=8, classes=3).to(device)
optimizer = OffloadedMuon(model, lr=0.05, beta=0.9, offload_device="cpu")
inputs, labels = torch.randn(12, 8), torch.arange(12) % 3
losses = []
for _ in range(4):
    loss = torch.nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- model.py
from torch import nn

def tower(dim, classes):
    return nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim), nn.GELU(), nn.Linear(dim, classes))
# --- muon.py
import torch

def zeropower(matrix, steps=5):
    """Newton and Schulz's way to the nearest orthogonal matrix."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix / (matrix.norm() + 1e-7)
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide else x.T

@torch.no_grad()
def muon_update(grad, momentum, beta, nesterov=True):
    momentum.lerp_(grad, 1 - beta)
    update = grad.lerp(momentum, beta) if nesterov else momentum
    return zeropower(update) * max(1, grad.shape[0] / grad.shape[1]) ** 0.5
# --- stage3.py
import torch

from muon import muon_update

class OffloadedMuon:
    """Muon for matrices, plain descent for the rest. Updates of matrices are there when the backward pass ends."""

    def __init__(self, model, lr, beta, offload_device):
        self.lr, self.beta = lr, beta
        self.params = list(model.parameters())
        self.momentum, self.ready = {}, {}
        for param in self.params:
            if param.ndim == 2:
                self.momentum[param] = torch.zeros_like(param, device=offload_device, requires_grad=False)
                param.register_post_accumulate_grad_hook(self.reduce_and_update)

    def reduce_and_update(self, param):
        momentum = self.momentum[param]
        update = muon_update(param.grad, momentum, beta=self.beta)
        self.ready[param] = update
        param.grad = None

    @torch.no_grad()
    def step(self):
        for param in self.params:
            update = self.ready.pop(param) if param in self.momentum else param.grad
            param.sub_(update.to(param.device), alpha=self.lr)
            param.grad = None

# === policy_on_cpu
# thread: https://github.com/huggingface/lerobot/pull/2778
# about: a run is configured for the CPU, and batches are brought there; the accelerator that prepares the policy has found a GPU and knows nothing of the configuration
# operation: addmm|linear on cpu, cuda:0
# operands: .*state.*|input
# category: default-or-current-device|input-not-moved
# line: train.py: accelerator = Accelerator(
# line: train.py: policy, optimizer, loader = accelerator.prepare(
# line: train.py: batch = preprocessor(
# line: train.py: loss = policy(
# line: processor.py: return {key: value.to(
# line: train.py: preprocessor = Preprocessor(
# line: main.py: config = TrainConfig(
# repair: train.py: accelerator = Accelerator() -> accelerator = Accelerator(cpu=config.device == "cpu")
from config import TrainConfig
from train import train

config = TrainConfig(device="cpu", steps=6, batch_size=4, lr=0.05, seed=3)
print("losses", train(config))
# --- config.py
from dataclasses import dataclass

@dataclass
class TrainConfig:
    device: str
    steps: int
    batch_size: int
    lr: float
    seed: int
    state_dim: int = 6
    action_dim: int = 2
    chunk: int = 3
# --- processor.py
class Preprocessor:
    """Renames, normalizes and moves what a dataset gives."""

    RENAMED = {"observation.state": "state"}

    def __init__(self, stats, device):
        self.stats, self.device = stats, device

    def __call__(self, batch):
        batch = {self.RENAMED.get(key, key): value for key, value in batch.items()}
        batch["state"] = self.normalize(batch["state"])
        return {key: value.to(self.device) for key, value in batch.items()}

    def normalize(self, value):
        mean, deviation = (each.to(value.device) for each in self.stats)
        return (value - mean) / deviation
# --- policy.py
import torch
from torch import nn

class ChunkPolicy(nn.Module):
    def __init__(self, state_dim, action_dim, chunk):
        super().__init__()
        self.chunk = chunk
        self.body = nn.Sequential(nn.Linear(state_dim, 16), nn.Mish(), nn.Linear(16, chunk * action_dim))

    def forward(self, batch):
        predicted = self.body(batch["state"]).unflatten(-1, (self.chunk, -1))
        return torch.nn.functional.l1_loss(predicted, batch["action"])
# --- train.py
from itertools import cycle, islice

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from policy import ChunkPolicy
from processor import Preprocessor

def episodes(config):
    generator = torch.Generator().manual_seed(config.seed)
    states = torch.randn(16, config.state_dim, generator=generator) * 3 + 1
    actions = states[:, None, : config.action_dim].tanh().repeat(1, config.chunk, 1)
    return [{"observation.state": state, "action": action} for state, action in zip(states, actions)]

def train(config):
    torch.manual_seed(config.seed)
    accelerator = Accelerator()
    dataset = episodes(config)
    states = torch.stack([each["observation.state"] for each in dataset])
    preprocessor = Preprocessor((states.mean(0), states.std(0)), config.device)
    policy = ChunkPolicy(config.state_dim, config.action_dim, config.chunk).to(config.device)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=config.lr)
    loader = DataLoader(dataset, batch_size=config.batch_size)
    policy, optimizer, loader = accelerator.prepare(policy, optimizer, loader)
    losses = []
    for batch in islice(cycle(loader), config.steps):
        batch = preprocessor(batch)
        loss = policy(batch)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(round(loss.item(), 4))
    return losses

# === frames_of_two_cards
# thread: https://github.com/nagadomi/nunif/pull/427
# about: threads deal the frames of a film to two GPUs; the range of a scene's depths is that of its first frame, and stays on whichever card had it
# operation: sub on cuda:1, cuda:0
# operands: frame, min_value
# category: cached-state|input-not-moved|data-parallel
# line: depth_scaler.py: frame = 1.0 -
# line: depth_scaler.py: return minmax_normalize(
# line: depth_scaler.py: self.range = frame
# repair: depth_scaler.py: frame = 1.0 - (frame - min_value) / (max_value - min_value) -> frame = 1.0 - (frame - min_value.to(frame.device)) / (max_value - min_value).to(frame.device)
import torch

from convert import StereoConverter
from depth_model import DepthModel

torch.manual_seed(0)
devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
model = DepthModel(width=4).eval()
converter = StereoConverter(model, devices, shift=2)
film = torch.rand(6, 3, 8, 12, generator=torch.Generator().manual_seed(1))
right = converter.convert(list(film), scene_starts={0, 4})
print("frames", len(right), "mean", round(torch.stack(right).mean().item(), 5))
# --- depth_model.py
from torch import nn

class DepthModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, frame):
        return self.layers(frame[None])[0, 0]
# --- tickets.py
import threading

class TicketLock:
    """Lets threads through in the order of their numbers."""

    def __init__(self):
        self.condition, self.served = threading.Condition(), 0

    def wait(self, ticket):
        with self.condition:
            self.condition.wait_for(lambda: self.served == ticket)

    def release(self):
        with self.condition:
            self.served += 1
            self.condition.notify_all()
# --- depth_scaler.py
def minmax_normalize(frame, min_value, max_value):
    frame = 1.0 - (frame - min_value) / (max_value - min_value)
    return frame.clamp(0.0, 1.0)

class SceneScaler:
    def __init__(self):
        self.range = None

    def __call__(self, frame, reset):
        if reset or self.range is None:
            self.range = frame.amin(), frame.amax()
        return minmax_normalize(frame, *self.range)
# --- convert.py
import copy
from concurrent.futures import ThreadPoolExecutor

import torch

from depth_scaler import SceneScaler
from tickets import TicketLock

class StereoConverter:
    def __init__(self, model, devices, shift):
        self.devices, self.shift = devices, shift
        self.models = {device: copy.deepcopy(model).to(device) for device in devices}
        self.scaler, self.lock = SceneScaler(), TicketLock()

    def warp(self, frame, depth):
        columns = torch.arange(frame.shape[-1], device=frame.device)
        source = (columns + (depth * self.shift).round().long()).clamp(0, frame.shape[-1] - 1)
        return frame.gather(-1, source.expand_as(frame))

    @torch.inference_mode()
    def one(self, ticket, frame, starts_scene):
        device = self.devices[ticket % len(self.devices)]
        frame = frame.to(device)
        depth = self.models[device](frame)
        self.lock.wait(ticket)
        try:
            depth = self.scaler(depth, reset=starts_scene)
        finally:
            self.lock.release()
        return self.warp(frame, depth).cpu()

    def convert(self, frames, scene_starts):
        with ThreadPoolExecutor(len(self.devices)) as pool:
            jobs = [pool.submit(self.one, ticket, frame, ticket in scene_starts) for ticket, frame in enumerate(frames)]
            return [job.result() for job in jobs]

# === stale_loss_device
# thread: https://github.com/pytorch/rl/pull/4238
# about: a loss keeps the device that it was constructed for and makes masks in a context of it; the loss, with the actor in it, has been moved since
# operation: mul on cuda:0, cpu
# operands: log_probs, mask|assistant_mask
# category: default-or-current-device|cached-state|created-without-device
# line: sft.py: with torch.device(
# line: sft.py: self.device = device
# line: sft.py: mask = self.tokenizer.assistant_mask(
# line: sft.py: summed = (
# line: main.py: loss = SFTLoss(
# repair: sft.py: with torch.device(self.device): -> with torch.device(next(self.actor_network.parameters()).device):
import torch

from chat import ChatTokenizer
from sft import SFTLoss, TinyActor

torch.manual_seed(0)
tokenizer = ChatTokenizer()
histories = [[("user", "add two and three"), ("assistant", "it is five")], [("user", "say hello"), ("assistant", "hello to you all")]]
for history in histories:
    tokenizer.learn(history)
loss = SFTLoss(TinyActor(len(tokenizer.words), dim=8), tokenizer, device="cpu")
device = "cuda" if torch.cuda.is_available() else "cpu"
loss.to(device)
optimizer = torch.optim.Adam(loss.parameters(), lr=0.05)
values = []
for _ in range(4):
    value = loss({"history": histories, "tokens": tokenizer.tokens(histories).to(device)})
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    values.append(round(value.item(), 4))
print("loss_sft", values)
# --- chat.py
import torch

class ChatTokenizer:
    def __init__(self):
        self.words = {"<pad>": 0, "<user>": 1, "<assistant>": 2}

    def learn(self, history):
        for _, text in history:
            for word in text.split():
                self.words.setdefault(word, len(self.words))

    def encode(self, history):
        """Tokens of a conversation, and for each whether the assistant says it."""
        tokens, spoken = [], []
        for role, text in history:
            said = [self.words[word] for word in text.split()]
            tokens += [self.words[f"<{role}>"], *said]
            spoken += [0, *[int(role == "assistant")] * len(said)]
        return tokens, spoken

    def padded(self, rows):
        longest = max(map(len, rows))
        return [row + [0] * (longest - len(row)) for row in rows]

    def tokens(self, histories):
        return torch.tensor(self.padded([self.encode(history)[0] for history in histories]))

    def assistant_mask(self, histories):
        return torch.tensor(self.padded([self.encode(history)[1] for history in histories]), dtype=torch.float32)
# --- sft.py
from torch import nn
import torch

class TinyActor(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(words, dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, words)

    def forward(self, tokens):
        hidden, _ = self.mix(self.embed(tokens[:, :-1]))
        log_probs = self.head(hidden).log_softmax(-1)
        return log_probs.gather(-1, tokens[:, 1:, None])[..., 0]

class SFTLoss(nn.Module):
    def __init__(self, actor_network, tokenizer, device=None):
        super().__init__()
        self.actor_network, self.tokenizer = actor_network, tokenizer
        self.device = device
        if device is not None:
            actor_network.to(device)

    def forward(self, data):
        with torch.device(self.device):
            mask = self.tokenizer.assistant_mask(data["history"])[:, 1:]
        log_probs = self.actor_network(data["tokens"])
        summed = (log_probs * mask).sum(-1)
        return -(summed / mask.sum(-1)).mean()

# === scalarised_returns
# thread: https://github.com/LucasAlegre/morl-baselines/pull/178
# about: a welfare of several objectives is a function that closes over their weights; the agent asks it for returns that are where it learns
# operation: mul on cpu, cuda:0
# operands: weights
# category: created-without-device|input-not-moved
# line: main.py: weights = torch.tensor(
# line: welfare.py: powered = weights
# repair: main.py: weights = torch.tensor([0.7, 0.3]) -> weights = torch.tensor([0.7, 0.3], device=agent.device)
import torch

from agent import Agent
from env import Foraging
from welfare import power_mean

torch.manual_seed(0)
agent = Agent(observations=3, actions=4, objectives=2, device="cuda" if torch.cuda.is_available() else "cpu")
weights = torch.tensor([0.7, 0.3])
agent.welfare = power_mean(weights, power=0.5)
agent.train(Foraging(seed=2), episodes=5, steps=6)
print("utilities", agent.utilities)
# --- env.py
import torch

class Foraging:
    """Each action feeds two needs, unequally, and tires."""

    GAINS = torch.tensor([[1.0, 0.1], [0.2, 0.9], [0.5, 0.5], [0.05, 0.05]])

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def reset(self):
        self.state = torch.rand(3, generator=self.generator)
        return self.state

    def step(self, action):
        self.state = (self.state * 0.8 + 0.2 * torch.rand(3, generator=self.generator)).clamp(0, 1)
        return self.state, self.GAINS[action] * self.state[:2].add(0.1)
# --- welfare.py
def power_mean(weights, power):
    """The weighted power mean of returns; below 1 it is for equal ones."""

    def welfare(returns):
        powered = weights * returns.clamp(min=1e-6) ** power
        return powered.sum(-1) ** (1 / power)

    return welfare
# --- agent.py
import torch
from torch import nn

class Agent:
    def __init__(self, observations, actions, objectives, device, lr=0.02):
        self.device, self.utilities = torch.device(device), []
        self.policy = nn.Sequential(nn.Linear(observations, 16), nn.Tanh(), nn.Linear(16, actions)).to(self.device)
        self.critic = nn.Linear(observations, objectives).to(self.device)
        self.optimizer = torch.optim.Adam([*self.policy.parameters(), *self.critic.parameters()], lr=lr)

    def episode(self, env, steps):
        observation, seen, rewards, chosen = env.reset(), [], [], []
        for _ in range(steps):
            seen.append(observation)
            with torch.no_grad():
                logits = self.policy(observation.to(self.device)).cpu()
            action = torch.multinomial(logits.softmax(-1), 1, generator=env.generator).item()
            observation, reward = env.step(action)
            rewards.append(reward)
            chosen.append(action)
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        return torch.stack(seen).to(self.device), torch.tensor(chosen, device=self.device), returns.to(self.device)

    def update(self, seen, chosen, returns):
        values = self.critic(seen)
        utility = self.welfare(returns) - self.welfare(values.detach().abs())
        log_probs = self.policy(seen).log_softmax(-1).gather(1, chosen[:, None])[:, 0]
        loss = (values - returns).square().mean() - (utility * log_probs).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.utilities.append(round(self.welfare(returns[:1]).item(), 4))

    def train(self, env, episodes, steps):
        for _ in range(episodes):
            self.update(*self.episode(env, steps))
