# === pixels_that_are_not_masked
# thread: https://github.com/nerfstudio-project/nerfstudio/pull/1061
# about: photographs stay in RAM, for they are many, and rays are drawn from pixels of them. Masks say which pixels may be drawn. They are small, and go to the GPU with the numbers of the photographs
# operation: index on cpu, cuda:0
# operands: self|value|indices|[cyx]|batch.*image.*|image
# error: indices should be either on cpu or on the same device as the indexed tensor \(cpu\)
# category: input-not-moved
# line: pixel_samplers.py: nonzero_indices = torch.nonzero(
# line: pixel_samplers.py: c, y, x = (
# line: pixel_samplers.py: key: value[c, y, x]
# line: dataloaders.py: exclude_batch_keys_from_device = (
# line: dataloaders.py: moved[key] = value
# repair: pixel_samplers.py: nonzero_indices = torch.nonzero(batch["mask"][..., 0], as_tuple=False) -> nonzero_indices = torch.nonzero(batch["mask"][..., 0].to(device), as_tuple=False)
import argparse

import torch

from dataloaders import CacheDataloader
from field import ColorField
from pixel_samplers import PixelSampler


def parse_args():
    parser = argparse.ArgumentParser(description="Fits a field of colors to a few photographs.")
    parser.add_argument("--photographs", type=int, default=3)
    parser.add_argument("--rays", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument(
        "--device",
        default="cuda" if torch.cuda.is_available() else "cpu",
    )
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    dataloader = CacheDataloader(
        count=args.photographs,
        height=8,
        width=10,
        device=args.device,
    )
    sampler = PixelSampler(num_rays_per_batch=args.rays)
    field = ColorField(hidden=8).to(args.device)
    optimizer = torch.optim.Adam(field.parameters(), lr=0.02, foreach=False)
    losses = []
    for step in range(args.steps):
        rays = sampler.sample(dataloader.batch(), seed=step)
        predicted = field(rays["indices"].to(args.device))
        target = rays["image"].to(args.device)
        loss = torch.nn.functional.mse_loss(predicted, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    print("losses", losses)


if __name__ == "__main__":
    main()
# --- dataloaders.py
import torch


class CacheDataloader:
    """All photographs at once; they are kept where there is room for them."""

    exclude_batch_keys_from_device = ("image",)

    def __init__(self, count, height, width, device):
        draw = torch.Generator().manual_seed(7)
        self.device = torch.device(device)
        self.cached = {
            "image_idx": torch.arange(count),
            "image": torch.rand(count, height, width, 3, generator=draw),
            "mask": torch.rand(count, height, width, 1, generator=draw) > 0.3,
        }

    def batch(self):
        moved = {}
        for key, value in self.cached.items():
            if key in self.exclude_batch_keys_from_device:
                moved[key] = value
            else:
                moved[key] = value.to(self.device)
        return moved
# --- pixel_samplers.py
import random

import torch


def collate_image_dataset_batch(batch, num_rays_per_batch, seed):
    """Draws pixels of all photographs, those only that the masks let through."""
    device = batch["image"].device
    num_images, height, width, _ = batch["image"].shape
    if "mask" in batch:
        nonzero_indices = torch.nonzero(batch["mask"][..., 0], as_tuple=False)
        chosen = random.Random(seed).sample(
            range(len(nonzero_indices)),
            k=num_rays_per_batch,
        )
        indices = nonzero_indices[chosen]
    else:
        sizes = torch.tensor([num_images, height, width], device=device)
        draw = torch.Generator().manual_seed(seed)
        uniform = torch.rand((num_rays_per_batch, 3), generator=draw).to(device)
        indices = (uniform * sizes).long()
    c, y, x = (part.flatten() for part in torch.split(indices, 1, dim=-1))
    collated_batch = {
        key: value[c, y, x]
        for key, value in batch.items()
        if key != "image_idx" and value is not None
    }
    collated_batch["indices"] = indices
    return collated_batch


class PixelSampler:
    def __init__(self, num_rays_per_batch):
        self.num_rays_per_batch = num_rays_per_batch

    def sample(self, batch, seed):
        return collate_image_dataset_batch(batch, self.num_rays_per_batch, seed)
# --- field.py
from torch import nn


class ColorField(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 3),
            nn.Sigmoid(),
        )

    def forward(self, indices):
        return self.layers(indices.float() / 10)

# === a_rope_for_every_gpu
# thread: https://github.com/vllm-project/vllm/pull/13187
# about: turning of queries is tested on every GPU. The test sets the GPU that tensors are made on by default, and layers of one kind are made once and kept for all that ask again
# operation: index_select|embedding|index on cuda:0, cuda:1
# operands: self|cos_sin_cache|index|positions
# category: cached-state|default-or-current-device
# line: test_pos_encoding.py: rope = get_rope(
# line: test_pos_encoding.py: found = rope(
# line: rotary_embedding.py: if key in _ROPE_DICT:
# line: rotary_embedding.py: _ROPE_DICT[key] =
# line: rotary_embedding.py: key = (
# line: rotary_embedding.py: cos_sin = self.cos_sin_cache.index_select(
# repair: test_pos_encoding.py: rope = get_rope(head_size, max_position, base).to(torch.float32) -> rope = get_rope(head_size, max_position, base).to(device=device, dtype=torch.float32)
import torch

from test_pos_encoding import check_rotary_embedding

devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())] or ["cpu"]
norms = []
for is_neox_style in (True, False):
    for device in devices:
        norms.append(check_rotary_embedding(device, is_neox_style, seed=0))
torch.set_default_device("cpu")
print("checked", len(norms), "largest difference", round(max(norms), 4))
# --- rotary_embedding.py
import torch
from torch import nn

_ROPE_DICT = {}

class RotaryEmbedding(nn.Module):
    def __init__(self, head_size, max_position, base):
        super().__init__()
        self.head_size = head_size
        inv_freq = 1.0 / base ** (torch.arange(0, head_size, 2) / head_size)
        freqs = torch.outer(torch.arange(max_position).float(), inv_freq)
        self.register_buffer("cos_sin_cache", torch.cat([freqs.cos(), freqs.sin()], dim=-1), persistent=False)

    def forward(self, positions, query, is_neox_style):
        cos_sin = self.cos_sin_cache.index_select(0, positions.flatten())
        cos, sin = cos_sin[:, None].chunk(2, dim=-1)
        if is_neox_style:
            first, second = query.chunk(2, dim=-1)
        else:
            first, second = query[..., ::2], query[..., 1::2]
        turned = first * cos - second * sin, second * cos + first * sin
        return torch.cat(turned, dim=-1) if is_neox_style else torch.stack(turned, dim=-1).flatten(-2)

def get_rope(head_size, max_position, base):
    """Layers of a model share their tables."""
    key = (head_size, max_position, base)
    if key in _ROPE_DICT:
        return _ROPE_DICT[key]
    rope = RotaryEmbedding(head_size, max_position, base)
    _ROPE_DICT[key] = rope
    return rope
# --- test_pos_encoding.py
import torch

from rotary_embedding import get_rope

def reference(positions, query, base, is_neox_style):
    half = query.shape[-1] // 2
    rates = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.cpu().double()[:, None, None] * rates
    query = query.cpu().double()
    numbers = torch.complex(*query.chunk(2, dim=-1)) if is_neox_style else torch.view_as_complex(query.unflatten(-1, (half, 2)).contiguous())
    numbers = torch.view_as_real(numbers * torch.polar(torch.ones_like(angles), angles))
    return numbers.transpose(-1, -2).flatten(-2) if is_neox_style else numbers.flatten(-2)

def check_rotary_embedding(device, is_neox_style, seed, head_size=8, max_position=32, base=10000.0):
    torch.set_default_device(device)
    draw = torch.Generator("cpu").manual_seed(seed)
    rope = get_rope(head_size, max_position, base).to(torch.float32)
    positions = torch.randint(0, max_position, (11,), generator=draw, device="cpu").to(device)
    query = torch.randn(11, 2, head_size, generator=draw, device="cpu").to(device)
    found = rope(positions, query, is_neox_style)
    torch.set_default_device("cpu")
    return (found.cpu() - reference(positions, query, base, is_neox_style)).abs().max().item()

# === a_student_and_its_teacher
# thread: https://github.com/neuralmagic/sparseml/pull/2302
# about: a small model learns from a larger one, which is shared out between the GPUs by its size. What both say of a word is compared in a loss
# operation: sub on cuda:1, cuda:0
# operands: self|other|teacher_log.*|student_log.*
# category: module-split|default-or-current-device|input-not-moved
# line: main.py: student = load(
# line: distillation.py: teacher_logits = self.teacher(
# line: distillation.py: distilled = kl_divergence(
# line: distillation.py: pointwise = teacher_probs * (
# line: distillation.py: teacher_logs = (
# repair: main.py: student = load(student_config, device_map=first, seed=1) -> student = load(student_config, device_map="auto", seed=1)
import torch
from transformers import LlamaConfig

from distillation import DistillationTrainer
from loading import load

shared = dict(vocab_size=24, hidden_size=16, intermediate_size=24, num_attention_heads=2, num_key_value_heads=2)
teacher_config = LlamaConfig(num_hidden_layers=4, **shared)
student_config = LlamaConfig(num_hidden_layers=2, **shared)
first = "cuda:0" if torch.cuda.is_available() else "cpu"
teacher = load(teacher_config, device_map="auto", seed=0).eval()
student = load(student_config, device_map=first, seed=1)
trainer = DistillationTrainer(student, teacher, temperature=2.0, hardness=0.5)
draw = torch.Generator().manual_seed(3)
losses = [trainer.training_step(torch.randint(0, 24, (2, 6), generator=draw)) for _ in range(3)]
print("losses", [round(loss, 4) for loss in losses])
# --- loading.py
import torch
from accelerate import dispatch_model
from transformers import LlamaForCausalLM

def layers_over_gpus(config):
    """What device_map="auto" comes to where every GPU has room for the same."""
    count = torch.cuda.device_count()
    places = {f"model.layers.{index}": index * count // config.num_hidden_layers for index in range(config.num_hidden_layers)}
    return {"model.embed_tokens": 0, "model.rotary_emb": 0, **places, "model.norm": count - 1, "lm_head": count - 1}

def load(config, device_map, seed):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    if device_map != "auto":
        return model.to(device_map)
    if not torch.cuda.is_available():
        return model
    model = dispatch_model(model, device_map=layers_over_gpus(config), force_hooks=True)
    # The logits stay where the last layer has computed them.
    model._hf_hook.io_same_device = False
    return model
# --- distillation.py
import torch

def kl_divergence(student_logits, teacher_logits, temperature):
    student_logs = (student_logits / temperature).log_softmax(dim=-1)
    teacher_logs = (teacher_logits / temperature).log_softmax(dim=-1)
    teacher_probs = teacher_logs.exp()
    pointwise = teacher_probs * (teacher_logs - student_logs)
    return pointwise.sum(-1).mean() * temperature**2

class DistillationTrainer:
    def __init__(self, student, teacher, temperature, hardness):
        self.student, self.teacher = student, teacher
        self.temperature, self.hardness = temperature, hardness
        self.optimizer = torch.optim.SGD(student.parameters(), lr=0.1, foreach=False)

    def training_step(self, ids):
        ids = ids.to(next(self.student.parameters()).device)
        output = self.student(input_ids=ids, labels=ids)
        with torch.no_grad():
            teacher_logits = self.teacher(input_ids=ids).logits
        distilled = kl_divergence(output.logits, teacher_logits, self.temperature)
        loss = (1 - self.hardness) * output.loss.to(distilled.device) + self.hardness * distilled
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

# === blocks_that_move_their_input
# thread: https://github.com/TransformerLensOrg/TransformerLens/issues/439
# about: blocks of a transformer are shared out between the GPUs. What flows through is moved to each block; what the blocks are given beside it is made once, for all of them
# operation: index on cuda:1, cuda:0
# operands: self|rotary_cos|indices|offset_position_ids
# error: indices should be either on cpu or on the same device as the indexed tensor \(cuda:1\)
# category: module-split
# line: attention.py: offset_position_ids = get_offset_position_ids(
# line: attention.py: mask_rotary_cos = self.rotary_cos[
# line: attention.py: mask_rotary_sin = self.rotary_sin[
# line: hooked_transformer.py: residual = block(
# line: hooked_transformer.py: residual = residual.to(
# repair: hooked_transformer.py: residual = block(residual, attention_mask) -> residual = block(residual, attention_mask.to(residual.device))
import torch

from config import HookedTransformerConfig
from hooked_transformer import HookedTransformer

torch.manual_seed(0)
devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())] or ["cpu"]
cfg = HookedTransformerConfig(n_layers=4, d_model=12, n_heads=2, d_vocab=30, n_ctx=16, devices=devices)
model = HookedTransformer(cfg).move_model_modules_to_device()
prompts = [[5, 11, 2, 17], [9, 4]]
tokens, attention_mask = model.to_tokens(prompts)
generated = model.generate(tokens, attention_mask, max_new_tokens=3)
print("generated", generated.tolist())
# --- config.py
from dataclasses import dataclass, field

@dataclass
class HookedTransformerConfig:
    n_layers: int
    d_model: int
    n_heads: int
    d_vocab: int
    n_ctx: int
    devices: list = field(default_factory=lambda: ["cpu"])

    @property
    def d_head(self):
        return self.d_model // self.n_heads

    def device_for_block(self, index):
        return self.devices[index * len(self.devices) // self.n_layers]
# --- attention.py
import torch
from torch import nn

def get_offset_position_ids(attention_mask):
    """Where a prompt is filled up at its left, its words count from zero all the same."""
    shifted = attention_mask.cumsum(dim=1) - 1
    return shifted.masked_fill(shifted < 0, 0)

class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.W_QKV = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.W_O = nn.Linear(cfg.d_model, cfg.d_model)
        angles = torch.outer(torch.arange(cfg.n_ctx).float(), 10000.0 ** (-torch.arange(0, cfg.d_head, 2) / cfg.d_head)).repeat(1, 2)
        self.register_buffer("rotary_cos", angles.cos())
        self.register_buffer("rotary_sin", angles.sin())
        self.register_buffer("causal", torch.ones(cfg.n_ctx, cfg.n_ctx, dtype=torch.bool).tril())

    def apply_rotary(self, x, attention_mask):
        offset_position_ids = get_offset_position_ids(attention_mask)
        mask_rotary_cos = self.rotary_cos[offset_position_ids, None, :]
        mask_rotary_sin = self.rotary_sin[offset_position_ids, None, :]
        left, right = x.chunk(2, dim=-1)
        return x * mask_rotary_cos + torch.cat([-right, left], dim=-1) * mask_rotary_sin

    def forward(self, x, attention_mask):
        batch, length, _ = x.shape
        query, key, value = (part.view(batch, length, self.cfg.n_heads, -1) for part in self.W_QKV(x).chunk(3, dim=-1))
        query, key = self.apply_rotary(query, attention_mask), self.apply_rotary(key, attention_mask)
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / self.cfg.d_head**0.5
        allowed = self.causal[:length, :length] & attention_mask[:, None, None, :].bool()
        pattern = scores.masked_fill(~allowed, -1e9).softmax(dim=-1)
        return self.W_O(torch.einsum("bhqk,bkhd->bqhd", pattern, value).flatten(2))
# --- hooked_transformer.py
import torch
from torch import nn

from attention import Attention

class TransformerBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(cfg.d_model), Attention(cfg)
        self.ln2, self.mlp = nn.LayerNorm(cfg.d_model), nn.Sequential(nn.Linear(cfg.d_model, 24), nn.GELU(), nn.Linear(24, cfg.d_model))

    def forward(self, residual, attention_mask):
        residual = residual + self.attn(self.ln1(residual), attention_mask)
        return residual + self.mlp(self.ln2(residual))

class HookedTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed, self.unembed = nn.Embedding(cfg.d_vocab, cfg.d_model), nn.Linear(cfg.d_model, cfg.d_vocab)
        self.blocks = nn.ModuleList(TransformerBlock(cfg) for _ in range(cfg.n_layers))

    def move_model_modules_to_device(self):
        self.embed.to(self.cfg.devices[0])
        self.unembed.to(self.cfg.devices[-1])
        for index, block in enumerate(self.blocks):
            block.to(self.cfg.device_for_block(index))
        return self

    def to_tokens(self, prompts):
        longest = max(map(len, prompts))
        tokens = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        return tokens.to(self.cfg.devices[0]), (tokens != 0).long().to(self.cfg.devices[0])

    def forward(self, tokens, attention_mask):
        residual = self.embed(tokens)
        for index, block in enumerate(self.blocks):
            residual = residual.to(self.cfg.device_for_block(index))
            residual = block(residual, attention_mask)
        return self.unembed(residual)

    @torch.no_grad()
    def generate(self, tokens, attention_mask, max_new_tokens):
        for _ in range(max_new_tokens):
            new = self(tokens, attention_mask)[:, -1].argmax(-1, keepdim=True).to(tokens.device)
            tokens = torch.cat([tokens, new], dim=1)
            attention_mask = torch.cat([attention_mask, torch.ones_like(new)], dim=1)
        return tokens

# === links_that_are_not_there
# thread: https://github.com/pyg-team/pytorch_geometric/issues/3641
# about: a graph is put onto the GPU by a transformation when it is read. Its edges are then parted into those to learn from and those to test, and as many pairs without an edge are drawn
# operation: cat on cuda:0, cpu
# operands: tensors|neg_edge_index|negative
# category: created-without-device
# line: negative_sampling.py: return torch.tensor(
# line: random_link_split.py: neg_edge_index = negative_sampling(
# line: random_link_split.py: edge_label_index = torch.cat(
# repair: negative_sampling.py: return torch.tensor(pairs, dtype=torch.long).t() -> return torch.tensor(pairs, dtype=torch.long, device=edge_index.device).t()
import torch

import transforms as T
from data import rings
from model import LinkPredictor
from random_link_split import RandomLinkSplit

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
transform = T.Compose([
    T.NormalizeFeatures(),
    T.ToDevice(device),
])
data = transform(rings(count=3, size=6, seed=2))
train_data, test_data = RandomLinkSplit(num_test=0.25, seed=4)(data)
torch.manual_seed(1)
model = LinkPredictor(inputs=data.x.shape[1], width=8).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, foreach=False)
for _ in range(5):
    optimizer.zero_grad()
    scores = model(train_data.x, train_data.edge_index, train_data.edge_label_index)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, train_data.edge_label)
    loss.backward()
    optimizer.step()
with torch.no_grad():
    scores = model(test_data.x, test_data.edge_index, test_data.edge_label_index)
right = ((scores > 0).float() == test_data.edge_label).float().mean()
print("loss", round(loss.item(), 4), "right", round(right.item(), 3))
# --- data.py
from dataclasses import dataclass

import torch

@dataclass
class Data:
    x: torch.Tensor
    edge_index: torch.Tensor
    edge_label_index: torch.Tensor = None
    edge_label: torch.Tensor = None

    def to(self, device):
        return Data(**{key: None if value is None else value.to(device) for key, value in vars(self).items()})

def rings(count, size, seed):
    numbers = torch.arange(count * size)
    following = numbers // size * size + (numbers + 1) % size
    return Data(torch.rand(count * size, 5, generator=torch.Generator().manual_seed(seed)), torch.stack([numbers, following]))
# --- transforms.py
from dataclasses import replace

class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, data):
        for transform in self.transforms:
            data = transform(data)
        return data

class NormalizeFeatures:
    def __call__(self, data):
        return replace(data, x=data.x / data.x.sum(dim=-1, keepdim=True).clamp(min=1.0))

class ToDevice:
    def __init__(self, device):
        self.device = device

    def __call__(self, data):
        return data.to(self.device)
# --- negative_sampling.py
import random

import torch

def negative_sampling(edge_index, num_nodes, num_neg_samples, seed):
    """Pairs of nodes that no edge joins, either way."""
    taken = {tuple(pair) for pair in edge_index.t().tolist()}
    taken |= {(end, start) for start, end in taken}
    draw, pairs = random.Random(seed), []
    while len(pairs) < num_neg_samples:
        pair = draw.randrange(num_nodes), draw.randrange(num_nodes)
        if pair[0] != pair[1] and pair not in taken:
            taken.add(pair)
            pairs.append(pair)
    return torch.tensor(pairs, dtype=torch.long).t()
# --- random_link_split.py
from dataclasses import replace

import torch

from negative_sampling import negative_sampling

class RandomLinkSplit:
    def __init__(self, num_test, seed):
        self.num_test, self.seed = num_test, seed

    def __call__(self, data):
        edges = data.edge_index.shape[1]
        order = torch.randperm(edges, generator=torch.Generator().manual_seed(self.seed))
        order = order.to(data.edge_index.device)
        test = int(self.num_test * edges)
        neg_edge_index = negative_sampling(data.edge_index, len(data.x), edges, self.seed)
        train_edges = data.edge_index[:, order[test:]]
        splits = []
        for chosen, negative in ((order[test:], neg_edge_index[:, test:]), (order[:test], neg_edge_index[:, :test])):
            edge_label_index = torch.cat([data.edge_index[:, chosen], negative], dim=1)
            edge_label = torch.zeros(edge_label_index.shape[1], device=data.x.device)
            edge_label[: len(chosen)] = 1.0
            splits.append(replace(data, edge_index=train_edges, edge_label_index=edge_label_index, edge_label=edge_label))
        return splits
# --- model.py
import torch
from torch import nn

class LinkPredictor(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.own, self.around, self.out = nn.Linear(inputs, width), nn.Linear(inputs, width), nn.Linear(width, 1)

    def forward(self, x, edge_index, edge_label_index):
        start, end = edge_index
        summed = torch.zeros_like(x).index_add(0, end, x[start])
        hidden = torch.tanh(self.own(x) + self.around(summed))
        first, second = edge_label_index
        return self.out(hidden[first] * hidden[second]).squeeze(-1)

# === a_pair_of_features
# thread: https://github.com/catalyst-team/catalyst/pull/214
# about: a runner of experiments moves what a batch consists of to the GPU. This data set gives two images with each answer, of the same place at two times
# operation: .*conv.* on cpu, cuda:0
# operands: input|before|after|features.*
# error: should be the same
# category: input-not-moved
# line: runner.py: key: value.to(device) if torch.is_tensor(
# line: runner.py: key: value.to(
# line: runner.py: batch = self._batch2device(
# line: model.py: before, after = features
# repair: runner.py: key: value.to(device) if torch.is_tensor(value) else value -> key: value.to(device) if torch.is_tensor(value) else tuple(each.to(device) for each in value)
import argparse

import torch
from torch.utils.data import DataLoader

from callbacks import CriterionCallback, OptimizerCallback
from data import PlacesAtTwoTimes
from model import ChangeNet
from runner import SupervisedRunner

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=4)
args = parser.parse_args()

torch.manual_seed(0)
model = ChangeNet(channels=4)
loaders = {
    "train": DataLoader(PlacesAtTwoTimes(8, seed=1), batch_size=args.batch_size),
    "valid": DataLoader(PlacesAtTwoTimes(4, seed=2), batch_size=args.batch_size),
}
runner = SupervisedRunner()
runner.train(
    model=model,
    loaders=loaders,
    callbacks=[
        CriterionCallback(torch.nn.BCEWithLogitsLoss()),
        OptimizerCallback(lr=0.1),
    ],
    num_epochs=args.epochs,
)
print({name: round(value, 4) for name, value in runner.metrics.items()})
# --- data.py
import torch
from torch.utils.data import Dataset


class PlacesAtTwoTimes(Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.before = torch.rand(count, 1, 8, 8, generator=draw)
        self.changes = (torch.rand(count, 1, 8, 8, generator=draw) > 0.7).float()

    def __len__(self):
        return len(self.before)

    def __getitem__(self, index):
        before, changes = self.before[index], self.changes[index]
        after = (before + 0.5 * changes) % 1.0
        return {"features": (before, after), "targets": changes}
# --- model.py
import torch
from torch import nn


class ChangeNet(nn.Module):
    """Compares two images of a place."""

    def __init__(self, channels):
        super().__init__()
        self.encoder = nn.Conv2d(1, channels, 3, padding=1)
        self.decoder = nn.Conv2d(channels, 1, 1)

    def forward(self, features):
        before, after = features
        difference = self.encoder(after) - self.encoder(before)
        return self.decoder(torch.relu(difference))
# --- callbacks.py
import torch


class Callback:
    def on_stage_start(self, state):
        pass

    def on_batch_end(self, state):
        pass


class CriterionCallback(Callback):
    def __init__(self, criterion):
        self.criterion = criterion

    def on_batch_end(self, state):
        state["loss"] = self.criterion(
            state["output"],
            state["input"]["targets"],
        )


class OptimizerCallback(Callback):
    def __init__(self, lr):
        self.lr = lr
        self.optimizer = None

    def on_stage_start(self, state):
        self.optimizer = torch.optim.SGD(
            state["model"].parameters(),
            lr=self.lr,
            foreach=False,
        )

    def on_batch_end(self, state):
        if state["loader_name"] != "train":
            return
        self.optimizer.zero_grad()
        state["loss"].backward()
        self.optimizer.step()
# --- runner.py
import torch


class SupervisedRunner:
    def __init__(self, device=None):
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(device)
        self.metrics = {}

    @staticmethod
    def _batch2device(batch, device):
        return {
            key: value.to(device) if torch.is_tensor(value) else value
            for key, value in batch.items()
        }

    def run_event(self, name, state, callbacks):
        for callback in callbacks:
            getattr(callback, name)(state)

    def run_loader(self, name, loader, state, callbacks):
        losses = []
        for batch in loader:
            batch = self._batch2device(batch, self.device)
            state.update(input=batch, loader_name=name)
            state["output"] = state["model"](batch["features"])
            self.run_event("on_batch_end", state, callbacks)
            losses.append(state["loss"].item())
        self.metrics[f"{name}_loss"] = sum(losses) / len(losses)

    def train(self, model, loaders, callbacks, num_epochs):
        state = {"model": model.to(self.device)}
        self.run_event("on_stage_start", state, callbacks)
        for _ in range(num_epochs):
            for name, loader in loaders.items():
                self.run_loader(name, loader, state, callbacks)

# === crystals_taken_out_of_a_batch
# thread: https://github.com/TorchSim/torch-sim/pull/508
# about: many crystals are simulated as one batch, and each that is done is taken out of it. Atoms that are held fast go with their crystal, by numbers within it
# operation: isin|eq|.*unique.* on cuda:0, cpu
# operands: atom_idx|test_elements
# category: created-without-device
# line: state.py: atom_idx = torch.arange(
# line: constraints.py: mask = torch.isin(
# line: state.py: constraint.select_sub_constraint(
# repair: state.py: atom_idx = torch.arange(ends[number], ends[number + 1]) -> atom_idx = torch.arange(ends[number].item(), ends[number + 1].item(), device=state.device)
import torch

from constraints import FixAtoms
from optimizers import GradientDescent
from state import concatenate_states, initialize_state, split_state

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
draw = torch.Generator().manual_seed(5)
systems = [2.0 * torch.rand(atoms, 3, generator=draw) for atoms in (4, 3, 5)]
state = concatenate_states([initialize_state(positions, device) for positions in systems])
state.constraints.append(FixAtoms(torch.tensor([0, 4, 8], device=device)))

optimizer = GradientDescent(stiffness=1.0, rest=1.2, step=0.05)
for _ in range(20):
    state = optimizer.step(state)
energies = optimizer.energies(state)
finished = []
for single, energy in zip(split_state(state), energies.tolist()):
    held = sum(len(constraint.atom_idx) for constraint in single.constraints)
    finished.append((len(single.positions), held, round(energy, 4)))
print("finished", finished)
# --- constraints.py
import torch

class FixAtoms:
    """Atoms that stay where they are, by their numbers in the batch."""

    def __init__(self, atom_idx):
        self.atom_idx = atom_idx

    def adjust_forces(self, forces):
        forces[self.atom_idx] = 0.0

    def select_sub_constraint(self, atom_idx):
        mask = torch.isin(self.atom_idx, atom_idx)
        if not mask.any():
            return None
        return FixAtoms(self.atom_idx[mask] - atom_idx.min())
# --- state.py
from dataclasses import dataclass, field

import torch

@dataclass
class SimState:
    positions: torch.Tensor
    system_idx: torch.Tensor
    constraints: list = field(default_factory=list)

    @property
    def device(self):
        return self.positions.device

    @property
    def n_systems(self):
        return int(self.system_idx.max()) + 1

def initialize_state(positions, device):
    return SimState(positions.to(device), torch.zeros(len(positions), dtype=torch.long, device=device))

def concatenate_states(states):
    system_idx = torch.cat([state.system_idx + number for number, state in enumerate(states)])
    return SimState(torch.cat([state.positions for state in states]), system_idx)

def split_state(state):
    """As many states as there are systems, each with what holds of its atoms."""
    sizes = torch.bincount(state.system_idx)
    ends = torch.cat([torch.zeros_like(sizes[:1]), sizes.cumsum(0)])
    states = []
    for number, positions in enumerate(state.positions.split(sizes.tolist())):
        atom_idx = torch.arange(ends[number], ends[number + 1])
        kept = [constraint.select_sub_constraint(atom_idx) for constraint in state.constraints]
        system_idx = torch.zeros(len(positions), dtype=torch.long, device=state.device)
        states.append(SimState(positions, system_idx, [each for each in kept if each is not None]))
    return states
# --- optimizers.py
from dataclasses import replace

import torch

class GradientDescent:
    """Springs between all atoms of a system."""

    def __init__(self, stiffness, rest, step):
        self.stiffness, self.rest, self.size = stiffness, rest, step

    def energies(self, state):
        together = (state.system_idx[:, None] == state.system_idx).triu(1)
        start, end = together.nonzero(as_tuple=True)
        distances = (state.positions[start] - state.positions[end]).norm(dim=-1)
        springs = 0.5 * self.stiffness * (distances - self.rest).square()
        return torch.zeros(state.n_systems, device=state.device).index_add(0, state.system_idx[start], springs)

    def step(self, state):
        positions = state.positions.detach().requires_grad_()
        energy = self.energies(replace(state, positions=positions)).sum()
        forces = -torch.autograd.grad(energy, positions)[0]
        for constraint in state.constraints:
            constraint.adjust_forces(forces)
        return replace(state, positions=positions.detach() + self.size * forces)

# === a_grid_for_each_size
# thread: https://github.com/Megvii-BaseDetection/YOLOX/pull/1679
# about: a detector says of each place in an image how far a box is from it. Places are counted out for a size of images, and counted anew when it changes. Half of the time nothing is learned, only measured
# operation: add on cuda:0, cpu
# operands: other|grid
# category: created-without-device|cached-state
# line: yolo_head.py: grid = torch.stack(
# line: yolo_head.py: yv, xv = torch.meshgrid(
# line: yolo_head.py: grid = grid.view(
# line: yolo_head.py: self.grids[k] = grid
# line: yolo_head.py: output[..., :2] = (
# repair: yolo_head.py: grid = grid.view(1, -1, 2) -> grid = grid.view(1, -1, 2).to(output.device)
import torch

from darknet import Backbone
from trainer import Trainer
from yolo_head import YOLOXHead

class YOLOX(torch.nn.Module):
    def __init__(self, width, num_classes):
        super().__init__()
        self.backbone = Backbone(width)
        self.head = YOLOXHead(num_classes, in_channels=width, strides=(4, 8))

    def forward(self, x, targets=None):
        return self.head(self.backbone(x), targets)

torch.manual_seed(0)
trainer = Trainer(YOLOX(width=6, num_classes=2), device="cuda" if torch.cuda.is_available() else "cpu")
print("boxes", trainer.evaluate(size=16))
trainer.train_one_epoch(sizes=(16, 24))
print("losses", [round(loss, 4) for loss in trainer.losses], "boxes", trainer.evaluate(size=24))
# --- darknet.py
from torch import nn

class Backbone(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 4, stride=4), nn.SiLU())
        self.deeper = nn.Sequential(nn.Conv2d(width, width, 2, stride=2), nn.SiLU())

    def forward(self, x):
        fine = self.stem(x)
        return [fine, self.deeper(fine)]
# --- yolo_head.py
import torch
from torch import nn

class YOLOXHead(nn.Module):
    def __init__(self, num_classes, in_channels, strides):
        super().__init__()
        self.num_classes, self.strides = num_classes, strides
        self.preds = nn.ModuleList(nn.Conv2d(in_channels, 5 + num_classes, 1) for _ in strides)
        self.grids = [torch.zeros(1)] * len(strides)

    def forward(self, features, targets=None):
        outputs, strides = [], []
        for k, (pred, stride, x) in enumerate(zip(self.preds, self.strides, features)):
            output = pred(x)
            if self.training:
                output, grid = self.get_output_and_grid(output, k, stride)
                strides.append(torch.full((grid.shape[1],), stride).type_as(output))
            else:
                output = output.flatten(2).transpose(1, 2)
            outputs.append(output)
        if self.training:
            return self.get_losses(torch.cat(outputs, dim=1), torch.cat(strides), targets)
        return self.decode(torch.cat(outputs, dim=1), [x.shape[-2:] for x in features])

    def get_output_and_grid(self, output, k, stride):
        grid = self.grids[k]
        hsize, wsize = output.shape[-2:]
        if grid.shape[2:4] != output.shape[2:4]:
            yv, xv = torch.meshgrid(torch.arange(hsize), torch.arange(wsize), indexing="ij")
            grid = torch.stack((xv, yv), 2).view(1, 1, hsize, wsize, 2).type(output.dtype)
            self.grids[k] = grid
        output = output.flatten(2).transpose(1, 2)
        grid = grid.view(1, -1, 2)
        output = output.clone()
        output[..., :2] = (output[..., :2] + grid) * stride
        output[..., 2:4] = torch.exp(output[..., 2:4]) * stride
        return output, grid

    def decode(self, outputs, sizes):
        grids, strides = [], []
        for (hsize, wsize), stride in zip(sizes, self.strides):
            yv, xv = torch.meshgrid(torch.arange(hsize), torch.arange(wsize), indexing="ij")
            grids.append(torch.stack((xv, yv), 2).view(1, -1, 2))
            strides.append(torch.full((1, hsize * wsize, 1), stride))
        grids = torch.cat(grids, dim=1).type_as(outputs)
        strides = torch.cat(strides, dim=1).type_as(outputs)
        return torch.cat([(outputs[..., :2] + grids) * strides, outputs[..., 2:4].exp() * strides, outputs[..., 4:].sigmoid()], dim=-1)

    def get_losses(self, outputs, strides, targets):
        """Each target is learned by the place whose box is nearest to it."""
        boxes, classes = targets
        near = (outputs[..., None, :4] - boxes[:, None]).abs().sum(-1)
        best = (near.detach() / strides[None, :, None]).argmin(dim=1)
        chosen = outputs.gather(1, best[..., None].expand(-1, -1, outputs.shape[-1]))
        apart = (chosen[..., :4] - boxes).abs().mean() / 8
        wrong = nn.functional.cross_entropy(chosen[..., 5:].flatten(0, 1), classes.flatten())
        return apart + wrong
# --- trainer.py
import torch

class Trainer:
    def __init__(self, model, device):
        self.device, self.model, self.losses = torch.device(device), model.to(device), []
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
        self.draw = torch.Generator().manual_seed(8)

    def images(self, size):
        return torch.rand(2, 3, size, size, generator=self.draw).to(self.device)

    def train_one_epoch(self, sizes):
        self.model.train()
        for size in sizes:
            boxes = size * torch.rand(2, 3, 4, generator=self.draw)
            classes = torch.randint(0, 2, (2, 3), generator=self.draw)
            loss = self.model(self.images(size), (boxes.to(self.device), classes.to(self.device)))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())

    @torch.no_grad()
    def evaluate(self, size):
        self.model.eval()
        return list(self.model(self.images(size)).shape)

# === a_classifier_inside_a_loss
# thread: https://github.com/huggingface/sentence-transformers/pull/2378
# about: a model of sentences is on the GPU as soon as it is made. A loss for pairs of sentences puts a classifier on top of it, and is called with what the model makes of the sentences
# operation: addmm|linear|mm on cuda:0, cpu
# operands: mat1|input|features|.*weight|.*bias
# category: module-split|created-without-device
# line: softmax_loss.py: self.classifier = torch.nn.Linear(
# line: main.py: loss = SoftmaxLoss(
# repair: softmax_loss.py: self.classifier = torch.nn.Linear(count * dimension, num_labels) -> self.classifier = torch.nn.Linear(count * dimension, num_labels, device=model.device)
import torch

from encoder import SentenceEncoder
from pairs import batches
from softmax_loss import SoftmaxLoss

torch.manual_seed(0)
words = "a man plays guitar the dog runs nobody sleeps woman eats outside music".split()
model = SentenceEncoder(words, dimension=6)
loss = SoftmaxLoss(model, dimension=model.dimension, num_labels=3)
optimizer = torch.optim.AdamW(loss.parameters(), lr=0.05, foreach=False)
losses = []
for epoch in range(3):
    for first, second, labels in batches(size=2):
        features = [model.tokenize(first), model.tokenize(second)]
        features = [{key: value.to(model.device) for key, value in each.items()} for each in features]
        value = loss(features, labels.to(model.device))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(round(value.item(), 4))
print("losses", losses)
# --- pairs.py
import torch

NLI = [
    ("a man plays guitar", "the man plays music", 0),
    ("the dog runs outside", "the dog sleeps", 1),
    ("a woman eats", "a woman eats outside", 2),
    ("nobody sleeps", "a man sleeps", 1),
]

def batches(size):
    for start in range(0, len(NLI), size):
        first, second, labels = zip(*NLI[start : start + size])
        yield first, second, torch.tensor(labels)
# --- encoder.py
import torch
from torch import nn

def get_device_name():
    return "cuda" if torch.cuda.is_available() else "cpu"

class SentenceEncoder(nn.Module):
    def __init__(self, words, dimension, device=None):
        super().__init__()
        self.numbers = {word: number for number, word in enumerate(words, 1)}
        self.embeddings, self.dimension = nn.Embedding(len(words) + 1, dimension, padding_idx=0), dimension
        self.dense = nn.Linear(dimension, dimension)
        self.to(device or get_device_name())

    @property
    def device(self):
        return self.dense.weight.device

    def tokenize(self, sentences):
        rows = [[self.numbers[word] for word in sentence.split()] for sentence in sentences]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": ids.ne(0).float()}

    def forward(self, features):
        mask = features["attention_mask"].unsqueeze(-1)
        summed = (self.embeddings(features["input_ids"]) * mask).sum(1)
        return {"sentence_embedding": torch.tanh(self.dense(summed / mask.sum(1)))}
# --- softmax_loss.py
import torch

class SoftmaxLoss(torch.nn.Module):
    def __init__(self, model, dimension, num_labels, concatenate_difference=True):
        super().__init__()
        self.model, self.concatenate_difference = model, concatenate_difference
        count = 3 if concatenate_difference else 2
        self.classifier = torch.nn.Linear(count * dimension, num_labels)

    def forward(self, sentence_features, labels):
        first, second = (self.model(features)["sentence_embedding"] for features in sentence_features)
        vectors = [first, second]
        if self.concatenate_difference:
            vectors.append(torch.abs(first - second))
        features = torch.cat(vectors, dim=1)
        output = self.classifier(features)
        return torch.nn.functional.cross_entropy(output, labels)

# === tags_that_are_not_padding
# thread: https://github.com/Unbabel/OpenKiwi/pull/44
# about: words of a translation are tagged good or bad. Where sentences are filled up, and where the tags shall be ignored, nothing is counted
# operation: bitwise_and|__iand__|logical_and on cpu, cuda:0
# operands: self|mask
# category: created-without-device
# line: metrics.py: mask = torch.ones(
# line: metrics.py: mask &= target != pad
# repair: metrics.py: mask = torch.ones(target.shape, dtype=torch.bool) -> mask = torch.ones_like(target, dtype=torch.bool)
import torch

import constants
from metrics import CorrectMetric, MetricsLog
from model import QualityTagger

torch.manual_seed(0)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
sentences = [[3, 8, 5, 2], [7, 7], [4, 9, 6]]
tags = [[constants.OK, constants.BAD, constants.OK, constants.OK], [constants.BAD, constants.OK], [constants.OK, constants.BAD, constants.BAD]]
longest = max(map(len, sentences))
source = torch.tensor([row + [constants.PAD_ID] * (longest - len(row)) for row in sentences]).to(device)
target = torch.tensor([row + [constants.PAD_TAG] * (longest - len(row)) for row in tags]).to(device)
model = QualityTagger(vocabulary=12, width=6).to(device)
log = MetricsLog([CorrectMetric(prefix="tags")])
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
for _ in range(4):
    scores = model(source)
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=constants.PAD_TAG)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.update(scores.detach(), target)
print("loss", round(loss.item(), 4), log.summary())
# --- constants.py
OK, BAD, PAD_TAG = 0, 1, 2
PAD_ID = 0
# --- model.py
from torch import nn

import constants

class QualityTagger(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=constants.PAD_ID)
        self.mixed, self.out = nn.Conv1d(width, width, 3, padding=1), nn.Linear(width, 2)

    def forward(self, source):
        mixed = self.mixed(self.embed(source).transpose(1, 2)).transpose(1, 2)
        return self.out(mixed.relu())
# --- metrics.py
import torch

import constants

def get_valid_mask(target, pad=None, ignore=()):
    mask = torch.ones(target.shape, dtype=torch.bool)
    if pad is not None:
        mask &= target != pad
    for tag in ignore:
        mask &= target != tag
    return mask

class CorrectMetric:
    def __init__(self, prefix):
        self.prefix, self.correct, self.tokens = prefix, 0, 0

    def update(self, scores, target):
        mask = get_valid_mask(target, pad=constants.PAD_TAG)
        found = scores.argmax(-1)
        self.correct += (found[mask] == target[mask]).sum().item()
        self.tokens += mask.sum().item()

    def summarize(self):
        return {f"{self.prefix}_correct": round(self.correct / self.tokens, 4)}

class MetricsLog:
    def __init__(self, metrics):
        self.metrics = metrics

    def update(self, scores, target):
        for metric in self.metrics:
            metric.update(scores, target)

    def summary(self):
        return {key: value for metric in self.metrics for key, value in metric.summarize().items()}

# === images_without_boxes
# thread: https://github.com/rwightman/efficientdet-pytorch/issues/105
# about: anchors are matched with the boxes of an image, and those that no box is near get the class of nothing. Some images have no boxes at all
# operation: stack|cat on cuda:0, cpu
# operands: tensors|matches.*
# category: created-without-device
# line: argmax_matcher.py: return -1 * torch.ones(
# line: labeler.py: matches = torch.stack(
# line: labeler.py: matches.append(
# repair: argmax_matcher.py: return -1 * torch.ones(similarity.shape[1], dtype=torch.long) -> return -1 * torch.ones(similarity.shape[1], dtype=torch.long, device=similarity.device)
import torch

from anchors import generate_anchors
from argmax_matcher import ArgMaxMatcher
from bench import DetBenchTrain
from labeler import AnchorLabeler

torch.manual_seed(1)
device = "cuda:0" if torch.cuda.is_available() else "cpu"
anchors = generate_anchors(size=32, stride=8)
labeler = AnchorLabeler(anchors, ArgMaxMatcher(matched=0.4, unmatched=0.2), num_classes=3)
bench = DetBenchTrain(labeler, num_classes=3).to(device)
boxes = [[[2.0, 2.0, 14.0, 15.0], [16.0, 17.0, 31.0, 30.0]], [], [[8.0, 0.0, 22.0, 15.0]]]
classes = [[0, 2], [], [1]]
targets = {
    "bbox": [torch.tensor(rows).reshape(-1, 4).to(device) for rows in boxes],
    "cls": [torch.tensor(rows, dtype=torch.long).to(device) for rows in classes],
}
optimizer = torch.optim.SGD(bench.parameters(), lr=0.3, foreach=False)
losses = []
for _ in range(3):
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(6)).to(device)
    loss = bench(images, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- anchors.py
import torch

def generate_anchors(size, stride, scale=1.75):
    centres = torch.arange(stride / 2, size, stride)
    y, x = torch.meshgrid(centres, centres, indexing="ij")
    half = scale * stride / 2
    return torch.stack([x - half, y - half, x + half, y + half], dim=-1).view(-1, 4)

def similarity_of(boxes, anchors):
    """How much of two boxes is common to both, for each pair."""
    low = torch.maximum(boxes[:, None, :2], anchors[:, :2])
    high = torch.minimum(boxes[:, None, 2:], anchors[:, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    areas = [(each[:, 2:] - each[:, :2]).prod(-1) for each in (boxes, anchors)]
    return common / (areas[0][:, None] + areas[1] - common)
# --- argmax_matcher.py
import torch

class ArgMaxMatcher:
    """For each anchor the number of its box; -1 for none and -2 for one that is not near enough to learn from."""

    def __init__(self, matched, unmatched):
        self.matched, self.unmatched = matched, unmatched

    def match(self, similarity):
        if similarity.shape[0] == 0:
            return self._match_when_rows_are_empty(similarity)
        return self._match_when_rows_are_non_empty(similarity)

    def _match_when_rows_are_empty(self, similarity):
        return -1 * torch.ones(similarity.shape[1], dtype=torch.long)

    def _match_when_rows_are_non_empty(self, similarity):
        values, matches = similarity.max(dim=0)
        matches = matches.masked_fill(values < self.matched, -2)
        matches = matches.masked_fill(values < self.unmatched, -1)
        best = similarity.argmax(dim=1)
        matches[best] = torch.arange(len(best), device=matches.device)
        return matches
# --- labeler.py
import torch
from torch import nn

from anchors import similarity_of

class AnchorLabeler(nn.Module):
    def __init__(self, anchors, matcher, num_classes):
        super().__init__()
        self.register_buffer("anchors", anchors)
        self.matcher, self.num_classes = matcher, num_classes

    def batch_label_anchors(self, boxes, classes):
        matches = []
        for rows in boxes:
            matches.append(self.matcher.match(similarity_of(rows, self.anchors)))
        matches = torch.stack(matches)
        labels = torch.full_like(matches, self.num_classes)
        for label, match, own in zip(labels, matches, classes):
            label[match >= 0] = own[match[match >= 0]]
            label[match == -2] = -100
        return labels
# --- bench.py
from torch import nn

class DetBenchTrain(nn.Module):
    def __init__(self, labeler, num_classes):
        super().__init__()
        self.labeler, self.head = labeler, nn.Conv2d(3, num_classes + 1, 8, stride=8)

    def forward(self, images, targets):
        labels = self.labeler.batch_label_anchors(targets["bbox"], targets["cls"])
        scores = self.head(images).flatten(2)
        return nn.functional.cross_entropy(scores, labels, ignore_index=-100)

# === speed_of_an_earlier_run
# thread: https://github.com/microsoft/Cream/issues/2
# about: a network of which only one path is taken at a time is trained for days. A run that was broken off goes on from its file, with the speed that the weights had
# operation: add_? on cpu, cuda:0
# operands: self|.*momentum_buffer.*|buf
# category: optimizer|checkpoint
# line: train.py: model = SuperNet(
# line: train.py: model.to(
# line: train.py: optimizer.load_state_dict(
# line: train.py: resume_epoch = resume_checkpoint(
# repair: train.py: model = SuperNet(width=cfg.width, choices=cfg.choices) -> model = SuperNet(width=cfg.width, choices=cfg.choices).to(device)
import tempfile
from pathlib import Path

import torch

from config import Config
from train import run

with tempfile.TemporaryDirectory() as folder:
    cfg = Config(checkpoint=str(Path(folder) / "checkpoint-0.pth.tar"))
    torch.manual_seed(0)
    first = run(cfg, epochs=1)
    cfg.auto_resume = True
    second = run(cfg, epochs=2)
print("first", [round(loss, 4) for loss in first], "then", [round(loss, 4) for loss in second])
# --- config.py
from dataclasses import dataclass

@dataclass
class Config:
    checkpoint: str
    auto_resume: bool = False
    width: int = 6
    choices: int = 3
    lr: float = 0.05
    momentum: float = 0.9
# --- supernet.py
import torch
from torch import nn

class SuperNet(nn.Module):
    """In each layer one of several operations is taken."""

    def __init__(self, width, choices, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(choices)) for _ in range(layers))
        self.classifier = nn.Linear(width, 2)

    def forward(self, x, path):
        for layer, choice in zip(self.layers, path):
            x = torch.relu(layer[choice](x)) + x
        return self.classifier(x)
# --- train.py
import os

import torch

from supernet import SuperNet

def resume_checkpoint(model, optimizer, path):
    saved = torch.load(path, map_location="cpu")
    model.load_state_dict(saved["state_dict"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"]

def train_epoch(epoch, model, optimizer, device):
    draw, losses = torch.Generator().manual_seed(epoch), []
    for _ in range(3):
        x = torch.randn(8, model.classifier.in_features, generator=draw)
        y = (x.sum(1) > 0).long()
        path = torch.randint(0, len(model.layers[0]), (len(model.layers),), generator=draw).tolist()
        loss = torch.nn.functional.cross_entropy(model(x.to(device), path), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

def run(cfg, epochs):
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    model = SuperNet(width=cfg.width, choices=cfg.choices)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=cfg.momentum, foreach=False)
    resume_epoch = 0
    if cfg.auto_resume and os.path.exists(cfg.checkpoint):
        resume_epoch = resume_checkpoint(model, optimizer, cfg.checkpoint)
    model.to(device)
    losses = []
    for epoch in range(resume_epoch, epochs):
        losses += train_epoch(epoch, model, optimizer, device)
        torch.save({"epoch": epoch + 1, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, cfg.checkpoint)
    return losses
