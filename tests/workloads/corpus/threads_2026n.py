# === embedded_atoms
# thread: https://github.com/chemle/emle-engine/issues/44
# about: atomic numbers become rows of a table by way of NumPy; what comes back is on the CPU, and the one-hot is made where the model is
# operation: scatter on cuda:0, cpu
# operands: indices|.*index
# error: same device|index
# category: created-without-device|input-not-moved
# line: mace_emle.py: return torch.from_numpy(
# line: mace_emle.py: indices = np.array(
# line: mace_emle.py: indices = self._atomic_numbers_to_indices(
# line: mace_emle.py: return zeros.scatter_(
# line: mace_emle.py: node_attrs = self._to_one_hot(
# repair: mace_emle.py: return torch.from_numpy(indices) -> return torch.from_numpy(indices).to(atomic_numbers.device)
import torch

from calculator import EMLECalculator

torch.manual_seed(0)
calculator = EMLECalculator(elements=[1, 6, 8], width=8, device="cuda" if torch.cuda.is_available() else None)
water = ([8, 1, 1], [[0.0, 0.0, 0.0], [0.76, 0.59, 0.0], [-0.76, 0.59, 0.0]])
charges = ([0.4, -0.8, 0.4], [[3.0, 0.0, 1.0], [3.5, 0.5, 1.0], [4.0, 0.0, 1.5]])
energy, gradient = calculator.calculate(*water, *charges)
print("energy", round(energy, 4), "gradient", [round(value, 4) for value in gradient.norm(dim=-1).tolist()])
# --- calculator.py
import torch

from mace_emle import MACEEMLE

class EMLECalculator:
    """Energy of a molecule in the field of charges around it."""

    def __init__(self, elements, width, device=None):
        self._device = torch.device(device or "cpu")
        self._model = MACEEMLE(elements, width).to(self._device)

    def calculate(self, atomic_numbers, xyz_qm, charges_mm, xyz_mm):
        atomic_numbers = torch.tensor(atomic_numbers, device=self._device)
        xyz_qm = torch.tensor(xyz_qm, device=self._device, requires_grad=True)
        charges_mm, xyz_mm = (torch.tensor(each, device=self._device) for each in (charges_mm, xyz_mm))
        energies = self._model(atomic_numbers, charges_mm, xyz_qm, xyz_mm)
        gradient = torch.autograd.grad(energies.sum(), xyz_qm)[0]
        return energies.sum().item(), gradient.cpu()
# --- mace_emle.py
import numpy as np
import torch
from torch import nn

class Interaction(nn.Module):
    def __init__(self, elements, width):
        super().__init__()
        self.embed, self.message = nn.Linear(elements, width, bias=False), nn.Linear(width + 1, width)
        self.readout = nn.Linear(width, 1)

    def forward(self, node_attrs, positions):
        nodes = self.embed(node_attrs)
        squared = (positions[:, None] - positions[None]).square().sum(-1, keepdim=True)
        messages = self.message(torch.cat([nodes[None].expand(len(nodes), -1, -1), (-squared).exp()], dim=-1))
        return self.readout(torch.tanh(nodes + messages.sum(1)))[:, 0]

class MACEEMLE(nn.Module):
    def __init__(self, elements, width):
        super().__init__()
        self._z_table = list(elements)
        self._mace = Interaction(len(elements), width)
        self.register_buffer("_valence", torch.tensor([1.0, 4.0, 6.0])[: len(elements)])

    def _atomic_numbers_to_indices(self, atomic_numbers):
        numbers = atomic_numbers.cpu().numpy()
        indices = np.array([self._z_table.index(number) for number in numbers], dtype=np.int64)
        return torch.from_numpy(indices)

    @staticmethod
    def _to_one_hot(indices, like, num_classes):
        zeros = torch.zeros(len(indices), num_classes, dtype=like.dtype, device=like.device)
        return zeros.scatter_(dim=-1, index=indices[:, None], value=1)

    def _electrostatics(self, node_attrs, charges_mm, xyz_qm, xyz_mm):
        charges = node_attrs @ self._valence
        charges = charges - charges.mean()
        return charges @ (1 / torch.cdist(xyz_qm, xyz_mm)) @ charges_mm

    def forward(self, atomic_numbers, charges_mm, xyz_qm, xyz_mm):
        indices = self._atomic_numbers_to_indices(atomic_numbers)
        node_attrs = self._to_one_hot(indices, xyz_qm.detach(), len(self._z_table))
        vacuum = self._mace(node_attrs, xyz_qm).sum()
        static = self._electrostatics(node_attrs, charges_mm, xyz_qm, xyz_mm)
        return torch.stack([vacuum, static])

# === attributed_predictions
# thread: https://github.com/InseeFrLab/torchTextClassifiers/pull/97
# about: predictions are given back on the CPU, as users like them; then they choose the outputs that attributions are of, which are computed where the model is
# operation: gather on cuda:0, cpu
# operands: target|labels|index
# category: input-not-moved
# line: classifier.py: attributions = self.explainer.attribute(
# line: attribution.py: return output.gather(
# line: attribution.py: chosen = select_targets(
# line: classifier.py: scores = self.network(
# repair: classifier.py: attributions = self.explainer.attribute(tokens, offsets, target=labels) -> attributions = self.explainer.attribute(tokens, offsets, target=labels.to(self.device))
import torch

from classifier import TextClassifier

texts = ["good food and kind people", "bad room", "kind and good", "bad bad food"]
labels = [1, 0, 1, 0]
torch.manual_seed(0)
classifier = TextClassifier(dim=6, classes=2)
classifier.train(texts, labels, epochs=20, device="cuda" if torch.cuda.is_available() else "cpu")
result = classifier.predict(texts[:2], explain=True)
print("labels", result["labels"].tolist(), "attributions", [round(value, 3) for value in result["attributions"].tolist()])
# --- tokenizer.py
import torch

class WordTokenizer:
    def __init__(self):
        self.vocabulary = {"<unknown>": 0}

    def fit(self, texts):
        for word in " ".join(texts).split():
            self.vocabulary.setdefault(word, len(self.vocabulary))

    def encode(self, texts):
        rows = [[self.vocabulary.get(word, 0) for word in text.split()] for text in texts]
        lengths = torch.tensor([0] + [len(row) for row in rows[:-1]])
        return torch.tensor(sum(rows, [])), lengths.cumsum(0)
# --- attribution.py
import torch

def select_targets(output, target):
    if isinstance(target, int):
        return output[:, target]
    return output.gather(1, target.reshape(len(output), 1))[:, 0]

class IntegratedGradients:
    """How much each word has to do with an output, along the way from nothing to the word."""

    def __init__(self, model, steps=8):
        self.model, self.steps = model, steps

    def attribute(self, tokens, offsets, target):
        embedded = self.model.embed(tokens).detach()
        total = torch.zeros_like(embedded)
        for step in range(1, self.steps + 1):
            scaled = (embedded * step / self.steps).requires_grad_()
            output = self.model.classify(scaled, offsets)
            chosen = select_targets(output, target)
            gradients = torch.autograd.grad(chosen.sum(), scaled)[0]
            total += gradients
        return (total / self.steps * embedded).sum(-1)
# --- network.py
import torch
from torch import nn

class MeanOfWords(nn.Module):
    def __init__(self, words, dim, classes):
        super().__init__()
        self.words, self.out = nn.Embedding(words, dim), nn.Linear(dim, classes)

    def embed(self, tokens):
        return self.words(tokens)

    def classify(self, embedded, offsets):
        ends = torch.cat([offsets[1:], offsets.new_tensor([len(embedded)])])
        means = [embedded[start:end].mean(0) for start, end in zip(offsets.tolist(), ends.tolist())]
        return self.out(torch.stack(means))

    def forward(self, tokens, offsets):
        return self.classify(self.embed(tokens), offsets)
# --- classifier.py
import torch

from attribution import IntegratedGradients
from network import MeanOfWords
from tokenizer import WordTokenizer

class TextClassifier:
    def __init__(self, dim, classes):
        self.dim, self.classes = dim, classes
        self.tokenizer = WordTokenizer()

    def _encode(self, texts):
        tokens, offsets = self.tokenizer.encode(texts)
        return tokens.to(self.device), offsets.to(self.device)

    def train(self, texts, labels, epochs, device):
        self.device = torch.device(device)
        self.tokenizer.fit(texts)
        self.network = MeanOfWords(len(self.tokenizer.vocabulary), self.dim, self.classes).to(self.device)
        self.explainer = IntegratedGradients(self.network)
        optimizer = torch.optim.Adam(self.network.parameters(), lr=0.1)
        target = torch.tensor(labels, device=self.device)
        for _ in range(epochs):
            loss = torch.nn.functional.cross_entropy(self.network(*self._encode(texts)), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def predict(self, texts, explain=False):
        tokens, offsets = self._encode(texts)
        with torch.no_grad():
            scores = self.network(tokens, offsets).softmax(-1).cpu()
        labels = scores.argmax(-1)
        result = {"labels": labels, "scores": scores}
        if explain:
            attributions = self.explainer.attribute(tokens, offsets, target=labels)
            result["attributions"] = attributions.cpu()
        return result

# === finetuned_on_another_card
# thread: https://github.com/amazon-science/chronos-forecasting/pull/471
# about: a forecaster was put on the second card. The trainer takes it to the first one, as it does with every model, and the windows are made where it has been
# operation: addmm|linear on cuda:1, cuda:0
# operands: .*
# category: default-or-current-device|input-not-moved
# line: trainer.py: self.device = self.accelerator.device
# line: trainer.py: self.model = self._move_model_to_device(
# line: trainer.py: return model.to(
# line: trainer.py: loss = self.model(
# line: pipeline.py: windows = WindowDataset(
# repair: trainer.py: self.device = self.accelerator.device -> self.device = next(model.parameters()).device
import torch

from pipeline import ForecastPipeline

def seasonal(length, period, seed):
    noise = torch.randn(length, generator=torch.Generator().manual_seed(seed))
    return torch.sin(torch.arange(length) * 2 * torch.pi / period) + 0.05 * noise

torch.manual_seed(0)
pipeline = ForecastPipeline.load(context=8, horizon=3, width=12, device_map="cuda:1")
series = [seasonal(40, 6, seed=1), seasonal(40, 9, seed=2)]
tuned = pipeline.fit(series, steps=4, lr=0.05, batch_size=6)
print("forecast", [round(value, 4) for value in tuned.predict(series[0][-8:]).tolist()])
# --- model.py
import torch
from torch import nn

class Forecaster(nn.Module):
    """Quantiles of what follows, from a scaled context."""

    def __init__(self, context, horizon, width, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.context, self.horizon = context, horizon
        self.register_buffer("quantiles", torch.tensor(quantiles))
        self.encoder = nn.Sequential(nn.Linear(context, width), nn.GELU())
        self.heads = nn.Linear(width, horizon * len(quantiles))

    @property
    def device(self):
        return self.quantiles.device

    def forward(self, context, future=None):
        mean, scale = context.mean(-1, keepdim=True), context.std(-1, keepdim=True) + 1e-6
        hidden = self.encoder((context - mean) / scale)
        predicted = self.heads(hidden).unflatten(-1, (self.horizon, -1))
        if future is None:
            return predicted * scale[..., None] + mean[..., None]
        error = ((future - mean) / scale)[..., None] - predicted
        return torch.maximum(self.quantiles * error, (self.quantiles - 1) * error).mean()
# --- data.py
import torch

class WindowDataset:
    """Windows of series, already where they are needed."""

    def __init__(self, series, context, horizon, device):
        stacked = [each.unfold(0, context + horizon, 1) for each in series]
        self.windows, self.context = torch.cat(stacked).to(device), context

    def batches(self, size, seed):
        order = torch.randperm(len(self.windows), generator=torch.Generator().manual_seed(seed))
        for start in range(0, len(order) - size + 1, size):
            chosen = self.windows[order[start : start + size].to(self.windows.device)]
            yield {"context": chosen[:, : self.context], "future": chosen[:, self.context :]}
# --- trainer.py
from itertools import cycle, islice

import torch
from accelerate import Accelerator

class Trainer:
    def __init__(self, model, lr):
        self.accelerator = Accelerator()
        self.device = self.accelerator.device
        self.model = self._move_model_to_device(model, self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def _move_model_to_device(self, model, device):
        return model.to(device)

    def train(self, dataset, steps, batch_size):
        batches = list(dataset.batches(batch_size, seed=0))
        for batch in islice(cycle(batches), steps):
            loss = self.model(**batch)
            self.optimizer.zero_grad()
            self.accelerator.backward(loss)
            self.optimizer.step()
        return loss.item()
# --- pipeline.py
import copy

import torch

from data import WindowDataset
from model import Forecaster
from trainer import Trainer

class ForecastPipeline:
    def __init__(self, model):
        self.model = model

    @classmethod
    def load(cls, context, horizon, width, device_map):
        return cls(Forecaster(context, horizon, width).to(device_map))

    def fit(self, series, steps, lr, batch_size):
        model = copy.deepcopy(self.model)
        windows = WindowDataset(series, model.context, model.horizon, device=self.model.device)
        trainer = Trainer(model, lr)
        trainer.train(windows, steps, batch_size)
        return ForecastPipeline(trainer.model)

    @torch.inference_mode()
    def predict(self, context):
        quantiles = self.model(context.to(self.model.device)[None])
        return quantiles[0, :, 1].cpu()

# === evaluated_views
# thread: https://github.com/facebookresearch/pippo/pull/16
# about: training moves all of a batch; what evaluates has its own way to do it, which moves tensors and leaves what conditions are kept in
# operation: conv2d|convolution on cpu, cuda:0
# operands: pixels|input
# error: should be the same|same device
# category: input-not-moved
# line: evaluate.py: batch = {key: value.to(
# line: evaluate.py: batch = sample_batch(
# line: evaluate.py: generated = model.sample(
# line: model.py: pixels = torch.stack(
# repair: evaluate.py: batch = {key: value.to(device) if torch.is_tensor(value) else value for key, value in batch.items()} -> batch = to_device(batch, device)
# repair: evaluate.py: from data import sample_batch -> from data import sample_batch, to_device
import torch

from evaluate import evaluate
from model import MultiViewModel
from train import train

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = MultiViewModel(width=6, size=8).to(device)
loss = train(model, device, steps=3, seed=1)
print("loss", round(loss, 4), "psnr", round(evaluate(model, device, batches=2, seed=2), 3))
# --- data.py
import torch

def sample_batch(count, size, generator):
    """Views of heads: pictures, and what is known of them."""
    pictures = torch.rand(count, 3, size, size, generator=generator)
    return {
        "image": pictures,
        "cond": {
            "reference": [pictures.flip(-1), pictures.roll(1, dims=-1)],
            "camera": torch.randn(count, 4, generator=generator),
        },
        "name": [f"head{i}" for i in range(count)],
    }

def to_device(value, device):
    if torch.is_tensor(value):
        return value.to(device)
    if isinstance(value, dict):
        return {key: to_device(each, device) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_device(each, device) for each in value]
    return value
# --- model.py
import torch
from torch import nn

class MultiViewModel(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.size = size
        self.reference = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.camera = nn.Linear(4, width)
        self.decode = nn.Sequential(nn.Linear(width, 3 * size * size), nn.Sigmoid())

    def condition(self, cond):
        pixels = torch.stack(cond["reference"]).flatten(0, 1)
        reference = self.reference(pixels).unflatten(0, (len(cond["reference"]), -1)).mean(0)
        return reference + self.camera(cond["camera"])

    def loss(self, batch):
        return nn.functional.mse_loss(self.sample(batch["cond"]), batch["image"])

    def sample(self, cond):
        return self.decode(self.condition(cond)).unflatten(-1, (3, self.size, self.size))
# --- train.py
import torch

from data import sample_batch, to_device

def train(model, device, steps, seed, lr=0.01):
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        batch = to_device(sample_batch(4, model.size, generator), device)
        loss = model.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()
# --- evaluate.py
import torch

from data import sample_batch

def psnr(generated, image):
    return -10 * torch.log10((generated - image).square().mean())

@torch.no_grad()
def evaluate(model, device, batches, seed):
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    scores = []
    for _ in range(batches):
        batch = sample_batch(2, model.size, generator)
        batch = {key: value.to(device) if torch.is_tensor(value) else value for key, value in batch.items()}
        generated = model.sample(batch["cond"])
        scores.append(psnr(generated, batch["image"]))
    return torch.stack(scores).mean().item()

# === optimizer_left_on_host
# thread: https://github.com/NVIDIA-NeMo/RL/pull/2239
# about: before generation the optimizer's state makes room; on the way back to training it returns only when an option says that log-probabilities need the room, too
# operation: lerp on cuda:0, cpu
# operands: .*exp_avg.*
# category: optimizer
# line: worker.py: if self.cfg.offload_optimizer_for_logprob:
# line: worker.py: self.optimizer.step()
# line: worker.py: self.move_optimizer(self.device)
# line: worker.py: self.model.train()
# repair: worker.py: if self.cfg.offload_optimizer_for_logprob: -> if self.optimizer is not None:
import torch

from algorithm import grpo
from worker import PolicyConfig, PolicyWorker

torch.manual_seed(0)
worker = PolicyWorker(PolicyConfig(vocab=12, hidden=16, lr=0.02))
prompts = torch.tensor([[1, 4], [1, 7], [1, 9]])
print("rewards", [round(reward, 4) for reward in grpo(worker, prompts, samples=4, length=5, steps=3)])
# --- algorithm.py
import torch

def reward_of(tokens):
    return (tokens % 2 == 0).float().mean(-1)

def grpo(worker, prompts, samples, length, steps):
    rewards = []
    for step in range(steps):
        worker.prepare_for_generation()
        tokens = worker.generate(prompts.repeat_interleave(samples, 0), length, seed=step)
        reward = reward_of(tokens[:, prompts.shape[1] :]).view(-1, samples)
        advantages = (reward - reward.mean(1, keepdim=True)).flatten()
        worker.prepare_for_training()
        worker.train(tokens, advantages, prompts.shape[1])
        rewards.append(reward.mean().item())
    return rewards
# --- policy.py
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(vocab, hidden), nn.GRU(hidden, hidden, batch_first=True), nn.Linear(hidden, vocab)

    def forward(self, tokens):
        return self.head(self.rnn(self.embed(tokens))[0])
# --- worker.py
from dataclasses import dataclass

import torch

from policy import Policy

@dataclass
class PolicyConfig:
    vocab: int
    hidden: int
    lr: float
    offload_optimizer_for_logprob: bool = False

class PolicyWorker:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.model = Policy(cfg.vocab, cfg.hidden).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)

    def move_optimizer(self, device):
        for state in self.optimizer.state.values():
            for name, value in state.items():
                if torch.is_tensor(value) and name != "step":
                    state[name] = value.to(device)

    def prepare_for_generation(self):
        """Makes room for the cache of keys and values."""
        self.move_optimizer("cpu")
        self.model.eval()

    def prepare_for_training(self):
        self.model.to(self.device)
        self.model.train()
        if self.cfg.offload_optimizer_for_logprob:
            self.move_optimizer(self.device)

    @torch.no_grad()
    def generate(self, prompts, length, seed):
        tokens, generator = prompts.to(self.device), torch.Generator().manual_seed(seed)
        for _ in range(length):
            probabilities = self.model(tokens)[:, -1].softmax(-1).cpu()
            following = torch.multinomial(probabilities, 1, generator=generator)
            tokens = torch.cat([tokens, following.to(self.device)], dim=-1)
        return tokens.cpu()

    def train(self, tokens, advantages, prompt):
        tokens, advantages = tokens.to(self.device), advantages.to(self.device)
        logits = self.model(tokens[:, :-1])[:, prompt - 1 :]
        logps = logits.log_softmax(-1).gather(-1, tokens[:, prompt:, None])[..., 0].sum(-1)
        loss = -(advantages * logps).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

# === swapped_for_validation
# thread: https://github.com/sdbds/sd-scripts/pull/19
# about: while a model runs forward its first blocks leave the GPU for its last ones, and the backward pass brings them back; validation has no backward pass
# operation: layer_norm on cuda:0, cpu
# operands: .*weight
# category: module-split
# line: trainer.py: losses.append(self.validation_step(
# line: trainer.py: self.model.train()
# line: trainer.py: self.model.eval()
# line: model.py: hidden = self.embed(
# repair: trainer.py: losses.append(self.validation_step(batch)) -> losses.append(self.validation_step(batch)); self.model.offloader.prepare_block_devices_before_forward()
import torch

from model import LuminaLike
from trainer import SwapTrainer

def batches(count, width, seed):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(6, width, generator=generator), torch.randn(6, width, generator=generator)) for _ in range(count)]

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = LuminaLike(width=8, depth=4)
model.enable_block_swap(blocks_to_swap=2, device=device)
trainer = SwapTrainer(model, device, lr=0.01)
history = trainer.fit(batches(3, 8, seed=1), batches(2, 8, seed=2), epochs=2)
print("history", [[round(value, 4) for value in pair] for pair in history])
# --- offloader.py
import torch

class ModelOffloader:
    """Keeps some of the blocks on the CPU; which ones, changes within a step."""

    def __init__(self, blocks, blocks_to_swap, device):
        self.blocks, self.blocks_to_swap, self.device = blocks, blocks_to_swap, device
        for index in range(blocks_to_swap):
            blocks[index].register_full_backward_pre_hook(self.backward_hook(index))
        for block in blocks:
            for parameter in block.parameters():
                parameter.requires_grad_(False)

    def prepare_block_devices_before_forward(self):
        kept = len(self.blocks) - self.blocks_to_swap
        for index, block in enumerate(self.blocks):
            block.to(self.device if index < kept else "cpu")

    def swap(self, leaving, coming):
        self.blocks[leaving].to("cpu")
        self.blocks[coming].to(self.device)

    def after_block(self, index):
        if index < self.blocks_to_swap:
            self.swap(index, len(self.blocks) - self.blocks_to_swap + index)

    def backward_hook(self, index):
        def hook(module, grad_output):
            self.swap(len(self.blocks) - self.blocks_to_swap + index, index)

        return hook
# --- model.py
import torch
from torch import nn

from offloader import ModelOffloader

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.tanh(self.mix(self.norm(x)))

class LuminaLike(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embed, self.head = nn.Linear(width, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.offloader = None

    def enable_block_swap(self, blocks_to_swap, device):
        self.embed.to(device)
        self.head.to(device)
        self.offloader = ModelOffloader(self.blocks, blocks_to_swap, device)
        self.offloader.prepare_block_devices_before_forward()

    def forward(self, x):
        hidden = self.embed(x)
        for index, block in enumerate(self.blocks):
            hidden = block(hidden)
            self.offloader.after_block(index)
        return self.head(hidden)
# --- trainer.py
import torch

class SwapTrainer:
    def __init__(self, model, device, lr):
        self.model, self.device = model, device
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=lr)

    def loss_of(self, batch):
        x, target = (each.to(self.device) for each in batch)
        return torch.nn.functional.mse_loss(self.model(x), target)

    def training_step(self, batch):
        loss = self.loss_of(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def validation_step(self, batch):
        return self.loss_of(batch).item()

    def validate(self, batches):
        self.model.eval()
        losses = []
        for batch in batches:
            losses.append(self.validation_step(batch))
        self.model.train()
        return sum(losses) / len(losses)

    def fit(self, train, val, epochs):
        history = []
        for _ in range(epochs):
            loss = sum(self.training_step(batch) for batch in train) / len(train)
            history.append((loss, self.validate(val)))
        return history

# === prefetched_by_a_thread
# thread: https://github.com/official-stockfish/nnue-pytorch/pull/456
# about: a thread copies batches to the GPU ahead of time and resolves "cuda" there, where the current card is the first one, though the trainer has set the second
# operation: addmm|linear on cuda:1, cuda:0
# operands: white
# category: default-or-current-device
# line: dataset.py: device = self._resolve_prefetch_device()
# line: dataset.py: return torch.device("cuda", torch.cuda.current_device())
# line: dataset.py: self.thread = threading.Thread(
# line: train.py: batches = PrefetchedBatches(
# line: main.py: device=torch.device("cuda")
# repair: dataset.py: device = self._resolve_prefetch_device() -> device = self._prefetch_device
import torch

from model import NNUE
from train import train

def positions(count, features, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        white = (torch.rand(16, features, generator=generator) < 0.2).float()
        black = (torch.rand(16, features, generator=generator) < 0.2).float()
        yield white, black, (white.sum(1) - black.sum(1)).sigmoid()

torch.cuda.set_device(1)
torch.manual_seed(0)
model = NNUE(features=24, width=8).cuda()
print("losses", [round(loss, 5) for loss in train(model, positions(4, 24, seed=3), device=torch.device("cuda"))])
# --- model.py
import torch
from torch import nn

class NNUE(nn.Module):
    """Two views of a position share the first layer."""

    def __init__(self, features, width):
        super().__init__()
        self.input = nn.Linear(features, width)
        self.l1, self.output = nn.Linear(2 * width, width), nn.Linear(width, 1)

    def forward(self, white, black):
        accumulated = torch.cat([self.input(white), self.input(black)], dim=-1).clamp(0, 1)
        return self.output(torch.relu(self.l1(accumulated)))[:, 0]

    def loss(self, white, black, score):
        return (self(white, black).sigmoid() - score).abs().pow(2.5).mean()
# --- dataset.py
import queue
import threading

import torch

class PrefetchedBatches:
    """Batches that a thread has copied to the device before they are asked for."""

    end = object()

    def __init__(self, source, device, depth=2):
        self.source, self.device = source, torch.device(device)
        self.queue = queue.Queue(maxsize=depth)
        self._prefetch_device = None

    def _resolve_prefetch_device(self):
        if self.device.type == "cuda" and self.device.index is None:
            return torch.device("cuda", torch.cuda.current_device())
        return self.device

    def _start_prefetching(self):
        self._prefetch_device = self._resolve_prefetch_device()
        self.thread = threading.Thread(target=self._prefetch_worker, daemon=True)
        self.thread.start()

    def _to_device(self, batch, device):
        return tuple(each.to(device, non_blocking=True) for each in batch)

    def _prefetch_worker(self):
        device = self._resolve_prefetch_device()
        for batch in self.source:
            self.queue.put(self._to_device(batch, device))
        self.queue.put(self.end)

    def __iter__(self):
        self._start_prefetching()
        while True:
            batch = self.queue.get()
            if batch is self.end:
                return
            yield batch
# --- train.py
import torch

from dataset import PrefetchedBatches

def train(model, source, device, lr=0.05):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    batches = PrefetchedBatches(source, device)
    losses = []
    for white, black, score in batches:
        loss = model.loss(white, black, score)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

# === control_from_the_second_card
# thread: https://github.com/pollockjj/ComfyUI-MultiGPU/issues/73
# about: nodes let people choose a card for each model; what the control model answers is kept by name in lists and added to the other model's hidden states
# operation: add on cuda:0, cuda:1
# operands: control
# category: module-split|input-not-moved
# line: unet.py: hidden = hidden + control
# line: unet.py: control = controls[name].pop()
# line: controlnet.py: merged[name].append(
# line: sampler.py: controls = self.control.get_control(
# repair: unet.py: hidden = hidden + control -> hidden = hidden + control.to(hidden.device)
import torch

from nodes import CheckpointLoaderMultiGPU, ControlNetLoaderMultiGPU
from sampler import Sampler

torch.manual_seed(0)
unet = CheckpointLoaderMultiGPU().load(channels=4, width=8, device="cuda:0")
control = ControlNetLoaderMultiGPU().load(channels=4, width=8, strength=0.8, device="cuda:1")
generator = torch.Generator().manual_seed(5)
control.set_hint(torch.rand(1, 4, 6, 6, generator=generator))
latents = Sampler(unet, control).sample(torch.randn(1, 4, 6, 6, generator=generator), steps=3)
print("latents", [round(value, 4) for value in latents.mean((0, 2, 3)).tolist()])
# --- nodes.py
from controlnet import ControlModel, ControlNet
from unet import UNet

class CheckpointLoaderMultiGPU:
    def load(self, channels, width, device):
        return UNet(channels, width).to(device).eval()

class ControlNetLoaderMultiGPU:
    def load(self, channels, width, strength, device):
        return ControlNet(ControlModel(channels, width).eval(), strength, load_device=device)
# --- controlnet.py
import torch
from torch import nn

class ControlModel(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.x_in, self.hint_in = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(channels, width, 3, padding=1)
        self.outputs = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))
        self.middle = nn.Conv2d(width, width, 1)

    def forward(self, x, hint):
        hidden = torch.nn.functional.silu(self.x_in(x) + self.hint_in(hint))
        return {"output": [layer(hidden) for layer in self.outputs], "middle": [self.middle(hidden)]}

class ControlNet:
    def __init__(self, control_model, strength, load_device):
        self.control_model = control_model.to(load_device)
        self.strength, self.load_device = strength, load_device
        self.cond_hint = None

    def set_hint(self, hint):
        self.cond_hint_original = hint

    def get_control(self, x_noisy, sigma):
        if self.cond_hint is None:
            self.cond_hint = self.cond_hint_original.to(self.load_device)
        answers = self.control_model(x_noisy.to(self.load_device), self.cond_hint)
        return self.control_merge(answers, x_noisy.dtype)

    def control_merge(self, answers, output_dtype):
        merged = {"output": [], "middle": []}
        for name, values in answers.items():
            for value in values:
                merged[name].append((value * self.strength).to(output_dtype))
        return merged
# --- unet.py
import torch
from torch import nn

def apply_control(hidden, controls, name):
    if controls is not None and controls[name]:
        control = controls[name].pop()
        hidden = hidden + control
    return hidden

class UNet(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.input = nn.Conv2d(channels + 1, width, 3, padding=1)
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, sigma, controls=None):
        level = sigma.log().expand(len(x), 1, *x.shape[2:])
        hidden = torch.nn.functional.silu(self.input(torch.cat([x, level], dim=1)))
        hidden = apply_control(self.middle(hidden), controls, "middle")
        for block in self.blocks:
            hidden = apply_control(torch.nn.functional.silu(block(hidden)), controls, "output")
        return self.out(hidden)
# --- sampler.py
import torch

class Sampler:
    def __init__(self, unet, control):
        self.unet, self.control = unet, control
        self.device = next(unet.parameters()).device

    @torch.inference_mode()
    def sample(self, noise, steps):
        sigmas = torch.linspace(1.0, 0.1, steps + 1, device=self.device)
        x = noise.to(self.device)
        for sigma, following in zip(sigmas, sigmas[1:]):
            controls = self.control.get_control(x, sigma)
            predicted = self.unet(x, sigma, controls)
            x = x + (following - sigma) * predicted
        return x

# === first_card_of_the_job
# thread: https://github.com/yoxu515/aot-benchmark/pull/91
# about: jobs that share a machine begin at a card that is given. The worker's own device is made from the rank alone, and what it makes meets the model on rank and offset
# operation: addmm|linear on cuda:1, cuda:0
# operands: previous|frames.*|frame
# category: default-or-current-device|input-not-moved
# line: worker.py: device = torch.device("cuda", rank)
# line: trainer.py: self.device = device
# line: trainer.py: frames, masks = (
# repair: worker.py: device = torch.device("cuda", rank) -> device = torch.device("cuda", rank + cfg.start_gpu)
from config import Config
from worker import main_worker

cfg = Config(start_gpu=1, gpus=1, width=8, objects=3, steps=3, lr=0.05)
losses = main_worker(0, cfg)
print("losses", [round(loss, 4) for loss in losses])
# --- config.py
from dataclasses import dataclass

@dataclass
class Config:
    start_gpu: int
    gpus: int
    width: int
    objects: int
    steps: int
    lr: float
    seed: int = 0
# --- worker.py
import torch
import torch.distributed as dist

from trainer import Trainer

def main_worker(rank, cfg):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=rank, world_size=cfg.gpus)
    device = torch.device("cuda", rank)
    try:
        trainer = Trainer(rank, cfg, device)
        return trainer.sequential_training()
    finally:
        dist.destroy_process_group()
# --- model.py
import torch
from torch import nn

class SegmentationModel(nn.Module):
    """Spreads masks of the frame before over a frame, by how alike pixels are."""

    def __init__(self, width, objects):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.identity = nn.Embedding(objects, width)
        self.head = nn.Linear(width, objects)

    def forward(self, previous, mask, frame):
        keys, queries = self.encoder(previous), self.encoder(frame)
        values = self.identity(mask)
        attention = (queries @ keys.transpose(-1, -2) / keys.shape[-1] ** 0.5).softmax(-1)
        return self.head(queries + attention @ values)
# --- trainer.py
import torch
import torch.distributed as dist

from model import SegmentationModel

class Trainer:
    def __init__(self, rank, cfg, device):
        self.cfg, self.rank = cfg, rank
        self.device = device
        self.gpu = rank + cfg.start_gpu
        torch.cuda.set_device(self.gpu)
        torch.manual_seed(cfg.seed)
        self.model = SegmentationModel(cfg.width, cfg.objects).cuda(self.gpu)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.generator = torch.Generator().manual_seed(cfg.seed + rank)

    def next_clip(self, pixels=20):
        frames = torch.rand(2, pixels, 3, generator=self.generator)
        masks = (frames.sum(-1) * self.cfg.objects / 3).long().clamp(max=self.cfg.objects - 1)
        return frames, masks

    def average(self, loss):
        total = loss.detach().clone()
        dist.all_reduce(total)
        return total.item() / dist.get_world_size()

    def sequential_training(self):
        losses = []
        for _ in range(self.cfg.steps):
            frames, masks = (each.to(self.device) for each in self.next_clip())
            logits = self.model(frames[0], masks[0], frames[1])
            loss = torch.nn.functional.cross_entropy(logits, masks[1])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(self.average(loss))
        return losses

# === label_embedding_left_out
# thread: https://github.com/Kosinkadink/ComfyUI-Advanced-ControlNet/issues/234
# about: the patcher loads those layers that know how to be cast; one control model's embedding of its kind is made of plain layers and stays where it was made
# operation: addmm|linear on cuda:0, cpu
# operands: .*weight
# category: module-split|state-not-registered
# line: control_plusplus.py: self.label_emb = nn.Sequential(nn.Linear(
# line: control_plusplus.py: emb = emb + self.label_emb(kind)
# line: patcher.py: if hasattr(module, "comfy_cast_weights"):
# line: main.py: patcher.load()
# repair: control_plusplus.py: self.label_emb = nn.Sequential(nn.Linear(kinds, width), nn.SiLU(), nn.Linear(width, width)) -> self.label_emb = nn.Sequential(operations.Linear(kinds, width), nn.SiLU(), operations.Linear(width, width))
import torch

from control_plusplus import ControlNetPlusPlus
from patcher import ModelPatcher

def sampled(control, kinds, device, steps):
    generator = torch.Generator().manual_seed(3)
    x, hint = (torch.randn(2, 6, generator=generator).to(device) for _ in range(2))
    for step in range(steps):
        t = torch.full((2,), 1 - step / steps, device=device)
        x = x - 0.2 * control(x, hint, t, kinds)
    return x

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
patcher = ModelPatcher(ControlNetPlusPlus(channels=6, width=8, kinds=4), load_device=device)
patcher.load()
with torch.inference_mode():
    x = sampled(patcher.model, ["depth", "canny"], device, steps=3)
print("sampled", [round(value, 4) for value in x.mean(-1).tolist()])
# --- ops.py
import torch
from torch import nn

class operations:
    """Layers that bring their weights to what they are given."""

    class Linear(nn.Linear):
        comfy_cast_weights = True

        def forward(self, x):
            return nn.functional.linear(x, self.weight.to(x), self.bias.to(x))

    class LayerNorm(nn.LayerNorm):
        comfy_cast_weights = True
# --- patcher.py
class ModelPatcher:
    def __init__(self, model, load_device, offload_device="cpu"):
        self.model = model.eval()
        self.load_device, self.offload_device = load_device, offload_device

    def loaded_modules(self):
        for name, module in self.model.named_modules():
            if hasattr(module, "comfy_cast_weights"):
                yield name, module

    def load(self):
        for _, module in self.loaded_modules():
            module.to(self.load_device)
        return self.model
# --- control_plusplus.py
import torch
from torch import nn

from ops import operations

KINDS = ["openpose", "depth", "canny", "segment"]

def timestep_embedding(t, width):
    frequencies = torch.exp(-torch.arange(width // 2, device=t.device) * 0.5)
    angles = t[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=-1)

class ControlNetPlusPlus(nn.Module):
    """One control model for several kinds of hints; it is told which kind it is."""

    def __init__(self, channels, width, kinds):
        super().__init__()
        self.width, self.kinds = width, kinds
        self.x_in, self.hint_in = operations.Linear(channels, width), operations.Linear(channels, width)
        self.time_embed = nn.Sequential(operations.Linear(width, width), nn.SiLU(), operations.Linear(width, width))
        self.label_emb = nn.Sequential(nn.Linear(kinds, width), nn.SiLU(), nn.Linear(width, width))
        self.norm, self.out = operations.LayerNorm(width), operations.Linear(width, channels)

    def one_hot(self, names, device):
        rows = torch.zeros(len(names), self.kinds, device=device)
        for row, name in zip(rows, names):
            row[KINDS.index(name)] = 1
        return rows

    def forward(self, x, hint, t, names):
        emb = self.time_embed(timestep_embedding(t, self.width))
        kind = self.one_hot(names, x.device)
        emb = emb + self.label_emb(kind)
        hidden = self.x_in(x) + self.hint_in(hint) + emb
        return self.out(torch.nn.functional.silu(self.norm(hidden)))

# === pairs_of_sentences
# thread: https://github.com/tianyi-lab/MoE-Embedding/pull/3
# about: a loader gives pairs as a list of what the tokenizer makes; only the labels beside it are moved before the model of experts is asked for its embeddings
# operation: embedding|index_select on cuda:0, cpu
# operands: input_ids
# category: input-not-moved
# line: trainer.py: reps = [self.embedder(
# line: embedder.py: outputs = self.model(
# line: trainer.py: for batch in loader:
# line: trainer.py: losses.append(self.step(
# repair: trainer.py: reps = [self.embedder(**features) for features in batch["sentence_features"]] -> reps = [self.embedder(**{name: value.to(self.device) for name, value in features.items()}) for features in batch["sentence_features"]]
import torch
from torch.utils.data import DataLoader
from transformers import MixtralConfig, MixtralModel

from data import Pairs, collate
from embedder import MoEEmbedder
from trainer import PairTrainer

torch.manual_seed(0)
config = MixtralConfig(
    vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, num_local_experts=3,
    num_experts_per_tok=2, max_position_embeddings=32,
)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
trainer = PairTrainer(MoEEmbedder(MixtralModel(config)), device, lr=0.01)
loader = DataLoader(Pairs(count=8, vocab=40, seed=1), batch_size=4, collate_fn=collate)
print("losses", [round(loss, 4) for loss in trainer.train(loader, epochs=2)])
# --- data.py
import torch
from torch.utils.data import Dataset

class Pairs(Dataset):
    """Two texts and whether they mean the same."""

    def __init__(self, count, vocab, seed):
        generator = torch.Generator().manual_seed(seed)
        self.rows = []
        for index in range(count):
            first = torch.randint(2, vocab, (3 + index % 3,), generator=generator).tolist()
            second = first[::-1] if index % 2 else torch.randint(2, vocab, (4,), generator=generator).tolist()
            self.rows.append((first, second, float(index % 2)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

def pad(rows):
    longest = max(map(len, rows))
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return {"input_ids": torch.tensor([row + [0] * (longest - len(row)) for row in rows]), "attention_mask": torch.tensor(mask)}

def collate(samples):
    firsts, seconds, labels = zip(*samples)
    features = [pad(texts) for texts in (firsts, seconds)]
    return {"sentence_features": features, "labels": torch.tensor(labels)}
# --- embedder.py
import torch
from torch import nn

class MoEEmbedder(nn.Module):
    """The mean of last states, beside how the experts were chosen for them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
        mask = attention_mask[..., None].to(outputs.last_hidden_state)
        pooled = (outputs.last_hidden_state * mask).sum(1) / mask.sum(1)
        return nn.functional.normalize(pooled, dim=-1)
# --- trainer.py
import torch

class PairTrainer:
    def __init__(self, embedder, device, lr):
        self.embedder, self.device = embedder.to(device), device
        self.optimizer = torch.optim.AdamW(embedder.parameters(), lr=lr)

    def step(self, batch):
        labels = batch["labels"].to(self.device)
        reps = [self.embedder(**features) for features in batch["sentence_features"]]
        similarity = (reps[0] * reps[1]).sum(-1)
        loss = (similarity - labels).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def train(self, loader, epochs):
        losses = []
        for _ in range(epochs):
            for batch in loader:
                losses.append(self.step(batch))
        return losses

# === resumed_numerator
# thread: https://github.com/kohya-ss/sd-scripts/issues/1944
# about: a run is resumed from a folder that was read to the CPU. PyTorch casts the optimizer's state of parameters, and not the tensors that a group has for all of them
# operation: add on cpu, cuda:0
# operands: .*numerator.*
# category: optimizer|checkpoint
# line: state.py: saved = torch.load(
# line: state.py: optimizer.load_state_dict(
# line: schedule_free.py: numerator = group["d_numerator"]
# line: schedule_free.py: numerator.mul_(
# line: schedule_free.py: numerator.add_(
# repair: state.py: saved = torch.load(folder / "optimizer.bin", map_location="cpu", weights_only=True) -> saved = torch.load(folder / "optimizer.bin", map_location=device, weights_only=True)
import tempfile
from pathlib import Path

import torch

from trainer import NetworkTrainer

with tempfile.TemporaryDirectory() as folder:
    first = NetworkTrainer(seed=0)
    first.train(epochs=2, save_to=Path(folder))
    second = NetworkTrainer(seed=0, resume=Path(folder))
    second.train(epochs=1)
print("epoch", second.epoch, "losses", [round(loss, 5) for loss in first.losses + second.losses])
# --- schedule_free.py
import torch

class ProdigyScheduleFree(torch.optim.Optimizer):
    """Finds its own step length, and averages instead of a schedule."""

    def __init__(self, params, lr=1.0, beta=0.9, d0=1e-2):
        super().__init__(params, dict(lr=lr, beta=beta, d=d0, d0=d0, k=0, d_numerator=None))

    def first_step(self, group):
        device = group["params"][0].device
        group["d_numerator"] = torch.zeros((1,), device=device)
        for p in group["params"]:
            self.state[p]["z"], self.state[p]["p0"] = p.detach().clone(), p.detach().clone()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            if group["d_numerator"] is None:
                self.first_step(group)
            numerator = group["d_numerator"]
            numerator.mul_(group["beta"])
            for p in group["params"]:
                state = self.state[p]
                slope = torch.dot(p.grad.flatten(), (state["p0"] - state["z"]).flatten())
                numerator.add_(slope[None], alpha=group["d"])
            group["d"] = max(group["d"], group["d0"] * (1 + 20 * numerator.clamp(min=0).item()))
            group["k"] += 1
            for p in group["params"]:
                z = self.state[p]["z"]
                z.sub_(p.grad, alpha=group["lr"] * group["d"])
                p.lerp_(z, 1 / group["k"] ** 0.5)
# --- state.py
import json

import torch

def save_state(folder, network, optimizer, epoch):
    folder.mkdir(exist_ok=True)
    torch.save(network.state_dict(), folder / "model.bin")
    torch.save(optimizer.state_dict(), folder / "optimizer.bin")
    (folder / "train_state.json").write_text(json.dumps({"current_epoch": epoch}))

def load_state(folder, network, optimizer, device):
    network.load_state_dict(torch.load(folder / "model.bin", map_location=device, weights_only=True))
    saved = torch.load(folder / "optimizer.bin", map_location="cpu", weights_only=True)
    optimizer.load_state_dict(saved)
    return json.loads((folder / "train_state.json").read_text())["current_epoch"]
# --- trainer.py
import torch
from torch import nn

from schedule_free import ProdigyScheduleFree
from state import load_state, save_state

class NetworkTrainer:
    def __init__(self, seed, resume=None):
        torch.manual_seed(seed)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network = nn.Sequential(nn.Linear(6, 10), nn.SiLU(), nn.Linear(10, 6)).to(self.device)
        self.optimizer = ProdigyScheduleFree(self.network.parameters())
        self.epoch, self.losses = 0, []
        if resume is not None:
            self.epoch = load_state(resume, self.network, self.optimizer, self.device)

    def batches(self):
        generator = torch.Generator().manual_seed(self.epoch)
        for _ in range(2):
            latents = torch.randn(8, 6, generator=generator)
            yield latents + 0.3 * torch.randn(8, 6, generator=generator), latents

    def train(self, epochs, save_to=None):
        for _ in range(epochs):
            for noisy, latents in self.batches():
                loss = nn.functional.mse_loss(self.network(noisy.to(self.device)), latents.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.epoch += 1
            self.losses.append(loss.item())
        if save_to is not None:
            save_state(save_to, self.network, self.optimizer, self.epoch)

# === reference_on_its_own_card
# thread: https://github.com/groundlight/r1_vlm/issues/42
# about: two cards without a launcher: the policy trains on one, the frozen reference answers from the other, and its log-probabilities meet those of the policy
# operation: sub on cuda:1, cuda:0
# operands: ref_logps
# category: module-split|input-not-moved
# line: grpo.py: per_token_kl = torch.exp(
# line: grpo.py: inputs["ref_per_token_logps"] =
# line: grpo.py: ref_logps = inputs["ref_per_token_logps"]
# repair: grpo.py: ref_logps = inputs["ref_per_token_logps"] -> ref_logps = inputs["ref_per_token_logps"].to(per_token_logps.device)
import copy

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from grpo import GRPOTrainer
from rewards import ends_even, short_words

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=24, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
    max_position_embeddings=32, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
)
policy = Qwen2ForCausalLM(config)
reference = copy.deepcopy(policy).eval().requires_grad_(False)
policy, last = policy.to("cuda:0"), torch.cuda.device_count() - 1
reference = reference.to(f"cuda:{last}")
trainer = GRPOTrainer(policy, reference, [ends_even, short_words], beta=0.1, lr=0.01)
prompts = torch.tensor([[1, 5, 9], [1, 7, 3]])
print("losses", [round(trainer.step(prompts, samples=3, length=4, seed=seed), 5) for seed in range(3)])
# --- rewards.py
def ends_even(completions):
    return [float(tokens[-1] % 2 == 0) for tokens in completions]

def short_words(completions):
    return [sum(token < 12 for token in tokens) / len(tokens) for tokens in completions]
# --- grpo.py
import torch

class GRPOTrainer:
    def __init__(self, model, ref_model, reward_funcs, beta, lr):
        self.model, self.ref_model, self.reward_funcs, self.beta = model, ref_model, reward_funcs, beta
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def _get_per_token_logps(self, model, input_ids, count):
        logits = model(input_ids=input_ids.to(model.device), use_cache=False).logits[:, :-1]
        logps = logits[:, -count:].log_softmax(-1)
        return logps.gather(-1, input_ids[:, -count:, None].to(logps.device))[..., 0]

    @torch.no_grad()
    def _generate(self, prompts, length, seed):
        generator = torch.Generator().manual_seed(seed)
        ids = prompts
        for _ in range(length):
            logits = self.model(input_ids=ids.to(self.model.device), use_cache=False).logits[:, -1]
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1).cpu(), 1, generator=generator)], dim=-1)
        return ids

    def _prepare_inputs(self, prompts, samples, length, seed):
        ids = self._generate(prompts.repeat_interleave(samples, 0), length, seed)
        completions = ids[:, -length:].tolist()
        rewards = torch.tensor([function(completions) for function in self.reward_funcs]).sum(0).view(-1, samples)
        advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
        inputs = {"ids": ids, "length": length, "advantages": advantages.flatten().to(self.model.device)}
        with torch.inference_mode():
            inputs["ref_per_token_logps"] = self._get_per_token_logps(self.ref_model, ids, length)
        return inputs

    def compute_loss(self, inputs):
        per_token_logps = self._get_per_token_logps(self.model, inputs["ids"], inputs["length"])
        ref_logps = inputs["ref_per_token_logps"]
        per_token_kl = torch.exp(ref_logps - per_token_logps) - (ref_logps - per_token_logps) - 1
        gain = torch.exp(per_token_logps - per_token_logps.detach()) * inputs["advantages"][:, None]
        return -(gain - self.beta * per_token_kl).mean()

    def step(self, prompts, samples, length, seed):
        inputs = self._prepare_inputs(prompts, samples, length, seed)
        loss = self.compute_loss(inputs)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
