# === soft_labels_of_an_ordinal_loss
# thread: https://github.com/ayrna/dlordinal/issues/157
# about: a loss spreads each label over its neighbours, by rows that are a buffer of the loss. The network was moved, and its inputs are
# operation: index on cpu, cuda:0
# operands: .*cls_probs.*|index|target|indices
# category: module-split|input-not-moved
# line: main.py: loss_fn = BinomialLoss(
# line: losses.py: spread = self.get_buffer("cls_probs")[target]
# line: training.py: model = model.to(device)
# repair: main.py: loss_fn = BinomialLoss(classes=4, eta=0.6) -> loss_fn = BinomialLoss(classes=4, eta=0.6).to(device)
import torch

from losses import BinomialLoss
from training import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator().manual_seed(5)
x = torch.randn(16, 3, generator=generator)
grades = (x.sum(1) + 2).clamp(0, 3.9).long()
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
loss_fn = BinomialLoss(classes=4, eta=0.6)
print("losses", train(model, loss_fn, [(x[:8], grades[:8]), (x[8:], grades[8:])], device, epochs=3))
# --- losses.py
import math

import torch
from torch import nn

def binomial_rows(classes):
    """For each class, how likely the others are if it is the middle of a binomial distribution."""
    rows = []
    for label in range(classes):
        p, n = (label + 0.5) / classes, classes - 1
        rows.append([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(classes)])
    return torch.tensor(rows)

class CustomTargetsLoss(nn.Module):
    def __init__(self, base, classes, rows, eta):
        super().__init__()
        self.base, self.classes, self.eta = base, classes, eta
        self.register_buffer("cls_probs", rows)

    def forward(self, logits, target):
        spread = self.get_buffer("cls_probs")[target]
        hard = nn.functional.one_hot(target, self.classes)
        return self.base(logits, (1 - self.eta) * hard + self.eta * spread)

class BinomialLoss(CustomTargetsLoss):
    def __init__(self, classes, eta):
        super().__init__(nn.CrossEntropyLoss(), classes, binomial_rows(classes), eta)
# --- training.py
import torch

def train(model, loss_fn, batches, device, epochs, lr=0.05):
    model = model.to(device)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=lr), []
    for _ in range(epochs):
        total = 0.0
        for x, grades in batches:
            loss = loss_fn(model(x.to(device)), grades.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(round(total / len(batches), 4))
    return losses

# === arguments_of_a_custom_loss
# thread: https://github.com/NVIDIA/TorchFort/pull/63
# about: a library trains for programs in other languages. It takes the arrays it is handed to its model and calls a loss of the user's, which can have arguments of its own
# operation: mul on cuda:0, cpu
# operands: .*extra.*|area|other|.*args.*
# category: input-not-moved|input
# line: engine.py: extra_loss_args = [torch.from_numpy(
# line: engine.py: loss = self.loss(
# line: losses.py: weighted = error * area
# repair: engine.py: extra_loss_args = [torch.from_numpy(array) for array in extra_loss_args] -> extra_loss_args = [torch.from_numpy(array).to(self.device) for array in extra_loss_args]
import torch
from torch.utils.data import DataLoader

from columns import Columns
from engine import Engine
from losses import AreaWeightedLoss

torch.manual_seed(0)
engine = Engine(AreaWeightedLoss(power=2), device=0 if torch.cuda.is_available() else -1, lr=0.02)
loader = DataLoader(Columns(count=12, levels=4, seed=2), batch_size=4, collate_fn=Columns.collate)
losses = [engine.train(inputs, labels, [areas]) for inputs, labels, areas in loader]
print("losses", losses)
# --- columns.py
import numpy as np

class Columns:
    """Columns of the atmosphere, as a simulation has them: arrays, and how much of the earth each stands for."""

    def __init__(self, count, levels, seed):
        rng = np.random.default_rng(seed)
        self.states = rng.normal(size=(count, levels)).astype(np.float32)
        self.tendencies = np.tanh(self.states[:, ::-1]).copy()
        self.areas = np.cos(np.linspace(-1.2, 1.2, count)).astype(np.float32)

    def __len__(self):
        return len(self.states)

    def __getitem__(self, index):
        return self.states[index], self.tendencies[index], self.areas[index]

    @staticmethod
    def collate(rows):
        return tuple(np.stack(column) for column in zip(*rows))
# --- losses.py
from torch import nn

class AreaWeightedLoss(nn.Module):
    def __init__(self, power):
        super().__init__()
        self.power = power

    def forward(self, predicted, label, area):
        error = (predicted - label).abs().pow(self.power).mean(1)
        weighted = error * area
        return weighted.sum() / area.sum()
# --- engine.py
import torch
from torch import nn

class Engine:
    """What is behind the functions of the library. A device is a number here: -1 is the CPU."""

    def __init__(self, loss, device, lr, levels=4):
        self.device = torch.device("cpu") if device < 0 else torch.device("cuda", device)
        self.model = nn.Sequential(nn.Linear(levels, 8), nn.SiLU(), nn.Linear(8, levels)).to(self.device)
        self.loss, self.optimizer = loss, torch.optim.Adam(self.model.parameters(), lr=lr)

    def train(self, inputs, labels, extra_loss_args=()):
        inputs, labels = (torch.from_numpy(array).to(self.device) for array in (inputs, labels))
        extra_loss_args = [torch.from_numpy(array) for array in extra_loss_args]
        loss = self.loss(self.model(inputs), labels, *extra_loss_args)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return round(loss.item(), 4)

# === mask_kept_by_a_forecaster
# thread: https://github.com/unit8co/darts/pull/3053
# about: a network keeps its mask as long as batches have one size. A trainer takes the network to the GPU and, when it is done, back; then it forecasts
# operation: masked_fill|where on cpu, cuda:0
# operands: self.attention_mask|.*mask.*
# category: state-not-registered|cached-state
# line: tft.py: self.attention_mask = None
# line: tft.py: if self.kept_for != x.shape[:2]:
# line: tft.py: scores = scores.masked_fill(
# repair: tft.py: self.attention_mask = None -> self.register_buffer("attention_mask", None, persistent=False)
import logging
import warnings

import lightning
import torch
from torch.utils.data import DataLoader

from series import windows
from tft import Forecaster

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.manual_seed(0)
past, future = windows(length=40, past=8, horizon=2)
loader = DataLoader(list(zip(past[:24], future[:24])), batch_size=8)
model = Forecaster(width=8, horizon=2, lr=0.02)
trainer = lightning.Trainer(
    accelerator="auto", devices=1, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
)
trainer.fit(model, loader)
print("forecast", [round(value, 3) for value in model.forecast(past[-8:])[-1].tolist()])
# --- series.py
import torch

def windows(length, past, horizon):
    time = torch.arange(length) / 3
    values = time.sin() + 0.05 * time
    parts = values.unfold(0, past + horizon, 1)
    return parts[:, :past, None], parts[:, past:]
# --- tft.py
import lightning
import torch
from torch import nn

class Forecaster(lightning.LightningModule):
    def __init__(self, width, horizon, lr):
        super().__init__()
        self.embed, self.qkv, self.head = nn.Linear(1, width), nn.Linear(width, 3 * width), nn.Linear(width, horizon)
        self.lr, self.kept_for = lr, None
        self.attention_mask = None

    def future_of(self, size, length):
        steps = torch.arange(length, device=self.device)
        return (steps[None] > steps[:, None]).expand(size, -1, -1)

    def forward(self, x):
        if self.kept_for != x.shape[:2]:
            self.attention_mask = self.future_of(*x.shape[:2])
            self.kept_for = x.shape[:2]
        q, k, v = self.qkv(self.embed(x)).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(self.attention_mask, -torch.inf)
        return self.head((scores.softmax(-1) @ v)[:, -1])

    def training_step(self, batch, index):
        past, future = batch
        return nn.functional.mse_loss(self(past), future)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    @torch.no_grad()
    def forecast(self, past):
        self.eval()
        return self(past.to(self.device))

# === padding_of_a_split_model
# thread: https://github.com/huggingface/transformers/issues/35918
# about: images are looked at on one GPU and text is read on another; hooks take along what modules are called with. Texts of different lengths have a mask for their padding
# operation: add|where|masked_fill|and|bitwise_and|mul on cuda:1, cuda:0
# operands: .*attention_mask.*|padding|other
# category: module-split|input-not-moved
# line: mllama.py: allowed = causal[None] & padding[:, None]
# line: mllama.py: padding = attention_mask.bool()
# line: mllama.py: mask = self.causal_mask(
# line: main.py: inputs = {name: values.to(
# repair: mllama.py: padding = attention_mask.bool() -> padding = attention_mask.bool().to(hidden.device)
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module

from mllama import TinyMllama

torch.manual_seed(0)
first, second = ("cuda:0", "cuda:1") if torch.cuda.is_available() else ("cpu", "cpu")
model = TinyMllama(words=30, dim=8)
for name, device in {"vision": first, "embed": second, "attention": second, "cross": second, "head": second}.items():
    module = model.get_submodule(name)
    add_hook_to_module(module, AlignDevicesHook(execution_device=device, place_submodules=True))
generator = torch.Generator().manual_seed(4)
inputs = {
    "input_ids": torch.randint(1, 30, (2, 5), generator=generator), "attention_mask": torch.tensor([[1] * 5, [0, 0, 1, 1, 1]]),
    "pixel_values": torch.rand(2, 3, 4, 4, generator=generator),
}
inputs = {name: values.to(first) for name, values in inputs.items()}
print("words", model(**inputs)[:, -1].argmax(-1).tolist(), "sum", round(model(**inputs)[1].abs().sum().item(), 3))
# --- mllama.py
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, mask):
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        scores = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(~mask, -1e9)
        return hidden + self.out(scores.softmax(-1) @ v)

class CrossAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query, self.key_value = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, hidden, patches):
        k, v = self.key_value(patches).chunk(2, dim=-1)
        return hidden + nn.functional.scaled_dot_product_attention(self.query(hidden), k, v)

class TinyMllama(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.vision, self.embed = nn.Conv2d(3, dim, 2, stride=2), nn.Embedding(words, dim)
        self.attention, self.cross, self.head = Attention(dim), CrossAttention(dim), nn.Linear(dim, words)

    def causal_mask(self, hidden, attention_mask):
        steps = torch.arange(hidden.shape[1], device=hidden.device)
        causal = steps[None] <= steps[:, None]
        if attention_mask is None or attention_mask.all():
            return causal.expand(len(hidden), -1, -1)
        padding = attention_mask.bool()
        allowed = causal[None] & padding[:, None]
        return allowed

    @torch.no_grad()
    def forward(self, input_ids, attention_mask, pixel_values):
        patches = self.vision(pixel_values).flatten(2).transpose(1, 2)
        hidden = self.embed(input_ids)
        hidden = hidden if hidden.device == self.head.weight.device else hidden.to(self.head.weight.device)
        mask = self.causal_mask(hidden, attention_mask)
        return self.head(self.cross(self.attention(hidden, mask), patches))

# === scales_inside_a_wrapped_weight
# thread: https://github.com/huggingface/diffusers/issues/12610
# about: weights in eight bits are objects that have the numbers and their scale in them. Layers are moved one after the other while they are needed
# operation: mul on cuda:0, cpu
# operands: .*scale.*|other
# category: state-not-registered|module-split
# line: quantized.py: return QuantizedWeight(self.data.to(device), self.scale)
# line: quantized.py: return self.data.float() * self.scale
# repair: quantized.py: return QuantizedWeight(self.data.to(device), self.scale) -> return QuantizedWeight(self.data.to(device), self.scale.to(device))
import torch
from torch import nn

from offload import offload_groups
from quantized import quantize

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 12), nn.SiLU(), nn.Linear(12, 4))
x = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
quantize(model)
offload_groups(model, onload=device, offload=torch.device("cpu"))
with torch.no_grad():
    result = model(x.to(device))
print("result", [[round(value, 3) for value in row] for row in result.tolist()])
# --- quantized.py
import torch
from torch import nn

class QuantizedWeight:
    def __init__(self, data, scale):
        self.data, self.scale = data, scale

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    @property
    def device(self):
        return self.data.device

    def to(self, device):
        return QuantizedWeight(self.data.to(device), self.scale)

    def dequantized(self):
        return self.data.float() * self.scale

class QuantizedLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.weight, self.bias = QuantizedWeight.of(linear.weight.detach()), linear.bias

    def _apply(self, function, recurse=True):
        super()._apply(function, recurse)
        self.weight = self.weight.to(self.bias.device)
        return self

    def forward(self, x):
        weight = self.weight.dequantized()
        return nn.functional.linear(x, weight, self.bias)

def quantize(model):
    for name, module in list(model.named_children()):
        if isinstance(module, nn.Linear):
            setattr(model, name, QuantizedLinear(module))
# --- offload.py
def offload_groups(model, onload, offload):
    """Each layer is on the GPU from when it is called until the next one is."""
    loaded = []

    def load(module, args):
        for other in loaded:
            other.to(offload)
        loaded[:] = [module.to(onload)]

    for layer in model.children():
        layer.register_forward_pre_hook(load)

# === identity_of_other_wires
# thread: https://github.com/PennyLaneAI/pennylane/issues/7774
# about: a circuit's matrix is asked for. A gate's own matrix is made of its parameters, which are on the GPU; on the wires that it leaves alone it is the identity
# operation: kron|mul on cuda:0, cpu
# operands: identity|other|.*eye.*
# category: created-without-device
# line: matrices.py: return torch.eye(
# line: matrices.py: expanded = torch.kron(matrix, identity)
# line: matrices.py: identity = eye(
# repair: matrices.py: return torch.eye(2**wires, dtype=torch.complex64) if like == "torch" else np.eye(2**wires) -> return torch.eye(2**wires, dtype=torch.complex64, device=device) if like == "torch" else np.eye(2**wires)
# repair: matrices.py: def eye(wires, like): -> def eye(wires, like, device=None):
# repair: matrices.py: identity = eye(count - len(wires), interface(matrix)) -> identity = eye(count - len(wires), interface(matrix), getattr(matrix, "device", None))
import torch

from circuit import Circuit
from matrices import unitary

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
angles = torch.tensor([0.5, 0.75, -1.2], device=device)
circuit = Circuit(wires=3)
circuit.rx(angles[0], wire=0)
circuit.crx(angles[1], wires=(0, 2))
circuit.rx(angles[2], wire=1)
matrix = unitary(circuit)
print("corner", [round(value, 4) for value in matrix[0].abs().tolist()], "trace", round(matrix.diagonal().sum().real.item(), 4))
# --- circuit.py
import torch

def rx_matrix(angle):
    cos, sin = (angle / 2).cos() + 0j, -1j * (angle / 2).sin()
    return torch.stack([torch.stack([cos, sin]), torch.stack([sin, cos])])

def controlled(matrix):
    whole = matrix.new_zeros(4, 4)
    whole[0, 0] = whole[1, 1] = 1
    whole[2:, 2:] = matrix
    return whole

class Circuit:
    def __init__(self, wires):
        self.wires, self.operations = wires, []

    def rx(self, angle, wire):
        self.operations.append((rx_matrix(angle), (wire,)))

    def crx(self, angle, wires):
        self.operations.append((controlled(rx_matrix(angle)), wires))
# --- matrices.py
import numpy as np
import torch

def interface(matrix):
    return "torch" if isinstance(matrix, torch.Tensor) else "numpy"

def eye(wires, like):
    return torch.eye(2**wires, dtype=torch.complex64) if like == "torch" else np.eye(2**wires)

def expand_matrix(matrix, wires, count):
    """As if the gate were on all wires: it comes first, and then wires are put in order."""
    identity = eye(count - len(wires), interface(matrix))
    expanded = torch.kron(matrix, identity)
    order = [*wires, *(wire for wire in range(count) if wire not in wires)]
    back = [order.index(wire) for wire in range(count)]
    axes = [*back, *(count + each for each in back)]
    return expanded.reshape([2] * (2 * count)).permute(axes).reshape(2**count, 2**count)

def unitary(circuit):
    whole = None
    for matrix, wires in circuit.operations:
        expanded = expand_matrix(matrix, wires, circuit.wires)
        whole = expanded if whole is None else expanded @ whole
    return whole

# === sigmas_sent_to_the_host
# thread: https://github.com/sgl-project/sglang/pull/23294
# about: a scheduler is told a device for its steps, and how much noise there is at each it sends to the CPU: a single number may be there. Here they are slices of one
# operation: mul|div on cuda:0, cpu
# operands: ratio|sigma.*|other|.*sigmas.*
# category: cached-state|input-not-moved
# line: unipc.py: self.sigmas = sigmas.to("cpu")
# line: unipc.py: moved = ratio * sample
# line: unipc.py: now, after = self.sigmas[
# line: unipc.py: ratio = after / now
# repair: unipc.py: self.sigmas = sigmas.to("cpu") -> self.sigmas = sigmas
import torch

from pipeline import FlowPipeline
from unipc import UniPCScheduler

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pipeline = FlowPipeline(UniPCScheduler(shift=3.0), channels=3, device=device)
video = pipeline(frames=2, size=4, steps=4, seed=8)
print("video", [round(value, 4) for value in video.mean((0, 2, 3)).tolist()])
# --- unipc.py
import torch

class UniPCScheduler:
    """Second order: a step looks back at what was predicted in the one before."""

    def __init__(self, shift):
        self.shift, self.previous = shift, None

    def set_timesteps(self, steps, device):
        linear = torch.linspace(1.0, 0.05, steps, device=device)
        sigmas = self.shift * linear / (1 + (self.shift - 1) * linear)
        self.timesteps = (1000 * sigmas).round()
        sigmas = torch.cat([sigmas, sigmas.new_zeros(1)])
        self.sigmas = sigmas.to("cpu")
        self.previous, self.index = None, 0

    def step(self, velocity, sample):
        now, after = self.sigmas[self.index : self.index + 1], self.sigmas[self.index + 1 : self.index + 2]
        clean = sample - self.timesteps[self.index] / 1000 * velocity
        ratio = after / now
        moved = ratio * sample
        corrected = clean if self.previous is None else 1.5 * clean - 0.5 * self.previous
        self.previous, self.index = clean, self.index + 1
        return moved + (1 - ratio) * corrected
# --- pipeline.py
import torch
from torch import nn

class Denoiser(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.inner, self.time, self.outer = nn.Conv2d(channels, 8, 3, padding=1), nn.Linear(1, 8), nn.Conv2d(8, channels, 1)

    def forward(self, latents, timestep):
        shift = self.time(timestep.reshape(1, 1) / 1000)
        return self.outer((self.inner(latents) + shift[:, :, None, None]).relu())

class FlowPipeline:
    def __init__(self, scheduler, channels, device):
        self.scheduler, self.denoiser = scheduler, Denoiser(channels).to(device)
        self.channels, self.device = channels, device

    @torch.no_grad()
    def __call__(self, frames, size, steps, seed):
        generator = torch.Generator().manual_seed(seed)
        latents = torch.randn(frames, self.channels, size, size, generator=generator).to(self.device)
        self.scheduler.set_timesteps(steps, device=self.device)
        for timestep in self.scheduler.timesteps:
            velocity = self.denoiser(latents, timestep)
            latents = self.scheduler.step(velocity, latents)
        return latents

# === bias_kept_for_packed_lengths
# thread: https://github.com/unslothai/unsloth/pull/8516
# about: sequences are packed behind each other, and what keeps them apart is kept for as long as lengths are the same. Layers are on two GPUs, and ask for it in turn
# operation: add on cuda:1, cuda:0
# operands: bias|.*bias.*|other
# category: cached-state
# line: packing.py: key = tuple(lengths)
# line: packing.py: return BIASES[key]
# line: model.py: bias = packed_bias(
# line: model.py: scores = q @ k.transpose(0, 1) / q.shape[-1] ** 0.5 + bias
# repair: packing.py: key = tuple(lengths) -> key = (*lengths, device)
import torch

from model import PackedDecoder

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
model = PackedDecoder(words=20, dim=8, devices=[devices[0], devices[0], devices[1]])
sequences = [torch.tensor(each) for each in ([3, 1, 4, 1], [5, 9], [2, 6, 5])]
losses = [model.train_step(sequences, lr=0.1) for _ in range(3)]
print("losses", losses)
# --- packing.py
import torch

BIASES = {}

def pack(sequences):
    return torch.cat(sequences), [len(sequence) for sequence in sequences]

def packed_bias(lengths, device):
    """What is added to scores: nothing within a sequence and before, else minus infinity."""
    key = tuple(lengths)
    if key not in BIASES:
        owner = torch.repeat_interleave(torch.tensor(lengths)).to(device)
        steps = torch.arange(len(owner), device=device)
        allowed = (owner[:, None] == owner[None]) & (steps[None] <= steps[:, None])
        BIASES[key] = torch.zeros(allowed.shape, device=device).masked_fill(~allowed, -torch.inf)
    return BIASES[key]
# --- model.py
import torch
from torch import nn

from packing import pack, packed_bias

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, hidden, lengths):
        bias = packed_bias(lengths, hidden.device)
        q, k, v = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
        scores = q @ k.transpose(0, 1) / q.shape[-1] ** 0.5 + bias
        return hidden + self.out(scores.softmax(-1) @ v)

class PackedDecoder(nn.Module):
    def __init__(self, words, dim, devices):
        super().__init__()
        self.embed = nn.Embedding(words, dim).to(devices[0])
        self.layers = nn.ModuleList(Layer(dim).to(device) for device in devices)
        self.head = nn.Linear(dim, words).to(devices[-1])
        self.devices = devices

    def forward(self, tokens, lengths):
        hidden = self.embed(tokens.to(self.devices[0]))
        for layer, device in zip(self.layers, self.devices):
            hidden = layer(hidden.to(device), lengths)
        return self.head(hidden)

    def train_step(self, sequences, lr):
        tokens, lengths = pack(sequences)
        logits = self(tokens, lengths)
        loss = nn.functional.cross_entropy(logits[:-1], tokens[1:].to(logits.device))
        self.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in self.parameters():
                p -= lr * p.grad
        return round(loss.item(), 4)

# === start_of_a_sampler
# thread: https://github.com/alan-turing-institute/autocast/pull/70
# about: fields are forecast by a flow from noise, given the fields before. A sampler makes the noise, and is told the shape of what it is to sample
# operation: cat on cpu, cuda:0
# operands: state|tensors.*|.*noisy.*
# category: created-without-device
# line: sampler.py: state = self.initial(
# line: sampler.py: return torch.randn(
# line: sampler.py: velocity = flow(state
# repair: sampler.py: state = self.initial((len(condition), flow.fields, *condition.shape[2:])) -> state = self.initial((len(condition), flow.fields, *condition.shape[2:])).to(condition.device)
import torch

from emulator import Emulator
from flow import VelocityField
from sampler import EulerSampler

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
flow = VelocityField(fields=2, width=6).to(device)
emulator = Emulator(flow, EulerSampler(steps=4, seed=3))
fields = torch.rand(1, 2, 5, 5, generator=torch.Generator().manual_seed(2)).to(device)
trajectory = emulator.rollout(fields, count=3)
print("means", [round(value, 4) for value in trajectory.mean((1, 2, 3, 4)).tolist()])
# --- flow.py
import torch
from torch import nn

class VelocityField(nn.Module):
    def __init__(self, fields, width):
        super().__init__()
        self.fields = fields
        self.inner, self.time, self.outer = nn.Conv2d(2 * fields, width, 3, padding=1), nn.Linear(1, width), nn.Conv2d(width, fields, 1)

    def forward(self, noisy, time, condition):
        joined = torch.cat([noisy, condition], dim=1)
        shift = self.time(condition.new_full((1, 1), time))
        return self.outer((self.inner(joined) + shift[:, :, None, None]).tanh())
# --- sampler.py
from dataclasses import dataclass, field

import torch

@dataclass
class EulerSampler:
    steps: int
    seed: int = 0
    generator: torch.Generator = field(init=False)

    def __post_init__(self):
        self.generator = torch.Generator().manual_seed(self.seed)

    def initial(self, shape):
        return torch.randn(shape, generator=self.generator)

    def sample(self, flow, condition):
        state = self.initial((len(condition), flow.fields, *condition.shape[2:]))
        for step in range(self.steps):
            velocity = flow(state, step / self.steps, condition)
            state = state + velocity / self.steps
        return state
# --- emulator.py
import torch

class Emulator:
    def __init__(self, flow, sampler):
        self.flow, self.sampler = flow, sampler

    @torch.no_grad()
    def rollout(self, fields, count):
        """Each sample is what the next one is given."""
        trajectory = [fields]
        for _ in range(count):
            trajectory.append(self.sampler.sample(self.flow, trajectory[-1]))
        return torch.stack(trajectory[1:])

# === default_left_by_a_converter
# thread: https://github.com/NVIDIA/nvalchemi-toolkit/pull/114
# about: weights are converted for faster layers, and the converter makes all that it makes on a GPU. Neighbours are looked for on the CPU, among tensors that are made without a device
# operation: mm|matmul on cuda:0, cpu
# operands: images|self|mat1|.*images.*
# category: default-or-current-device
# line: converter.py: torch.set_default_device(
# line: neighbours.py: images = torch.cartesian_prod(
# line: neighbours.py: shifts = images @ cell
# line: calculator.py: self.model = convert(
# repair: converter.py: torch.set_default_device(device) -> before = torch.get_default_device(); torch.set_default_device(device)
# repair: converter.py: return fast -> torch.set_default_device(before); return fast
import torch

from calculator import Calculator

torch.manual_seed(0)
devices = ["cuda:0", "cuda:1"] if torch.cuda.is_available() else ["cpu", "cpu"]
calculator = Calculator(elements=2, width=6, cutoff=1.6, device=devices[1], convert_on=devices[0])
generator = torch.Generator().manual_seed(6)
positions = 2 * torch.rand(4, 3, generator=generator, device="cpu")
cell = 2 * torch.eye(3, device="cpu")
energy, forces = calculator.calculate(torch.tensor([0, 1, 0, 1], device="cpu"), positions, cell)
print("energy", round(energy, 4), "forces", [round(value, 4) for value in forces[0].tolist()])
# --- converter.py
import torch
from torch import nn

class FastPair(nn.Module):
    """Both layers of an element's network in one weight each."""

    def __init__(self, elements, width):
        super().__init__()
        self.inner = nn.Parameter(torch.zeros(elements, width))
        self.outer = nn.Parameter(torch.zeros(elements, width))

    def forward(self, distances, elements):
        return ((distances[:, None] * self.inner[elements]).cos() * self.outer[elements]).sum(1)

def convert(slow, device):
    torch.set_default_device(device)
    fast = FastPair(len(slow), slow[0][0].out_features)
    with torch.no_grad():
        fast.inner.copy_(torch.stack([each[0].weight[:, 0].to(device) for each in slow]))
        fast.outer.copy_(torch.stack([each[1].weight[0].to(device) for each in slow]))
    return fast
# --- neighbours.py
import torch

def neighbour_list(positions, cell, cutoff):
    """Pairs of atoms within the cutoff, those across the cell's faces included: (first, second, vector)."""
    images = torch.cartesian_prod(*[torch.arange(-1, 2)] * 3).to(cell.dtype)
    shifts = images @ cell
    vectors = positions[None, :, None] + shifts[None, None] - positions[:, None, None]
    distances = vectors.square().sum(-1)
    first, second, image = ((distances > 0) & (distances < cutoff**2)).nonzero(as_tuple=True)
    return first, second, vectors[first, second, image]
# --- calculator.py
import torch
from torch import nn

from converter import convert
from neighbours import neighbour_list

class Calculator:
    def __init__(self, elements, width, cutoff, device, convert_on):
        slow = [nn.Sequential(nn.Linear(1, width, bias=False), nn.Linear(width, 1, bias=False)) for _ in range(elements)]
        self.model = convert(slow, convert_on)
        self.model.to(device)
        self.device, self.cutoff = device, cutoff

    def calculate(self, elements, positions, cell):
        positions = positions.clone().requires_grad_()
        first, _, vectors = neighbour_list(positions, cell, self.cutoff)
        distances = vectors.norm(dim=1).to(self.device)
        energy = 0.5 * self.model(distances, elements[first].to(self.device)).sum()
        forces = -torch.autograd.grad(energy, positions)[0]
        return energy.item(), forces

# === norms_of_two_stages
# thread: https://github.com/NVIDIA-NeMo/Automodel/pull/793
# about: stages of a model are on GPUs of their own. Gradients are clipped by a norm over all of them, and norms are taken group by group
# operation: stack|cat on cuda:0, cuda:1
# operands: tensors.*|norms.*|.*norm.*
# category: module-split|input-not-moved
# line: clipping.py: norms.append(
# line: clipping.py: total = torch.linalg.vector_norm(torch.stack(norms), p)
# repair: clipping.py: norms.append(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad, p) for grad in grads]), p)) -> norms.append(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad, p) for grad in grads]), p).to("cpu"))
import torch

from stages import Pipeline
from trainer import Trainer

torch.manual_seed(0)
devices = [torch.device("cuda:0"), torch.device("cuda:1")] if torch.cuda.is_available() else [torch.device("cpu"), torch.device("cpu")]
generator = torch.Generator().manual_seed(9)
batches = [(torch.randn(6, 4, generator=generator), torch.randint(3, (6,), generator=generator)) for _ in range(3)]
trainer = Trainer(Pipeline(features=4, width=8, classes=3, devices=devices), lr=0.5, max_norm=0.4)
print("norms", [trainer.step(x, y) for x, y in batches])
# --- stages.py
from torch import nn

class Pipeline(nn.Module):
    def __init__(self, features, width, classes, devices):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(features, width), nn.GELU()).to(devices[0])
        self.second = nn.Linear(width, classes).to(devices[1])
        self.devices = devices

    def forward(self, x):
        hidden = self.first(x.to(self.devices[0]))
        return self.second(hidden.to(self.devices[1]))
# --- clipping.py
from collections import defaultdict

import torch

@torch.no_grad()
def clip_grad_norm(parameters, max_norm, p=2.0):
    """Scales gradients down if their norm is larger; returns the norm. Groups are tensors that may be stacked: of one mesh, or one device."""
    groups = defaultdict(list)
    for parameter in parameters:
        if parameter.grad is not None:
            groups[parameter.grad.device].append(parameter.grad)
    norms = []
    for grads in groups.values():
        norms.append(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad, p) for grad in grads]), p))
    total = torch.linalg.vector_norm(torch.stack(norms), p)
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for grads in groups.values():
        for grad in grads:
            grad.mul_(factor.to(grad.device))
    return total
# --- trainer.py
import torch
from torch import nn

from clipping import clip_grad_norm

class Trainer:
    def __init__(self, model, lr, max_norm):
        self.model, self.max_norm = model, max_norm
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step(self, x, y):
        logits = self.model(x)
        loss = nn.functional.cross_entropy(logits, y.to(logits.device))
        self.optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        return round(norm.item(), 4)

# === rows_of_each_expert
# thread: https://github.com/vllm-project/vllm-xpu-kernels/pull/313
# about: words are sorted by the expert that they go to, and all experts run as one. Which rows are whose is told by counts that are made for "the" accelerator
# operation: searchsorted|bucketize on cuda:0, cuda:1
# operands: ends|rows|.*ends.*|sorted_sequence|boundaries
# category: default-or-current-device
# line: grouped.py: ends = torch.tensor(
# line: grouped.py: owner = torch.searchsorted(
# repair: grouped.py: ends = torch.tensor(prefix_sums(counts), dtype=torch.int64, device=ACCELERATOR) -> ends = torch.tensor(prefix_sums(counts), dtype=torch.int64, device=x.device)
import torch

from moe import MixtureOfExperts

torch.manual_seed(0)
device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
layer = MixtureOfExperts(dim=6, experts=4, top_k=2).to(device)
words = torch.randn(5, 6, generator=torch.Generator().manual_seed(7)).to(device)
mixed = layer(words)
print("mixed", [round(value, 4) for value in mixed.sum(1).tolist()])
# --- grouped.py
from itertools import accumulate

import torch

ACCELERATOR = "cuda" if torch.cuda.is_available() else "cpu"

def prefix_sums(counts):
    return list(accumulate(counts))

def grouped_linear(x, weights, counts):
    """Each row of x by its expert's weight. Rows are sorted by expert, `counts` of each."""
    ends = torch.tensor(prefix_sums(counts), dtype=torch.int64, device=ACCELERATOR)
    rows = torch.arange(len(x), device=x.device)
    owner = torch.searchsorted(ends, rows, right=True)
    return torch.einsum("rd,rde->re", x, weights[owner])
# --- moe.py
import torch
from torch import nn

from grouped import grouped_linear

class MixtureOfExperts(nn.Module):
    def __init__(self, dim, experts, top_k):
        super().__init__()
        self.gate, self.top_k = nn.Linear(dim, experts, bias=False), top_k
        self.up = nn.Parameter(torch.randn(experts, dim, 2 * dim) / dim**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * dim, dim) / (2 * dim) ** 0.5)

    @torch.no_grad()
    def forward(self, words):
        chances, chosen = self.gate(words).softmax(-1).topk(self.top_k, dim=-1)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=len(self.up)).tolist()
        routed = words[order // self.top_k]
        mixed = grouped_linear(routed, self.up, counts)
        mixed = grouped_linear(mixed.relu(), self.down, counts)
        weighted = mixed * chances.flatten()[order][:, None]
        return torch.zeros_like(words).index_add(0, order // self.top_k, weighted)

# === observations_of_a_gym
# thread: https://github.com/open-edge-platform/physical-ai-studio/issues/57
# about: in training a framework takes batches to the GPU. In a gym a policy is asked for an action directly, and each kind of policy has to see to it itself; one does not
# operation: addmm|linear|mm on cuda:0, cpu
# operands: input|mat1|.*state.*|features|.*observation.*
# category: input-not-moved|input
# line: policies.py: features = torch.cat([batch["state"], batch["goal"]], dim=-1)
# line: policies.py: mean = self.net(features)
# line: rollout.py: action = policy.select_action(
# line: rollout.py: batch = to_batch(
# repair: policies.py: features = torch.cat([batch["state"], batch["goal"]], dim=-1) -> features = torch.cat([batch["state"], batch["goal"]], dim=-1).to(self.net[0].weight.device)
import torch

from gym import PushGym
from policies import ChunkPolicy, PlainPolicy
from rollout import rollout

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
env = PushGym(seed=3)
returns = {}
for policy in (ChunkPolicy(state=2, chunk=2), PlainPolicy(state=2)):
    returns[type(policy).__name__] = rollout(env, policy.to(device).eval(), steps=6)
print("returns", returns)
# --- gym.py
import numpy as np

class PushGym:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state, self.goal = (self.rng.normal(size=2).astype(np.float32) for _ in range(2))
        return self.observe()

    def observe(self):
        return {"state": self.state.copy(), "goal": self.goal.copy()}

    def step(self, action):
        self.state = self.state + 0.3 * np.clip(action, -1, 1).astype(np.float32)
        return self.observe(), -float(np.abs(self.state - self.goal).sum())
# --- observation.py
import torch

def to_batch(observation):
    """Arrays of one moment as a batch of tensors."""
    return {name: torch.from_numpy(array)[None] for name, array in observation.items()}
# --- policies.py
import torch
from torch import nn

class ChunkPolicy(nn.Module):
    """Gives several actions at once, and is asked again when they are used up."""

    def __init__(self, state, chunk):
        super().__init__()
        self.net, self.chunk, self.queue = nn.Linear(2 * state, chunk * state), chunk, []

    @torch.no_grad()
    def select_action(self, batch):
        if not self.queue:
            device = next(self.parameters()).device
            batch = {name: values.to(device) for name, values in batch.items()}
            actions = self.net(torch.cat([batch["state"], batch["goal"]], dim=-1))
            self.queue = list(actions.view(-1, self.chunk, batch["state"].shape[-1]).unbind(1))
        return self.queue.pop(0)

class PlainPolicy(nn.Module):
    def __init__(self, state):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * state, 8), nn.Tanh(), nn.Linear(8, state))

    @torch.no_grad()
    def select_action(self, batch):
        features = torch.cat([batch["state"], batch["goal"]], dim=-1)
        mean = self.net(features)
        return mean
# --- rollout.py
from observation import to_batch

def rollout(env, policy, steps):
    observation, total = env.reset(), 0.0
    for _ in range(steps):
        batch = to_batch(observation)
        action = policy.select_action(batch)
        observation, reward = env.step(action[0].cpu().numpy())
        total += reward
    return round(total, 4)

# === pages_registered_on_the_first_gpu
# thread: https://github.com/NVIDIA/recsys-examples/pull/400
# about: pages of keys and values come back from the host by way of a staging area, filled by a thread of its own. The area's device is a number, and the number is left to be 0
# operation: index_copy on cuda:1, cuda:0
# operands: source|.*staged.*|.*pages.*
# category: default-or-current-device|input-not-moved
# line: manager.py: self.staging = StagingArea(
# line: manager.py: self.cache.index_copy_(
# line: manager.py: pages = self.staging.take(
# repair: manager.py: self.staging = StagingArea(pages=4, shape=shape) -> self.staging = StagingArea(pages=4, shape=shape, device_id=self.cache.device.index or 0)
import torch

from manager import CacheManager

torch.manual_seed(0)
device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
manager = CacheManager(slots=6, shape=(2, 4), device=device)
generator = torch.Generator().manual_seed(3)
for user in ("anna", "ben", "carla"):
    manager.append(user, torch.randn(2, 2, 4, generator=generator).to(device))
manager.offload("anna")
manager.offload("ben")
restored = manager.lookup("anna")
query = torch.randn(4, generator=generator).to(device)
print("scores", [round(value, 4) for value in (restored[:, 0] @ query).tolist()], "free", len(manager.free))
# --- staging.py
import threading

import torch

class StagingArea:
    """Room on a GPU that pages arrive in while the GPU does something else."""

    def __init__(self, pages, shape, device_id=0):
        device = torch.device("cuda", device_id) if torch.cuda.is_available() else torch.device("cpu")
        self.room = torch.zeros(pages, *shape, device=device)
        self.arriving = {}

    def fetch(self, user, pages):
        def copy():
            for index, page in enumerate(pages):
                self.room[index].copy_(page)

        thread = threading.Thread(target=copy)
        self.arriving[user] = (thread, len(pages))
        thread.start()

    def take(self, user):
        thread, count = self.arriving.pop(user)
        thread.join()
        return self.room[:count]
# --- manager.py
import torch

from staging import StagingArea

class CacheManager:
    """Keys and values of users in slots of the GPU, or in the host's memory."""

    def __init__(self, slots, shape, device):
        self.cache, self.free = torch.zeros(slots, *shape, device=device), list(range(slots))
        self.slots, self.host = {}, {}
        self.staging = StagingArea(pages=4, shape=shape)

    def place(self, user, pages):
        self.slots[user] = [self.free.pop(0) for _ in range(len(pages))]
        self.cache.index_copy_(0, torch.tensor(self.slots[user], device=self.cache.device), pages)

    def append(self, user, pages):
        self.place(user, pages)

    def offload(self, user):
        slots = self.slots.pop(user)
        self.host[user] = self.cache[slots].cpu()
        self.free += slots

    def lookup(self, user):
        if user in self.host:
            self.staging.fetch(user, self.host.pop(user))
            pages = self.staging.take(user)
            self.place(user, pages)
        return self.cache[self.slots[user]]

# === adapter_of_the_second_prompt
# thread: https://github.com/balazik/ComfyUI-PuLID-Flux/issues/91
# about: nodes of a workflow are run again only if what they are given has changed. One node takes an adapter to the GPU; after each prompt all that is known is unloaded
# operation: mm|addmm|linear on cuda:0, cpu
# operands: .*weight|mat2|weight
# category: module-split|cached-state
# line: model.py: hidden = hidden + adapter(hidden, identity)
# line: model.py: adapter, identity = self.options["pulid"]
# line: nodes.py: workflow.load(model)
# repair: model.py: hidden = hidden + adapter(hidden, identity) -> hidden = hidden + adapter.to(hidden.device)(hidden, identity)
import torch

from nodes import apply_identity, sample
from workflow import Workflow

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
workflow = Workflow(device)
faces = torch.randn(1, 3, 6, generator=torch.Generator().manual_seed(2))
images = []
for seed in (11, 12):
    model = workflow.run("apply", apply_identity, faces)
    images.append(workflow.run("sample", sample, model, seed))
    workflow.unload_all()
print("images", [[round(value, 4) for value in image[0].tolist()] for image in images])
# --- workflow.py
class Workflow:
    """Runs nodes, and keeps what they gave for as long as they are given the same."""

    def __init__(self, device):
        self.device, self.results, self.known = device, {}, []

    def run(self, name, node, *inputs):
        before = self.results.get(name)
        if before is not None and all(one is other for one, other in zip(before[0], inputs)):
            return before[1]
        result = node(self, *inputs)
        self.results[name] = (inputs, result)
        return result

    def load(self, module):
        if module not in self.known:
            self.known.append(module)
        return module.to(self.device)

    def unload_all(self):
        for module in self.known:
            module.to("cpu")
# --- adapter.py
from torch import nn

class IdentityAdapter(nn.Module):
    """Words look at what a face was encoded to."""

    def __init__(self, dim, identity):
        super().__init__()
        self.to_q, self.to_k = nn.Linear(dim, dim, bias=False), nn.Linear(identity, dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, hidden, identity):
        q, k = self.to_q(hidden), self.to_k(identity)
        return self.to_out((q @ k.transpose(1, 2)).softmax(-1) @ k)
# --- model.py
import torch
from torch import nn

class TinyFlux(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inner, self.outer = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.options = {}

    def forward(self, latents):
        hidden = self.inner(latents).tanh()
        if "pulid" in self.options:
            adapter, identity = self.options["pulid"]
            hidden = hidden + adapter(hidden, identity)
        return self.outer(hidden)
# --- nodes.py
import torch

from adapter import IdentityAdapter
from model import TinyFlux

def apply_identity(workflow, faces):
    model, pulid = TinyFlux(dim=4), IdentityAdapter(dim=4, identity=6)
    pulid.to(workflow.device)
    workflow.known.append(pulid)
    model.options["pulid"] = (pulid, faces.to(workflow.device))
    return model

@torch.no_grad()
def sample(workflow, model, seed, steps=3):
    workflow.load(model)
    latents = torch.randn(1, 2, 4, generator=torch.Generator().manual_seed(seed)).to(workflow.device)
    for _ in range(steps):
        latents = latents - model(latents) / steps
    return latents[:, 0].cpu()

# === default_card_of_a_tensordict
# thread: https://github.com/pytorch/tensordict/pull/1161
# about: a dict of tensors is moved like a tensor, and "cuda" is made out to be a certain card, so that devices can be compared. The current card is the second one
# operation: sub|mul|add on cuda:0, cuda:1
# operands: .*reward.*|.*value.*|self|other
# category: default-or-current-device
# line: tensordict.py: return torch.device("cuda", 0)
# line: gae.py: delta = reward + gamma
# line: main.py: batch = batch.to("cuda"
# line: main.py: values = critic(
# repair: tensordict.py: return torch.device("cuda", 0) -> return torch.device("cuda", torch.cuda.current_device())
import torch

from critic import Critic
from gae import advantages
from tensordict import TensorDict

torch.manual_seed(0)
if torch.cuda.is_available():
    torch.cuda.set_device(1)
critic = Critic(observations=3, width=8)
critic = critic.cuda() if torch.cuda.is_available() else critic
generator = torch.Generator().manual_seed(5)
batch = TensorDict({
    "observation": torch.randn(7, 2, 3, generator=generator), "reward": torch.rand(6, 2, generator=generator),
    "done": torch.rand(6, 2, generator=generator) < 0.2,
})
values = critic(batch["observation"].to(next(critic.parameters()).device))
batch = batch.to("cuda" if torch.cuda.is_available() else "cpu")
print("advantages", [round(value, 4) for value in advantages(batch, values, gamma=0.95, lam=0.9)[0].tolist()])
# --- tensordict.py
from collections.abc import Mapping

import torch

def resolved(device):
    """A device with its number, so that it can be compared with a tensor's."""
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", 0)
    return device

class TensorDict(Mapping):
    def __init__(self, tensors, device=None):
        self.tensors, self.device = dict(tensors), device

    def __getitem__(self, name):
        return self.tensors[name]

    def __iter__(self):
        return iter(self.tensors)

    def __len__(self):
        return len(self.tensors)

    def to(self, device):
        device = resolved(device)
        if device == self.device:
            return self
        return TensorDict({name: value.to(device) for name, value in self.tensors.items()}, device)
# --- critic.py
import torch
from torch import nn

class Critic(nn.Module):
    def __init__(self, observations, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(observations, width), nn.Tanh(), nn.Linear(width, 1))

    @torch.no_grad()
    def forward(self, observation):
        return self.net(observation)[..., 0]
# --- gae.py
import torch

def advantages(batch, values, gamma, lam):
    """How much better it went than the critic thought, later steps counting less."""
    reward, going_on = batch["reward"], 1.0 - batch["done"].float()
    delta = reward + gamma * going_on * values[1:] - values[:-1]
    result, running = [], torch.zeros_like(delta[0])
    for step in reversed(range(len(delta))):
        running = delta[step] + gamma * lam * going_on[step] * running
        result.insert(0, running)
    return torch.stack(result)

# === ids_of_a_learned_concept
# thread: https://github.com/haoosz/ConceptExpress/issues/5
# about: names for what images show are learned, a new word for each. A loss on parts of an image writes prompts of its own, from the words that it has been told
# operation: embedding|index_select on cuda:0, cpu
# operands: input|indices|index|.*prompt_ids.*|.*ids.*
# category: input-not-moved|created-without-device
# line: concepts.py: prompt_ids = torch.tensor([self.tokenizer.ids(f"a photo of {word}")
# line: concepts.py: encoded = self.encoder(
# line: text.py: embedded = self.embed(ids)
# repair: concepts.py: prompt_ids = torch.tensor([self.tokenizer.ids(f"a photo of {word}") for word in words]) -> prompt_ids = torch.tensor([self.tokenizer.ids(f"a photo of {word}") for word in words], device=latents.device)
import torch

from concepts import ConceptLearner
from text import TextEncoder, Tokenizer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
tokenizer = Tokenizer(["a", "photo", "of", "<one>", "<two>"])
learner = ConceptLearner(TextEncoder(len(tokenizer.words), dim=6), tokenizer, latent=6, device=device, lr=0.1)
generator = torch.Generator().manual_seed(4)
latents = torch.randn(2, 6, generator=generator)
attention = torch.rand(2, 2, generator=generator).softmax(-1)
losses = [learner.step(latents.to(device), attention.to(device), ["<one>", "<two>"]) for _ in range(4)]
print("losses", losses)
# --- text.py
import torch
from torch import nn

class Tokenizer:
    def __init__(self, words):
        self.words = words

    def ids(self, prompt):
        return [self.words.index(word) for word in prompt.split()]

class TextEncoder(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed, self.mix = nn.Embedding(words, dim), nn.Linear(dim, dim)

    def forward(self, ids):
        embedded = self.embed(ids)
        return self.mix(embedded.mean(1).tanh())
# --- concepts.py
import torch
from torch import nn

class ConceptLearner:
    """Only the rows of new words are learned."""

    def __init__(self, encoder, tokenizer, latent, device, lr):
        self.encoder, self.tokenizer = encoder.to(device), tokenizer
        self.denoiser = nn.Linear(latent, latent).to(device).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.encoder.embed.parameters(), lr=lr)

    def reconstruction_loss(self, latents, attention, words):
        prompt_ids = torch.tensor([self.tokenizer.ids("a photo of " + " ".join(words))], device=latents.device)
        guided = self.denoiser(latents + self.encoder(prompt_ids))
        return (guided - latents).square().mean()

    def contrast_loss(self, latents, attention, words):
        """A word is to be about the part of the image that looks at it."""
        prompt_ids = torch.tensor([self.tokenizer.ids(f"a photo of {word}") for word in words])
        encoded = self.encoder(prompt_ids)
        parts = attention.T @ latents
        return nn.functional.cross_entropy(parts @ encoded.T, torch.arange(len(words), device=latents.device))

    def step(self, latents, attention, words):
        loss = self.reconstruction_loss(latents, attention, words) + 0.1 * self.contrast_loss(latents, attention, words)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return round(loss.item(), 4)

# === baselines_of_each_task
# thread: https://github.com/NVIDIA-NeMo/RL/pull/1773
# about: rewards are compared with those of the same prompt. With prompts of several tasks baselines are counted on the CPU, task by task; without, where rewards are
# operation: sub|div on cuda:0, cpu
# operands: baseline|other|.*baseline.*
# category: input-not-moved|created-without-device
# line: grpo.py: baseline, deviation = baselines_by_task(
# line: grpo.py: advantages = (rewards - baseline) / (deviation + 1e-4)
# repair: grpo.py: baseline, deviation = baselines_by_task(prompts, rewards, tasks) -> baseline, deviation = (each.to(rewards.device) for each in baselines_by_task(prompts, rewards, tasks))
import torch

from grpo import Trainer
from policy import TokenPolicy

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
trainer = Trainer(TokenPolicy(prompts=4, answers=5).to(device), group=4, lr=0.3)
single = trainer.step(torch.tensor([0, 1]), tasks=None, seed=1)
mixed = trainer.step(torch.tensor([0, 1, 2, 3]), tasks=["math", "math", "code", "code"], seed=2)
print("losses", single, mixed)
# --- policy.py
import torch
from torch import nn

class TokenPolicy(nn.Module):
    """Of each prompt, how likely each answer is."""

    def __init__(self, prompts, answers):
        super().__init__()
        self.logits = nn.Parameter(0.5 * torch.randn(prompts, answers))

    def log_probs(self, prompts, answers):
        return self.logits.log_softmax(-1)[prompts, answers]

    @torch.no_grad()
    def sample(self, prompts, seed):
        chances = self.logits.softmax(-1)[prompts].cpu()
        drawn = torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(seed))[:, 0]
        return drawn.to(self.logits.device)
# --- baselines.py
import torch

def baseline_per_prompt(prompts, rewards):
    same = (prompts[:, None] == prompts[None]).float()
    count = same.sum(1)
    mean = same @ rewards / count
    deviation = ((same @ rewards.square()) / count - mean.square()).clamp(min=0).sqrt()
    return mean, deviation

def baselines_by_task(prompts, rewards, tasks):
    """Rewards of a task are on a scale of their own; tasks are few, and rewards are numbers."""
    prompts, rewards = prompts.cpu(), rewards.cpu()
    baseline, deviation = torch.zeros(2, len(rewards))
    for task in sorted(set(tasks)):
        chosen = torch.tensor([each == task for each in tasks])
        mean, _ = baseline_per_prompt(prompts[chosen], rewards[chosen])
        baseline[chosen], deviation[chosen] = mean, rewards[chosen].std()
    return baseline, deviation
# --- grpo.py
import torch

from baselines import baseline_per_prompt, baselines_by_task

class Trainer:
    def __init__(self, policy, group, lr):
        self.policy, self.group = policy, group
        self.optimizer = torch.optim.SGD(policy.parameters(), lr=lr)

    def advantages(self, prompts, rewards, tasks):
        if tasks is None:
            baseline, deviation = baseline_per_prompt(prompts, rewards)
        else:
            tasks = [task for task in tasks for _ in range(self.group)]
            baseline, deviation = baselines_by_task(prompts, rewards, tasks)
        advantages = (rewards - baseline) / (deviation + 1e-4)
        return advantages

    def step(self, prompts, tasks, seed):
        prompts = prompts.repeat_interleave(self.group).to(self.policy.logits.device)
        answers = self.policy.sample(prompts, seed)
        rewards = (answers == prompts).float() - 0.1 * answers
        advantages = self.advantages(prompts, rewards, tasks)
        loss = -(advantages * self.policy.log_probs(prompts, answers)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return round(loss.item(), 4)
