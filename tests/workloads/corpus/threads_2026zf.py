# === lips_that_follow_a_sound
# thread: https://github.com/anliyuan/Ultralight-Digital-Human/issues/156
# about: a face speaks what a sound says: the picture of the face, and the same with its lower half covered, go into the network together with what was heard
# operation: cat on cpu, cuda:0
# operands: tensors|.*
# category: input-not-moved
# line: inference.py: img_masked_T = torch.from_numpy(
# line: inference.py: img_concat_T = torch.cat(
# repair: inference.py: img_masked_T = torch.from_numpy(img_masked / 255.0).float() -> img_masked_T = torch.from_numpy(img_masked / 255.0).float().to(device)
import torch

from frames import load_frames, load_sound
from inference import render
from unet import Model

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Model(channels=6, heard=5).to(device).eval()
frames, sound = load_frames(count=3, size=8, seed=2), load_sound(steps=4, width=5, seed=3)
video = render(net, frames, sound, device)
print("frames", len(video), "means", [round(float(frame.mean()), 3) for frame in video])
# --- frames.py
import numpy as np

def load_frames(count, size, seed):
    draw = np.random.default_rng(seed)
    return [draw.integers(0, 256, (size, size, 3)).astype(np.uint8) for _ in range(count)]

def load_sound(steps, width, seed):
    return np.random.default_rng(seed).normal(size=(steps, width)).astype(np.float32)

def around(sound, index, reach):
    """What is heard around a frame; nothing before the first and after the last."""
    steps = range(index - reach, index + reach + 1)
    nothing = np.zeros(sound.shape[1], np.float32)
    return np.stack([sound[step] if 0 <= step < len(sound) else nothing for step in steps])
# --- unet.py
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, channels, heard):
        super().__init__()
        self.down = nn.Conv2d(channels, 8, 3, stride=2, padding=1)
        self.listen = nn.GRU(heard, 8, batch_first=True)
        self.up = nn.ConvTranspose2d(16, 3, 2, stride=2)

    def forward(self, picture, sound):
        seen = self.down(picture).relu()
        _, told = self.listen(sound)
        told = told[-1][:, :, None, None].expand_as(seen)
        return self.up(torch.cat([seen, told], dim=1)).sigmoid()
# --- inference.py
import numpy as np
import torch

from frames import around

def cover(picture):
    covered = picture.copy()
    covered[:, picture.shape[1] // 2 :] = 0
    return covered

def render(net, frames, sound, device):
    video = []
    for index, frame in enumerate(frames):
        img_real = frame.transpose(2, 0, 1).astype(np.float32)
        img_masked = cover(img_real)
        img_real_T = torch.from_numpy(img_real / 255.0).float().to(device)
        img_masked_T = torch.from_numpy(img_masked / 255.0).float()
        img_concat_T = torch.cat([img_real_T, img_masked_T], dim=0)[None]
        audio_feat = torch.from_numpy(around(sound, index, reach=1))[None].to(device)
        with torch.no_grad():
            pred = net(img_concat_T, audio_feat)[0]
        video.append(pred.cpu().numpy().transpose(1, 2, 0))
    return video

# === rewards_and_a_reference
# thread: https://github.com/huggingface/trl/issues/2851
# about: a policy learns from groups of answers, held near to what it was. The model that it was has a GPU of its own
# operation: sub on cuda:1, cuda:0
# operands: self|other|.*logps.*
# category: input-not-moved|module-split
# line: grpo.py: ref_logps = self.logps(
# line: grpo.py: apart = ref_logps - logps
# line: grpo.py: self.ref_model, self.ref_device =
# line: main.py: trainer = GRPOTrainer(
# repair: grpo.py: ref_logps = self.logps(self.ref_model, answers.to(self.ref_device)) -> ref_logps = self.logps(self.ref_model, answers.to(self.ref_device)).to(self.device)
import torch

from grpo import GRPOTrainer
from policy import Policy
from rewards import length_reward

torch.manual_seed(0)
count = torch.cuda.device_count()
devices = [f"cuda:{index}" for index in range(count)] or ["cpu"]
policy = Policy(vocabulary=9, width=8)
trainer = GRPOTrainer(policy, length_reward, device=devices[0], ref_device=devices[-1], group=4, beta=0.1)
prompts = torch.randint(1, 9, (3, 2), generator=torch.Generator().manual_seed(1))
history = [trainer.step(prompts, seed) for seed in range(3)]
print("losses", [round(1e3 * loss, 2) for loss in history], "norm", round(policy.head.weight.norm().item(), 4))
# --- policy.py
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.cell = nn.Embedding(vocabulary, width), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.cell(self.embed(tokens))[0])

    @torch.no_grad()
    def sample(self, prompts, length, draw):
        tokens = prompts
        for _ in range(length):
            chances = self(tokens)[:, -1].softmax(-1).cpu()
            chosen = torch.multinomial(chances, 1, generator=draw).to(tokens.device)
            tokens = torch.cat([tokens, chosen], dim=1)
        return tokens
# --- rewards.py
def length_reward(answers, **kwargs):
    """The later a zero comes, the better."""
    rewards = []
    for answer in answers.tolist():
        rewards.append(float(answer.index(0) if 0 in answer else len(answer)))
    return rewards
# --- grpo.py
import copy

import torch

class GRPOTrainer:
    def __init__(self, policy, reward, device, ref_device, group, beta):
        self.device, self.reward, self.group, self.beta = device, reward, group, beta
        self.ref_model, self.ref_device = copy.deepcopy(policy).to(ref_device).eval().requires_grad_(False), ref_device
        self.policy = policy.to(device)
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=2.0)

    def logps(self, model, tokens):
        scores = model(tokens[:, :-1]).log_softmax(-1)
        picked = scores.gather(-1, tokens[:, 1:, None])[..., 0]
        return picked

    def advantages(self, answers):
        rewards = torch.tensor(self.reward(answers), device=self.device).view(-1, self.group)
        spread = rewards.std(1, keepdim=True) + 1e-4
        return ((rewards - rewards.mean(1, keepdim=True)) / spread).view(-1, 1)

    def step(self, prompts, seed):
        prompts = prompts.to(self.device).repeat_interleave(self.group, dim=0)
        answers = self.policy.sample(prompts, length=5, draw=torch.Generator().manual_seed(seed))
        logps = self.logps(self.policy, answers)
        with torch.no_grad():
            ref_logps = self.logps(self.ref_model, answers.to(self.ref_device))
        apart = ref_logps - logps
        kl = apart.exp() - apart - 1
        gain = (logps - logps.detach()).exp() * self.advantages(answers)
        loss = (self.beta * kl - gain).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === two_checkpoints_compared
# thread: https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/3200
# about: a converted model has to say the same as the one that it was converted from. The latter is spread over all GPUs, and its first layer came on the last of them
# operation: embedding|index_select on cuda:1, cuda:0
# operands: weight|index|indices|self|input_ids|.*
# category: input-not-moved|module-split
# line: load.py: device_map = balanced(
# line: compare.py: logits = model(input_ids)
# line: load.py: if name != "embed_tokens":
# repair: load.py: device_map = balanced(model, torch.cuda.device_count()) -> device_map = {name: 0 for name, _ in model.named_children()}
import torch

from compare import compare
from load import load_converted, load_hf

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
original, converted = load_hf(seed=4), load_converted(seed=4, device=device)
report = compare(original, converted, "megatron bridges", device)
print("next token", report["tokens"], "cosine", round(report["cosine"], 4))
# --- model.py
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())

class CausalLM(nn.Module):
    def __init__(self, vocabulary=128, width=8, depth=4):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        for index in range(depth):
            self.add_module(f"layer{index}", Block(width))
        self.lm_head, self.depth = nn.Linear(width, vocabulary, bias=False), depth

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        for index in range(self.depth):
            x = self.get_submodule(f"layer{index}")(x).cumsum(1) / 2
        return self.lm_head(x)
# --- load.py
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module

from model import CausalLM

def balanced(model, count):
    """The largest parts first, each to the GPU that has least."""
    parts = sorted(model.named_children(), key=lambda part: -sum(p.numel() for p in part[1].parameters()))
    used, device_map = [0] * max(count, 1), {}
    for name, part in parts:
        index = min(range(len(used)), key=lambda each: (used[each], -each))
        device_map[name] = index
        used[index] += sum(p.numel() for p in part.parameters())
    return device_map

def load_hf(seed):
    torch.manual_seed(seed)
    model = CausalLM().eval()
    if not torch.cuda.is_available():
        return model
    device_map = balanced(model, torch.cuda.device_count())
    for name, part in model.named_children():
        part.to(device_map[name])
        if name != "embed_tokens":
            add_hook_to_module(part, AlignDevicesHook(execution_device=device_map[name]))
    return model

def load_converted(seed, device):
    torch.manual_seed(seed)
    return CausalLM().to(device).eval()
# --- compare.py
import torch

def tokenize(text):
    return {"input_ids": torch.tensor([list(text.encode())])}

@torch.no_grad()
def last_logits(model, input_ids):
    logits = model(input_ids)
    return logits[0, -1].float().cpu()

def compare(original, converted, text, device):
    batch = tokenize(text)
    input_ids = batch["input_ids"].to(device)
    ours, theirs = last_logits(converted, input_ids), last_logits(original, input_ids)
    cosine = torch.nn.functional.cosine_similarity(ours, theirs, dim=0).item()
    return {"tokens": (ours.argmax().item(), theirs.argmax().item()), "cosine": cosine}

# === rare_classes_count_more
# thread: https://github.com/pytorch/pytorch/pull/155085
# about: few examples are of some classes, so these count more in the loss, by how rare they are among the labels of the training set
# operation: nll_loss.*|cross_entropy.* on cuda:0, cpu
# operands: weight|.*
# category: created-without-device|input-not-moved
# line: train.py: criterion = nn.CrossEntropyLoss(
# line: data.py: return counts.sum()
# line: train.py: weight = class_weights(
# repair: train.py: criterion = nn.CrossEntropyLoss(weight=weight) -> criterion = nn.CrossEntropyLoss(weight=weight).to(device)
import torch
from torch.utils.data import DataLoader

from data import DefectDataset
from model import Classifier
from train import evaluate, fit

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dataset = DefectDataset(size=48, seed=5)
loader = DataLoader(dataset, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(2))
model = Classifier(classes=dataset.classes).to(device)
loss = fit(model, loader, dataset, device, epochs=3)
print("loss", round(loss, 4), "right", evaluate(model, loader, device))
# --- data.py
import torch
from torch.utils.data import Dataset

class DefectDataset(Dataset):
    classes = 3

    def __init__(self, size, seed):
        draw = torch.Generator().manual_seed(seed)
        self.labels = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), size, replacement=True, generator=draw)
        self.pictures = torch.randn(size, 1, 8, 8, generator=draw) + self.labels.view(-1, 1, 1, 1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.pictures[index], self.labels[index]

def class_weights(dataset):
    counts = torch.bincount(dataset.labels, minlength=dataset.classes).float()
    return counts.sum() / (dataset.classes * counts.clamp(min=1))
# --- model.py
from torch import nn

class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(16, classes)

    def forward(self, picture):
        return self.head(self.features(picture))
# --- train.py
import torch
from torch import nn

from data import class_weights

def fit(model, loader, dataset, device, epochs):
    weight = class_weights(dataset)
    criterion = nn.CrossEntropyLoss(weight=weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        total = 0.0
        for pictures, labels in loader:
            pictures, labels = pictures.to(device), labels.to(device)
            loss = criterion(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / len(loader)

@torch.no_grad()
def evaluate(model, loader, device):
    right = 0
    for pictures, labels in loader:
        right += (model(pictures.to(device)).argmax(1).cpu() == labels).sum().item()
    return right

# === how_much_is_explained
# thread: https://github.com/Lightning-AI/torchmetrics/issues/2965
# about: a regression is measured by how much of the variance it explains. Batches are summed up first, and the sums make the score at the end
# operation: add_? on cpu, cuda:0
# operands: self|other|.*
# category: created-without-device|cached-state|state-not-registered
# line: metrics.py: self.sums = {name: torch.zeros(
# line: metrics.py: self.sums[name] +=
# line: main.py: score = R2Score(
# line: evaluate.py: score.update(
# repair: metrics.py: self.sums = {name: torch.zeros(outputs) for name in ("target", "square", "residual")} -> self.sums = {name: torch.zeros(outputs, device=device) for name in ("target", "square", "residual")}
# repair: metrics.py: def __init__(self, outputs): -> def __init__(self, outputs, device=None):
# repair: main.py: score = R2Score(outputs=2) -> score = R2Score(outputs=2, device=device)
import torch

from evaluate import run_epoch
from metrics import R2Score
from regress import Regressor, make_batches

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
batches = make_batches(count=4, size=6, seed=7)
model = Regressor(inputs=3, outputs=2).to(device)
score = R2Score(outputs=2)
for epoch in range(2):
    run_epoch(model, batches, device, score)
print("explained", [round(value, 4) for value in score.compute().tolist()], "of", score.total)
# --- regress.py
import torch
from torch import nn

class Regressor(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))

    def forward(self, x):
        return self.layers(x)

def make_batches(count, size, seed):
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, size, 3, generator=draw)
    return [(x, torch.stack([x.sum(1), x[:, 0] * x[:, 1]], dim=1)) for x in inputs]
# --- metrics.py
import torch

class R2Score:
    def __init__(self, outputs):
        self.sums = {name: torch.zeros(outputs) for name in ("target", "square", "residual")}
        self.total = 0

    def update(self, predicted, target):
        batch = {"target": target.sum(0), "square": target.square().sum(0), "residual": (target - predicted).square().sum(0)}
        for name, value in batch.items():
            self.sums[name] += value
        self.total += len(target)

    def compute(self):
        mean = self.sums["target"] / self.total
        spread = self.sums["square"] - self.sums["target"] * mean
        return 1 - self.sums["residual"] / spread
# --- evaluate.py
import torch

def run_epoch(model, batches, device, score):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        predicted = model(x)
        loss = (predicted - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        score.update(predicted.detach(), y)

# === sound_of_another_rate
# thread: https://github.com/pytorch/audio/issues/3921
# about: recordings of several rates are brought to one before their loudness is measured. What does that is made when the first recording of a rate comes
# operation: .*conv.* on cuda:0, cpu
# error: should be the same|on the same device
# operands: weight|kernel|.*
# category: state-not-registered|created-without-device|module-split
# line: resample.py: self.kernel = kernel
# line: loudness.py: self.resamplers[rate] = Resample(
# line: loudness.py: sound = self.resamplers[rate](
# line: resample.py: sound = nn.functional.conv1d(
# repair: resample.py: self.kernel = kernel -> self.register_buffer("kernel", kernel)
# repair: loudness.py: self.resamplers[rate] = Resample(rate, self.rate) -> self.resamplers[rate] = Resample(rate, self.rate).to(self.device)
import torch

from loudness import Loudness
from recordings import recordings

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
meter = Loudness(rate=40, device=device)
found = {name: meter(sound, rate) for name, rate, sound in recordings(seed=3)}
print("loudness", {name: round(value, 4) for name, value in found.items()})
# --- recordings.py
import torch

def recordings(seed):
    draw = torch.Generator().manual_seed(seed)
    for name, rate in (("bird", 40), ("rain", 80), ("door", 60), ("wind", 80)):
        seconds = torch.arange(rate * 2) / rate
        sound = torch.sin(6.28 * 3 * seconds) + 0.1 * torch.randn(len(seconds), generator=draw)
        yield name, rate, sound
# --- resample.py
import math

import torch
from torch import nn

def sinc_kernel(old, new, width):
    """A row for each place that a new sample may have between the old ones."""
    reach = math.ceil(width * old / min(old, new))
    places = torch.arange(-reach, reach + old) / old
    times = torch.arange(0, -new, -1)[:, None] / new + places
    times = (times * min(old, new)).clamp(-width, width)
    window = torch.cos(times * math.pi / width / 2).square()
    return torch.sinc(times) * window * min(old, new) / old, reach

class Resample(nn.Module):
    def __init__(self, old, new, width=4):
        super().__init__()
        part = math.gcd(old, new)
        self.old, self.new = old // part, new // part
        kernel, self.reach = sinc_kernel(self.old, self.new, width)
        self.kernel = kernel

    def forward(self, sound):
        length = math.ceil(len(sound) * self.new / self.old)
        padded = nn.functional.pad(sound, (self.reach, self.reach + self.old))
        sound = nn.functional.conv1d(padded[None, None], self.kernel[:, None], stride=self.old)
        return sound[0].T.flatten()[:length]
# --- loudness.py
from resample import Resample

class Loudness:
    def __init__(self, rate, device, frame=10):
        self.rate, self.device, self.frame = rate, device, frame
        self.resamplers = {}

    def __call__(self, sound, rate):
        sound = sound.to(self.device)
        if rate != self.rate:
            if rate not in self.resamplers:
                self.resamplers[rate] = Resample(rate, self.rate)
            sound = self.resamplers[rate](sound)
        frames = sound.unfold(0, self.frame, self.frame)
        return frames.square().mean(1).sqrt().max().item()

# === a_task_for_a_language_model
# thread: https://github.com/The-Swarm-Corporation/swarm-models/pull/13
# about: agents hand each other tasks in words, and each runs a model of its own to answer. The model is loaded to where there is room
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|.*
# category: input-not-moved
# line: huggingface_llm.py: inputs = self.tokenizer.encode(
# line: huggingface_llm.py: scores = self.model(
# line: words.py: return torch.tensor(
# repair: huggingface_llm.py: inputs = self.tokenizer.encode(task) -> inputs = self.tokenizer.encode(task).to(self.device)
from agents import Agent, Swarm
from huggingface_llm import HuggingfaceLLM

names = ("planner", "writer", "critic")
swarm = Swarm([Agent(name, HuggingfaceLLM(seed=index, max_length=5)) for index, name in enumerate(names)])
answer = swarm.run("name a river")
print("steps", len(swarm.history), "answer", answer)
# --- agents.py
from dataclasses import dataclass, field

from huggingface_llm import HuggingfaceLLM

@dataclass
class Agent:
    name: str
    llm: HuggingfaceLLM

    def run(self, task):
        return self.llm.run(f"{self.name}: {task}")

@dataclass
class Swarm:
    agents: list
    history: list = field(default_factory=list)

    def run(self, task):
        for agent in self.agents:
            task = agent.run(task)
            self.history.append((agent.name, task))
        return task
# --- words.py
import torch

class LetterTokenizer:
    letters = "abcdefghijklmnopqrstuvwxyz :"

    def __len__(self):
        return len(self.letters) + 2

    def encode(self, text):
        known = [self.letters.index(letter) + 2 for letter in text.lower() if letter in self.letters]
        return torch.tensor([known])

    def decode(self, tokens):
        return "".join(self.letters[token - 2] for token in tokens.tolist() if token > 1)
# --- huggingface_llm.py
import logging

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from words import LetterTokenizer

class HuggingfaceLLM:
    def __init__(self, seed, max_length, device=None):
        self.logger = logging.getLogger(__name__)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.max_length, self.tokenizer, self.model = max_length, LetterTokenizer(), None
        self.seed = seed

    def load_model(self):
        torch.manual_seed(self.seed)
        config = GPT2Config(vocab_size=len(self.tokenizer), n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
        self.model = GPT2LMHeadModel(config).to(self.device).eval()
        self.logger.info("loaded on %s", self.device)

    @torch.no_grad()
    def run(self, task):
        if self.model is None:
            self.load_model()
        inputs = self.tokenizer.encode(task)
        tokens = inputs
        for _ in range(self.max_length):
            scores = self.model(input_ids=tokens).logits[:, -1]
            scores = scores.scatter(1, tokens[:, -3:], float("-inf"))
            tokens = torch.cat([tokens, scores.argmax(-1, keepdim=True)], dim=1)
        return self.tokenizer.decode(tokens[0, inputs.shape[1] :])

# === what_a_listener_would_say_next
# thread: https://github.com/facebookresearch/aepsych/pull/672
# about: where a person begins to hear a tone is found with few questions: a Gaussian process tells which tone to ask for next. It keeps the answers so far, and a method is to bring all to the GPU
# operation: div|true_divide on cpu, cuda:0
# operands: self|x1|x2|other|.*
# category: input-not-moved|state-not-registered
# line: gp.py: inputs.to(
# line: gp.py: for inputs in self.train_inputs:
# line: gp.py: self.train_inputs, self.train_targets = (inputs,), targets
# line: gp.py: (known,) = self.train_inputs
# line: strategy.py: self.model.set_train_data(
# repair: gp.py: inputs.to(device) -> self.train_inputs = tuple(inputs.to(device) for inputs in self.train_inputs)
import torch

from gp import GPClassifier
from strategy import Strategy

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
strategy = Strategy(GPClassifier(dim=2), low=[0.0, 0.0], high=[1.0, 2.0], device=device, seed=6)
for _ in range(6):
    asked = strategy.ask()
    strategy.answer(asked, heard=float(asked.sum() > 1.4))
print("answers", strategy.heard, "threshold at", [round(value, 3) for value in strategy.threshold().tolist()])
# --- gp.py
import torch
from torch import nn

class RBFKernel(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def forward(self, x1, x2):
        scale = self.log_scale.exp()
        apart = (x1 / scale)[:, None] - x2 / scale
        return apart.square().sum(-1).mul(-0.5).exp()

class GPClassifier(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.kernel = RBFKernel(dim)
        self.noise = nn.Parameter(torch.tensor(0.1))
        self.train_inputs, self.train_targets = (), None

    def set_train_data(self, inputs, targets):
        self.train_inputs, self.train_targets = (inputs,), targets

    def to(self, device):
        super().to(device)
        for inputs in self.train_inputs:
            inputs.to(device)
        if self.train_targets is not None:
            self.train_targets = self.train_targets.to(device)
        return self

    def predict(self, x):
        (known,) = self.train_inputs
        inside = self.kernel(known, known) + self.noise * torch.eye(len(known), device=known.device)
        across = self.kernel(x, known)
        mean = across @ torch.linalg.solve(inside, self.train_targets)
        return mean, (1 - (across @ torch.linalg.inv(inside) * across).sum(1)).clamp(min=0)
# --- strategy.py
import torch

class Strategy:
    def __init__(self, model, low, high, device, seed):
        self.model, self.device = model, device
        self.low, self.high = torch.tensor(low), torch.tensor(high)
        self.asked, self.heard = [], []
        self.draw = torch.Generator().manual_seed(seed)

    def candidates(self, count):
        spread = self.high - self.low
        return self.low + spread * torch.rand(count, len(self.low), generator=self.draw)

    @torch.no_grad()
    def ask(self):
        tried = self.candidates(8)
        if len(self.asked) < 2:
            return tried[0]
        mean, variance = self.fitted().predict(tried.to(self.device))
        gain = variance - (mean - 0.5).abs()
        return tried[gain.argmax().item()]

    def answer(self, point, heard):
        self.asked.append(point)
        self.heard.append(heard)

    def fitted(self):
        self.model.set_train_data(torch.stack(self.asked), torch.tensor(self.heard))
        return self.model.to(self.device)

    @torch.no_grad()
    def threshold(self, count=40):
        tried = self.candidates(count)
        mean, _ = self.fitted().predict(tried.to(self.device))
        return tried[(mean - 0.5).abs().argmin().item()]

# === sequences_packed_behind_each_other
# thread: https://github.com/modelscope/twinkle/pull/85
# about: short texts go into one row, and none may look at another. Attention that takes no lengths needs a mask of four dimensions for that
# operation: bitwise_and|__and__|and on cuda:0, cpu
# operands: other|.*
# category: created-without-device
# line: masks.py: causal = torch.ones(
# line: masks.py: allowed = same & causal
# repair: masks.py: causal = torch.ones(length, length, dtype=torch.bool).tril() -> causal = torch.ones(length, length, dtype=torch.bool, device=position_ids.device).tril()
import torch

from model import Decoder
from packing import collate
from texts import texts

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Decoder(vocabulary=16, width=8, heads=2).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
losses = []
for seed in range(3):
    batch = {name: value.to(device) for name, value in collate(texts(5, seed), row=14).items()}
    loss = model(**batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- texts.py
import random

def texts(count, seed):
    draw = random.Random(seed)
    return [[draw.randrange(1, 16) for _ in range(draw.randrange(3, 8))] for _ in range(count)]
# --- packing.py
import torch

def collate(texts, row):
    """As many texts to a row as fit; -100 where there is nothing to learn."""
    rows = [[]]
    for text in texts:
        if sum(map(len, rows[-1])) + len(text) > row:
            rows.append([])
        rows[-1].append(text)
    batch = {"input_ids": [], "position_ids": [], "labels": []}
    for packed in rows:
        tokens = [token for text in packed for token in text]
        rest = row - len(tokens)
        batch["input_ids"].append(tokens + [0] * rest)
        batch["position_ids"].append([index for text in packed for index in range(len(text))] + [0] * rest)
        batch["labels"].append([label for text in packed for label in [-100] + text[1:]] + [-100] * rest)
    return {name: torch.tensor(value) for name, value in batch.items()}
# --- masks.py
import torch

def packed_mask(position_ids, dtype):
    """A text begins where positions begin anew."""
    text = (position_ids == 0).cumsum(-1)
    length = position_ids.shape[-1]
    same = text[:, :, None] == text[:, None, :]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    allowed = same & causal
    mask = torch.zeros(allowed.shape, dtype=dtype, device=position_ids.device)
    return mask.masked_fill(~allowed, torch.finfo(dtype).min)[:, None]
# --- model.py
from torch import nn

from masks import packed_mask

class Decoder(nn.Module):
    def __init__(self, vocabulary, width, heads):
        super().__init__()
        self.embed, self.places = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads
        self.head = nn.Linear(width, vocabulary)

    def attend(self, x, mask):
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))

    def forward(self, input_ids, position_ids, labels):
        x = self.embed(input_ids) + self.places(position_ids)
        x = x + self.attend(x, packed_mask(position_ids, x.dtype))
        scores = self.head(x)[:, :-1].flatten(0, 1)
        return nn.functional.cross_entropy(scores, labels[:, 1:].flatten(), ignore_index=-100)

# === dna_on_the_other_gpu
# thread: https://github.com/ArcInstitute/evo2/issues/73
# about: a model of DNA is put on several GPUs when it is made, as many blocks on each, and it knows where each of its blocks is. Someone has but one GPU free, and brings all there
# operation: .*layer_norm on cuda:0, cuda:1
# operands: weight|mat1|mat2|input|.*
# category: module-split|cached-state|default-or-current-device
# line: striped.py: x = block(x.to(
# line: embed.py: model = evo.model.to(
# repair: striped.py: x = block(x.to(self.device_of[index])) -> x = block(x.to(block.norm.weight.device))
import torch

from embed import embed

count = torch.cuda.device_count()
device = f"cuda:{count - 1}" if count else "cpu"
found = {sequence: embed(sequence, device, seed=8) for sequence in ("ACGT", "GATTACA")}
print("embeddings", {sequence: [round(value, 4) for value in vector[:3]] for sequence, vector in found.items()})
# --- tokens.py
import torch

def tokenize(sequence):
    return torch.tensor([["ACGT".index(base) for base in sequence]])
# --- striped.py
import torch
from torch import nn

class GatedConvBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        gate, value = self.gate(self.norm(x)).chunk(2, dim=-1)
        shifted = nn.functional.pad(value, (0, 0, 1, 0))[:, :-1]
        return x + self.out(gate.sigmoid() * (value + shifted))

class StripedHyena(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.embedding = nn.Embedding(4, width)
        self.blocks = nn.ModuleList(GatedConvBlock(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.device_of = {}
        self.spread()

    def spread(self):
        count = torch.cuda.device_count()
        if not count:
            self.device_of = {index: torch.device("cpu") for index in range(len(self.blocks))}
            return
        each = -(-len(self.blocks) // count)
        for index, block in enumerate(self.blocks):
            self.device_of[index] = torch.device("cuda", index // each)
            block.to(self.device_of[index])
        self.embedding.to(self.device_of[0])
        self.norm.to(self.device_of[len(self.blocks) - 1])

    def forward(self, tokens):
        x = self.embedding(tokens)
        for index, block in enumerate(self.blocks):
            x = block(x.to(self.device_of[index]))
        return self.norm(x)
# --- evo.py
import torch

from striped import StripedHyena
from tokens import tokenize

class Evo:
    def __init__(self, seed, depth=4, width=8):
        torch.manual_seed(seed)
        self.model, self.tokenizer = StripedHyena(depth, width).eval(), tokenize
# --- embed.py
import torch

from evo import Evo

@torch.no_grad()
def embed(sequence, device, seed):
    evo = Evo(seed)
    input_ids = evo.tokenizer(sequence).to(device)
    model = evo.model.to(device)
    states = model(input_ids)
    return states[0].mean(0).tolist()

# === scales_of_experts
# thread: https://github.com/ModelCloud/GPTQModel/pull/2476
# about: before weights become whole numbers, columns are scaled by how large what goes into them is. Layers of a model are on several GPUs, and what goes into an expert is kept by the first of them
# operation: mul on cuda:1, cuda:0
# operands: other|scales|.*
# category: cached-state|input-not-moved|module-split
# line: awq.py: importance = self.stats.mean(name)
# line: awq.py: scales = self.best_scales(
# line: awq.py: lost = (
# line: awq.py: scales = importance.clamp(
# line: calibrate.py: total = rows.abs()
# line: calibrate.py: return self.seen[name] / self.count[name]
# repair: awq.py: importance = self.stats.mean(name) -> importance = self.stats.mean(name).to(layer.weight.device)
import torch

from awq import AWQ
from calibrate import Stats
from moe import MoEModel

torch.manual_seed(0)
count = torch.cuda.device_count()
devices = [torch.device("cuda", index) for index in range(count)] or [torch.device("cpu")]
model = MoEModel(depth=2, width=8, experts=2, devices=devices).eval()
texts = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(9))
with torch.no_grad():
    aims = model(texts).cpu()
    stats = Stats(devices[0]).collect(model, texts)
    AWQ(stats, bits=3, tries=4).quantize(model)
    error = (model(texts).cpu() - aims).square().mean().item()
print("layers", len(stats.seen), "error", round(1e4 * error, 3))
# --- moe.py
import torch
from torch import nn

class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.up(x)))

class MoELayer(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, x):
        shares = self.gate(x).softmax(-1)
        return x + sum(shares[..., index, None] * expert(x) for index, expert in enumerate(self.experts))

class MoEModel(nn.Module):
    def __init__(self, depth, width, experts, devices):
        super().__init__()
        self.devices = [devices[index * len(devices) // depth] for index in range(depth)]
        self.layers = nn.ModuleList(MoELayer(width, experts).to(device) for device in self.devices)

    def forward(self, x):
        for layer, device in zip(self.layers, self.devices):
            x = layer(x.to(device))
        return x
# --- calibrate.py
class Stats:
    """How large what goes into each expert's layers is, by column."""

    def __init__(self, device):
        self.device, self.seen, self.count = device, {}, {}

    def keep(self, name):
        def hook(module, args):
            rows = args[0].detach().flatten(0, -2)
            total = rows.abs().sum(0).to(self.device)
            self.seen[name] = total + self.seen.get(name, 0)
            self.count[name] = len(rows) + self.count.get(name, 0)
        return hook

    def collect(self, model, texts):
        wanted = [(name, layer) for name, layer in model.named_modules() if ".experts." in name and hasattr(layer, "weight")]
        handles = [layer.register_forward_pre_hook(self.keep(name)) for name, layer in wanted]
        for text in texts:
            model(text[None])
        for handle in handles:
            handle.remove()
        return self

    def mean(self, name):
        return self.seen[name] / self.count[name]
# --- awq.py
class AWQ:
    def __init__(self, stats, bits, tries):
        self.stats, self.bits, self.tries = stats, bits, tries

    def rounded(self, weight):
        most = 2 ** (self.bits - 1) - 1
        step = weight.abs().amax(1, keepdim=True) / most
        return (weight / step).round().clamp(-most - 1, most) * step

    def quantize(self, model):
        for name in self.stats.seen:
            layer = model.get_submodule(name)
            importance = self.stats.mean(name)
            scales = self.best_scales(layer, importance)
            weight = layer.weight * scales
            layer.weight.copy_(self.rounded(weight) / scales)

    def best_scales(self, layer, importance):
        found = []
        for index in range(self.tries):
            scales = importance.clamp(min=1e-4).pow(index / self.tries)
            scales = scales / (scales.max() * scales.min()).sqrt()
            lost = (self.rounded(layer.weight * scales) / scales - layer.weight) * importance
            found.append((lost.square().sum().item(), index, scales))
        return min(found, key=lambda each: each[:2])[2]

# === cells_of_several_donors
# thread: https://github.com/scverse/scvi-tools/pull/3749
# about: what a cell does is split into what it is and which donor it comes from. How many cells came from a donor is counted before, and weighs what is learned of the donor
# operation: index on cpu, cuda:0
# error: indices should be either on|on the same device
# operands: .*n_obs_per_sample|self|indices|.*
# category: state-not-registered
# line: mrvae.py: self.n_obs_per_sample =
# line: mrvae.py: counts = self.n_obs_per_sample[
# repair: mrvae.py: self.n_obs_per_sample = n_obs_per_sample -> self.register_buffer("n_obs_per_sample", n_obs_per_sample)
# repair: mrvae.py: self.pz_scale = torch.full((latent,), scale) -> self.register_buffer("pz_scale", torch.full((latent,), scale))
import torch

from cells import CellLoader, counted, make_cells
from mrvae import MRVAE
from plan import TrainingPlan

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
cells, donors = make_cells(count=30, genes=6, donors=3, seed=4)
module = MRVAE(genes=6, latent=3, n_obs_per_sample=counted(donors, 3))
plan = TrainingPlan(module, device)
losses = [plan.epoch(CellLoader(cells, donors, size=10)) for _ in range(3)]
print("elbo", [round(loss, 4) for loss in losses])
# --- cells.py
import torch

def make_cells(count, genes, donors, seed):
    draw = torch.Generator().manual_seed(seed)
    which = torch.randint(0, donors, (count,), generator=draw)
    rates = torch.rand(donors, genes, generator=draw) * 5
    return torch.poisson(rates[which], generator=draw), which

def counted(donors, count):
    return torch.bincount(donors, minlength=count).float()

class CellLoader:
    def __init__(self, cells, donors, size):
        self.cells, self.donors, self.size = cells, donors, size

    def __iter__(self):
        for start in range(0, len(self.cells), self.size):
            part = slice(start, start + self.size)
            yield {"x": self.cells[part], "sample": self.donors[part]}
# --- mrvae.py
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

class MRVAE(nn.Module):
    def __init__(self, genes, latent, n_obs_per_sample, scale=1.0):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(genes, 8), nn.GELU(), nn.Linear(8, 2 * latent))
        self.donors = nn.Embedding(len(n_obs_per_sample), latent)
        self.decoder = nn.Linear(latent, genes)
        self.pz_scale = torch.full((latent,), scale)
        self.n_obs_per_sample = n_obs_per_sample

    def inference(self, x):
        mean, spread = self.encoder(x.log1p()).chunk(2, dim=-1)
        return Normal(mean, nn.functional.softplus(spread) + 1e-3)

    def forward(self, x, sample):
        u = self.inference(x)
        z = u.mean + self.donors(sample)
        rates = nn.functional.softplus(self.decoder(z)) + 1e-4
        return u, z, rates

    def loss(self, x, sample):
        u, z, rates = self(x, sample)
        counts = self.n_obs_per_sample[sample]
        fit = (rates - x * rates.log()).sum(-1)
        prior = Normal(torch.zeros_like(self.pz_scale), self.pz_scale)
        apart = kl_divergence(u, prior).sum(-1)
        donor = (z - u.mean).square().sum(-1) / counts
        return (fit + apart + donor).mean()
# --- plan.py
import torch

class TrainingPlan:
    def __init__(self, module, device):
        self.module, self.device = module.to(device), device
        self.optimizer = torch.optim.Adam(module.parameters(), lr=0.05)

    def epoch(self, loader):
        total, count = 0.0, 0
        for batch in loader:
            loss = self.module.loss(**{name: value.to(self.device) for name, value in batch.items()})
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total, count = total + loss.item(), count + 1
        return total / count
