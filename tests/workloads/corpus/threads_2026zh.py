# === what_was_asked_and_what_was_answered
# thread: https://github.com/huggingface/trl/pull/2747
# about: a policy answers each prompt several times, and is trained on how good an answer is among its group. The masks of prompt and answer are put together
# operation: cat on cpu, cuda:0
# operands: tensors|prompt_mask|.*
# category: input-not-moved
# line: trainer.py: prompt_mask = inputs["prompt_mask"]
# line: trainer.py: return {name: value.to(
# line: trainer.py: attention_mask = torch.cat(
# repair: trainer.py: prompt_mask = inputs["prompt_mask"] -> prompt_mask = inputs["prompt_mask"].to(self.device)
import torch

from policy import Policy
from trainer import GroupTrainer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
policy = Policy(vocabulary=9, width=6).to(device)
trainer = GroupTrainer(policy, reward=lambda answer: float(len(set(answer)) + answer[0] % 3), answers=3, device=device)
losses = [trainer.step(prompts) for prompts in ([[1, 5], [2, 6, 3]], [[7, 1, 8], [4]])]
print("losses", [round(loss, 5) for loss in losses])
# --- policy.py
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.mix = nn.Embedding(vocabulary, width), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, attention_mask):
        hidden, _ = self.mix(self.embed(ids) * attention_mask[..., None])
        return self.head(hidden)

    @torch.no_grad()
    def answer(self, ids, mask, length, answers):
        ranks = torch.arange(len(ids), device=ids.device)[:, None] % answers
        for _ in range(length):
            order = self(ids, mask)[:, -1].argsort(-1, descending=True)
            ids = torch.cat([ids, order.gather(1, ranks)], dim=1)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        return ids[:, -length:]
# --- collate.py
import torch

def collate(prompts):
    longest = max(map(len, prompts))
    padded = [[0] * (longest - len(prompt)) + prompt for prompt in prompts]
    held = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return {"prompt_ids": torch.tensor(padded), "prompt_mask": torch.tensor(held)}
# --- trainer.py
import torch

from collate import collate

class GroupTrainer:
    def __init__(self, policy, reward, answers, device, end=0):
        self.policy, self.reward, self.answers = policy, reward, answers
        self.device, self.end = device, end
        self.optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)

    def prepare(self, prompts):
        batch = collate([prompt for prompt in prompts for _ in range(self.answers)])
        return {name: value.to(self.device) if name.endswith("_ids") else value for name, value in batch.items()}

    def compute_loss(self, inputs):
        ids = inputs["prompt_ids"]
        answers = self.policy.answer(ids, torch.ones_like(ids), length=4, answers=self.answers)
        answer_mask = (answers != self.end).long()
        rewards = torch.tensor([self.reward(answer) for answer in answers.tolist()], device=self.device)
        groups = rewards.view(-1, self.answers)
        advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).flatten()
        prompt_mask = inputs["prompt_mask"]
        attention_mask = torch.cat([prompt_mask, answer_mask], dim=1)
        logits = self.policy(torch.cat([ids, answers], dim=1), attention_mask)[:, ids.shape[1] - 1 : -1]
        chosen = logits.log_softmax(-1).gather(-1, answers[..., None])[..., 0]
        return -(chosen * advantages[:, None] * answer_mask).sum() / answer_mask.sum().clamp(min=1)

    def step(self, prompts):
        self.optimizer.zero_grad()
        loss = self.compute_loss(self.prepare(prompts))
        loss.backward()
        self.optimizer.step()
        return loss.item()

# === genes_that_a_cell_needs
# thread: https://github.com/kierensharma/FluxGAT/pull/4
# about: which genes a cell cannot live without is learned from a graph of reactions. Few are such, and so they count for more in the loss
# operation: mul|binary_cross_entropy_with_logits on cpu, cuda:0
# operands: self|pos_weight|.*
# category: created-without-device
# line: fluxgat.py: pos_weight = torch.tensor(
# line: fluxgat.py: criterion = nn.BCEWithLogitsLoss(
# repair: fluxgat.py: pos_weight = torch.tensor([(labels == 0).sum().item() / max(1, (labels == 1).sum().item())]) -> pos_weight = torch.tensor([(labels == 0).sum().item() / max(1, (labels == 1).sum().item())], device=device)
import torch

from fluxgat import train
from graphs import reactions

graph = reactions(nodes=14, width=5, seed=1)
scores = train(graph, hidden=8, heads=2, epochs=4)
print("essential", [round(value, 4) for value in scores[:6]])
# --- graphs.py
from dataclasses import dataclass

import torch

@dataclass
class Graph:
    x: torch.Tensor
    adjacency: torch.Tensor
    y: torch.Tensor
    train_mask: torch.Tensor

    def to(self, device):
        return Graph(*(part.to(device) for part in (self.x, self.adjacency, self.y, self.train_mask)))

def reactions(nodes, width, seed):
    draw = torch.Generator().manual_seed(seed)
    adjacency = (torch.rand(nodes, nodes, generator=draw) < 0.3) | torch.eye(nodes, dtype=torch.bool)
    labels = (torch.rand(nodes, generator=draw) < 0.3).float()
    return Graph(torch.randn(nodes, width, generator=draw), adjacency, labels, torch.arange(nodes) % 4 != 0)
# --- layers.py
import torch
from torch import nn

class GraphAttention(nn.Module):
    def __init__(self, inner, outer, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(inner, outer * heads, bias=False)
        self.source, self.target = nn.Parameter(torch.randn(heads, outer)), nn.Parameter(torch.randn(heads, outer))

    def forward(self, x, adjacency):
        h = self.project(x).unflatten(-1, (self.heads, -1))
        scores = (h * self.source).sum(-1)[:, None] + (h * self.target).sum(-1)[None]
        scores = nn.functional.leaky_relu(scores, 0.2).masked_fill(~adjacency[..., None], float("-inf"))
        return torch.einsum("ijh,jhf->ihf", scores.softmax(1), h).flatten(1)
# --- fluxgat.py
import torch
from torch import nn

from layers import GraphAttention

class FluxGAT(nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.attend, self.out = GraphAttention(width, hidden, heads), nn.Linear(hidden * heads, 1)

    def forward(self, graph):
        return self.out(self.attend(graph.x, graph.adjacency).relu())[:, 0]

def train(graph, hidden, heads, epochs):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, graph = FluxGAT(graph.x.shape[1], hidden, heads).to(device), graph.to(device)
    labels = graph.y[graph.train_mask]
    pos_weight = torch.tensor([(labels == 0).sum().item() / max(1, (labels == 1).sum().item())])
    criterion = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = criterion(model(graph)[graph.train_mask], labels)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return model(graph).sigmoid().tolist()

# === an_adapter_on_a_layer_in_ram
# thread: https://github.com/huggingface/peft/issues/3169
# about: what does not fit on the GPU stays in RAM and is computed there. What an adapter adds to such a layer comes from the GPU
# operation: add_? on cpu, cuda:0
# operands: self|other|result|.*
# category: module-split
# line: lora.py: result = self.base(x)
# line: lora.py: return result + x @
# line: offload.py: return functional.linear(
# repair: lora.py: result = self.base(x) -> result = self.base(x).to(x.device)
import torch

from finetune import finetune
from lora import add_adapters
from model import TinyLM
from offload import offload

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = TinyLM(vocabulary=10, width=8, layers=3)
model = offload(model, budget=600, device=device)
model = add_adapters(model, names=("up",), rank=2, device=device)
losses = finetune(model, [[3, 1, 4, 1], [2, 7, 1, 8]], steps=3, device=device)
print("losses", [round(loss, 5) for loss in losses])
# --- model.py
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu()).to(x.device)

class TinyLM(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
# --- offload.py
from torch import nn
from torch.nn import functional

class HostLinear(nn.Module):
    """Its weights are for ever in RAM, where it is computed."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear.requires_grad_(False)

    def _apply(self, fn, recurse=True):
        return self

    def forward(self, x):
        weight, bias = self.linear.weight, self.linear.bias
        return functional.linear(x.to(weight.device), weight, bias)

def offload(model, budget, device):
    used = 0
    for block in model.blocks:
        used += sum(parameter.numel() for parameter in block.parameters())
        if used > budget:
            block.up, block.down = HostLinear(block.up), HostLinear(block.down)
    return model.to(device)
# --- lora.py
import torch
from torch import nn

class LoraLinear(nn.Module):
    def __init__(self, base, shape, rank, device):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, shape[0]).div(4).to(device))
        self.b = nn.Parameter(torch.zeros(shape[1], rank, device=device))

    def forward(self, x):
        result = self.base(x)
        return result + x @ self.a.T @ self.b.T * 2.0

def add_adapters(model, names, rank, device):
    for block in model.blocks:
        for name in names:
            base = getattr(block, name)
            linear = getattr(base, "linear", base)
            setattr(block, name, LoraLinear(base, (linear.in_features, linear.out_features), rank, device))
    return model
# --- finetune.py
import torch
from torch import nn

def finetune(model, texts, steps, device):
    tokens = torch.tensor(texts, device=device)
    optimizer = torch.optim.AdamW([each for name, each in model.named_parameters() if name[-2:] in (".a", ".b")], lr=0.05)
    losses = []
    for _ in range(steps):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

# === a_voice_for_a_script
# thread: https://github.com/boson-ai/higgs-audio/issues/87
# about: an engine reads a script aloud: texts and sounds that were heard go in as tokens, in one structure that a collator fills
# operation: embedding|index_select on cpu, cuda:0
# operands: index|weight|.*
# category: input-not-moved
# line: serve.py: if isinstance(value, torch.Tensor) and
# line: serve.py: setattr(batch, field.name, value.to(
# line: serve.py: batch = self.collator([sample])
# line: model.py: heard = self.codes(
# repair: serve.py: if isinstance(value, torch.Tensor) and field.name.startswith("input"): -> if isinstance(value, torch.Tensor):
import torch

from collator import Sample
from serve import ServeEngine

device = "cuda" if torch.cuda.is_available() else "cpu"
engine = ServeEngine(device, seed=5)
script = [Sample(text=[3, 1, 0, 2], codes=[[1, 4], [6, 2]]), Sample(text=[5, 0], codes=[[7, 7, 3], [0, 1, 5]])]
spoken = [engine.generate(sample, length=3) for sample in script]
print("spoken", spoken)
# --- collator.py
from dataclasses import dataclass

import torch

@dataclass
class Sample:
    text: list
    codes: list

@dataclass
class Batch:
    input_ids: torch.Tensor
    input_mask: torch.Tensor
    audio_codes: torch.Tensor
    audio_starts: list

class Collator:
    def __init__(self, pad):
        self.pad = pad

    def __call__(self, samples):
        longest = max(len(sample.text) for sample in samples)
        rows = [sample.text + [self.pad] * (longest - len(sample.text)) for sample in samples]
        ids = torch.tensor(rows)
        codes = torch.cat([torch.tensor(sample.codes) for sample in samples], dim=1)
        starts = [sample.text.index(0) for sample in samples]
        return Batch(ids, ids != self.pad, codes, starts)
# --- model.py
import torch
from torch import nn

class AudioLM(nn.Module):
    def __init__(self, vocabulary, books, entries, width):
        super().__init__()
        self.text = nn.Embedding(vocabulary, width)
        self.codes = nn.Embedding(books * entries, width)
        self.mix, self.head = nn.GRU(width, width, batch_first=True), nn.Linear(width, entries, bias=False)
        self.books, self.entries = books, entries

    def embed(self, batch):
        words = self.text(batch.input_ids) * batch.input_mask[..., None]
        offsets = [book * self.entries for book in range(self.books)]
        heard = self.codes(torch.stack([codes + offset for codes, offset in zip(batch.audio_codes, offsets)])).sum(0)
        start = batch.audio_starts[0]
        return torch.cat([words[0, : start + 1], heard, words[0, start + 1 :]])[None]

    def forward(self, batch, length):
        hidden, state = self.mix(self.embed(batch))
        spoken = []
        for _ in range(length):
            code = self.head(hidden[:, -1]).argmax(-1)
            spoken.append(code.item())
            hidden, state = self.mix(self.codes(code)[:, None], state)
        return spoken
# --- serve.py
from dataclasses import fields

import torch

from collator import Collator
from model import AudioLM

class ServeEngine:
    def __init__(self, device, seed):
        torch.manual_seed(seed)
        self.device = device
        self.model = AudioLM(vocabulary=8, books=2, entries=9, width=6).to(device).eval()
        self.collator = Collator(pad=7)

    @torch.inference_mode()
    def generate(self, sample, length):
        batch = self.collator([sample])
        for field in fields(batch):
            value = getattr(batch, field.name)
            if isinstance(value, torch.Tensor) and field.name.startswith("input"):
                setattr(batch, field.name, value.to(self.device))
        return self.model(batch, length)

# === a_prompt_made_longer
# thread: https://github.com/Lightricks/ComfyUI-LTXVideo/issues/321
# about: a language model that also sees makes a short prompt longer. It does not fit as a whole; the part that sees stays in RAM, and its weights come when it is called
# operation: embedding|index_select on cpu, cuda:0
# operands: index|weight|.*
# category: module-split|input-not-moved
# line: nodes.py: inputs = {name: value.to(
# line: gemma.py: return next(self.parameters()).device
# line: gemma.py: words = self.embed(
# repair: nodes.py: inputs = {name: value.to(model.device) for name, value in inputs.items()} -> inputs = {name: value.to(self.patcher.load_device) for name, value in inputs.items()}
import torch

from gemma import Gemma
from nodes import EnhancePrompt
from patcher import ModelPatcher

torch.manual_seed(1)
load_device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
patcher = ModelPatcher(Gemma(vocabulary=12, width=6).eval(), load_device, keep_out=("vision",))
node = EnhancePrompt(patcher)
image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(4))
print("prompts", [node.run(prompt, picture, length=4) for prompt, picture in (("bird sky", None), ("red bird", image))])
# --- gemma.py
import torch
from torch import nn

class Vision(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, 3, 4, 4) / 8)

    def forward(self, pixels):
        weight = self.weight.to(pixels.device)
        return nn.functional.conv2d(pixels, weight, stride=4).flatten(2).mean(-1)[:, None]

class Gemma(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.vision, self.embed = Vision(width), nn.Embedding(vocabulary, width)
        self.mix, self.head = nn.GRU(width, width, batch_first=True), nn.Linear(width, vocabulary)

    @property
    def device(self):
        return next(self.parameters()).device

    @torch.no_grad()
    def generate(self, input_ids, length, pixel_values=None):
        for _ in range(length):
            words = self.embed(input_ids)
            if pixel_values is not None:
                words = torch.cat([self.vision(pixel_values), words], dim=1)
            following = self.head(self.mix(words)[0][:, -1]).argmax(-1, keepdim=True)
            input_ids = torch.cat([input_ids, following], dim=1)
        return input_ids
# --- patcher.py
class ModelPatcher:
    """Loads a model as far as there is room."""

    def __init__(self, model, load_device, keep_out=()):
        self.model, self.load_device, self.keep_out = model, load_device, keep_out
        self.loaded = False

    def load(self):
        if not self.loaded:
            for name, part in self.model.named_children():
                if name not in self.keep_out:
                    part.to(self.load_device)
            self.loaded = True
        return self.model
# --- nodes.py
import torch

WORDS = ["the", "a", "red", "blue", "bird", "sky", "slow", "fast", "camera", "pans", "over", "light"]

class EnhancePrompt:
    def __init__(self, patcher):
        self.patcher = patcher

    def process(self, prompt, image):
        inputs = {"input_ids": torch.tensor([[WORDS.index(word) for word in prompt.split()]])}
        if image is not None:
            inputs["pixel_values"] = image * 2 - 1
        return inputs

    def run(self, prompt, image, length):
        model = self.patcher.load()
        inputs = self.process(prompt, image)
        inputs = {name: value.to(model.device) for name, value in inputs.items()}
        ids = model.generate(length=length, **inputs)
        return " ".join(WORDS[index] for index in ids[0].tolist())

# === parts_of_an_address
# thread: https://github.com/GRAAL-Research/deepparse/pull/298
# about: an address is read, and each of its words is given a tag. A decoder looks back at the words, but not at what fills the shorter addresses
# operation: masked_fill_? on cuda:0, cpu
# error: expected self and mask to be on the same device
# operands: mask|condition|.*
# category: created-without-device
# line: decoder.py: mask = torch.arange(
# line: decoder.py: scores = scores.masked_fill(
# repair: decoder.py: mask = torch.arange(encoded.shape[1])[None, :] < torch.tensor(lengths, device="cpu")[:, None] -> mask = torch.arange(encoded.shape[1], device=self.weights.device)[None, :] < torch.tensor(lengths, device=self.weights.device)[:, None]
import torch

from parser import AddressParser

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
parser = AddressParser(attention=True, device=device, seed=2)
parsed = parser(["350 rue des lilas ouest quebec", "12 main street", "7 b avenue du parc"])
print("tags", parsed, "weight", round(parser.last_weights[1, 0, 2].item(), 4))
# --- encoder.py
from torch import nn

class Encoder(nn.Module):
    def __init__(self, letters, width):
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def forward(self, words, lengths):
        embedded = self.letters(words)
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        encoded, state = self.lstm(packed)
        return nn.utils.rnn.pad_packed_sequence(encoded, batch_first=True)[0], state
# --- decoder.py
import torch
from torch import nn

class AttentionDecoder(nn.Module):
    def __init__(self, width, tags):
        super().__init__()
        self.lstm, self.tag = nn.LSTM(width, width, batch_first=True), nn.Linear(2 * width, tags)
        self.weights = nn.Parameter(torch.randn(1, 1, width))

    def attend(self, hidden, encoded, lengths):
        scores = (self.weights * (hidden + encoded).tanh()).sum(-1, keepdim=True).transpose(1, 2)
        mask = torch.arange(encoded.shape[1])[None, :] < torch.tensor(lengths, device="cpu")[:, None]
        scores = scores.masked_fill(~mask[:, None], float("-inf"))
        shares = scores.softmax(-1)
        return shares @ encoded, shares

    def forward(self, encoded, state, lengths):
        given, tags, looked = encoded[:, :1] * 0, [], []
        for _ in range(encoded.shape[1]):
            hidden, state = self.lstm(given, state)
            context, shares = self.attend(hidden, encoded, lengths)
            tags.append(self.tag(torch.cat([hidden, context], dim=-1)).argmax(-1))
            looked.append(shares)
            given = context
        return torch.cat(tags, dim=1), torch.cat(looked, dim=1)
# --- parser.py
import torch

from decoder import AttentionDecoder
from encoder import Encoder

TAGS = ["Number", "Street", "Unit", "Town"]

class AddressParser:
    def __init__(self, attention, device, seed):
        torch.manual_seed(seed)
        self.device = device
        self.encoder = Encoder(letters=27, width=6).to(device).eval()
        self.decoder = AttentionDecoder(width=6, tags=len(TAGS)).to(device).eval()

    def vectorize(self, addresses):
        rows = [[sum(map(ord, word)) % 26 + 1 for word in address.split()] for address in addresses]
        lengths = [len(row) for row in rows]
        padded = torch.tensor([row + [0] * (max(lengths) - len(row)) for row in rows])
        return padded.to(self.device), lengths

    @torch.no_grad()
    def __call__(self, addresses):
        words, lengths = self.vectorize(addresses)
        encoded, state = self.encoder(words, lengths)
        tags, self.last_weights = self.decoder(encoded, state, lengths)
        return [" ".join(TAGS[tag][0] for tag in row[:length]) for row, length in zip(tags.tolist(), lengths)]

# === two_ways_to_see_a_heart
# thread: https://github.com/pykale/pykale/issues/542
# about: an image and a signal of the same heart are encoded, and what both say is multiplied with what is assumed beforehand. The model is on a GPU that one chose
# operation: cat on cuda:0, cuda:1
# operands: tensors|mean|.*
# category: default-or-current-device
# line: encoder.py: mean = mean.cuda()
# line: encoder.py: log_var = log_var.cuda()
# line: encoder.py: mean, log_var = prior(
# repair: encoder.py: def prior(size, use_cuda): -> def prior(size, device):
# repair: encoder.py: if use_cuda: -> if device.type != "cpu":
# repair: encoder.py: mean = mean.cuda() -> mean = mean.to(device)
# repair: encoder.py: log_var = log_var.cuda() -> log_var = log_var.to(device)
# repair: encoder.py: mean, log_var = prior((1, len(given), self.width), use_cuda=next(self.parameters()).is_cuda) -> mean, log_var = prior((1, len(given), self.width), device=next(self.parameters()).device)
import argparse

import torch

from data import hearts
from trainer import fit

options = argparse.ArgumentParser()
options.add_argument("--gpu", type=int, default=torch.cuda.device_count() - 1)
options = options.parse_args()
device = torch.device("cuda", options.gpu) if options.gpu >= 0 else torch.device("cpu")
losses = fit(hearts(batches=3, seed=6), width=4, device=device)
print("losses", [round(loss, 4) for loss in losses])
# --- data.py
import torch

def hearts(batches, seed):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        yield torch.rand(5, 1, 8, 8, generator=draw), torch.randn(5, 1, 16, generator=draw)
# --- encoder.py
import torch
from torch import nn

def prior(size, use_cuda):
    mean, log_var = torch.zeros(size), torch.zeros(size)
    if use_cuda:
        mean = mean.cuda()
        log_var = log_var.cuda()
    return mean, log_var

class ProductOfExperts(nn.Module):
    def forward(self, mean, log_var, eps=1e-8):
        precision = 1 / (log_var.exp() + eps)
        variance = 1 / precision.sum(0)
        return (mean * precision).sum(0) * variance, variance.log()

class MultimodalVAE(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.experts = width, ProductOfExperts()
        self.image = nn.Sequential(nn.Conv2d(1, 3, 4, stride=4), nn.Flatten(), nn.Linear(12, 2 * width))
        self.signal = nn.Sequential(nn.Conv1d(1, 3, 4, stride=4), nn.Flatten(), nn.Linear(12, 2 * width))
        self.decode = nn.Linear(width, 64 + 16)

    def infer(self, image=None, signal=None):
        given = image if image is not None else signal
        mean, log_var = prior((1, len(given), self.width), use_cuda=next(self.parameters()).is_cuda)
        for encoder, seen in ((self.image, image), (self.signal, signal)):
            if seen is not None:
                found = encoder(seen).chunk(2, dim=-1)
                mean = torch.cat((mean, found[0][None]), dim=0)
                log_var = torch.cat((log_var, found[1][None]), dim=0)
        return self.experts(mean, log_var)

    def forward(self, image=None, signal=None):
        mean, log_var = self.infer(image, signal)
        return self.decode(mean), mean, log_var
# --- trainer.py
import torch

from encoder import MultimodalVAE

def elbo(model, target, **seen):
    guess, mean, log_var = model(**seen)
    apart = 0.5 * (mean**2 + log_var.exp() - 1 - log_var).sum(1).mean()
    return ((guess - target) ** 2).mean() + 0.01 * apart

def fit(batches, width, device):
    torch.manual_seed(0)
    model = MultimodalVAE(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for image, signal in batches:
        image, signal = image.to(device), signal.to(device)
        target = torch.cat([image.flatten(1), signal.flatten(1)], dim=1)
        loss = elbo(model, target, image=image, signal=signal) + elbo(model, target, signal=signal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

# === layers_are_calibrated_one_by_one
# thread: https://github.com/NVIDIA/Model-Optimizer/pull/1504
# about: what comes into a layer is caught, and given to it again while its ranges are found. What was caught is kept in RAM, for there is much of it
# operation: addmm|linear on cpu, cuda:0
# operands: mat1|input|.*
# category: cached-state|input-not-moved
# line: calibrate.py: layer(*args, **kwargs)
# line: capture.py: catcher = Catcher(
# line: capture.py: self.caught.append(
# line: calibrate.py: caught = capture_inputs(
# repair: calibrate.py: layer(*args, **kwargs) -> layer(*move(args, device_of(layer)), **move(kwargs, device_of(layer)))
import torch

from calibrate import layerwise_calibrate
from model import Stack
from quantizer import insert_quantizers

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = insert_quantizers(Stack(vocabulary=11, width=6, layers=2)).to(device).eval()
texts = [torch.tensor([text]) for text in ([1, 5, 3], [2, 10, 4, 4], [9, 0])]
ranges = layerwise_calibrate(model, [text.to(device) for text in texts])
print("ranges", {name: round(value, 4) for name, value in ranges.items()})
# --- model.py
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, gate):
        return x + self.down(self.up(x).relu()) * gate

class Stack(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))

    def forward(self, tokens):
        x = self.embed(tokens)
        gate = torch.linspace(1, 0.5, x.shape[1], device=x.device)[:, None]
        for layer in self.layers:
            x = layer(x, gate=gate)
        return x
# --- quantizer.py
from torch import nn

class Quantized(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear, self.seen, self.calibrating = linear, 0.0, False

    def forward(self, x):
        if self.calibrating:
            self.seen = max(self.seen, x.abs().amax().item())
        return self.linear(x)

def insert_quantizers(model):
    for layer in model.layers:
        layer.up, layer.down = Quantized(layer.up), Quantized(layer.down)
    return model

def quantizers(layer):
    return {name: part for name, part in layer.named_modules() if isinstance(part, Quantized)}
# --- capture.py
import torch

class StopForward(Exception):
    pass

def move(nested, device):
    if isinstance(nested, torch.Tensor):
        return nested.to(device)
    if isinstance(nested, dict):
        return {name: move(each, device) for name, each in nested.items()}
    if isinstance(nested, tuple):
        return tuple(move(each, device) for each in nested)
    return nested

class Catcher:
    def __init__(self, store="cpu"):
        self.caught, self.store = [], store

    def __call__(self, layer, args, kwargs):
        self.caught.append((move(args, self.store), move(kwargs, self.store)))
        raise StopForward

def capture_inputs(model, layer, batches):
    catcher = Catcher()
    hook = layer.register_forward_pre_hook(catcher, with_kwargs=True)
    for batch in batches:
        try:
            model(batch)
        except StopForward:
            pass
    hook.remove()
    return catcher.caught
# --- calibrate.py
import torch

from capture import capture_inputs, move
from quantizer import quantizers

def device_of(layer):
    return next(layer.parameters()).device

@torch.no_grad()
def layerwise_calibrate(model, batches):
    ranges = {}
    for index, layer in enumerate(model.layers):
        caught = capture_inputs(model, layer, batches)
        parts = quantizers(layer)
        for part in parts.values():
            part.calibrating = True
        for args, kwargs in caught:
            layer(*args, **kwargs)
        for name, part in parts.items():
            part.calibrating = False
            ranges[f"{index}.{name}"] = part.seen
    return ranges

# === a_metric_of_many_tasks
# thread: https://github.com/meta-pytorch/torchrec/pull/3701
# about: what a recommender says of several tasks is averaged, each example by its weight. Here tables are large, and one computes in RAM, though the machine has a GPU
# operation: add_? on cuda:0, cpu
# operands: self|other|.*
# category: default-or-current-device|input-not-moved
# line: metrics.py: self.device = torch.device("cuda") if torch.cuda.is_available() else
# line: metrics.py: self.sums = torch.zeros(
# line: metrics.py: self.sums += (
# line: evaluate.py: metrics = MetricModule(
# repair: metrics.py: self.device = torch.device("cuda") if torch.cuda.is_available() else device -> self.device = device
import torch

from evaluate import evaluate
from recommender import Recommender

torch.manual_seed(3)
device = torch.device("cpu")
model = Recommender(users=50, items=80, width=4, tasks=2).to(device).eval()
draw = torch.Generator().manual_seed(8)
batches = [
    {"user": torch.randint(50, (6,), generator=draw), "item": torch.randint(80, (6,), generator=draw), "weight": torch.rand(2, 6, generator=draw)}
    for _ in range(3)
]
print("averages", evaluate(model, batches, ["click", "buy"], device))
# --- recommender.py
import torch
from torch import nn

class Recommender(nn.Module):
    def __init__(self, users, items, width, tasks):
        super().__init__()
        self.users, self.items = nn.EmbeddingBag(users, width, mode="sum"), nn.EmbeddingBag(items, width, mode="sum")
        self.over = nn.Sequential(nn.Linear(2 * width, 8), nn.ReLU(), nn.Linear(8, tasks))

    def forward(self, user, item):
        found = torch.cat([self.users(user[:, None]), self.items(item[:, None])], dim=1)
        return self.over(found).sigmoid().T
# --- metrics.py
import torch

class WeightedAverage:
    def __init__(self, tasks, device):
        self.tasks = tasks
        self.device = torch.device("cuda") if torch.cuda.is_available() else device
        self.reset()

    def reset(self):
        self.sums = torch.zeros(len(self.tasks), dtype=torch.float64, device=self.device)
        self.weights = torch.zeros(len(self.tasks), dtype=torch.float64, device=self.device)

    def update(self, predictions, weights):
        predictions, weights = predictions.double(), weights.double()
        self.sums += (predictions * weights).sum(-1)
        self.weights += weights.sum(-1)

    def compute(self):
        averages = torch.where(self.weights > 0, self.sums / self.weights, 0.0)
        return dict(zip(self.tasks, averages.tolist()))

METRICS = {"weighted_avg": WeightedAverage}

class MetricModule:
    def __init__(self, names, tasks, device):
        self.metrics = {name: METRICS[name](tasks, device) for name in names}

    def update(self, **outputs):
        for metric in self.metrics.values():
            metric.update(**outputs)

    def compute(self):
        return {f"{name}-{task}": value for name, metric in self.metrics.items() for task, value in metric.compute().items()}
# --- evaluate.py
import torch

from metrics import MetricModule

@torch.no_grad()
def evaluate(model, batches, tasks, device):
    metrics = MetricModule(["weighted_avg"], tasks, device)
    for batch in batches:
        batch = {name: value.to(device) for name, value in batch.items()}
        predictions = model(batch["user"], batch["item"])
        metrics.update(predictions=predictions, weights=batch["weight"])
    return {name: round(value, 5) for name, value in metrics.compute().items()}

# === one_thinks_and_one_talks
# thread: https://github.com/QwenLM/Qwen2.5-Omni/issues/35
# about: one model thinks of an answer in words, and another, that is on the next GPU, says it with a voice of its own
# operation: add_? on cuda:1, cuda:0
# operands: self|other|.*
# category: module-split
# line: omni.py: hidden = torch.cat([step for step in thought.hidden
# line: omni.py: return thought.ids
# line: talker.py: x = self.embed(codes) + hidden
# line: omni.py: spoken = self.talker.generate(
# repair: omni.py: hidden = torch.cat([step for step in thought.hidden], dim=1) -> hidden = torch.cat([step for step in thought.hidden], dim=1).to(self.talker.device)
import torch

from omni import Omni
from place import place

torch.manual_seed(0)
model = place(Omni(words=10, codes=7, width=6)).eval()
answers = [model.generate(torch.tensor([question]), speaker=speaker, length=4) for question, speaker in (([1, 4], "chelsie"), ([6, 2, 3], "ethan"))]
print("answers", answers)
# --- thinker.py
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class Thought:
    ids: torch.Tensor
    hidden: list

class Thinker(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed, self.mix = nn.Embedding(words, width), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, words)

    @property
    def device(self):
        return self.embed.weight.device

    def generate(self, ids, length):
        hidden, answer = [], []
        x, state = self.mix(self.embed(ids))
        for _ in range(length):
            hidden.append(x[:, -1:])
            answer.append(self.head(x[:, -1:]).argmax(-1))
            x, state = self.mix(self.embed(answer[-1]), state)
        return Thought(torch.cat(answer, dim=1), hidden)
# --- talker.py
import torch
from torch import nn

class Talker(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.embed, self.project = nn.Embedding(codes, width), nn.Linear(width, width)
        self.mix, self.head = nn.GRU(width, width, batch_first=True), nn.Linear(width, codes, bias=False)

    @property
    def device(self):
        return self.embed.weight.device

    def generate(self, voice, hidden):
        codes, state, said = voice, None, []
        for step in range(hidden.shape[1]):
            x = self.embed(codes) + hidden[:, step : step + 1]
            x, state = self.mix(self.project(x), state)
            codes = self.head(x).argmax(-1)
            said.append(codes)
        return torch.cat(said, dim=1)
# --- place.py
import torch

def place(model):
    """A part for each GPU, as far as there are some."""
    count = torch.cuda.device_count()
    for index, part in enumerate(model.children()):
        part.to(f"cuda:{min(index, count - 1)}" if count else "cpu")
    return model
# --- omni.py
import torch
from torch import nn

from talker import Talker
from thinker import Thinker

SPEAKERS = {"chelsie": 1, "ethan": 5}

class Omni(nn.Module):
    def __init__(self, words, codes, width):
        super().__init__()
        self.thinker, self.talker = Thinker(words, width), Talker(codes, width)

    @torch.no_grad()
    def generate(self, ids, speaker, length):
        thought = self.thinker.generate(ids.to(self.thinker.device), length)
        hidden = torch.cat([step for step in thought.hidden], dim=1)
        voice = torch.tensor([[SPEAKERS[speaker]]], device=self.talker.device)
        spoken = self.talker.generate(voice, hidden)
        return thought.ids[0].tolist(), spoken[0].tolist()

# === what_a_lung_is_called
# thread: https://github.com/RyanWangZf/MedCLIP/issues/53
# about: images are told apart by how near they are to texts that were encoded when a model was trained. Somebody else trained it, on the first GPU, and here it is not that one
# operation: mm|matmul on cuda:1, cuda:0
# operands: mat2|other|.*
# category: checkpoint|default-or-current-device
# line: classifier.py: checkpoint = torch.load(
# line: classifier.py: self.prompts = checkpoint["prompts"]
# line: classifier.py: return features @ self.prompts.T
# repair: classifier.py: checkpoint = torch.load(path, weights_only=True) -> checkpoint = torch.load(path, map_location=device, weights_only=True)
import tempfile
from pathlib import Path

import torch

from classifier import PromptClassifier
from pretrain import pretrain

device_id = max(0, torch.cuda.device_count() - 1)
with tempfile.TemporaryDirectory() as folder:
    path = pretrain(Path(folder) / "medclip.pt", names=("atelectasis", "edema", "normal"), seed=7)
    device = torch.device("cuda", device_id) if torch.cuda.is_available() else torch.device("cpu")
    classifier = PromptClassifier.from_pretrained(path, device)
images = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
print("found", classifier(images))
# --- encoders.py
import torch
from torch import nn

class ImageEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patches, self.project = nn.Conv2d(1, 6, 4, stride=4), nn.Linear(6, width)
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, images):
        seen = self.patches(images).tanh().flatten(2).mean(-1)
        return nn.functional.normalize(self.project(seen), dim=-1) * self.scale.exp()

class TextEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.letters = nn.EmbeddingBag(128, width)

    def forward(self, texts):
        found = [self.letters(torch.tensor([list(map(ord, text))], device=self.letters.weight.device)) for text in texts]
        return nn.functional.normalize(torch.cat(found), dim=-1)
# --- pretrain.py
import torch

from encoders import ImageEncoder, TextEncoder

TEMPLATES = ("findings of {}", "{} is seen")

@torch.no_grad()
def pretrain(path, names, seed, width=8):
    """As far as this goes: what a training on one GPU would leave."""
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, texts = ImageEncoder(width).to(device), TextEncoder(width).to(device)
    prompts = torch.stack([texts([template.format(name) for template in TEMPLATES]).mean(0) for name in names])
    torch.save({"vision": images.state_dict(), "prompts": prompts, "names": list(names), "width": width}, path)
    return path
# --- classifier.py
import torch

from encoders import ImageEncoder

class PromptClassifier:
    def __init__(self, checkpoint, device):
        self.device, self.names = device, checkpoint["names"]
        self.vision = ImageEncoder(checkpoint["width"]).to(device).eval()
        self.vision.load_state_dict(checkpoint["vision"])
        self.prompts = checkpoint["prompts"]

    @classmethod
    def from_pretrained(cls, path, device):
        checkpoint = torch.load(path, weights_only=True)
        return cls(checkpoint, device)

    def scores(self, images):
        features = self.vision(images.to(self.device))
        return features @ self.prompts.T

    @torch.no_grad()
    def __call__(self, images):
        shares = self.scores(images).softmax(-1).cpu()
        best = shares.max(-1)
        return [(self.names[index], round(share, 4)) for share, index in zip(best.values.tolist(), best.indices.tolist())]

# === charges_until_they_agree
# thread: https://github.com/grimme-lab/dxtb/pull/195
# about: charges of several molecules are found by turns, until they no longer change. A molecule whose charges agree is left out, and the others go on
# operation: index on cpu, cuda:0
# error: same device as the indexed tensor
# operands: indices|.*
# category: created-without-device
# line: scf.py: idxs = torch.arange(
# line: scf.py: conv = mixer.converged
# line: scf.py: idxs = idxs[~conv]
# repair: scf.py: conv = mixer.converged -> conv = mixer.converged.cpu()
import torch

from molecules import pack
from scf import solve

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
numbers, positions = pack([[(8, 0.0), (1, 1.8)], [(6, 0.0), (8, 2.1), (1, 4.0)], [(1, 0.0), (1, 1.4)]], device)
charges, turns = solve(numbers, positions, tolerance=1e-4)
print("charges", [[round(value, 4) for value in row] for row in charges.tolist()], "turns", turns)
# --- molecules.py
import torch

def pack(molecules, device):
    longest = max(map(len, molecules))
    numbers, positions = torch.zeros(len(molecules), longest, dtype=torch.long), torch.zeros(len(molecules), longest)
    for row, molecule in enumerate(molecules):
        for column, (number, place) in enumerate(molecule):
            numbers[row, column], positions[row, column] = number, place
    return numbers.to(device), positions.to(device)
# --- mixer.py
import torch

class SimpleMixer:
    def __init__(self, damp, tolerance, batch, device):
        self.damp, self.tolerance = damp, tolerance
        self.delta = torch.full((batch,), float("inf"), device=device)

    def iterate(self, new, old):
        change = new - old
        self.delta = change.norm(dim=-1)
        return old + self.damp * change

    @property
    def converged(self):
        return self.delta < self.tolerance
# --- hamiltonian.py
import torch

ELECTRONEGATIVITY = {0: 0.0, 1: 2.2, 6: 2.55, 8: 3.44}

class Hamiltonian:
    def __init__(self, numbers, positions):
        self.real = numbers > 0
        self.pull = torch.tensor([[ELECTRONEGATIVITY[number] for number in row] for row in numbers.tolist()], device=positions.device)
        far = (positions[:, :, None] - positions[:, None]).abs()
        both = self.real[:, :, None] & self.real[:, None]
        self.near = torch.where(both, 1 / (far + 1.5), 0.0)

    def charges(self, old, rows):
        near, pull, real = self.near[rows], self.pull[rows], self.real[rows]
        field = (near @ old[..., None])[..., 0] + pull
        mean = field.sum(-1, keepdim=True) / real.sum(-1, keepdim=True)
        return torch.where(real, (mean - field) * 0.3, 0.0)
# --- scf.py
import torch

from hamiltonian import Hamiltonian
from mixer import SimpleMixer

def solve(numbers, positions, tolerance, limit=60):
    hamiltonian = Hamiltonian(numbers, positions)
    charges = torch.zeros_like(positions)
    idxs = torch.arange(len(numbers))
    for turn in range(1, limit + 1):
        mixer = SimpleMixer(0.6, tolerance, len(idxs), positions.device)
        old = charges[idxs]
        charges[idxs] = mixer.iterate(hamiltonian.charges(old, idxs), old)
        conv = mixer.converged
        if conv.all():
            break
        idxs = idxs[~conv]
    return charges, turn
