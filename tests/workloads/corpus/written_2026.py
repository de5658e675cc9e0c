# === span_batch
# about: a batch is a dataclass that moves its fields itself; the one that was added last it does not move
# operation: index_select|gather|take.* on cuda:0, cpu
# operands: .*hidden.*|self|input, .*starts.*|index
# category: input-not-moved
# line: data.py: return replace(self, tokens=self.tokens.to(device), mask=self.mask.to(device))
# line: model.py: first = hidden.gather(
# line: trainer.py: batch = batch.to(self.device)
# repair: data.py: return replace(self, tokens=self.tokens.to(device), mask=self.mask.to(device)) -> return replace(self, tokens=self.tokens.to(device), mask=self.mask.to(device), spans=Spans(self.spans.starts.to(device), self.spans.labels.to(device)))
import torch

from data import collate
from model import SpanTagger
from trainer import Trainer

torch.manual_seed(0)
examples = [{"tokens": [3, 5, 7, 2], "starts": [0, 2], "labels": [1, 0]}, {"tokens": [4, 9, 1, 8], "starts": [1, 3], "labels": [0, 1]}]
trainer = Trainer(SpanTagger(vocabulary=12, width=8, labels=2), device="cuda:0")
print("losses", [round(trainer.step(collate(examples)), 4) for _ in range(3)])
# --- data.py
from dataclasses import dataclass, replace

import torch

@dataclass
class Spans:
    starts: torch.Tensor
    labels: torch.Tensor

@dataclass
class Batch:
    tokens: torch.Tensor
    mask: torch.Tensor
    spans: Spans

    def to(self, device):
        return replace(self, tokens=self.tokens.to(device), mask=self.mask.to(device))

def collate(examples):
    tokens = torch.tensor([example["tokens"] for example in examples])
    spans = Spans(
        starts=torch.tensor([example["starts"] for example in examples]),
        labels=torch.tensor([example["labels"] for example in examples]),
    )
    return Batch(tokens=tokens, mask=torch.ones_like(tokens, dtype=torch.bool), spans=spans)
# --- model.py
import torch
from torch import nn

class SpanTagger(nn.Module):
    def __init__(self, vocabulary, width, labels):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, labels)

    def encode(self, tokens, mask):
        return torch.tanh(self.mix(self.embed(tokens))) * mask[..., None]

    def forward(self, batch):
        hidden = self.encode(batch.tokens, batch.mask)
        starts = batch.spans.starts
        first = hidden.gather(1, starts[..., None].expand(-1, -1, hidden.shape[-1]))
        return self.head(first)
# --- trainer.py
import torch
from torch import nn

class Trainer:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)

    def step(self, batch):
        batch = batch.to(self.device)
        logits = self.model(batch)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch.spans.labels.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === bias_kwargs
# about: a helper makes an attention bias for a length and puts it among the keyword arguments, which pass three calls before anybody adds it
# operation: add on cuda:0, cpu
# operands: scores|self, bias|other
# category: created-without-device|input-not-moved
# line: masks.py: positions = torch.arange(length)
# line: masks.py: return slopes[:, None, None] * distance
# line: masks.py: slopes = torch.tensor(
# line: generate.py: kwargs.setdefault("bias", alibi_bias(
# line: model.py: scores = scores + bias
# repair: generate.py: kwargs.setdefault("bias", alibi_bias(tokens.shape[1], model.heads)) -> kwargs.setdefault("bias", alibi_bias(tokens.shape[1], model.heads).to(tokens.device))
import torch

from generate import generate
from model import Decoder

torch.manual_seed(0)
model = Decoder(vocabulary=20, width=8, heads=2, depth=2).to("cuda:0").eval()
print("tokens", generate(model, torch.tensor([[3, 4, 5]]), steps=4, temperature=0.5))
# --- generate.py
import torch

from masks import alibi_bias

def next_token(model, tokens, temperature, **kwargs):
    kwargs.setdefault("bias", alibi_bias(tokens.shape[1], model.heads))
    return (model(tokens, **kwargs)[:, -1] / temperature).argmax(-1, keepdim=True)

@torch.no_grad()
def generate(model, tokens, steps, **kwargs):
    tokens = tokens.to(next(model.parameters()).device)
    for _ in range(steps):
        tokens = torch.cat([tokens, next_token(model, tokens, **kwargs)], dim=1)
    return tokens.tolist()
# --- masks.py
import torch

def alibi_bias(length, heads):
    positions = torch.arange(length)
    distance = -(positions[:, None] - positions[None, :]).abs().float()
    slopes = torch.tensor([2.0 ** -(8 * (head + 1) / heads) for head in range(heads)])
    return slopes[:, None, None] * distance
# --- model.py
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, bias=None):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if bias is not None:
            scores = scores + bias
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads)

    def forward(self, x, **attention_kwargs):
        return x + self.attention(self.norm(x), **attention_kwargs)

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, heads, depth):
        super().__init__()
        self.heads = heads
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))

    def forward(self, tokens, **kwargs):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, **kwargs)
        return self.head(x)

# === window_generator
# about: a generator carries a decayed sum from one window of a recording to the next; its first value is made where nothing says a device
# operation: mul|add|lerp|addcmul on cpu, cuda:0
# operands: .*carry.*|self|result of.*, .*|other
# category: created-without-device
# line: stream.py: carry = torch.zeros(
# line: stream.py: carry = decay * carry + window.mean(
# repair: stream.py: carry = torch.zeros(recording.shape[0]) -> carry = torch.zeros(recording.shape[0], device=recording.device)
import torch

from detect import Detector

torch.manual_seed(0)
detector = Detector(size=4, device="cuda:0")
recording = torch.randn(2, 16)
print("scores", [round(score, 4) for score in detector.scores(recording)])
# --- stream.py
import torch

def windows(recording, size, hop):
    for begin in range(0, recording.shape[1] - size + 1, hop):
        yield recording[:, begin : begin + size]

def normalized(recording, size, hop, decay=0.9):
    carry = torch.zeros(recording.shape[0])
    for window in windows(recording, size, hop):
        carry = decay * carry + window.mean(dim=1)
        yield window - carry[:, None]
# --- detect.py
import torch
from torch import nn

from stream import normalized

class Detector:
    def __init__(self, size, device):
        self.size, self.device = size, torch.device(device)
        self.net = nn.Sequential(nn.Linear(size, 8), nn.ReLU(), nn.Linear(8, 1)).to(self.device).eval()

    @torch.no_grad()
    def scores(self, recording):
        recording = recording.to(self.device)
        answers = [self.net(window) for window in normalized(recording, self.size, hop=2)]
        return torch.stack(answers).mean(dim=(0, 2)).tolist()

# === soft_nms_numpy
# about: boxes go to NumPy to be suppressed there and come back as tensors of the host; scores of the same boxes have stayed
# operation: mul on cuda:0, cpu
# operands: scores|self, decay|weights|other
# category: input-not-moved|created-without-device
# line: postprocess.py: decay = decay_of(
# line: postprocess.py: scores = scores * decay
# line: suppression.py: return torch.from_numpy(
# repair: postprocess.py: scores = scores * decay -> scores = scores * decay.to(scores.device)
import torch

from postprocess import Postprocessor
from head import Head

torch.manual_seed(0)
head = Head(width=8).to("cuda:0").eval()
features = torch.randn(6, 8, device="cuda:0")
with torch.no_grad():
    boxes, scores = head(features)
print("kept", [round(score, 4) for score in Postprocessor(threshold=0.1)(boxes, scores)])
# --- suppression.py
import numpy as np
import torch

def overlaps(boxes):
    low, high = np.maximum(boxes[:, None, 0], boxes[None, :, 0]), np.minimum(boxes[:, None, 1], boxes[None, :, 1])
    shared = np.clip(high - low, 0, None)
    size = boxes[:, 1] - boxes[:, 0]
    return shared / (size[:, None] + size[None, :] - shared + 1e-6)

def decay_of(boxes, order, sigma=0.5):
    """How much each box is to count beside those that are better."""
    shared = overlaps(boxes)
    decay = np.ones(len(boxes), dtype=np.float32)
    for rank, best in enumerate(order):
        rest = order[rank + 1 :]
        decay[rest] *= np.exp(-shared[best, rest] ** 2 / sigma)
    return torch.from_numpy(decay)
# --- postprocess.py
from suppression import decay_of

class Postprocessor:
    def __init__(self, threshold):
        self.threshold = threshold

    def __call__(self, boxes, scores):
        order = scores.argsort(descending=True)
        decay = decay_of(boxes.cpu().numpy(), order.cpu().numpy())
        scores = scores * decay
        return scores[scores > self.threshold].tolist()
# --- head.py
import torch
from torch import nn

class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.box, self.score = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, features):
        begin, length = self.box(features).unbind(-1)
        return torch.stack([begin, begin + length.exp()], dim=-1), self.score(features).sigmoid().squeeze(-1)

# === shadow_weights
# about: an average of a model's weights is begun before the model is moved, and brought up to date entry by entry of the state dict
# operation: mul|add|add_|lerp_?|sub on cpu, cuda:0
# operands: .*shadow.*|self|average|.*, .*value.*|other|end|.*
# category: cached-state|module-split
# line: ema.py: self.shadow = {
# line: ema.py: self.shadow[name] =
# line: main.py: ema = ExponentialAverage(
# line: main.py: model.to(device)
# repair: main.py: ema = ExponentialAverage(model, decay=0.9) -> model.to(device); ema = ExponentialAverage(model, decay=0.9)
import torch
from torch import nn

from ema import ExponentialAverage

def train(model, ema, optimizer, inputs, targets):
    for _ in range(3):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
    return loss.item()

torch.manual_seed(0)
device = torch.device("cuda:0")
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
ema = ExponentialAverage(model, decay=0.9)
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs, targets = torch.randn(8, 4).to(device), torch.randn(8, 1).to(device)
loss = train(model, ema, optimizer, inputs, targets)
print("loss", round(loss, 4), "shadow", round(sum(value.float().sum().item() for value in ema.shadow.values()), 3))
# --- ema.py
import torch

class ExponentialAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {name: value.detach().clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for name, value in model.state_dict().items():
            if not value.dtype.is_floating_point:
                self.shadow[name] = value.clone()
                continue
            self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * value

# === sign_momentum
# about: an optimizer of the program's own begins its momentum on the default device
# operation: mul|add|lerp.*|add_ on cpu, cuda:0
# operands: .*momentum.*|buffer|self|.*, .*grad.*|other|end|.*
# category: created-without-device|optimizer
# line: lion.py: state["momentum"] = torch.zeros(
# line: lion.py: direction = (momentum * beta
# line: lion.py: momentum = state["momentum"]
# repair: lion.py: state["momentum"] = torch.zeros(parameter.shape, dtype=parameter.dtype) -> state["momentum"] = torch.zeros(parameter.shape, dtype=parameter.dtype, device=parameter.device)
import torch
from torch import nn

from lion import SignMomentum

torch.manual_seed(0)
device = "cuda:0"
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
optimizer = SignMomentum(model.parameters(), lr=0.01)
inputs, targets = torch.randn(8, 4, device=device), torch.randn(8, 1, device=device)
for _ in range(3):
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- lion.py
import torch

class SignMomentum(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    def _init_state(self, parameter):
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["momentum"] = torch.zeros(parameter.shape, dtype=parameter.dtype)
        return state

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self._init_state(parameter)
                momentum = state["momentum"]
                direction = (momentum * beta1 + parameter.grad * (1 - beta1)).sign()
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(direction, alpha=-group["lr"])
                momentum.mul_(beta2).add_(parameter.grad, alpha=1 - beta2)
                state["step"] += 1

# === late_statistics
# about: what a normalization has learned of the data becomes a buffer after the model has been moved, where the data lies
# operation: sub|div on cuda:0, cpu
# operands: x|self|observations, self.*mean|other
# category: module-split|created-without-device|input-not-moved|cached-state|state-not-registered
# line: normalize.py: self.register_buffer("mean"
# line: normalize.py: return (x - self.mean) / self.std
# line: main.py: policy.normalizer.fit(
# line: main.py: policy = Policy(
# repair: main.py: policy.normalizer.fit(demonstrations) -> policy.normalizer.fit(demonstrations.to(device))
import torch

from policy import Policy

torch.manual_seed(0)
device = torch.device("cuda:0")
demonstrations = 3 * torch.randn(32, 6) + 1
policy = Policy(observations=6, actions=2).to(device)
policy.normalizer.fit(demonstrations)
observation = torch.randn(4, 6, device=device)
print("actions", [round(value, 4) for value in policy.act(observation)[0].tolist()])
# --- normalize.py
import torch
from torch import nn

class Normalizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fitted = False

    def fit(self, data):
        self.register_buffer("mean", data.mean(dim=0))
        self.register_buffer("std", data.std(dim=0).clamp_min(1e-3))
        self.fitted = True

    def forward(self, x):
        if not self.fitted:
            return x
        return (x - self.mean) / self.std
# --- policy.py
import torch
from torch import nn

from normalize import Normalizer

class Policy(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.normalizer = Normalizer()
        self.net = nn.Sequential(nn.Linear(observations, 16), nn.Tanh(), nn.Linear(16, actions))

    def forward(self, observations):
        return self.net(self.normalizer(observations)).tanh()

    @torch.no_grad()
    def act(self, observations):
        return self(observations)

# === partial_losses
# about: weights of classes are counted from the labels and bound to the loss by functools.partial, in a table of losses
# operation: nll_loss.*|cross_entropy.* on cuda:0, cpu
# operands: .*, weight.*
# category: created-without-device|input-not-moved|cached-state
# line: losses.py: weight = counts.sum() / (
# line: losses.py: counts = torch.bincount(
# line: losses.py: "class": partial(
# line: train.py: terms = {name: loss(
# line: main.py: losses = build_losses(
# repair: main.py: losses = build_losses(labels, classes=3) -> losses = build_losses(labels.to(device), classes=3)
import torch

from losses import build_losses
from train import Model, train_step

torch.manual_seed(0)
device = torch.device("cuda:0")
inputs, labels = torch.randn(12, 5), torch.randint(0, 3, (12,))
losses = build_losses(labels, classes=3)
model = Model(5, 3).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
batch = {"inputs": inputs.to(device), "labels": labels.to(device)}
for _ in range(3):
    terms = train_step(model, optimizer, losses, batch)
print("terms", {name: round(value, 4) for name, value in terms.items()})
# --- losses.py
from functools import partial

import torch
import torch.nn.functional as F

def entropy(logits, labels):
    return -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()

def class_weights(labels, classes):
    counts = torch.bincount(labels, minlength=classes).float()
    weight = counts.sum() / (counts + 1)
    return weight

def build_losses(labels, classes):
    return {
        "entropy": entropy,
        "class": partial(F.cross_entropy, weight=class_weights(labels, classes)),
    }
# --- train.py
from torch import nn

class Model(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, classes))

    def forward(self, inputs):
        return self.net(inputs)

def train_step(model, optimizer, losses, batch):
    logits = model(batch["inputs"])
    terms = {name: loss(logits, batch["labels"]) for name, loss in losses.items()}
    total = sum(terms.values())
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    return {name: value.item() for name, value in terms.items()}

# === grid_of_class
# about: a table of sampling points belongs to the class, by its size alone; the second model that asks is on another card
# operation: add on cuda:1, cuda:0
# operands: .*, .*grid.*|other
# category: cached-state
# line: warp.py: cls._grids[size] = torch.stack(
# line: warp.py: if size not in cls._grids:
# line: warp.py: return cls._grids[size]
# line: warp.py: points = self.grid(
# line: warp.py: moved = flow + points
# repair: warp.py: return cls._grids[size] -> return cls._grids[size].to(device)
import torch

from pipeline import Pipeline

torch.manual_seed(0)
pipeline = Pipeline(["cuda:0", "cuda:1"])
frames = torch.randn(2, 1, 4, 4)
print("flows", [round(value, 4) for value in pipeline.run(frames)])
# --- warp.py
import torch
from torch import nn

class Warp(nn.Module):
    _grids = {}

    def __init__(self):
        super().__init__()
        self.flow = nn.Conv2d(1, 2, 3, padding=1)

    @classmethod
    def grid(cls, size, device):
        if size not in cls._grids:
            axes = [torch.linspace(-1, 1, n, device=device) for n in size]
            cls._grids[size] = torch.stack(torch.meshgrid(*axes, indexing="ij"))[None]
        return cls._grids[size]

    def forward(self, frame):
        flow = self.flow(frame)
        points = self.grid(tuple(frame.shape[-2:]), frame.device)
        moved = flow + points
        return nn.functional.grid_sample(frame, moved.permute(0, 2, 3, 1), align_corners=True)
# --- pipeline.py
import torch

from warp import Warp

class Pipeline:
    def __init__(self, devices):
        self.stages = [(torch.device(device), Warp().to(device)) for device in devices]

    @torch.no_grad()
    def run(self, frames):
        sums = []
        for device, stage in self.stages:
            frames = stage(frames.to(device))
            sums.append(frames.sum().item())
        return sums

# === offsets_property
# about: offsets of the fields of a table are a property that makes them anew each time, of the field's sizes, which are numbers
# operation: add on cuda:0, cpu
# operands: fields|x|self, self.offsets|.*offsets.*|other
# category: created-without-device
# line: embedding.py: return torch.tensor((0, *self.sizes[:-1])).cumsum(0)
# line: embedding.py: return self.embed(fields + self.offsets)
# repair: embedding.py: return torch.tensor((0, *self.sizes[:-1])).cumsum(0) -> return torch.tensor((0, *self.sizes[:-1]), device=self.embed.weight.device).cumsum(0)
import torch

from model import Ranker

torch.manual_seed(0)
ranker = Ranker(sizes=[4, 6, 3], width=8).to("cuda:0")
optimizer = torch.optim.Adagrad(ranker.parameters(), lr=0.05)
fields = torch.stack([torch.randint(0, size, (10,)) for size in (4, 6, 3)], dim=1).to("cuda:0")
clicks = torch.randint(0, 2, (10,)).float().to("cuda:0")
for _ in range(3):
    loss = torch.nn.functional.binary_cross_entropy_with_logits(ranker(fields), clicks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
# --- embedding.py
import torch
from torch import nn

class FieldEmbedding(nn.Module):
    def __init__(self, sizes, width):
        super().__init__()
        self.sizes = sizes
        self.embed = nn.Embedding(sum(sizes), width)

    @property
    def offsets(self):
        return torch.tensor((0, *self.sizes[:-1])).cumsum(0)

    def forward(self, fields):
        return self.embed(fields + self.offsets)
# --- model.py
from torch import nn

from embedding import FieldEmbedding

class Ranker(nn.Module):
    def __init__(self, sizes, width):
        super().__init__()
        self.fields = FieldEmbedding(sizes, width)
        self.net = nn.Sequential(nn.Linear(len(sizes) * width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, fields):
        return self.net(self.fields(fields).flatten(1)).squeeze(-1)
