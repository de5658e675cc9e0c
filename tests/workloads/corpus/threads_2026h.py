# === lora_inject
# thread: https://github.com/ViperEkura/AstrAI/pull/19
# about: adapters take the place of layers of a model that is on the GPU; their own weights are made where nothing says a device
# operation: mm|addmm|matmul|linear on cuda:0, cpu
# operands: .*|self|input, .*lora_A.*|.*lora_b.*|mat2|weight|.*
# category: module-split|created-without-device
# line: lora.py: self.lora_A = nn.Parameter(
# line: lora.py: self.lora_B = nn.Parameter(
# line: lora.py: setattr(parent, leaf, LoRALinear(
# line: main.py: inject_lora(model
# repair: lora.py: setattr(parent, leaf, LoRALinear(child, rank)) -> setattr(parent, leaf, LoRALinear(child, rank).to(child.weight.device))
import torch

from model import Attention
from lora import inject_lora

torch.manual_seed(0)
model = Attention(width=8, tokens=11).to("cuda:0")
for parameter in model.parameters():
    parameter.requires_grad_(False)
inject_lora(model, {"q", "v"}, rank=2)
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=0.1)
tokens = torch.tensor([[1, 5, 2, 8], [3, 3, 9, 0]], device="cuda:0")
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- lora.py
import torch
from torch import nn

class LoRALinear(nn.Module):
    def __init__(self, base, rank, alpha=4.0):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.lora_A = nn.Parameter(torch.full((rank, base.in_features), 0.1))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scale

def inject_lora(model, names, rank):
    for path, child in list(model.named_modules()):
        leaf = path.rpartition(".")[2]
        if isinstance(child, nn.Linear) and leaf in names:
            parent = model.get_submodule(path.rpartition(".")[0])
            setattr(parent, leaf, LoRALinear(child, rank))
    return model
# --- model.py
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width, tokens):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens):
        x = self.embed(tokens)
        mixed = nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), is_causal=True)
        return self.head(x + mixed)

# === bucket_boundaries
# thread: https://github.com/docling-project/docling-serve/pull/316
# about: places of patches are sorted into buckets whose boundaries are counted out anew for each batch, on no device in particular
# operation: bucketize|searchsorted on cuda:0, cpu
# operands: .*fraction.*|self|input|.*, .*boundaries.*|.*
# category: created-without-device
# line: embeddings.py: boundaries = torch.arange(
# line: embeddings.py: rows = torch.bucketize(
# repair: embeddings.py: boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side) -> boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side, device=pixels.device)
import torch

from processor import Processor
from tower import Tower

torch.manual_seed(0)
device = torch.device("cuda:0")
tower = Tower(width=8, side=4, patch=2).to(device).eval()
batch = Processor(size=8, patch=2)([torch.rand(3, 8, 8), torch.rand(3, 6, 8)]).to(device)
with torch.inference_mode():
    features = tower(batch["pixels"], batch["mask"])
print("features", [round(value, 4) for value in features.mean(1).flatten()[:4].tolist()])
# --- processor.py
import torch
from collections import UserDict

class BatchFeature(UserDict):
    def to(self, device):
        return BatchFeature({key: value.to(device) if torch.is_tensor(value) else value for key, value in self.items()})

class Processor:
    def __init__(self, size, patch):
        self.size, self.patch = size, patch

    def __call__(self, images):
        pixels = torch.zeros(len(images), 3, self.size, self.size)
        mask = torch.zeros(len(images), self.size // self.patch, self.size // self.patch, dtype=torch.bool)
        for i, image in enumerate(images):
            pixels[i, :, : image.shape[1], : image.shape[2]] = image
            mask[i, : image.shape[1] // self.patch, : image.shape[2] // self.patch] = True
        return BatchFeature(pixels=pixels, mask=mask, sizes=[tuple(image.shape[1:]) for image in images])
# --- embeddings.py
import torch
from torch import nn

class PatchEmbeddings(nn.Module):
    def __init__(self, width, side, patch):
        super().__init__()
        self.side = side
        self.project = nn.Conv2d(3, width, patch, stride=patch)
        self.position = nn.Embedding(side * side, width)

    def forward(self, pixels, mask):
        patches = self.project(pixels).flatten(2).transpose(1, 2)
        boundaries = torch.arange(1 / self.side, 1.0, 1 / self.side)
        places = torch.zeros(mask.shape[0], self.side * self.side, dtype=torch.long, device=pixels.device)
        for i, one in enumerate(mask):
            height, width = one[:, 0].sum(), one[0].sum()
            down = torch.arange(self.side, device=pixels.device) / height * (1 - 1e-6)
            along = torch.arange(self.side, device=pixels.device) / width * (1 - 1e-6)
            rows = torch.bucketize(down, boundaries, right=True)
            columns = torch.bucketize(along, boundaries, right=True)
            places[i] = (rows[:, None] * self.side + columns).flatten()
        return patches + self.position(places)
# --- tower.py
from torch import nn

from embeddings import PatchEmbeddings

class Tower(nn.Module):
    def __init__(self, width, side, patch):
        super().__init__()
        self.embeddings = PatchEmbeddings(width, side, patch)
        self.norm, self.mlp = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, pixels, mask):
        hidden = self.embeddings(pixels, mask)
        return hidden + self.mlp(self.norm(hidden))

# === batch_scalings
# thread: https://github.com/PythonOT/POT/pull/851
# about: a backend's function makes ones of the type and on the device of another array, if it is given one; the solver gives it none
# operation: bmm|mul|div.*|matmul|mv|einsum|.* on cpu, cuda:0
# operands: .*
# category: created-without-device
# line: solvers.py: f = nx.ones((batch, rows))
# line: solvers.py: g = nx.ones((batch, columns))
# line: solvers.py: g = b / nx.matvec(nx.transpose(K), f)
# repair: solvers.py: f = nx.ones((batch, rows)) -> f = nx.ones((batch, rows), type_as=K)
# repair: solvers.py: g = nx.ones((batch, columns)) -> g = nx.ones((batch, columns), type_as=K)
import torch

from solvers import solve_batch

torch.manual_seed(0)
source, target = torch.rand(2, 4, 3).cuda(), torch.rand(2, 5, 3).cuda()
M = torch.cdist(source, target) ** 2
plan, value = solve_batch(M, reg=0.5, iterations=20)
print("value", [round(each, 4) for each in value.tolist()], "mass", round(plan.sum().item(), 3))
# --- backend.py
import numpy as np
import torch

class NumpyBackend:
    def ones(self, shape, type_as=None):
        return np.ones(shape) if type_as is None else np.ones(shape, dtype=type_as.dtype)

    def exp(self, x):
        return np.exp(x)

    def matvec(self, matrix, vector):
        return np.einsum("bij,bj->bi", matrix, vector)

    def transpose(self, x):
        return np.swapaxes(x, 1, 2)

class TorchBackend:
    def ones(self, shape, type_as=None):
        if type_as is None:
            return torch.ones(shape)
        return torch.ones(shape, dtype=type_as.dtype, device=type_as.device)

    def exp(self, x):
        return torch.exp(x)

    def matvec(self, matrix, vector):
        return torch.einsum("bij,bj->bi", matrix, vector)

    def transpose(self, x):
        return x.transpose(1, 2)

def get_backend(x):
    return TorchBackend() if isinstance(x, torch.Tensor) else NumpyBackend()
# --- solvers.py
from backend import get_backend

def uniform(nx, batch, size, like):
    return nx.ones((batch, size), type_as=like) / size

def solve_batch(M, reg, iterations):
    nx = get_backend(M)
    batch, rows, columns = M.shape
    a, b = uniform(nx, batch, rows, M), uniform(nx, batch, columns, M)
    K = nx.exp(-M / reg)
    f = nx.ones((batch, rows))
    g = nx.ones((batch, columns))
    for _ in range(iterations):
        g = b / nx.matvec(nx.transpose(K), f)
        f = a / nx.matvec(K, g)
    plan = f[:, :, None] * K * g[:, None, :]
    return plan, (plan * M).sum((1, 2))

# === quantile_levels
# thread: https://github.com/bernardo-torres/spectral-optimal-transport/issues/3
# about: levels of a loss are a cached property of the module, first asked for while it is put together, and no buffer
# operation: searchsorted|bucketize|sub|lt|le|mul|.* on cuda:0, cpu
# operands: .*
# category: state-not-registered|cached-state|created-without-device
# line: losses.py: return torch.linspace(0, 1, self.points)
# line: losses.py: places = torch.searchsorted(cumulative
# line: losses.py: return values.gather(-1
# line: losses.py: def levels(self):
# line: losses.py: self.step = float(self.levels[1])
# repair: losses.py: places = torch.searchsorted(cumulative.contiguous(), self.levels.expand(len(cumulative), -1).contiguous()) -> places = torch.searchsorted(cumulative.contiguous(), self.levels.to(cumulative.device).expand(len(cumulative), -1).contiguous())
import torch
from torch import nn

from losses import TransportLoss

torch.manual_seed(0)
device = "cuda"
synth = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 64)).to(device)
criterion = TransportLoss(points=16, size=32).to(device)
optimizer = torch.optim.Adam(synth.parameters(), lr=0.01)
controls, target = torch.randn(3, 4).to(device), torch.sin(torch.arange(64) * 0.4).expand(3, -1).to(device)
for _ in range(3):
    loss = criterion(synth(controls), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 5))
# --- losses.py
from functools import cached_property

import torch
from torch import nn

class TransportLoss(nn.Module):
    def __init__(self, points, size):
        super().__init__()
        self.points, self.size = points, size
        self.register_buffer("window", torch.hann_window(size))
        self.step = float(self.levels[1])

    @cached_property
    def levels(self):
        return torch.linspace(0, 1, self.points)

    def spectrum(self, x):
        frames = x.unfold(-1, self.size, self.size // 2) * self.window
        power = torch.fft.rfft(frames).abs() + 1e-6
        return (power / power.sum(-1, keepdim=True)).flatten(0, 1)

    def quantiles(self, spectrum):
        cumulative = spectrum.cumsum(-1)
        values = torch.arange(spectrum.shape[-1], device=spectrum.device).float() * spectrum.detach().sum(-1, keepdim=True) + cumulative
        places = torch.searchsorted(cumulative.contiguous(), self.levels.expand(len(cumulative), -1).contiguous())
        return values.gather(-1, places.clamp(max=spectrum.shape[-1] - 1))

    def forward(self, x, y):
        difference = self.quantiles(self.spectrum(x)) - self.quantiles(self.spectrum(y))
        return (difference.square() * self.step).mean()

# === rotation_constants
# thread: https://github.com/ahb-sjsu/turboquant-pro/pull/132
# about: a rotation is worked out once for each width by a function that remembers its results, in NumPy; keys that it meets are on the GPU
# operation: mm|matmul|bmm on cuda:1, cpu
# operands: .*
# category: created-without-device|cached-state|input-not-moved
# line: rotation.py: return torch.from_numpy(
# line: codec.py: rotation = rotation_for(
# line: codec.py: rotated = keys @ rotation
# repair: codec.py: rotation = rotation_for(keys.shape[-1], self.seed) -> rotation = rotation_for(keys.shape[-1], self.seed).to(keys.device)
import torch

from codec import Codec
from cache import CompressedCache

torch.manual_seed(0)
device = torch.device("cuda", 1)
cache = CompressedCache(Codec(bits=3, seed=7))
for step in range(2):
    cache.append(torch.randn(4, 8, device=device))
scores = cache.scores(torch.randn(2, 8, device=device))
print("scores", [round(value, 3) for value in scores.flatten().tolist()[:5]])
# --- rotation.py
from functools import lru_cache

import numpy as np
import torch

@lru_cache(maxsize=None)
def rotation_for(width, seed):
    generator = np.random.default_rng(seed)
    q, r = np.linalg.qr(generator.standard_normal((width, width)))
    return torch.from_numpy((q * np.sign(np.diag(r))).astype(np.float32))
# --- codec.py
import torch

from rotation import rotation_for

class Codec:
    def __init__(self, bits, seed):
        self.levels, self.seed = 2**bits - 1, seed

    def encode(self, keys):
        rotation = rotation_for(keys.shape[-1], self.seed)
        rotated = keys @ rotation
        low, high = rotated.aminmax(dim=-1, keepdim=True)
        codes = ((rotated - low) / (high - low) * self.levels).round().to(torch.uint8)
        return codes, low, (high - low) / self.levels

    def rotate(self, queries):
        return queries @ rotation_for(queries.shape[-1], self.seed).to(queries.device)
# --- cache.py
import torch

class CompressedCache:
    def __init__(self, codec):
        self.codec, self.parts = codec, []

    def append(self, keys):
        self.parts.append(self.codec.encode(keys))

    def scores(self, queries):
        rotated = self.codec.rotate(queries)
        return torch.cat([rotated @ (codes.float() * step + low).T for codes, low, step in self.parts], dim=-1)

# === proposal_masks
# thread: https://github.com/thangvubk/SoftGroup/issues/215
# about: points are grouped on the CPU, where the grouping is done in Python; which proposals stay is decided on the GPU
# operation: index on cpu, cuda:0
# operands: .*proposals.*|members|self|.*, .*mask.*|keep|indices|.*
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: input-not-moved|created-without-device
# line: grouping.py: coords, labels = coords.cpu(), labels.cpu()
# line: grouping.py: return torch.tensor(members)
# line: head.py: members = group_points(
# line: head.py: kept = members[inside]
# line: head.py: inside = scores[members[:, 1]]
# repair: head.py: members = group_points(coords, labels, radius=0.6) -> members = group_points(coords, labels, radius=0.6).to(coords.device)
import torch

from head import InstanceHead

torch.manual_seed(0)
head = InstanceHead(channels=6, classes=3).to("cuda:0").eval()
coords, features = torch.rand(12, 3, device="cuda:0"), torch.rand(12, 6, device="cuda:0")
with torch.no_grad():
    kept = head(coords, features)
print("kept", kept.sum(0).tolist(), len(kept))
# --- grouping.py
import torch

def group_points(coords, labels, radius):
    """Pairs of a group's number and a point's, grown from each point that no group has."""
    coords, labels = coords.cpu(), labels.cpu()
    members, seen = [], set()
    for start in range(len(coords)):
        if start in seen:
            continue
        near = ((coords - coords[start]).norm(dim=-1) < radius) & (labels == labels[start])
        for point in near.nonzero().flatten().tolist():
            if point not in seen:
                seen.add(point)
                members.append((start, point))
    return torch.tensor(members)
# --- head.py
import torch
from torch import nn

from grouping import group_points

class InstanceHead(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.semantic, self.mask = nn.Linear(channels, classes), nn.Linear(channels, 1)

    def forward(self, coords, features):
        labels = self.semantic(features).argmax(-1)
        scores = self.mask(features).sigmoid().squeeze(-1)
        members = group_points(coords, labels, radius=0.6)
        inside = scores[members[:, 1]] > scores.median()
        kept = members[inside]
        return kept

# === bands_kept_device
# about: a layer writes down the device that it was constructed for, the CPU by default, and brings what it gives there; the model has moved since
# operation: addmm|mm|matmul|bmm|linear|.* on cpu, cuda:0
# operands: .*
# category: default-or-current-device|input-not-moved|module-split|cached-state
# line: layers.py: return torch.stack(bands, dim=1).to(self.device)
# line: layers.py: self.device = torch.device(device)
# line: network.py: self.wavelets = WaveletConv(
# repair: layers.py: return torch.stack(bands, dim=1).to(self.device) -> return torch.stack(bands, dim=1)
import torch
from torch import nn

from network import BandNet

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
network = BandNet(channels=3, bands=[4.0, 8.0, 12.0], classes=2).to(device)
signals, labels = torch.randn(4, 3, 32), torch.tensor([0, 1, 1, 0])
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(network(signals.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- layers.py
import torch
from torch import nn

class WaveletConv(nn.Module):
    def __init__(self, frequencies, length=9, device="cpu"):
        super().__init__()
        self.device = torch.device(device)
        self.frequencies = nn.Parameter(torch.tensor(frequencies))
        self.register_buffer("time", torch.linspace(-0.5, 0.5, length))

    def kernels(self):
        phase = 6.2832 * self.frequencies[:, None] * self.time
        return phase.cos() * torch.exp(-8 * self.time**2)

    def forward(self, x):
        bands = []
        for kernel in self.kernels():
            weight = kernel.expand(x.shape[1], 1, -1)
            bands.append(nn.functional.conv1d(x, weight, groups=x.shape[1], padding="same"))
        return torch.stack(bands, dim=1).to(self.device)

class Covariance(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("eye", torch.eye(size) * 1e-3)

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x @ x.transpose(-1, -2) / x.shape[-1] + self.eye
# --- network.py
from torch import nn

from layers import Covariance, WaveletConv

class BandNet(nn.Module):
    def __init__(self, channels, bands, classes):
        super().__init__()
        self.wavelets = WaveletConv(bands)
        self.covariance = Covariance(channels)
        self.head = nn.Linear(len(bands) * channels * channels, classes)

    def forward(self, x):
        return self.head(self.covariance(self.wavelets(x)).flatten(1))

# === edge_backward
# about: an autograd function filters what comes forward with kernels that it is given, and the gradient with kernels that it makes itself
# operation: .*conv.*|mul on cuda:0, cpu
# operands: .*
# category: created-without-device
# line: edges.py: smoothed = weights * grad
# line: edges.py: weights = torch.linspace(
# repair: edges.py: weights = torch.linspace(1.0, 0.5, grad.shape[-1]) -> weights = torch.linspace(1.0, 0.5, grad.shape[-1], device=grad.device)
import torch
from torch import nn

from edges import SharpEdges

torch.manual_seed(0)

class Restorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1))

    def forward(self, image):
        return SharpEdges.apply(self.net(image), 2.0)

model = Restorer().to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
image = torch.rand(2, 1, 6, 6).to("cuda:0")
for _ in range(3):
    loss = (model(image) - image).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- edges.py
import torch

class SharpEdges(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        ctx.save_for_backward(x)
        return x * (x.abs() > 0.01)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        weights = torch.linspace(1.0, 0.5, grad.shape[-1])
        smoothed = weights * grad
        return torch.where(x.abs() > 0.01, smoothed, grad / ctx.strength), None

# === steering_context
# about: means of hidden states are kept on the CPU while they are collected; a context manager registers hooks that add them to layers on the GPU
# operation: add on cuda:0, cpu
# operands: .*hidden.*|output|self|.*, .*vector.*|other|.*
# category: input-not-moved|cached-state|module-split
# line: steering.py: sums[name] += output.detach().mean((0, 1)).cpu()
# line: steering.py: return {name: total / len(batches) for name, total in sums.items()}
# line: steering.py: return output + scale * vector
# line: steering.py: handles.append(layer.register_forward_hook(
# line: main.py: vectors = collect(
# line: main.py: with torch.no_grad(), steered(
# repair: steering.py: return output + scale * vector -> return output + scale * vector.to(output.device)
import torch

from model import Stack
from steering import collect, steered

torch.manual_seed(0)
model = Stack(vocabulary=16, width=8, depth=3).to("cuda:0").eval()
batches = [torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[7, 8, 9], [1, 3, 5]])]
vectors = collect(model, [batch.to("cuda:0") for batch in batches])
prompt = torch.tensor([[2, 7, 1]], device="cuda:0")
with torch.no_grad(), steered(model, vectors, scale=0.5):
    steered_logits = model(prompt)
print("next", steered_logits[0, -1].argmax().item(), round(steered_logits.abs().mean().item(), 4))
# --- steering.py
from collections import defaultdict
from contextlib import contextmanager

import torch

@torch.no_grad()
def collect(model, batches):
    sums = defaultdict(lambda: torch.zeros(model.width))
    def watch(name):
        def hook(module, inputs, output):
            sums[name] += output.detach().mean((0, 1)).cpu()
        return hook
    handles = [layer.register_forward_hook(watch(name)) for name, layer in model.layers.named_children()]
    for batch in batches:
        model(batch)
    for handle in handles:
        handle.remove()
    return {name: total / len(batches) for name, total in sums.items()}

@contextmanager
def steered(model, vectors, scale):
    handles = []
    for name, layer in model.layers.named_children():
        def hook(module, inputs, output, vector=vectors[name]):
            return output + scale * vector
        handles.append(layer.register_forward_hook(hook))
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()
# --- model.py
from torch import nn

class Stack(nn.Module):
    def __init__(self, vocabulary, width, depth):
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(*(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(depth)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))

# === species_table
# thread: https://github.com/TorchSim/torch-sim/pull/289
# about: a model's wrapper looks numbers of atoms up in NumPy; the state that it is given has been moved to the GPU with all that it has
# operation:  on cuda:0
# operands: .*numbers.*|.*
# category:
# error: can't convert cuda:0 device type tensor to numpy
# line: wrapper.py: species = numbers_to_indices(state.numbers.numpy(), self.table)
# line: wrapper.py: self.setup(state)
# repair: wrapper.py: species = numbers_to_indices(state.numbers.numpy(), self.table) -> species = numbers_to_indices(state.numbers.cpu().numpy(), self.table)
import torch

from state import State
from wrapper import Calculator

torch.manual_seed(0)
device = torch.device("cuda:0")
calculator = Calculator(table=[1, 6, 8], width=8, device=device)
state = State(torch.rand(5, 3), torch.tensor([1, 6, 8, 1, 1]), torch.eye(3) * 4).to(device)
for _ in range(2):
    energy, forces = calculator(state)
    state.positions = state.positions + 0.01 * forces
print("energy", round(energy, 4))
# --- state.py
from dataclasses import dataclass, fields, replace

import torch

@dataclass
class State:
    positions: torch.Tensor
    numbers: torch.Tensor
    cell: torch.Tensor

    def to(self, device):
        return replace(self, **{field.name: getattr(self, field.name).to(device) for field in fields(self)})
# --- wrapper.py
import numpy as np
import torch
from torch import nn

def numbers_to_indices(numbers, table):
    return np.vectorize({number: index for index, number in enumerate(table)}.__getitem__)(numbers)

class Calculator:
    def __init__(self, table, width, device):
        self.table, self.device = table, device
        self.embed = nn.Embedding(len(table), width).to(device)
        self.energy = nn.Sequential(nn.Linear(width + 3, width), nn.SiLU(), nn.Linear(width, 1)).to(device)
        self.attributes = None

    def setup(self, state):
        species = numbers_to_indices(state.numbers.numpy(), self.table)
        self.attributes = torch.tensor(species, dtype=torch.long, device=self.device)

    def __call__(self, state):
        if self.attributes is None:
            self.setup(state)
        positions = state.positions.detach().requires_grad_(True)
        energy = self.energy(torch.cat([self.embed(self.attributes), positions @ state.cell], dim=-1)).sum()
        return energy.item(), -torch.autograd.grad(energy, positions)[0]

# === default_background
# about: a renderer's colour behind everything is a default argument, a tensor that was made when the file was imported
# operation: mul|add|addcmul on cuda:1, cpu
# operands: .*, .*background.*|.*
# category: created-without-device|cached-state|input-not-moved
# line: render.py: def composite(
# line: render.py: return color + (1 - opacity[:, None]) * background
# line: trainer.py: colors = composite(
# repair: render.py: return color + (1 - opacity[:, None]) * background -> return color + (1 - opacity[:, None]) * background.to(color.device)
import torch

from field import Field
from trainer import Trainer

torch.manual_seed(0)
trainer = Trainer(Field(width=16), device="cuda:1", samples=4)
origins, directions = torch.zeros(5, 3), torch.nn.functional.normalize(torch.randn(5, 3), dim=-1)
pixels = torch.rand(5, 3)
print("losses", [round(trainer.step(origins, directions, pixels), 4) for _ in range(3)])
# --- render.py
import torch

def composite(density, rgb, deltas, background=torch.ones(3)):
    """Colours of rays, front to back."""
    alpha = 1 - torch.exp(-density * deltas)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], dim=-1), dim=-1)[:, :-1]
    weights = alpha * through
    color, opacity = (weights[..., None] * rgb).sum(1), weights.sum(1)
    return color + (1 - opacity[:, None]) * background
# --- field.py
import torch
from torch import nn

class Field(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, points, directions):
        out = self.net(torch.cat([points, directions], dim=-1))
        return nn.functional.softplus(out[..., 0]), out[..., 1:].sigmoid()
# --- trainer.py
import torch
from torch import nn

from render import composite

class Trainer:
    def __init__(self, field, device, samples):
        self.device, self.samples = torch.device(device), samples
        self.field = field.to(self.device)
        self.optimizer = torch.optim.Adam(self.field.parameters(), lr=0.01)

    def sample(self, origins, directions):
        depths = torch.linspace(0.5, 2.0, self.samples, device=self.device)
        points = origins[:, None] + directions[:, None] * depths[:, None]
        return points, directions[:, None].expand_as(points), torch.full((len(origins), self.samples), 0.5, device=self.device)

    def step(self, *batch):
        origins, directions, pixels = (each.to(self.device) for each in batch)
        points, along, deltas = self.sample(origins, directions)
        density, rgb = self.field(points, along)
        colors = composite(density, rgb, deltas)
        loss = nn.functional.mse_loss(colors, pixels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === scripted_pad
# about: a function that is compiled by TorchScript pads frames of a recording with a row of silence that it makes on the default device
# operation: cat on cuda:0, cpu
# operands: .*
# category: created-without-device
# line: frames.py: silence = torch.zeros(
# line: frames.py: return torch.cat([frames, silence], dim=1)
# line: encoder.py: x = pad_to_multiple(
# repair: frames.py: silence = torch.zeros(frames.shape[0], missing, frames.shape[2]) -> silence = torch.zeros(frames.shape[0], missing, frames.shape[2], device=frames.device)
import torch

from encoder import Encoder

torch.manual_seed(0)
encoder = Encoder(features=4, width=8, stride=4).to("cuda:0").eval()
frames = torch.randn(2, 6, 4, device="cuda:0")
with torch.no_grad():
    states = encoder(frames)
print("states", [round(value, 4) for value in states.mean((1, 2)).tolist()])
# --- frames.py
import torch

@torch.jit.script
def pad_to_multiple(frames: torch.Tensor, stride: int) -> torch.Tensor:
    missing = (stride - frames.shape[1] % stride) % stride
    if missing == 0:
        return frames
    silence = torch.zeros(frames.shape[0], missing, frames.shape[2])
    return torch.cat([frames, silence], dim=1)
# --- encoder.py
from torch import nn

from frames import pad_to_multiple

class Encoder(nn.Module):
    def __init__(self, features, width, stride):
        super().__init__()
        self.stride = stride
        self.down = nn.Conv1d(features, width, stride, stride=stride)
        self.norm = nn.LayerNorm(width)

    def forward(self, frames):
        x = pad_to_multiple(frames, self.stride)
        return self.norm(self.down(x.transpose(1, 2)).transpose(1, 2))
