# === utility_of_a_coalition
# thread: https://github.com/opendataval/opendataval/pull/37
# about: rows of a data set are worth what a model loses without them. A model trains and predicts on a GPU, whatever it is given, and a metric compares what it says with labels of a fetcher
# operation: eq on cuda:0, cpu
# operands: .*argmax.*|b|.*y_valid.*
# category: input-not-moved|input
# line: metrics.py: return (a.argmax(dim=1) == b.argmax(dim=1)).float().mean().item()
# line: model.py: return self.module(
# line: evaluator.py: return self.metric(
# line: evaluator.py: y_hat = model.predict(
# line: evaluator.py: self.x_valid, self.y_valid =
# line: fetcher.py: return x[rows], one_hot[rows]
# line: main.py: valid = fetcher.split(
# repair: metrics.py: return (a.argmax(dim=1) == b.argmax(dim=1)).float().mean().item() -> return (a.argmax(dim=1) == b.to(a.device).argmax(dim=1)).float().mean().item()
import torch

from evaluator import LeaveOneOut
from fetcher import Fetcher
from metrics import accuracy
from model import TorchClassifier

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
fetcher = Fetcher(count=24, columns=3, classes=2, seed=11)
train = fetcher.split(0, 12)
valid = fetcher.split(12, 24)
model = TorchClassifier(columns=3, classes=2, device=device)
evaluator = LeaveOneOut(model, accuracy, epochs=8).input_data(train, valid)
values = evaluator.train_data_values(groups=4)
print("values", [round(value, 4) for value in values])
# --- fetcher.py
import torch
from torch.nn.functional import one_hot as to_one_hot

class Fetcher:
    """Two clouds of points, and which of them each is from."""

    def __init__(self, count, columns, classes, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(classes, (count,), generator=generator)
        self.rows = torch.randn(count, columns, generator=generator) + self.labels[:, None]
        self.classes = classes

    def split(self, start, stop):
        x, one_hot = self.rows, to_one_hot(self.labels, self.classes).float()
        rows = slice(start, stop)
        return x[rows], one_hot[rows]
# --- metrics.py
import torch

def accuracy(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a.argmax(dim=1) == b.argmax(dim=1)).float().mean().item()

def neg_mse(a, b):
    return -(a - b).square().mean().item()
# --- model.py
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class TorchClassifier:
    def __init__(self, columns, classes, device):
        self.shape, self.device = (columns, classes), device
        self.reset()

    def reset(self):
        torch.manual_seed(0)
        self.module = nn.Sequential(nn.Linear(self.shape[0], 8), nn.ReLU(), nn.Linear(8, self.shape[1])).to(self.device)
        return self

    def fit(self, x_train, y_train, epochs, batch_size=4):
        optimizer = torch.optim.Adam(self.module.parameters(), lr=0.05)
        for _ in range(epochs):
            for x_batch, y_batch in DataLoader(TensorDataset(x_train, y_train), batch_size=batch_size):
                x_batch, y_batch = x_batch.to(self.device), y_batch.to(self.device)
                optimizer.zero_grad()
                nn.functional.cross_entropy(self.module(x_batch), y_batch).backward()
                optimizer.step()
        return self

    @torch.no_grad()
    def predict(self, x):
        return self.module(x.to(self.device)).softmax(dim=-1)
# --- evaluator.py
import torch

class LeaveOneOut:
    def __init__(self, model, metric, epochs):
        self.model, self.metric, self.epochs = model, metric, epochs

    def input_data(self, train, valid):
        self.x_train, self.y_train = train
        self.x_valid, self.y_valid = valid
        return self

    def utility(self, rows):
        model = self.model.reset().fit(self.x_train[rows], self.y_train[rows], self.epochs)
        y_hat = model.predict(self.x_valid)
        return self.metric(y_hat, self.y_valid)

    def train_data_values(self, groups):
        everything = torch.arange(len(self.x_train))
        whole = self.utility(everything)
        values = []
        for group in everything.chunk(groups):
            kept = everything[~torch.isin(everything, group)]
            values.append(whole - self.utility(kept))
        return values

# === heads_are_evaluated
# thread: https://github.com/center-for-humans-and-machines/transformer-heads/issues/22
# about: small heads read layers of a language model that is frozen. Accelerate moves batches while heads train; a function that measures them makes a loader of its own
# operation: embedding|index_select on cuda:0, cpu
# operands: .*input_ids.*|input
# category: input-not-moved|input
# line: evaluate.py: outputs = model(
# line: evaluate.py: for batch in
# line: evaluate.py: loader = DataLoader(
# line: evaluate.py: sums[name] += head_loss(
# line: main.py: losses = evaluate_heads(
# repair: evaluate.py: outputs = model(batch["input_ids"]) -> batch = {name: each.to(model.device) for name, each in batch.items()}; outputs = model(batch["input_ids"])
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from data import Texts
from evaluate import evaluate_heads
from heads import HeadedModel, head_loss

torch.manual_seed(0)
accelerator = Accelerator()
model = HeadedModel(vocabulary=16, layers={"next": 2, "previous": 1})
optimizer = torch.optim.AdamW(model.heads.parameters(), lr=0.02)
loader = DataLoader(Texts(count=8, length=6, vocabulary=16, seed=1), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for batch in loader:
        outputs = model(batch["input_ids"])
        loss = sum(head_loss(outputs[name], batch[name]) for name in outputs)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
losses = evaluate_heads(accelerator.unwrap_model(model), Texts(count=6, length=6, vocabulary=16, seed=2), batch_size=3)
print("losses", {name: round(value, 3) for name, value in losses.items()})
# --- data.py
import random

import torch
from torch.utils.data import Dataset

class Texts(Dataset):
    """Tokens, and what stands after and before each."""

    def __init__(self, count, length, vocabulary, seed):
        drawn = random.Random(seed)
        self.rows = [[drawn.randrange(vocabulary) for _ in range(length)] for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        row = self.rows[at]
        columns = {"input_ids": row, "next": row[1:] + [-100], "previous": [-100] + row[:-1]}
        return {name: torch.tensor(column) for name, column in columns.items()}
# --- heads.py
import torch
from torch import nn
from transformers import GPT2Config, GPT2Model

class HeadedModel(nn.Module):
    def __init__(self, vocabulary, layers):
        super().__init__()
        config = GPT2Config(vocab_size=vocabulary, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
        self.body = GPT2Model(config).eval().requires_grad_(False)
        self.heads = nn.ModuleDict({name: nn.Linear(8, vocabulary) for name in layers})
        self.layers = layers

    @property
    def device(self):
        return self.body.device

    def forward(self, input_ids):
        hidden = self.body(input_ids, output_hidden_states=True).hidden_states
        return {name: head(hidden[self.layers[name]]) for name, head in self.heads.items()}

def head_loss(logits, labels):
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
# --- evaluate.py
from collections import defaultdict

import torch
from torch.utils.data import DataLoader

from heads import head_loss

@torch.no_grad()
def evaluate_heads(model, dataset, batch_size):
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=False)
    sums, steps = defaultdict(float), 0
    for batch in loader:
        outputs = model(batch["input_ids"])
        for name, logits in outputs.items():
            sums[name] += head_loss(logits, batch[name]).item()
        steps += 1
    return {name: value / steps for name, value in sums.items()}

# === upscaled_a_second_time
# thread: https://github.com/numz/ComfyUI-SeedVR2_VideoUpscaler/issues/297
# about: blocks of a model wait in RAM and are fetched one by one; what is before and after them stays on the GPU. A node keeps the model for the next run, and parks it until then
# operation: addmm|linear|mm on cpu, cuda:0
# operands: .*weight|.*bias
# category: module-split|cached-state
# line: blockswap.py: return model
# line: blockswap.py: if hasattr(model, "swapped"):
# line: blockswap.py: if not getattr(model, "swapped", 0):
# line: node.py: runner.model.to(self.offload_device)
# line: node.py: model = move_for_inference(
# line: node.py: apply_block_swap(model, self
# line: node.py: self.kept = runner.model
# repair: blockswap.py: return model -> place(model, device, model.offload_device); return model
import torch

from node import Upscaler

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
upscaler = Upscaler(width=6, blocks=3, blocks_to_swap=2, device=device, keep_model=True)
for run, seed in enumerate((5, 6)):
    frames = torch.rand(2, 6, generator=torch.Generator().manual_seed(seed))
    larger = upscaler.execute(frames)
    print("run", run, [round(value, 4) for value in larger.mean(0).tolist()])
# --- dit.py
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.tanh(self.mlp(self.norm(x)))

class DiT(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.vid_in = nn.Linear(width, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.vid_out = nn.Linear(width, 2 * width)

    def forward(self, x):
        x = self.vid_in(x)
        for block in self.blocks:
            x = block(x)
        return self.vid_out(x)
# --- blockswap.py
import types

def _swapping_forward(forward, device, offload_device):
    def call(self, *args):
        self.to(device)
        try:
            return forward(*args)
        finally:
            self.to(offload_device)

    return call

def place(model, device, offload_device):
    """What is no block to the GPU; of blocks those that do not swap."""
    for name, child in model.named_children():
        if name != "blocks":
            child.to(device)
    for index, block in enumerate(model.blocks):
        block.to(offload_device if index < model.swapped else device)

def apply_block_swap(model, count, device, offload_device):
    if hasattr(model, "swapped"):
        return
    model.swapped, model.offload_device = count, offload_device
    for block in model.blocks[:count]:
        block.forward = types.MethodType(_swapping_forward(block.forward, device, offload_device), block)
    place(model, device, offload_device)

def move_for_inference(model, device):
    """Blocks that swap are where they should be: to move the whole model would undo it."""
    if not getattr(model, "swapped", 0):
        return model.to(device)
    return model
# --- node.py
import types

import torch

from blockswap import apply_block_swap, move_for_inference
from dit import DiT

class Upscaler:
    def __init__(self, width, blocks, blocks_to_swap, device, keep_model, offload_device="cpu"):
        self.width, self.blocks, self.blocks_to_swap = width, blocks, blocks_to_swap
        self.device, self.offload_device, self.keep_model, self.kept = device, torch.device(offload_device), keep_model, None

    def prepare(self):
        model = self.kept or DiT(self.width, self.blocks).eval()
        apply_block_swap(model, self.blocks_to_swap, self.device, self.offload_device)
        return types.SimpleNamespace(model=model)

    @torch.no_grad()
    def execute(self, frames):
        runner = self.prepare()
        model = move_for_inference(runner.model, self.device)
        result = model(frames.to(self.device)).cpu()
        self.cleanup(runner)
        return result

    def cleanup(self, runner):
        if self.keep_model:
            runner.model.to(self.offload_device)
            self.kept = runner.model

# === sound_of_a_sentence
# thread: https://github.com/lum3on/ComfyUI-StableAudioX/issues/1
# about: conditioners turn a sentence and a length of time into what a model of sound listens to. The encoder of text is kept out of what is saved
# operation: embedding|index_select on cpu, cuda:0
# operands: .*weight|.*encoder.*
# category: state-not-registered|module-split
# line: conditioners.py: self.__dict__["encoder"] =
# line: conditioners.py: hidden = self.encoder(
# line: conditioners.py: tokens, mask = self.tokenize(
# line: loader.py: model.to(device)
# line: nodes.py: conditioning = model.conditioner(
# repair: conditioners.py: hidden = self.encoder(tokens) -> hidden = self.encoder.to(device)(tokens)
import torch

from loader import load_model
from nodes import text_to_audio

device = "cuda" if torch.cuda.is_available() else "cpu"
model = load_model({"width": 6, "channels": 2, "words": 32}, device)
audio = text_to_audio(model, "rain on a tin roof", seconds=2.0, steps=3, seed=12)
print("audio", [round(value, 4) for value in audio.abs().mean(-1).tolist()])
# --- loader.py
import torch

from conditioners import MultiConditioner, NumberConditioner, TextConditioner
from diffusion import AudioDiffusion

def load_model(config, device):
    torch.manual_seed(0)
    conditioner = MultiConditioner(
        {"prompt": TextConditioner(config["words"], config["width"]), "seconds": NumberConditioner(config["width"])}
    )
    model = AudioDiffusion(conditioner, config["width"], config["channels"])
    model.to(device)
    return model.eval().requires_grad_(False)
# --- conditioners.py
import zlib

import torch
from torch import nn

class TextConditioner(nn.Module):
    """An encoder that is not trained, and a projection that is."""

    def __init__(self, words, width):
        super().__init__()
        self.words = words
        self.__dict__["encoder"] = nn.Sequential(nn.Embedding(words, width), nn.Linear(width, width), nn.GELU()).eval()
        self.project = nn.Linear(width, width)

    def tokenize(self, texts, device):
        rows = [[zlib.crc32(word.encode()) % self.words for word in text.split()] for text in texts]
        longest = max(map(len, rows))
        tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1.0] * len(row) + [0.0] * (longest - len(row)) for row in rows])
        return tokens.to(device), mask.to(device)

    def forward(self, texts, device):
        tokens, mask = self.tokenize(texts, device)
        with torch.no_grad():
            hidden = self.encoder(tokens)
        return self.project(hidden) * mask[..., None]

class NumberConditioner(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("frequencies", torch.linspace(0.1, 2, width))

    def forward(self, numbers, device):
        values = torch.tensor(numbers, device=device)
        return torch.sin(values[:, None, None] * self.frequencies)

class MultiConditioner(nn.Module):
    def __init__(self, conditioners):
        super().__init__()
        self.conditioners = nn.ModuleDict(conditioners)

    def forward(self, metadata, device):
        return {name: module([each[name] for each in metadata], device) for name, module in self.conditioners.items()}
# --- diffusion.py
import torch
from torch import nn

class AudioDiffusion(nn.Module):
    def __init__(self, conditioner, width, channels):
        super().__init__()
        self.conditioner = conditioner
        self.mix, self.listen = nn.Conv1d(channels, channels, 3, padding=1), nn.Linear(width, channels)

    def forward(self, noisy, level, conditioning):
        heard = torch.cat([conditioning["prompt"], conditioning["seconds"]], 1).mean(1)
        return torch.tanh(self.mix(noisy) + self.listen(heard)[..., None]) * level
# --- nodes.py
import torch

@torch.no_grad()
def text_to_audio(model, prompt, seconds, steps, seed, rate=8):
    device = next(model.parameters()).device
    conditioning = model.conditioner([{"prompt": prompt, "seconds": seconds}], device)
    noise = torch.randn(1, 2, int(rate * seconds), generator=torch.Generator().manual_seed(seed)).to(device)
    for step in range(steps):
        noise = noise - model(noise, 1 - step / steps, conditioning) / steps
    return noise[0].cpu()

# === a_detector_for_machines_without_a_gpu
# thread: https://github.com/rhubarb-ai/sam3-cpu/pull/2
# about: the same detector is to run where one asks for it, on the CPU, too, of a machine with a GPU. Positions for the sizes of features that are usual are made when it is built
# operation: add on cpu, cuda:0
# operands: .*positions.*|.*cache.*
# category: default-or-current-device|cached-state|created-without-device
# line: position.py: device = "cuda" if torch.cuda
# line: position.py: mask = torch.zeros(
# line: position.py: self.width, self.cache = width
# line: position.py: return self.cache[size]
# line: position.py: self.cache[size] = self.encode(
# line: backbone.py: positions = [
# line: backbone.py: return features, positions
# line: detector.py: tokens = features[-1] + positions[-1]
# line: builder.py: position = SinePosition(
# repair: position.py: return self.cache[size] -> return self.cache[size].to(x.device)
import argparse

import torch

from builder import build_detector

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--resolution", type=int, default=16)
args = parser.parse_args(["--device", "cpu"])
detector = build_detector(args.device, args.resolution)
image = torch.rand(1, 3, args.resolution, args.resolution, generator=torch.Generator().manual_seed(2))
boxes, scores = detector.predict(image)
print("boxes", [[round(value, 3) for value in box] for box in boxes.tolist()], "best", int(scores.argmax()))
# --- builder.py
import torch

from backbone import Backbone
from detector import Detector
from position import SinePosition

def build_detector(device, resolution, width=8):
    torch.manual_seed(0)
    position = SinePosition(width, sizes=[resolution // stride for stride in (4, 8)])
    model = Detector(Backbone(width, position), width, queries=2)
    return model.to(device).eval()
# --- position.py
import torch
from torch import nn

class SinePosition(nn.Module):
    """Sines and cosines of rows and columns; those of usual sizes are at hand."""

    def __init__(self, width, sizes=()):
        super().__init__()
        self.width, self.cache = width, {}
        for side in sizes:
            device = "cuda" if torch.cuda.is_available() else "cpu"
            mask = torch.zeros(side, side, device=device)
            size = (side, side)
            self.cache[size] = self.encode(mask)

    def encode(self, mask):
        rows, columns = (mask + 1).cumsum(0), (mask + 1).cumsum(1)
        scales = 10 ** torch.linspace(0, 2, self.width // 4, device=mask.device)
        angles = [rows[..., None] / scales, columns[..., None] / scales]
        parts = [function(angle) for angle in angles for function in (torch.sin, torch.cos)]
        return torch.cat(parts, -1).permute(2, 0, 1)[None]

    def forward(self, x):
        size = tuple(x.shape[-2:])
        if size in self.cache:
            return self.cache[size]
        self.cache[size] = self.encode(torch.zeros(size, device=x.device))
        return self.cache[size].clone()
# --- backbone.py
from torch import nn

class Backbone(nn.Module):
    def __init__(self, width, position):
        super().__init__()
        self.stem, self.deeper = nn.Conv2d(3, width, 4, stride=4), nn.Conv2d(width, width, 2, stride=2)
        self.position = position

    def forward(self, images):
        features = [self.stem(images)]
        features.append(self.deeper(features[-1].relu()))
        positions = [self.position(each) for each in features]
        return features, positions
# --- detector.py
import torch
from torch import nn

class Detector(nn.Module):
    def __init__(self, backbone, width, queries):
        super().__init__()
        self.backbone = backbone
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.box, self.score = nn.Linear(width, 4), nn.Linear(width, 1)

    def forward(self, images):
        features, positions = self.backbone(images)
        tokens = features[-1] + positions[-1]
        tokens = tokens.flatten(2).transpose(1, 2)
        found, _ = self.attention(self.queries[None].expand(len(images), -1, -1), tokens, tokens)
        return self.box(found).sigmoid(), self.score(found)[..., 0]

    @torch.inference_mode()
    def predict(self, image):
        boxes, scores = self(image.to(self.queries.device))
        return boxes[0].cpu(), scores[0].cpu()

# === relevance_over_layers
# thread: https://github.com/zhangbaijin/From-Redundancy-to-Relevance/issues/7
# about: which tokens a language model looks at is told by maps of its layers, each of which a hook keeps. Halves of the layers are on two GPUs
# operation: bmm|matmul|mm on cuda:1, cuda:0
# operands: .*relevance.*|.*cam.*
# category: module-split
# line: relevance.py: relevance = relevance + cam @ relevance
# line: relevance.py: cam = average(
# line: relevance.py: for kept in recorder.maps:
# line: relevance.py: relevance = torch.eye(
# line: recorder.py: self.maps.append(
# line: recorder.py: weights = output[1]
# line: main.py: model = dispatch_model(
# line: main.py: device_map = split(
# line: loading.py: return {
# repair: relevance.py: cam = average(kept) -> cam = average(kept).to(relevance.device)
import torch
from accelerate import dispatch_model

from loading import small_llama, split
from recorder import AttentionRecorder
from relevance import rollout

model = small_llama(vocabulary=24, layers=4, seed=0)
if torch.cuda.device_count() > 1:
    device_map = split(model, devices=[0, 1])
    model = dispatch_model(model, device_map)
prompt = torch.tensor([[3, 17, 5, 9, 21, 2]])
with AttentionRecorder(model) as recorder, torch.no_grad():
    logits = model(input_ids=prompt.to(model.device)).logits
relevance = rollout(recorder)
print("next", int(logits[0, -1].argmax()), "relevance", [round(value, 4) for value in relevance[0, -1].tolist()])
# --- loading.py
import torch
from transformers import LlamaConfig, LlamaForCausalLM

def small_llama(vocabulary, layers, seed):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=24, num_hidden_layers=layers, num_attention_heads=2, num_key_value_heads=2,
        max_position_embeddings=32, attn_implementation="eager", bos_token_id=0, eos_token_id=1,
    )
    return LlamaForCausalLM(config).eval()

def split(model, devices):
    """As many layers to each device; what begins and what ends with the first and the last of them."""
    count = model.config.num_hidden_layers
    per_device = -(-count // len(devices))
    return {
        "model.embed_tokens": devices[0], "model.rotary_emb": devices[0], "model.norm": devices[-1], "lm_head": devices[-1],
        **{f"model.layers.{index}": devices[index // per_device] for index in range(count)},
    }
# --- recorder.py
class AttentionRecorder:
    """Keeps what each layer's heads look at, while it is entered."""

    def __init__(self, model):
        self.attentions, self.maps, self.handles = [layer.self_attn for layer in model.model.layers], [], []

    def __enter__(self):
        self.handles = [attention.register_forward_hook(self.keep) for attention in self.attentions]
        return self

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()

    def keep(self, module, inputs, output):
        weights = output[1]
        self.maps.append(weights.detach())
# --- relevance.py
import torch

def average(heads):
    return heads.clamp(min=0).mean(1)

def rollout(recorder):
    first = recorder.maps[0]
    relevance = torch.eye(first.shape[-1], device=first.device).expand(len(first), -1, -1)
    for kept in recorder.maps:
        cam = average(kept)
        relevance = relevance + cam @ relevance
    return relevance / relevance.sum(-1, keepdim=True)

# === picture_into_a_chat_of_two_gpus
# thread: https://github.com/EvolvingLMMs-Lab/lmms-eval/issues/735
# about: a harness asks a model of pictures and texts. Accelerate runs its parts where a map says; the model itself puts what it sees in the place of tokens of the text
# operation: add on cuda:0, cuda:1
# operands: .*vit_embeds.*
# category: module-split
# line: internvl.py: flat[selected] = flat[selected] * 0.0 + vit_embeds.reshape(
# line: internvl.py: vit_embeds = self.extract_feature(
# line: internvl.py: return self.mlp1(
# line: internvl.py: input_embeds = self.language_model.get_input_embeddings()(
# line: harness.py: device_map = split_model(
# line: harness.py: device_map[f"language_model.{name}"]
# line: harness.py: device_map["vision_model"] = device_map["mlp1"] =
# line: harness.py: model = dispatch_model(
# repair: internvl.py: flat[selected] = flat[selected] * 0.0 + vit_embeds.reshape(-1, width) -> flat[selected] = flat[selected] * 0.0 + vit_embeds.reshape(-1, width).to(flat.device)
import torch

from harness import InternVLHarness
from tasks import requests

lm = InternVLHarness(layers=4, device_map="auto")
answers = lm.generate_until(requests(count=2, seed=9), max_new_tokens=3)
for number, answer in enumerate(answers):
    print("request", number, "tokens", answer)
print("answers", answers)
# --- tasks.py
import torch

IMAGE = 30

def requests(count, seed):
    """Pictures, and questions with a place for four tokens of each."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        question = torch.randint(2, 30, (5,), generator=generator).tolist()
        yield torch.rand(1, 3, 4, 4, generator=generator), [1, *[IMAGE] * 4, *question]
# --- internvl.py
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

class PatchEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patches, self.block = nn.Conv2d(3, width, 2, stride=2), nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, pixel_values):
        return self.block(self.patches(pixel_values).flatten(2).transpose(1, 2))

class InternVLChat(nn.Module):
    def __init__(self, layers, image_token, width=16):
        super().__init__()
        config = LlamaConfig(
            vocab_size=32, hidden_size=width, intermediate_size=24, num_hidden_layers=layers, num_attention_heads=2, num_key_value_heads=2,
            max_position_embeddings=64, bos_token_id=0, eos_token_id=31, pad_token_id=31, tie_word_embeddings=False,
        )
        self.vision_model, self.mlp1 = PatchEncoder(8), nn.Sequential(nn.LayerNorm(8), nn.Linear(8, width))
        self.language_model = LlamaForCausalLM(config)
        self.image_token = image_token

    def extract_feature(self, pixel_values):
        hidden = self.vision_model(pixel_values)
        return self.mlp1(hidden)

    @torch.no_grad()
    def generate(self, pixel_values, input_ids, **options):
        vit_embeds = self.extract_feature(pixel_values)
        input_embeds = self.language_model.get_input_embeddings()(input_ids)
        rows, length, width = input_embeds.shape
        flat = input_embeds.reshape(-1, width)
        selected = input_ids.reshape(-1) == self.image_token
        flat[selected] = flat[selected] * 0.0 + vit_embeds.reshape(-1, width)
        mask = torch.ones(rows, length, dtype=torch.long, device=input_ids.device)
        return self.language_model.generate(inputs_embeds=flat.reshape(rows, length, width), attention_mask=mask, **options)
# --- harness.py
import torch
from accelerate import dispatch_model

from internvl import InternVLChat
from tasks import IMAGE

def split_model(layers, devices):
    """The first device has half of what others have: words come in and go out there."""
    device_map, shares = {}, [1, *[2] * (len(devices) - 1)]
    for index in range(layers):
        at = next(at for at in range(len(devices)) if index < layers * sum(shares[: at + 1]) / sum(shares))
        device_map[f"language_model.model.layers.{index}"] = devices[at]
    for name in ("model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head"):
        device_map[f"language_model.{name}"] = devices[0]
    device_map["vision_model"] = device_map["mlp1"] = devices[-1]
    return device_map

class InternVLHarness:
    def __init__(self, layers, device_map=None):
        torch.manual_seed(0)
        model = InternVLChat(layers, IMAGE).eval()
        count = torch.cuda.device_count()
        if device_map == "auto" and count > 1:
            device_map = split_model(layers, list(range(count)))
            model = dispatch_model(model, device_map)
        self.model = model

    @property
    def device(self):
        return self.model.language_model.device

    def generate_until(self, requests, max_new_tokens):
        answers = []
        for pixel_values, tokens in requests:
            input_ids = torch.tensor([tokens], device=self.device)
            generated = self.model.generate(pixel_values.to(self.device), input_ids, max_new_tokens=max_new_tokens, do_sample=False)
            answers.append(generated[0].tolist())
        return answers

# === guided_to_what_is_healthy
# thread: https://github.com/Project-MONAI/tutorials/issues/2030
# about: an image is noised by what a network says of it, and led back by a classifier. Every image has a step of its own; tables of noise are a scheduler's
# operation: index on cpu, cuda:0
# operands: .*alphas_cumprod.*|.*timesteps.*
# error: indices should be either on
# category: cached-state|input-not-moved|state-not-registered
# line: steps.py: alphas = scheduler.alphas_cumprod[timesteps]
# line: steps.py: after = scheduler.alphas_cumprod[
# line: steps.py: alphas, after = alphas[:
# line: anomaly.py: stride = scheduler.config
# line: main.py: scheduler = DDIMScheduler(
# line: main.py: scheduler.set_timesteps(
# repair: steps.py: alphas = scheduler.alphas_cumprod[timesteps] -> alphas = scheduler.alphas_cumprod.to(timesteps.device)[timesteps]
# repair: steps.py: after = scheduler.alphas_cumprod[(timesteps + stride).clamp(0, last)] -> after = scheduler.alphas_cumprod.to(timesteps.device)[(timesteps + stride).clamp(0, last)]
import torch
from diffusers import DDIMScheduler, UNet2DModel

from anomaly import anomaly_map
from classifier import Classifier

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8, in_channels=1, out_channels=1, block_out_channels=(8,), layers_per_block=1, norm_num_groups=4,
    down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",), add_attention=False,
).to(device).eval()  # fmt: skip
classifier = Classifier(classes=2).to(device).eval()
scheduler = DDIMScheduler(num_train_timesteps=100)
scheduler.set_timesteps(num_inference_steps=10)
images = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(3)).to(device)
difference = anomaly_map(model, classifier, scheduler, images, depth=2, scale=3.0)
print("difference", [round(value, 4) for value in difference.mean((1, 2, 3)).tolist()])
# --- classifier.py
from torch import nn

class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.SiLU(), nn.Flatten(), nn.Linear(36, classes))

    def forward(self, images, timesteps):
        return self.layers(images) * (1 + 0.01 * timesteps[:, None])
# --- steps.py
import torch

def moved(scheduler, noise, timesteps, sample, stride):
    """A DDIM step of any direction: `stride` is how many training steps further, or back, it leads."""
    last = scheduler.config.num_train_timesteps - 1
    alphas = scheduler.alphas_cumprod[timesteps]
    after = scheduler.alphas_cumprod[(timesteps + stride).clamp(0, last)]
    alphas, after = alphas[:, None, None, None], after[:, None, None, None]
    clean = (sample - (1 - alphas).sqrt() * noise) / alphas.sqrt()
    return after.sqrt() * clean.clamp(-1, 1) + (1 - after).sqrt() * noise
# --- anomaly.py
import torch

from steps import moved

def guidance(classifier, latents, timesteps, healthy):
    with torch.enable_grad():
        latents = latents.detach().requires_grad_()
        scores = classifier(latents, timesteps).log_softmax(-1)[:, healthy]
        (gradient,) = torch.autograd.grad(scores.sum(), latents)
    return gradient

@torch.no_grad()
def anomaly_map(model, classifier, scheduler, images, depth, scale, healthy=0):
    stride = scheduler.config.num_train_timesteps // scheduler.num_inference_steps
    image, visited = images, []
    for t in scheduler.timesteps.flip(0)[:depth]:
        timesteps = torch.full((len(images),), int(t), device=images.device)
        noise = model(image, timesteps).sample
        image = moved(scheduler, noise, timesteps, image, stride)
        visited.append(timesteps + stride)
    latents = image
    for timesteps in reversed(visited):
        noise = model(latents, timesteps).sample
        noise = noise - scale * guidance(classifier, latents, timesteps, healthy)
        latents = moved(scheduler, noise, timesteps, latents, -stride)
    return (images - latents).abs().cpu()

# === experience_is_replayed
# thread: https://github.com/xin-pu/RLSharp/issues/14
# about: an agent keeps what it saw in RAM, draws some of it and learns from that. Its networks are on a GPU; when it acts, it takes what it sees there
# operation: addmm|linear|mm on cpu, cuda:0
# operands: .*states.*|input
# category: input-not-moved|input
# line: replay.py: return Batch(*
# line: replay.py: def sample(
# line: dqn.py: batch = self.memory.sample(
# line: dqn.py: values = self.online(batch.states)
# line: replay.py: self.rows.append(
# line: dqn.py: self.memory = UniformReplay(
# repair: dqn.py: batch = self.memory.sample(self.batch_size) -> batch = self.memory.sample(self.batch_size); batch = batch._make(each.to(self.device) for each in batch)
import torch

from dqn import DQNAgent
from environment import Corridor
from train import play

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
agent = DQNAgent(observations=3, actions=2, device=device, capacity=64, batch_size=8, seed=4)
returns = play(agent, Corridor(length=5), episodes=6)
values = agent.values(Corridor(length=5).reset())
print("returns", returns, "values", [round(value, 4) for value in values.tolist()])
# --- environment.py
import torch

class Corridor:
    """One goes to the right, or to the left; at the right end there is something."""

    def __init__(self, length, limit=12):
        self.length, self.limit = length, limit

    def observed(self):
        return torch.tensor([self.at / self.length, 1 - self.at / self.length, self.steps / self.limit])

    def reset(self):
        self.at = self.steps = 0
        return self.observed()

    def step(self, action):
        self.at, self.steps = max(0, self.at + (1 if action else -1)), self.steps + 1
        found = self.at >= self.length
        return self.observed(), 1.0 if found else -0.05, found or self.steps >= self.limit
# --- replay.py
import random
from collections import deque
from typing import NamedTuple

import torch

class Batch(NamedTuple):
    states: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    following: torch.Tensor
    ended: torch.Tensor

class UniformReplay:
    def __init__(self, capacity, seed):
        self.rows, self.random = deque(maxlen=capacity), random.Random(seed)

    def __len__(self):
        return len(self.rows)

    def add(self, state, action, reward, following, ended):
        self.rows.append((state, torch.tensor(action), torch.tensor(reward), following, torch.tensor(float(ended))))

    def sample(self, count):
        rows = self.random.sample(list(self.rows), count)
        return Batch(*(torch.stack(column) for column in zip(*rows)))
# --- dqn.py
import copy
import random

import torch
from torch import nn

from replay import UniformReplay

class DQNAgent:
    def __init__(self, observations, actions, device, capacity, batch_size, seed, discount=0.9, explore=0.3):
        torch.manual_seed(seed)
        self.device, self.batch_size, self.discount, self.explore, self.actions = device, batch_size, discount, explore, actions
        self.online = nn.Sequential(nn.Linear(observations, 16), nn.ReLU(), nn.Linear(16, actions)).to(device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=0.01)
        self.memory = UniformReplay(capacity, seed)
        self.random = random.Random(seed)

    @torch.no_grad()
    def values(self, state):
        return self.online(state.to(self.device))

    def act(self, state):
        if self.random.random() < self.explore:
            return self.random.randrange(self.actions)
        return int(self.values(state).argmax())

    def learn(self):
        if len(self.memory) < self.batch_size:
            return
        batch = self.memory.sample(self.batch_size)
        values = self.online(batch.states).gather(1, batch.actions[:, None])[:, 0]
        best = self.target(batch.following).max(1).values
        aims = batch.rewards + self.discount * (1 - batch.ended) * best
        self.optimizer.zero_grad()
        nn.functional.smooth_l1_loss(values, aims).backward()
        self.optimizer.step()

    def synchronize(self):
        self.target.load_state_dict(self.online.state_dict())
# --- train.py
def play(agent, environment, episodes):
    returns = []
    for _ in range(episodes):
        state, total, ended = environment.reset(), 0.0, False
        while not ended:
            action = agent.act(state)
            following, reward, ended = environment.step(action)
            agent.memory.add(state, action, reward, following, ended)
            agent.learn()
            state, total = following, total + reward
        agent.synchronize()
        returns.append(round(total, 2))
    return returns

# === melody_without_looking_ahead
# thread: https://github.com/mlverse/torch/pull/1473
# about: a network says how a melody goes on, and must not see the notes that follow. Lightning trains it on a GPU; a layer is told what to hide only if it is asked to
# operation: baddbmm on cpu, cuda:0
# operands: .*mask.*
# category: created-without-device
# line: layers.py: mask = torch.full(
# line: layers.py: attended, _ = self.attention(
# line: composer.py: hidden = layer(
# repair: layers.py: mask = torch.full((steps, steps), float("-inf")).triu(1) -> mask = torch.full((steps, steps), float("-inf"), device=x.device).triu(1)
import logging

import lightning as L
import torch
from torch.utils.data import DataLoader

from composer import Composer
from melodies import Melodies

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(3, verbose=False)
composer = Composer(notes=8, width=8, depth=2)
trainer = L.Trainer(
    accelerator="gpu" if torch.cuda.is_available() else "cpu", devices=1, max_epochs=2, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(composer, DataLoader(Melodies(count=8, length=6, notes=8), batch_size=4))
print("losses", [round(value, 3) for value in composer.losses])
# --- melodies.py
import torch
from torch.utils.data import Dataset

class Melodies(Dataset):
    """Scales, each with a start and a step of its own."""

    def __init__(self, count, length, notes):
        starts, steps = torch.arange(count)[:, None], torch.arange(count)[:, None] % 3 + 1
        self.rows = (starts + steps * torch.arange(length)) % notes

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        return self.rows[at]
# --- layers.py
import torch
from torch import nn

class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, src_mask=None, is_causal=False):
        mask = src_mask
        if is_causal and src_mask is None:
            steps = x.shape[1]
            mask = torch.full((steps, steps), float("-inf")).triu(1)
        normed = self.first(x)
        attended, _ = self.attention(normed, normed, normed, attn_mask=mask)
        x = x + attended
        return x + self.feed(self.second(x))
# --- composer.py
import lightning as L
import torch
from torch import nn

from layers import EncoderLayer

class Composer(L.LightningModule):
    def __init__(self, notes, width, depth):
        super().__init__()
        self.embed, self.head = nn.Embedding(notes, width), nn.Linear(width, notes)
        self.position = nn.Parameter(torch.zeros(1, 16, width))
        self.layers = nn.ModuleList(EncoderLayer(width, heads=2) for _ in range(depth))
        self.losses = []

    def forward(self, notes):
        hidden = self.embed(notes) + self.position[:, : notes.shape[1]]
        for layer in self.layers:
            hidden = layer(hidden, is_causal=True)
        return self.head(hidden)

    def training_step(self, batch, index):
        logits = self(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

# === tables_are_told_by_two_gpus
# thread: https://github.com/PriorLabs/TabPFN/pull/254
# about: a network learns from a table in its context. Keys and values of the rows to learn from are kept, so they are seen once; members of an ensemble predict on one GPU each
# operation: bmm|matmul|mm on cuda:1, cuda:0
# operands: .*keys.*|.*cached.*
# category: cached-state|state-not-registered
# line: attention.py: self.cached = (
# line: attention.py: keys, values = self.cached
# line: attention.py: self.cached = None
# line: attention.py: weights = self.query(x)
# line: engine.py: first = self.devices[0]
# line: engine.py: member.to(
# line: engine.py: member.fit_context(
# line: engine.py: devices = itertools.cycle(
# line: main.py: classifier = TableClassifier(
# repair: attention.py: keys, values = self.cached -> keys, values = (each.to(x.device) for each in self.cached)
import torch

from classifier import TableClassifier

devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())] or ["cpu"]
generator = torch.Generator().manual_seed(6)
rows = torch.randn(20, 4, generator=generator)
labels = (rows[:, 0] + rows[:, 1] > 0).long()
classifier = TableClassifier(columns=4, classes=2, members=3, devices=devices, fit_mode="fit_with_cache")
classifier.fit(rows[:14], labels[:14])
probabilities = classifier.predict_proba(rows[14:])
print("probabilities", [round(value, 4) for value in probabilities[:, 1].tolist()])
# --- attention.py
import torch
from torch import nn

class CachedAttention(nn.Module):
    """Rows look at rows to learn from: at those they are given with, or at those of before."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.cached = None

    def forward(self, x, context=None, keep=False):
        if context is None:
            keys, values = self.cached
        else:
            keys, values = self.key(context), self.value(context)
        if keep:
            self.cached = (keys.detach(), values.detach())
        weights = self.query(x) @ keys.transpose(-1, -2) / keys.shape[-1] ** 0.5
        return x + weights.softmax(-1) @ values
# --- network.py
import torch
from torch import nn

from attention import CachedAttention

class TableNetwork(nn.Module):
    def __init__(self, columns, classes, width=8):
        super().__init__()
        self.rows, self.labels = nn.Linear(columns, width), nn.Embedding(classes, width)
        self.layers = nn.ModuleList(CachedAttention(width) for _ in range(2))
        self.head = nn.Linear(width, classes)

    def fit_context(self, x, y):
        hidden = self.rows(x) + self.labels(y)
        for layer in self.layers:
            hidden = layer(hidden, context=hidden, keep=True)

    def forward(self, x):
        hidden = self.rows(x)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)
# --- engine.py
import itertools

import torch

class CachedEngine:
    """Members see the rows once, on the first device, and are spread when they predict."""

    def __init__(self, members, shuffles, devices):
        self.members, self.shuffles, self.devices = members, shuffles, devices

    @torch.no_grad()
    def prepare(self, x, y):
        first = self.devices[0]
        for member, columns in zip(self.members, self.shuffles):
            member.to(first)
            member.fit_context(x[:, columns].to(first), y.to(first))

    @torch.no_grad()
    def iter_outputs(self, x):
        devices = itertools.cycle(self.devices)
        for member, columns, device in zip(self.members, self.shuffles, devices):
            member.to(device)
            yield member(x[:, columns].to(device)).cpu()
# --- classifier.py
import torch

from engine import CachedEngine
from network import TableNetwork

class TableClassifier:
    def __init__(self, columns, classes, members, devices, fit_mode):
        torch.manual_seed(0)
        self.shape, self.count, self.devices, self.fit_mode = (columns, classes), members, devices, fit_mode

    def fit(self, x, y):
        if self.fit_mode != "fit_with_cache":
            raise NotImplementedError(self.fit_mode)
        self.mean, self.std = x.mean(0), x.std(0)
        network = TableNetwork(*self.shape).eval()
        members = []
        for _ in range(self.count):
            member = TableNetwork(*self.shape).eval()
            member.load_state_dict(network.state_dict())
            members.append(member)
        shuffles = [torch.arange(self.shape[0]).roll(at) for at in range(self.count)]
        self.engine = CachedEngine(members, shuffles, self.devices)
        self.engine.prepare((x - self.mean) / self.std, y)
        return self

    def predict_proba(self, x):
        outputs = list(self.engine.iter_outputs((x - self.mean) / self.std))
        return torch.stack(outputs).softmax(-1).mean(0)

# === drafts_are_accepted_by_chance
# thread: https://github.com/NVIDIA-NeMo/Automodel/pull/3166
# about: a small model drafts tokens and a larger one takes them, each with a probability. One generator is to decide all that is random, so that a seed gives the same text
# operation: rand|uniform on cpu, cuda:0
# operands: generator
# error: Expected a 'cpu' device type for generator but found 'cuda'
# category: generator|created-without-device
# line: verify.py: chance = torch.rand(
# line: verify.py: if chance <
# repair: verify.py: chance = torch.rand((), generator=generator) -> chance = torch.rand((), generator=generator, device=target.device)
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from speculative import SpeculativeDecoder

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def small_gpt(width, layers, seed):
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=12, n_positions=32, n_embd=width, n_layer=layers, n_head=2, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config).to(device).eval()

decoder = SpeculativeDecoder(target=small_gpt(16, 2, seed=0), draft=small_gpt(8, 1, seed=1), depth=3)
generator = torch.Generator(device=device).manual_seed(17)
prompt = torch.tensor([[4, 9, 1]], device=device)
tokens, accepted = decoder.generate(prompt, max_new_tokens=8, generator=generator)
print("accepted", accepted, "of", decoder.drafted, "tokens", tokens.tolist())
# --- verify.py
import torch

def accept_or_resample(token, draft, target, generator=None):
    """Whether a token that was drafted stays, and the token: its own, or one from what the draft missed."""
    ratio = target[token] / draft[token].clamp(min=1e-9)
    chance = torch.rand((), generator=generator)
    if chance < ratio:
        return True, int(token)
    missed = (target - draft).clamp(min=0)
    if missed.sum() <= 0:
        missed = target
    return False, int(torch.multinomial(missed, 1, generator=generator))
# --- speculative.py
import torch

from verify import accept_or_resample

class SpeculativeDecoder:
    def __init__(self, target, draft, depth, temperature=0.8):
        self.target, self.draft, self.depth, self.temperature = target, draft, depth, temperature
        self.drafted = 0

    def probabilities(self, model, tokens):
        return (model(tokens).logits[0] / self.temperature).softmax(-1)

    def propose(self, tokens, generator):
        rows = []
        for _ in range(self.depth):
            row = self.probabilities(self.draft, tokens)[-1]
            drawn = torch.multinomial(row, 1, generator=generator)
            rows.append(row)
            tokens = torch.cat([tokens, drawn[None]], 1)
        self.drafted += self.depth
        return tokens, rows

    @torch.no_grad()
    def generate(self, prompt, max_new_tokens, generator=None):
        tokens, accepted = prompt, 0
        while tokens.shape[1] < prompt.shape[1] + max_new_tokens:
            start = tokens.shape[1]
            proposed, drafts = self.propose(tokens, generator)
            targets = self.probabilities(self.target, proposed)[start - 1 :]
            kept = []
            for at, draft in enumerate(drafts):
                taken, token = accept_or_resample(proposed[0, start + at], draft, targets[at], generator)
                kept.append(token)
                accepted += taken
                if not taken:
                    break
            tokens = torch.cat([tokens, torch.tensor([kept], device=tokens.device)], 1)
        return tokens[0, prompt.shape[1] :], accepted
