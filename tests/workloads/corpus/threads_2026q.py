# === running_descriptor_stats
# thread: https://github.com/luigibonati/mlcolvar/pull/185
# about: mean and deviation of descriptors are gathered batch by batch. What they are gathered into is made at the first batch, which is on the GPU, on no device in particular
# operation: sub on cuda:0, cpu
# operands: self.mean|mean
# category: created-without-device
# line: stats.py: self.mean, self.squares = torch.zeros(
# line: stats.py: self.start(
# line: stats.py: delta = sample_mean
# repair: stats.py: self.start(x.shape[1]) -> self.start(x.shape[1], x.device)
# repair: stats.py: def start(self, features): -> def start(self, features, device):
# repair: stats.py: self.mean, self.squares = torch.zeros(features), torch.zeros(features) -> self.mean, self.squares = torch.zeros(features, device=device), torch.zeros(features, device=device)
import torch

from variable import CollectiveVariable, train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(2)
scales = torch.tensor([1.0, 4.0, 0.5, 2.0])
descriptors = torch.randn(48, 4, generator=generator) * scales + 3
states = (descriptors[:, 1] > 3).float()
batches = [(x.to(device), y.to(device)) for x, y in zip(descriptors.split(16), states.split(16))]
variable = CollectiveVariable(descriptors=4, width=6).to(device)
variable.fit_normalization(batches)
print("losses", [round(loss, 4) for loss in train(variable, batches, epochs=3, lr=0.05)])
# --- stats.py
import torch

class Statistics:
    """Of each descriptor, in one pass over all batches."""

    def __init__(self):
        self.count, self.mean, self.squares = 0, None, None

    def start(self, features):
        self.mean, self.squares = torch.zeros(features), torch.zeros(features)

    def update(self, x):
        if self.mean is None:
            self.start(x.shape[1])
        before, self.count = self.count, self.count + len(x)
        sample_mean = x.mean(0)
        delta = sample_mean - self.mean
        self.mean = self.mean + delta * len(x) / self.count
        self.squares = self.squares + (x - sample_mean).square().sum(0) + delta.square() * before * len(x) / self.count

    def deviation(self):
        return (self.squares / (self.count - 1)).sqrt()
# --- variable.py
import torch
from torch import nn

from stats import Statistics

class Normalization(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("range", torch.ones(features))

    def forward(self, x):
        return (x - self.mean) / self.range

class CollectiveVariable(nn.Module):
    def __init__(self, descriptors, width):
        super().__init__()
        self.normalization = Normalization(descriptors)
        self.network = nn.Sequential(nn.Linear(descriptors, width), nn.Tanh(), nn.Linear(width, 1))

    def fit_normalization(self, batches):
        statistics = Statistics()
        for x, _ in batches:
            statistics.update(x)
        self.normalization.mean.copy_(statistics.mean)
        self.normalization.range.copy_(statistics.deviation())

    def forward(self, x):
        return self.network(self.normalization(x))[:, 0]

def train(variable, batches, epochs, lr):
    optimizer, losses = torch.optim.Adam(variable.parameters(), lr=lr), []
    for _ in range(epochs):
        for x, y in batches:
            loss = nn.functional.binary_cross_entropy_with_logits(variable(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses

# === mel_beside_the_autoencoder
# thread: https://github.com/bghira/SimpleTuner/pull/2359
# about: a wrapper has its own way to move, which takes the encoder and the decoder along. Waves become spectrograms by a third module of it
# operation: mul on cuda:0, cpu
# operands: self.window|window
# category: module-split|state-not-registered
# line: autoencoder.py: for part in (self.encoder
# line: autoencoder.py: mel = self.mel_transform(
# line: autoencoder.py: self.mel_transform = MelTransform(
# line: mel.py: frames = frames
# repair: autoencoder.py: mel = self.mel_transform(waveform) -> mel = self.mel_transform.to(waveform.device, waveform.dtype)(waveform)
import torch

from autoencoder import AudioAutoencoder
from cache import LatentCache

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
autoencoder = AudioAutoencoder(bins=6, latent=3).to(device)
generator = torch.Generator().manual_seed(8)
songs = {f"song{index}": torch.randn(1, 96 + 32 * index, generator=generator) for index in range(3)}
cache = LatentCache(autoencoder, device)
latents = cache.encode(songs)
again = autoencoder.decode(latents["song2"].to(device))
print("latents", [tuple(each.shape) for each in latents.values()], round(again.mean().item(), 5))
# --- mel.py
import torch
from torch import nn

class MelTransform(nn.Module):
    """The logarithm of a spectrogram whose bins are summed by triangles."""

    def __init__(self, size, hop, bins):
        super().__init__()
        self.size, self.hop = size, hop
        centres = torch.linspace(0, size // 2, bins + 2)[1:-1]
        distance = (torch.arange(size // 2 + 1)[:, None] - centres).abs()
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("filters", (1 - distance / (size / bins)).clamp(min=0))

    def forward(self, waveform):
        frames = waveform.unfold(-1, self.size, self.hop)
        frames = frames * self.window
        power = torch.fft.rfft(frames).abs().square()
        return (power @ self.filters).clamp(min=1e-5).log()
# --- autoencoder.py
import torch
from torch import nn

from mel import MelTransform

class AudioAutoencoder:
    def __init__(self, bins, latent):
        self.mel_transform = MelTransform(size=16, hop=8, bins=bins)
        self.encoder = nn.Sequential(nn.Linear(bins, 12), nn.SiLU(), nn.Linear(12, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 12), nn.SiLU(), nn.Linear(12, bins))

    def to(self, device):
        for part in (self.encoder, self.decoder):
            part.to(device).requires_grad_(False)
        return self

    def waveform_to_mel(self, waveform):
        mel = self.mel_transform(waveform)
        return (mel + 4) / 4

    def encode(self, waveform):
        mean, _ = self.encoder(self.waveform_to_mel(waveform)).chunk(2, dim=-1)
        return mean

    def decode(self, latent):
        return self.decoder(latent) * 4 - 4
# --- cache.py
import torch

class LatentCache:
    """Songs are encoded before training, each one once."""

    def __init__(self, autoencoder, device):
        self.autoencoder, self.device = autoencoder, device

    def load(self, waveform):
        peak = waveform.abs().max()
        return (waveform / peak).to(self.device)

    @torch.inference_mode()
    def encode(self, songs):
        return {name: self.autoencoder.encode(self.load(song)).cpu() for name, song in songs.items()}

# === polytope_of_the_host
# thread: https://github.com/meta-pytorch/botorch/issues/872
# about: starting points are drawn on the CPU, where bounds are taken to. Inequalities that narrow the same space stay where the model is
# operation: cat on cuda:0, cpu
# operands: a|one
# category: input-not-moved
# line: initial.py: sampler = PolytopeSampler(
# line: initial.py: lower, upper = bounds.cpu()
# line: polytope.py: self.a = torch.cat(
# line: polytope.py: a, b = inequalities
# repair: initial.py: sampler = PolytopeSampler(inequalities, (lower, upper), seed) -> sampler = PolytopeSampler([each.cpu() for each in inequalities], (lower, upper), seed)
import torch

from initial import optimize

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], device=device)
inequalities = (torch.tensor([[1.0, 1.0, 1.0], [-1.0, 0.5, 0.0]], device=device), torch.tensor([2.0, 0.4], device=device))
optimum = torch.tensor([0.9, 0.9, 0.6], device=device)

def acquisition(points):
    return -(points - optimum).square().sum(-1)

best, value = optimize(acquisition, bounds, inequalities, starts=6, steps=20, seed=3)
print("best", [round(each, 3) for each in best.tolist()], round(value.item(), 5))
# --- polytope.py
import torch

class PolytopeSampler:
    """Hit and run: a random line through the point before, and a random point of it that holds all of a @ x <= b."""

    def __init__(self, inequalities, bounds, seed):
        lower, upper = bounds
        a, b = inequalities
        one = torch.eye(len(lower))
        self.a = torch.cat([a, one, -one], dim=0)
        self.b = torch.cat([b, upper, -lower], dim=0)
        self.generator, self.point = torch.Generator().manual_seed(seed), (lower + upper) / 4

    def draw(self, count):
        points = []
        for _ in range(count):
            line = torch.nn.functional.normalize(torch.randn(len(self.point), generator=self.generator), dim=0)
            room, along = self.b - self.a @ self.point, self.a @ line
            ahead = torch.where(along > 0, room / along, torch.inf).min()
            behind = torch.where(along < 0, room / along, -torch.inf).max()
            self.point = self.point + line * (behind + (ahead - behind) * torch.rand((), generator=self.generator))
            points.append(self.point)
        return torch.stack(points)
# --- initial.py
import torch

from polytope import PolytopeSampler

def initial_conditions(bounds, inequalities, starts, seed):
    lower, upper = bounds.cpu()
    sampler = PolytopeSampler(inequalities, (lower, upper), seed)
    return sampler.draw(starts).to(bounds)

def optimize(acquisition, bounds, inequalities, starts, steps, seed):
    a, b = inequalities
    points = initial_conditions(bounds, inequalities, starts, seed).requires_grad_()
    optimizer = torch.optim.SGD([points], lr=0.05)
    for _ in range(steps):
        outside = (points @ a.T - b).clamp(min=0).square().sum()
        loss = 10 * outside - acquisition(points).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        points.data.clamp_(*bounds)
    values = acquisition(points.detach())
    best = values.argmax()
    return points.detach()[best], values[best]

# === eps_of_the_observer
# thread: https://github.com/pytorch/pytorch/issues/46533
# about: an observer asks whether its ranges are on a GPU and makes the smallest scale on one, too. Training runs on the second card
# operation: max.*|clamp.* on cuda:1, cuda:0
# operands: eps
# category: default-or-current-device
# line: observer.py: device = "cuda" if
# line: observer.py: eps = torch.full(
# line: observer.py: scale = torch.max(
# repair: observer.py: device = "cuda" if self.low.is_cuda else "cpu" -> device = self.low.device
import torch

from quantized import QuantizedNet, train

torch.manual_seed(0)
last = torch.cuda.device_count() - 1
device = torch.device(f"cuda:{last}" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(4)
x = torch.randn(24, 5, generator=generator)
y = (x.sum(1) > 0).long()
model = QuantizedNet(features=5, width=8, classes=2).to(device)
losses = train(model, x.to(device), y.to(device), epochs=6, lr=0.1)
print("losses", [round(loss, 4) for loss in losses])
# --- observer.py
import torch
from torch import nn

class MovingRangeObserver(nn.Module):
    """The range of each channel as training saw it, and what scale and zero point follow of it."""

    def __init__(self, channels, bits=8, rate=0.1):
        super().__init__()
        self.rate, self.smallest, self.largest = rate, 0, 2**bits - 1
        self.register_buffer("low", torch.zeros(channels))
        self.register_buffer("high", torch.zeros(channels))

    def observe(self, x):
        self.low.lerp_(x.detach().amin(0), self.rate)
        self.high.lerp_(x.detach().amax(0), self.rate)

    def quantizer(self):
        device = "cuda" if self.low.is_cuda else "cpu"
        low, high = self.low.clamp(max=0), self.high.clamp(min=0)
        eps = torch.full((1,), 1e-4, device=device)
        scale = torch.max((high - low) / (self.largest - self.smallest), eps)
        zero_point = (self.smallest - low / scale).round().clamp(self.smallest, self.largest)
        return scale, zero_point

    def forward(self, x):
        self.observe(x)
        scale, zero_point = self.quantizer()
        codes = (x / scale + zero_point).round().clamp(self.smallest, self.largest)
        return x + ((codes - zero_point) * scale - x).detach()
# --- quantized.py
import torch
from torch import nn

from observer import MovingRangeObserver

class QuantizedNet(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.inputs, self.inner = MovingRangeObserver(features), nn.Linear(features, width)
        self.hidden, self.outer = MovingRangeObserver(width), nn.Linear(width, classes)

    def forward(self, x):
        return self.outer(self.hidden(torch.relu(self.inner(self.inputs(x)))))

def train(model, x, y, epochs, lr):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=lr), []
    for _ in range(epochs):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

# === average_taken_on_the_host
# thread: https://github.com/OpenRLHF/OpenRLHF/issues/245
# about: the actor's average is a copy of the actor and was made after it moved. Averaging takes the actor's weights to the CPU, where the average is thought to be
# operation: add_?|iadd|lerp.* on cuda:0, cpu
# operands: data|.*param.*
# category: input-not-moved
# line: trainer.py: strategy.moving_average(
# line: strategy.py: data = param.data.to(
# line: strategy.py: average.data.mul_(
# line: main.py: average = copy.deepcopy(
# repair: main.py: average = copy.deepcopy(actor) if enable_ema else None -> average = copy.deepcopy(actor).to("cpu") if enable_ema else None
import copy

import torch

from actor import Actor
from strategy import Strategy
from trainer import PPOTrainer

torch.manual_seed(0)
enable_ema = True
strategy = Strategy(device="cuda:0" if torch.cuda.is_available() else "cpu")
actor = strategy.prepare(Actor(states=5, actions=3))
average = copy.deepcopy(actor) if enable_ema else None
trainer = PPOTrainer(strategy, actor, average, lr=0.05, ema_beta=0.9)
returns = [trainer.step(seed) for seed in range(4)]
print("losses", returns, "average", round(sum(p.sum().item() for p in average.parameters()), 4))
# --- actor.py
from torch import nn

class Actor(nn.Module):
    def __init__(self, states, actions, width=8):
        super().__init__()
        self.body, self.head = nn.Linear(states, width), nn.Linear(width, actions)

    def forward(self, states):
        return self.head(self.body(states).tanh()).log_softmax(-1)
# --- strategy.py
import torch

class Strategy:
    def __init__(self, device):
        self.device, self.steps = torch.device(device), 0

    def prepare(self, *models):
        prepared = [model.to(self.device) for model in models]
        return prepared[0] if len(prepared) == 1 else prepared

    def moving_average(self, model, model_ema, beta, device="cpu"):
        self.steps += 1
        with torch.no_grad():
            for param, average in zip(model.parameters(), model_ema.parameters()):
                if param.requires_grad:
                    data = param.data.to(device)
                    average.data.mul_(beta).add_(data, alpha=1 - beta)
# --- trainer.py
import torch

class PPOTrainer:
    def __init__(self, strategy, actor, ema_model, lr, ema_beta, clip=0.2):
        self.strategy, self.actor, self.ema_model = strategy, actor, ema_model
        self.ema_beta, self.clip = ema_beta, clip
        self.optimizer = torch.optim.Adam(actor.parameters(), lr=lr)

    def experience(self, seed):
        generator = torch.Generator().manual_seed(seed)
        states = torch.randn(16, 5, generator=generator).to(self.strategy.device)
        with torch.no_grad():
            logps = self.actor(states)
        actions = torch.multinomial(logps.exp().cpu(), 1, generator=generator).to(self.strategy.device)
        rewards = (actions[:, 0] == states[:, :3].argmax(-1)).float()
        return states, actions, logps.gather(1, actions)[:, 0], rewards - rewards.mean()

    def step(self, seed):
        states, actions, old, advantages = self.experience(seed)
        for _ in range(2):
            ratio = (self.actor(states).gather(1, actions)[:, 0] - old).exp()
            loss = -torch.min(ratio * advantages, ratio.clamp(1 - self.clip, 1 + self.clip) * advantages).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        if self.ema_model:
            self.strategy.moving_average(self.actor, self.ema_model, self.ema_beta, "cpu")
        return round(loss.item(), 4)

# === directions_of_split_layers
# thread: https://github.com/p-e-w/heretic/pull/72
# about: layers are spread over two GPUs. A direction of each layer is computed of states that were gathered on one of them, and then taken out of the layer's matrices
# operation: mm|matmul on cuda:0, cuda:1
# operands: matrix
# category: module-split|input-not-moved
# line: ablate.py: projector = torch.outer(
# line: ablate.py: matrix.sub_(
# line: model.py: gathered.append(
# line: ablate.py: for layer, direction in zip(
# line: ablate.py: ablate(layer, direction, weight=weight)
# repair: ablate.py: projector = torch.outer(direction, direction) -> projector = torch.outer(direction, direction).to(matrix.device)
import torch

from ablate import ablate_all, directions
from model import SplitDecoder

torch.manual_seed(0)
cards = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
model = SplitDecoder(words=24, dim=8, depth=4, devices=cards)
good = torch.tensor([[1, 2, 3], [4, 5, 6], [1, 5, 3]])
bad = torch.tensor([[11, 12, 13], [14, 15, 16], [11, 15, 13]])
before = model.logits(bad).cpu()
ablate_all(model, directions(model, good, bad), weight=0.8)
after = model.logits(bad).cpu()
print("moved", round((after - before).norm().item(), 4), after.argmax(-1).tolist())
# --- model.py
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim, bias=False)

    def forward(self, hidden):
        return hidden + self.down(torch.relu(self.up(self.norm(hidden))))

class SplitDecoder(nn.Module):
    def __init__(self, words, dim, depth, devices):
        super().__init__()
        self.places = [devices[index * len(devices) // depth] for index in range(depth)]
        self.embed = nn.Embedding(words, dim).to(devices[0])
        self.layers = nn.ModuleList(Layer(dim).to(place) for place in self.places)
        self.head = nn.Linear(dim, words).to(devices[-1])

    @torch.no_grad()
    def states(self, ids):
        """The last token's hidden state after each layer: layers, batch, dim."""
        hidden, gathered = self.embed(ids.to(self.embed.weight.device)).cumsum(1), []
        for layer, place in zip(self.layers, self.places):
            hidden = layer(hidden.to(place))
            gathered.append(hidden[:, -1].to(self.embed.weight.device))
        return torch.stack(gathered), hidden

    @torch.no_grad()
    def logits(self, ids):
        return self.head(self.states(ids)[1][:, -1])
# --- ablate.py
import torch

def directions(model, good, bad):
    difference = model.states(bad)[0].mean(1) - model.states(good)[0].mean(1)
    return torch.nn.functional.normalize(difference, dim=-1)

@torch.no_grad()
def ablate(layer, direction, weight):
    """Takes what points in this direction out of what the layer writes."""
    matrix = layer.down.weight
    projector = torch.outer(direction, direction)
    matrix.sub_(weight * (projector @ matrix))

def ablate_all(model, refusal, weight):
    for layer, direction in zip(model.layers, refusal):
        ablate(layer, direction, weight=weight)

# === branch_past_its_hook
# thread: https://github.com/huggingface/diffusers/pull/4514
# about: components come to the GPU by a hook when they are called. One of them never is: the pipeline asks a branch of it
# operation: embedding|index_select on cpu, cuda:0
# operands: .*weight|.*ids|.*tokens
# category: module-split|input-not-moved
# line: pipeline.py: prompt = self.text_encoder.text_branch(
# line: pipeline.py: parts = (self.text_encoder
# line: pipeline.py: _, hook = cpu_offload_with_hook(
# line: text.py: hidden = self.embed(
# repair: pipeline.py: parts = (self.text_encoder, self.unet, self.vae) -> parts = (self.text_encoder.text_branch, self.unet, self.vae)
import torch

from pipeline import MusicPipeline

torch.manual_seed(0)
pipe = MusicPipeline(words=20, dim=8)
pipe.enable_model_cpu_offload(torch.device("cuda:0"))
sounds = [pipe([[2, 7, 1], [3, 3, 9]], steps=3, seed=seed) for seed in (5, 6)]
print("sounds", [tuple(each.shape) for each in sounds], [round(each.mean().item(), 5) for each in sounds])
# --- text.py
import torch
from torch import nn

class TextBranch(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.mix = nn.Embedding(words, dim), nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids):
        hidden = self.embed(ids)
        return self.mix(hidden)[0].mean(1)

class ClapModel(nn.Module):
    """Text and sound in one space; a pipeline that makes sound has use for the text alone."""

    def __init__(self, words, dim):
        super().__init__()
        self.text_branch, self.audio_branch = TextBranch(words, dim), nn.Linear(12, dim)

    def forward(self, ids, audio):
        text, sound = self.text_branch(ids), self.audio_branch(audio)
        return torch.cosine_similarity(text, sound)
# --- pipeline.py
import torch
from accelerate import cpu_offload_with_hook
from torch import nn

from text import ClapModel

class Denoiser(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inner, self.outer = nn.Linear(2 * dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, latents, prompt):
        return self.outer(torch.tanh(self.inner(torch.cat([latents, prompt], dim=-1))))

class MusicPipeline:
    def __init__(self, words, dim):
        self.dim, self.device, self.hooks = dim, torch.device("cpu"), []
        self.text_encoder, self.unet, self.vae = ClapModel(words, dim).eval(), Denoiser(dim).eval(), nn.Linear(dim, 12).eval()

    def enable_model_cpu_offload(self, device):
        self.device, hook = device, None
        parts = (self.text_encoder, self.unet, self.vae)
        for part in parts:
            _, hook = cpu_offload_with_hook(part, device, prev_module_hook=hook)
            self.hooks.append(hook)

    @torch.no_grad()
    def __call__(self, prompts, steps, seed):
        ids = torch.tensor(prompts, device=self.device)
        prompt = self.text_encoder.text_branch(ids)
        latents = torch.randn(len(ids), self.dim, generator=torch.Generator().manual_seed(seed)).to(self.device)
        for _ in range(steps):
            latents = latents - self.unet(latents, prompt) / steps
        sound = self.vae(latents).cpu()
        for hook in self.hooks:
            hook.offload()
        return sound

# === prompt_from_the_disk_cache
# thread: https://github.com/pumpCurry/FramePack-eichi/pull/37
# about: encoded prompts are kept in files. Who asks for one again is given it from its file, on the CPU; the first time it comes from the encoder, on the GPU
# operation: addmm|linear on cpu, cuda:0
# operands: .*vectors|.*embeds|.*text.*|input|mat1
# category: cached-state|input-not-moved|checkpoint
# line: worker.py: vectors, pooled = self.prompt(
# line: cache.py: return torch.load(
# line: worker.py: cached = load_from_cache(
# line: worker.py: return cached
# line: sampler.py: context = model.project(
# repair: worker.py: return cached -> return tuple(each.to(self.device) for each in cached)
import torch

from worker import Worker

torch.manual_seed(0)
worker = Worker(words=30, dim=8, device="cuda" if torch.cuda.is_available() else "cpu", folder="prompts")
jobs = [("a dancing cat", 1), ("a falling leaf", 2), ("a dancing cat", 3)]
videos = [worker.process(prompt, frames=3, seed=seed) for prompt, seed in jobs]
print("videos", [round(video.abs().mean().item(), 5) for video in videos])
# --- cache.py
import hashlib
from pathlib import Path

import torch

def path_of(folder, prompt):
    return Path(folder) / (hashlib.md5(prompt.encode()).hexdigest() + ".pt")

def load_from_cache(folder, prompt):
    path = path_of(folder, prompt)
    if not path.exists():
        return None
    return torch.load(path, map_location="cpu", weights_only=True)

def save_to_cache(folder, prompt, tensors):
    path = path_of(folder, prompt)
    path.parent.mkdir(exist_ok=True)
    torch.save(tuple(each.cpu() for each in tensors), path)
# --- sampler.py
import torch
from torch import nn

class VideoTransformer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.project, self.scale, self.block = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, latents, context, scale):
        weights = (latents @ context.T / latents.shape[-1] ** 0.5).softmax(-1)
        return self.block(weights @ context + latents) * scale

@torch.inference_mode()
def sample(model, latents, vectors, pooled, steps=4):
    context = model.project(vectors)
    scale = model.scale(pooled).sigmoid()
    for _ in range(steps):
        latents = latents - model(latents, context, scale) / steps
    return latents
# --- worker.py
import torch
from torch import nn

from cache import load_from_cache, save_to_cache
from sampler import VideoTransformer, sample

class Worker:
    def __init__(self, words, dim, device, folder):
        self.words, self.dim, self.device, self.folder = words, dim, torch.device(device), folder
        self.text_encoder = nn.Sequential(nn.Embedding(words, dim), nn.LayerNorm(dim)).to(self.device).eval()
        self.transformer = VideoTransformer(dim).to(self.device).eval()

    @torch.inference_mode()
    def prompt(self, text):
        cached = load_from_cache(self.folder, text)
        if cached is not None:
            return cached
        ids = torch.tensor([sum(map(ord, word)) % self.words for word in text.split()], device=self.device)
        vectors = self.text_encoder(ids)
        save_to_cache(self.folder, text, (vectors, vectors.mean(0)))
        return vectors, vectors.mean(0)

    def process(self, text, frames, seed):
        vectors, pooled = self.prompt(text)
        noise = torch.randn(frames, self.dim, generator=torch.Generator().manual_seed(seed))
        return sample(self.transformer, noise.to(self.device), vectors, pooled).cpu()

# === enlarged_classifier
# thread: https://github.com/LAMDA-CL/PyCIL/issues/60
# about: a classifier grows with each task; rows for new classes take the place of what older parts know nothing of. The run is on the second card, which is not the current one
# operation: cat on cuda:1, cuda:0
# operands: blank|.*weight
# category: default-or-current-device
# line: network.py: blank = torch.zeros(
# line: network.py: weight = torch.cat(
# line: learner.py: self.device = torch.device(
# line: main.py: learner = IncrementalLearner(
# repair: network.py: blank = torch.zeros(len(self.fc.weight) - len(known), known.shape[1]).cuda() -> blank = torch.zeros(len(self.fc.weight) - len(known), known.shape[1], device=known.device)
import torch

from learner import IncrementalLearner

torch.manual_seed(0)
generator = torch.Generator().manual_seed(7)
centres = torch.randn(6, 5, generator=generator) * 2
learner = IncrementalLearner(features=5, device=torch.cuda.device_count() - 1)
for task in ([0, 1], [2, 3], [4, 5]):
    labels = torch.tensor(task).repeat(12)
    images = centres[labels] + 0.3 * torch.randn(len(labels), 5, generator=generator)
    losses = learner.learn(images, labels, epochs=4)
    print("task", task, "losses", [round(loss, 3) for loss in losses])
print("accuracy", round(learner.accuracy(centres, torch.arange(6)), 3))
# --- network.py
import torch
from torch import nn

class GrowingNet(nn.Module):
    """An extractor for each task. Logits are those of all features, and what the classifier before would say of its own ones is added."""

    def __init__(self, features, width=4):
        super().__init__()
        self.features, self.width = features, width
        self.extractors, self.fc, self.old_fc = nn.ModuleList(), None, None

    def grow(self, classes, device):
        self.extractors.append(nn.Sequential(nn.Linear(self.features, self.width), nn.Tanh()).to(device))
        fc = nn.Linear(self.width * len(self.extractors), classes).to(device)
        if self.fc is not None:
            fc.weight.data[: len(self.fc.weight), : self.fc.in_features] = self.fc.weight.data
        self.old_fc, self.fc = self.fc, fc

    def forward(self, x):
        hidden = torch.cat([extractor(x) for extractor in self.extractors], dim=1)
        logits = self.fc(hidden)
        if self.old_fc is None:
            return logits
        known = self.old_fc.weight.detach()
        blank = torch.zeros(len(self.fc.weight) - len(known), known.shape[1]).cuda()
        weight = torch.cat([known, blank], dim=0)
        return logits + 0.5 * nn.functional.linear(hidden[:, : known.shape[1]], weight)
# --- learner.py
import torch
from torch import nn

from network import GrowingNet

class IncrementalLearner:
    def __init__(self, features, device, lr=0.2):
        self.device = torch.device(f"cuda:{device}" if device >= 0 else "cpu")
        self.network, self.classes, self.lr = GrowingNet(features), 0, lr

    def learn(self, images, labels, epochs):
        self.classes = max(self.classes, int(labels.max()) + 1)
        self.network.grow(self.classes, self.device)
        optimizer = torch.optim.SGD(self.network.parameters(), lr=self.lr)
        images, labels, losses = images.to(self.device), labels.to(self.device), []
        for _ in range(epochs):
            loss = nn.functional.cross_entropy(self.network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    @torch.no_grad()
    def accuracy(self, images, labels):
        guessed = self.network(images.to(self.device)).argmax(1).cpu()
        return (guessed == labels).float().mean().item()

# === buffers_in_a_list
# thread: https://github.com/pytorch/pytorch/issues/29807
# about: anchors of each level are registered as buffers and, to be counted through, put into a list as well. A move gives the module new buffers, not the list
# operation: add on cuda:0, cpu
# operands: base
# category: state-not-registered|cached-state
# line: anchors.py: self.bases.append(
# line: anchors.py: for stride, base, level in zip(
# line: anchors.py: boxes.append(
# line: detector.py: boxes = self.anchors(
# repair: anchors.py: for stride, base, level in zip(self.strides, self.bases, levels): -> for stride, base, level in zip(self.strides, self.buffers(), levels):
import torch

from detector import Detector

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Detector(strides=[4, 8], width=6).to(device).eval()
images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1)).to(device)
with torch.no_grad():
    boxes, scores = model(images)
print("boxes", boxes.shape, [round(each, 4) for each in boxes[0, :2].flatten().tolist()], round(scores.sum().item(), 4))
# --- anchors.py
import torch
from torch import nn

class AnchorGenerator(nn.Module):
    """Boxes of a few shapes around each cell, as corners."""

    def __init__(self, strides, ratios=(0.5, 1.0, 2.0)):
        super().__init__()
        self.strides, self.bases = strides, []
        for index, stride in enumerate(strides):
            heights = torch.tensor(ratios).sqrt() * stride * 2
            widths = stride * stride * 4 / heights
            corners = torch.stack([-widths, -heights, widths, heights], dim=1) / 2
            self.register_buffer(f"base{index}", corners)
            self.bases.append(getattr(self, f"base{index}"))

    def forward(self, levels):
        boxes = []
        for stride, base, level in zip(self.strides, self.bases, levels):
            rows, columns = (torch.arange(size, device=level.device) * stride + stride / 2 for size in level.shape[-2:])
            y, x = torch.meshgrid(rows, columns, indexing="ij")
            centres = torch.stack([x, y, x, y], dim=-1).view(-1, 1, 4)
            boxes.append((centres + base).view(-1, 4))
        return torch.cat(boxes)
# --- detector.py
import torch
from torch import nn

from anchors import AnchorGenerator

class Detector(nn.Module):
    def __init__(self, strides, width, shapes=3):
        super().__init__()
        self.stem = nn.Conv2d(3, width, strides[0], stride=strides[0])
        self.downs = nn.ModuleList(nn.Conv2d(width, width, 2, stride=2) for _ in strides[1:])
        self.scores, self.deltas = nn.Conv2d(width, shapes, 1), nn.Conv2d(width, 4 * shapes, 1)
        self.anchors = AnchorGenerator(strides)

    def forward(self, images):
        levels = [torch.relu(self.stem(images))]
        for down in self.downs:
            levels.append(torch.relu(down(levels[-1])))
        boxes = self.anchors(levels)
        deltas = torch.cat([self.deltas(level).permute(0, 2, 3, 1).reshape(len(images), -1, 4) for level in levels], dim=1)
        scores = torch.cat([self.scores(level).permute(0, 2, 3, 1).flatten(1) for level in levels], dim=1).sigmoid()
        chosen = scores.topk(4, dim=1).indices
        shifted = boxes + deltas
        return shifted.gather(1, chosen[..., None].expand(-1, -1, 4)), scores.gather(1, chosen)

# === preconditioners_of_a_checkpoint
# thread: https://github.com/facebookresearch/optimizers/issues/3
# about: an optimizer keeps an object for each parameter, with matrices in it. A run is resumed from a file that was read to the CPU
# operation: add_?|iadd|lerp.* on cpu, cuda:0
# operands: .*left|.*right|.*factor.*
# category: optimizer|checkpoint
# line: train.py: saved = torch.load(
# line: train.py: optimizer.load_state_dict(
# line: shampoo.py: self.left.mul_(
# line: shampoo.py: state["preconditioner"].update(
# repair: train.py: saved = torch.load(path, map_location="cpu", weights_only=False) -> saved = torch.load(path, map_location=device, weights_only=False)
import torch

from train import run

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(5)
x = torch.randn(20, 4, generator=generator)
y = x @ torch.randn(4, 3, generator=generator)
first = run(x.to(device), y.to(device), device, "run.pt", steps=3, resume=False)
second = run(x.to(device), y.to(device), device, "run.pt", steps=3, resume=True)
print("losses", [round(loss, 4) for loss in first + second])
# --- shampoo.py
import torch

class Preconditioner:
    """Sums of a matrix's gradients with themselves, from both sides, and what a step makes of them."""

    def __init__(self, grad, epsilon):
        rows, columns = grad.shape
        self.left = epsilon * torch.eye(rows, device=grad.device)
        self.right = epsilon * torch.eye(columns, device=grad.device)

    def update(self, grad, beta):
        self.left.mul_(beta).add_(grad @ grad.T)
        self.right.mul_(beta).add_(grad.T @ grad)

    def root(self, matrix):
        values, vectors = torch.linalg.eigh(matrix)
        return vectors @ torch.diag(values.clamp(min=1e-6) ** -0.25) @ vectors.T

    def apply(self, grad):
        return self.root(self.left) @ grad @ self.root(self.right)

class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr, beta=0.95, momentum=0.5, epsilon=0.1):
        super().__init__(params, {"lr": lr, "beta": beta, "momentum": momentum, "epsilon": epsilon})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["preconditioner"] = Preconditioner(p.grad, group["epsilon"])
                    state["momentum"] = torch.zeros_like(p)
                state["preconditioner"].update(p.grad, group["beta"])
                state["momentum"].mul_(group["momentum"]).add_(state["preconditioner"].apply(p.grad))
                p.sub_(state["momentum"], alpha=group["lr"])
# --- train.py
import torch
from torch import nn

from shampoo import Shampoo

def run(x, y, device, path, steps, resume):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 3, bias=False)).to(device)
    optimizer, losses = Shampoo(model.parameters(), lr=0.1), []
    if resume:
        saved = torch.load(path, map_location="cpu", weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    return losses

# === silence_put_away
# thread: https://github.com/ace-step/ACE-Step-1.5/pull/11
# about: models come to the GPU for as long as they are asked. With one of them goes the latent of silence that short songs are made longer by, and it leaves with it, too
# operation: cat on cuda:0, cpu
# operands: .*silence.*|.*pad.*
# category: cached-state|input-not-moved
# line: handler.py: self.silence_latent = self.silence_latent.to("cpu")
# line: handler.py: padding = self.silence_latent[
# line: handler.py: padded.append(torch.cat(
# repair: handler.py: padding = self.silence_latent[: length - len(latent)] -> padding = self.silence_latent[: length - len(latent)].to(latent.device)
import torch

from handler import MusicHandler

torch.manual_seed(0)
handler = MusicHandler(dim=6, device="cuda" if torch.cuda.is_available() else "cpu", offload=True)
generator = torch.Generator().manual_seed(9)
songs = [torch.randn(length, 12, generator=generator) for length in (5, 8, 3)]
covers = [handler.cover(songs, strength=strength, seed=1) for strength in (0.3, 0.6)]
print("covers", tuple(covers[0].shape), [round(each.square().mean().item(), 5) for each in covers])
# --- models.py
import torch
from torch import nn

class Codec(nn.Module):
    def __init__(self, samples, dim):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(samples, dim), nn.Linear(dim, samples)

class Denoiser(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inner, self.outer = nn.Linear(2 * dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, noisy, source):
        return self.outer(nn.functional.silu(self.inner(torch.cat([noisy, source], dim=-1))))
# --- handler.py
from contextlib import contextmanager

import torch

from models import Codec, Denoiser

class MusicHandler:
    def __init__(self, dim, device, offload):
        self.device, self.offload = torch.device(device), offload
        self.vae, self.model = Codec(12, dim).eval(), Denoiser(dim).eval()
        with torch.no_grad():
            self.silence_latent = self.vae.encoder(torch.zeros(64, 12)).to(self.device)
        if not offload:
            self.vae, self.model = self.vae.to(self.device), self.model.to(self.device)

    @contextmanager
    def loaded(self, name):
        """The model is where it computes for as long as this holds."""
        if self.offload:
            getattr(self, name).to(self.device)
            if name == "model":
                self.silence_latent = self.silence_latent.to(self.device)
        yield getattr(self, name)
        if self.offload:
            getattr(self, name).to("cpu")
            if name == "model":
                self.silence_latent = self.silence_latent.to("cpu")

    def prepare_batch(self, songs):
        length, padded = max(map(len, songs)) + 2, []
        with self.loaded("vae") as vae:
            for song in songs:
                latent = vae.encoder(song.to(self.device))
                padding = self.silence_latent[: length - len(latent)]
                padded.append(torch.cat([latent, padding]))
        return torch.stack(padded)

    @torch.inference_mode()
    def cover(self, songs, strength, seed, steps=3):
        latents = self.prepare_batch(songs)
        noise = torch.randn(latents.shape, generator=torch.Generator().manual_seed(seed)).to(self.device)
        noisy = latents.lerp(noise, strength)
        with self.loaded("model") as model:
            for _ in range(steps):
                noisy = noisy - strength / steps * model(noisy, latents)
        with self.loaded("vae") as vae:
            return vae.decoder(noisy).cpu()

# === mask_of_ablated_features
# thread: https://github.com/meta-pytorch/captum/pull/1245
# about: which inputs make up a feature is a mask of numbers that is counted out when none is given. What is taken out of several copies at once is chosen by it
# operation: mul on cuda:0, cpu
# operands: .*keep.*|.*mask.*
# category: created-without-device
# line: masks.py: return torch.arange(
# line: ablation.py: current = torch.stack(
# line: ablation.py: keep = 1 -
# line: ablation.py: ablated = copies
# line: ablation.py: mask = default_mask(
# repair: ablation.py: mask = default_mask(inputs) if mask is None else mask -> mask = (default_mask(inputs) if mask is None else mask).to(inputs.device)
import torch

from ablation import FeatureAblation
from model import Tabular

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = Tabular(features=6, classes=3).to(device).eval()
rows = torch.randn(4, 6, generator=torch.Generator().manual_seed(3)).to(device)
with torch.no_grad():
    target = model(rows).argmax(1)
    ablation = FeatureAblation(model, perturbations_per_eval=4)
    grouped = ablation.attribute(rows, target, mask=torch.tensor([0, 0, 1, 1, 2, 2], device=device))
    attributed = ablation.attribute(rows, target)
print("grouped", [round(each, 4) for each in grouped[0].tolist()], "each", [round(each, 4) for each in attributed[0].tolist()])
# --- model.py
import torch
from torch import nn

class Tabular(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.gate, self.inner, self.outer = nn.Linear(features, 8), nn.Linear(features, 8), nn.Linear(8, classes)

    def forward(self, rows):
        return self.outer(torch.sigmoid(self.gate(rows)) * self.inner(rows)).softmax(-1)
# --- masks.py
import torch

def default_mask(inputs):
    """Each input is a feature of its own."""
    return torch.arange(inputs[0].numel()).view(inputs[0].shape)

def batches_of(features, size):
    return [range(start, min(start + size, features)) for start in range(0, features, size)]
# --- ablation.py
import torch

from masks import batches_of, default_mask

class FeatureAblation:
    """What a class loses when a feature is replaced by its baseline."""

    def __init__(self, forward, perturbations_per_eval):
        self.forward, self.size = forward, perturbations_per_eval

    def chosen(self, inputs, target):
        return self.forward(inputs).gather(1, target[:, None])[:, 0]

    def perturbed(self, inputs, baseline, mask, features):
        """A copy of all inputs for each of these features, and where the feature is: features, rows, inputs."""
        current = torch.stack([(mask == feature).float() for feature in features])[:, None]
        copies = inputs[None].expand(len(features), *inputs.shape)
        keep = 1 - current
        ablated = copies * keep + baseline * current
        return ablated, current

    def attribute(self, inputs, target, mask=None, baseline=0.0):
        mask = default_mask(inputs) if mask is None else mask
        before = self.chosen(inputs, target)
        total = torch.zeros_like(inputs)
        for features in batches_of(int(mask.max()) + 1, self.size):
            ablated, current = self.perturbed(inputs, baseline, mask, features)
            after = self.chosen(ablated.flatten(0, 1), target.repeat(len(features))).view(len(features), -1)
            total += ((before - after)[..., None] * current).sum(0)
        return total

# === tables_of_the_current_card
# thread: https://github.com/unslothai/unsloth/pull/2919
# about: layers of a model are on two GPUs and share tables of angles, of which each GPU is given its own. Who asks without saying for which gets those of the current one
# operation: mul on cuda:1, cuda:0
# operands: cos
# category: default-or-current-device|module-split
# line: model.py: cos, sin = self.rotary.get_cached(
# line: rotary.py: device = torch.cuda.current_device()
# line: rotary.py: return x * cos
# line: model.py: hidden = layer(
# line: model.py: q, k = (rotate(
# repair: model.py: cos, sin = self.rotary.get_cached(hidden.shape[0]) -> cos, sin = self.rotary.get_cached(hidden.shape[0], hidden.device.index)
import torch

from model import PipelineDecoder

torch.manual_seed(0)
model = PipelineDecoder(words=20, dim=8, depth=4, cards=torch.cuda.device_count()).eval()
ids = torch.tensor([3, 14, 1, 5, 9])
with torch.inference_mode():
    short, longer = model(ids), model(torch.cat([ids, ids.flip(0)]))
print("next", short.argmax(-1).tolist(), longer.argmax(-1).tolist(), round(longer.sum().item(), 4))
# --- rotary.py
import torch

class ExtendedRotary:
    """Tables of cosines and sines on every card, made longer when a text is."""

    def __init__(self, dim, cards, length=8):
        self.dim, self.cards, self.tables = dim, cards, {}
        self.extend(length)

    def extend(self, length):
        self.length = length
        frequencies = 1000.0 ** -(torch.arange(0, self.dim, 2, dtype=torch.float32) / self.dim)
        angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies).repeat(1, 2)
        for card in range(self.cards):
            self.tables[card] = angles.cos().to(f"cuda:{card}"), angles.sin().to(f"cuda:{card}")

    def get_cached(self, length, device=None):
        if length > self.length:
            self.extend(2 * length)
        if device is None:
            device = torch.cuda.current_device()
        cos, sin = self.tables[device]
        return cos[:length], sin[:length]

def rotate(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin
# --- model.py
import torch
from torch import nn

from rotary import ExtendedRotary, rotate

class Attention(nn.Module):
    def __init__(self, dim, rotary):
        super().__init__()
        self.rotary, self.qkv, self.out = rotary, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        cos, sin = self.rotary.get_cached(hidden.shape[0])
        q, k = (rotate(each, cos, sin) for each in (q, k))
        scores = (q @ k.T / q.shape[-1] ** 0.5).masked_fill(torch.ones_like(q @ k.T).triu(1).bool(), float("-inf"))
        return hidden + self.out(scores.softmax(-1) @ v)

class PipelineDecoder(nn.Module):
    def __init__(self, words, dim, depth, cards):
        super().__init__()
        rotary = ExtendedRotary(dim, cards)
        self.places = [torch.device(f"cuda:{index * cards // depth}") for index in range(depth)]
        self.embed = nn.Embedding(words, dim).to(self.places[0])
        self.layers = nn.ModuleList(Attention(dim, rotary).to(place) for place in self.places)
        self.head = nn.Linear(dim, words).to(self.places[-1])

    def forward(self, ids):
        hidden = self.embed(ids.to(self.places[0]))
        for layer, place in zip(self.layers, self.places):
            hidden = hidden.to(place, non_blocking=True)
            hidden = layer(hidden)
        return self.head(hidden)[-1]

# === layers_in_tuples
# thread: https://github.com/NVIDIAGameWorks/kaolin/pull/305
# about: networks of several scales are registered, and kept in tuples beside it, with what groups points for them. Of these a replica has the tuples of the original
# operation: addmm|linear|mm|.*matmul on cuda:1, cuda:0
# operands: .*weight|.*bias
# category: data-parallel
# line: abstraction.py: self.layers.append(
# line: abstraction.py: for grouper, network in self.layers
# line: abstraction.py: features.append(network(
# line: main.py: parallel = nn.DataParallel(
# repair: abstraction.py: for grouper, network in self.layers: -> for (grouper, _), network in zip(self.layers, self.networks):
import torch
from torch import nn

from classifier import PointClassifier

torch.manual_seed(0)
model = PointClassifier(radii=[0.6, 1.2], width=6, classes=4)
parallel = nn.DataParallel(model.cuda() if torch.cuda.is_available() else model)
generator = torch.Generator().manual_seed(6)
clouds = torch.rand(8, 20, 3, generator=generator) * 2
labels = torch.randint(4, (8,), generator=generator)
if torch.cuda.is_available():
    clouds, labels = clouds.cuda(), labels.cuda()
optimizer, losses = torch.optim.SGD(parallel.parameters(), lr=0.2), []
for _ in range(3):
    loss = nn.functional.cross_entropy(parallel(clouds), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- grouping.py
import torch

class BallGrouper:
    """Of each centre the points that are near, as seen from it; one that is not is replaced by the centre."""

    def __init__(self, radius):
        self.radius = radius

    def __call__(self, points, centres):
        offsets = points[:, None] - centres[:, :, None]
        near = offsets.norm(dim=-1, keepdim=True) < self.radius
        return torch.where(near, offsets, torch.zeros_like(offsets)) / self.radius
# --- abstraction.py
import torch
from torch import nn

from grouping import BallGrouper

class SetAbstraction(nn.Module):
    def __init__(self, centres, radii, width):
        super().__init__()
        self.centres, self.layers, self.networks = centres, [], nn.ModuleList()
        for radius in radii:
            network = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
            self.networks.append(network)
            self.layers.append((BallGrouper(radius), network))

    def forward(self, points):
        centres, features = points[:, : self.centres], []
        for grouper, network in self.layers:
            grouped = grouper(points, centres)
            features.append(network(grouped).amax(2))
        return torch.cat(features, dim=-1)
# --- classifier.py
from torch import nn

from abstraction import SetAbstraction

class PointClassifier(nn.Module):
    def __init__(self, radii, width, classes):
        super().__init__()
        self.abstraction = SetAbstraction(5, radii, width)
        self.head = nn.Linear(width * len(radii), classes)

    def forward(self, points):
        return self.head(self.abstraction(points).mean(1))

# === encoder_remembers_its_device
# thread: https://github.com/mimic-video/mimic-video/pull/11
# about: an encoder is told its device when it is made and keeps that. The pipeline lends it the GPU for a prompt, by a move, which the encoder is not told
# operation: embedding|index_select on cuda:0, cpu
# operands: .*ids|.*tokens
# category: cached-state|input-not-moved
# line: encoder.py: ids = torch.tensor(
# line: encoder.py: self.device = device
# line: encoder.py: hidden = self.model(
# line: pipeline.py: self.text_encoder.to(self.device)
# line: pipeline.py: self.text_encoder = PromptEncoder(
# repair: encoder.py: ids = torch.tensor(padded, device=self.device) -> ids = torch.tensor(padded, device=next(self.model.parameters()).device)
import torch

from pipeline import WorldPipeline

torch.manual_seed(0)
pipe = WorldPipeline(dim=8, device="cuda" if torch.cuda.is_available() else "cpu", offload_text_encoder=True)
observation = torch.rand(2, 8, generator=torch.Generator().manual_seed(2))
tasks = ["open the drawer", "put the bowl on the plate"]
actions = pipe.predict(observation, tasks, steps=3)
print("actions", [[round(value, 4) for value in row] for row in actions.tolist()])
# --- encoder.py
import torch
from torch import nn

class TextModel(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.shared, self.block = nn.Embedding(words, dim), nn.Linear(dim, dim)

    def forward(self, ids):
        hidden = self.shared(ids)
        return hidden + torch.relu(self.block(hidden))

class PromptEncoder(nn.Module):
    def __init__(self, dim, device, words=32, length=6):
        super().__init__()
        self.device = device
        self.words, self.length = words, length
        self.model = TextModel(words, dim).to(device)

    @torch.inference_mode()
    def encode_prompts(self, prompts):
        numbers = [[1 + sum(map(ord, word)) % (self.words - 1) for word in prompt.split()] for prompt in prompts]
        padded = [row + [0] * (self.length - len(row)) for row in numbers]
        ids = torch.tensor(padded, device=self.device)
        hidden = self.model(ids)
        return hidden * (ids != 0)[..., None]
# --- pipeline.py
import torch
from torch import nn

from encoder import PromptEncoder

class WorldPipeline:
    """From what is seen and what is asked for to an action."""

    def __init__(self, dim, device, offload_text_encoder):
        self.device, self.offload = device, offload_text_encoder
        self.text_encoder = PromptEncoder(dim, device="cpu" if offload_text_encoder else device)
        self.dynamics, self.head = nn.GRUCell(dim, dim).to(device), nn.Linear(dim, 3).to(device)

    def encode_prompt(self, prompts):
        if self.offload:
            self.text_encoder.to(self.device)
        vectors = self.text_encoder.encode_prompts(prompts)
        if self.offload:
            self.text_encoder.to("cpu")
        return vectors.mean(1)

    @torch.inference_mode()
    def predict(self, observation, prompts, steps):
        task, state = self.encode_prompt(prompts), observation.to(self.device)
        for _ in range(steps):
            state = self.dynamics(task, state)
        return self.head(state).tanh().cpu()
