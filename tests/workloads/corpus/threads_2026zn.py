# === a_decoder_that_does_not_fit
# thread: https://github.com/Comfy-Org/ComfyUI/issues/15251
# about: a decoder of videos is too large for the GPU, so that a patcher loads only as many of its layers as fit. The other layers' weights are taken there when they are used
# operation: cat on cpu, cuda:0
# operands: tensors|.*register_tokens.*|registers
# category: module-split|input-not-moved
# line: vae.py: h = torch.cat([registers, h], dim=1)
# line: vae.py: registers = self.register_tokens
# line: model_patcher.py: if hasattr(module, "comfy_cast_weights"):
# repair: vae.py: h = torch.cat([registers, h], dim=1) -> h = torch.cat([registers.to(h), h], dim=1)
import logging

import torch

import model_management
from model_patcher import ModelPatcher
from vae import ViT3DDecoder

logging.basicConfig(level=logging.WARNING, format="%(message)s")


class VAEDecode:
    """A node of a graph: latents come in, pictures go out."""

    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "decode"

    def __init__(self, vae: ModelPatcher):
        self.vae = vae

    @torch.no_grad()
    def decode(self, samples):
        free = model_management.get_free_memory(self.vae.load_device)
        self.vae.partially_load(lowvram_model_memory=free)
        pixels = self.vae.model(samples["samples"].to(self.vae.load_device))
        return (pixels.to(self.vae.offload_device),)


def main():
    torch.manual_seed(21)
    decoder = ViT3DDecoder(channels=4, width=16, depth=3, registers=2)
    patcher = ModelPatcher(
        decoder.eval(),
        load_device=model_management.get_torch_device(),
        offload_device=torch.device("cpu"),
    )
    samples = {"samples": torch.rand(1, 5, 4, generator=torch.Generator().manual_seed(3))}
    (pixels,) = VAEDecode(patcher).decode(samples)
    print("pixels", list(pixels.shape), round(pixels.sum().item(), 4))


if __name__ == "__main__":
    main()
# --- model_management.py
import torch


def get_torch_device():
    return torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")


def get_free_memory(device):
    return 9000  # as little as a small card has, next to what is there already


def module_size(module):
    return sum(p.numel() * p.element_size() for p in module.parameters())
# --- ops.py
import torch


class CastWeights:
    """Weights that are not on the input's device are taken there for a call."""

    comfy_cast_weights = True

    def cast_bias_weight(self, input):
        return self.weight.to(input.device), self.bias.to(input.device)


class Linear(torch.nn.Linear, CastWeights):
    def forward(self, input):
        weight, bias = self.cast_bias_weight(input)
        return torch.nn.functional.linear(input, weight, bias)


class LayerNorm(torch.nn.LayerNorm, CastWeights):
    def forward(self, input):
        weight, bias = self.cast_bias_weight(input)
        return torch.nn.functional.layer_norm(input, self.normalized_shape, weight, bias, self.eps)
# --- model_patcher.py
import model_management


class ModelPatcher:
    def __init__(self, model, load_device, offload_device):
        self.model = model
        self.load_device, self.offload_device = load_device, offload_device

    def _load_list(self):
        loading = []
        for name, module in self.model.named_modules():
            if hasattr(module, "comfy_cast_weights"):
                loading.append((model_management.module_size(module), name, module))
        return sorted(loading, key=lambda each: each[:2], reverse=True)

    def partially_load(self, lowvram_model_memory):
        used = 0
        for size, _, module in self._load_list():
            if used + size <= lowvram_model_memory:
                module.to(self.load_device)
                used += size
        return used
# --- vae.py
import torch
from torch import nn

import ops


class TransformerBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = ops.LayerNorm(width)
        self.qkv = ops.Linear(width, 3 * width)
        self.out = ops.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return x + self.out(nn.functional.scaled_dot_product_attention(q, k, v))


class ViT3DDecoder(nn.Module):
    def __init__(self, channels, width, depth, registers):
        super().__init__()
        self.register_tokens = nn.Parameter(0.1 * torch.randn(1, registers, width))
        self.proj_in = ops.Linear(channels, width)
        self.blocks = nn.ModuleList(TransformerBlock(width) for _ in range(depth))
        self.proj_out = ops.Linear(width, 3 * channels)

    def forward(self, z):
        h = self.proj_in(z)
        registers = self.register_tokens.expand(len(h), -1, -1)
        h = torch.cat([registers, h], dim=1)
        for block in self.blocks:
            h = block(h)
        return self.proj_out(h[:, registers.shape[1] :]).sigmoid()

# === texts_packed_in_a_row
# thread: https://github.com/InternLM/xtuner/pull/1325
# about: texts are packed in one row, and bounds tell where each ends. An attention of one kind reads the bounds on the CPU; from the same bounds places of words are counted
# operation: bmm|matmul|mm on cuda:0, cpu
# operands: other|mat2|.*position_ids.*
# category: input-not-moved|created-without-device
# line: rope.py: position_ids_expanded = position_ids[
# line: sequence_context.py: return torch.cat(position_ids)
# line: sequence_context.py: position_ids = [torch.arange(
# line: rope.py: freqs = (inv_freq_expanded
# line: sequence_context.py: self.cu_seq_lens = self.cu_seq_lens.cpu()
# line: model.py: cos, sin = self.rotary_emb(
# repair: rope.py: position_ids_expanded = position_ids[:, None, :].float() -> position_ids_expanded = position_ids[:, None, :].float().to(x.device)
import json

import torch

from config import DenseConfig
from model import Dense
from sequence_context import SequenceContext

SETTINGS = json.loads('{"attn_impl": "sliced", "hidden_size": 16, "head_dim": 8, "lr": 0.05}')

torch.manual_seed(13)
config = DenseConfig(**SETTINGS)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Dense(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, foreach=False)
texts = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8]]
losses = []
for _ in range(3):
    seq_ctx = SequenceContext.pack(texts, attn_impl=config.attn_impl).to(device)
    loss = model(seq_ctx)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- config.py
from dataclasses import dataclass


@dataclass(frozen=True)
class DenseConfig:
    attn_impl: str = "masked"
    vocab_size: int = 12
    hidden_size: int = 16
    head_dim: int = 8
    rope_theta: float = 100.0
    lr: float = 0.01
# --- sequence_context.py
from dataclasses import dataclass

import torch


@dataclass
class SequenceContext:
    input_ids: torch.Tensor
    cu_seq_lens: torch.Tensor
    attn_impl: str

    @classmethod
    def pack(cls, texts, attn_impl):
        ids = torch.tensor([word for text in texts for word in text])
        lengths = torch.tensor([0] + [len(text) for text in texts])
        return cls(ids.unsqueeze(0), lengths.cumsum(0), attn_impl)

    @property
    def position_ids(self):
        bounds = self.cu_seq_lens
        position_ids = [torch.arange(n, device=bounds.device) for n in bounds.diff().tolist()]
        return torch.cat(position_ids).unsqueeze(0)

    def to(self, device):
        self.input_ids = self.input_ids.to(device)
        self.cu_seq_lens = self.cu_seq_lens.to(device)
        if self.attn_impl == "sliced":
            # bounds of slices are read at each layer: not to wait for the GPU every time
            self.cu_seq_lens = self.cu_seq_lens.cpu()
        return self
# --- rope.py
import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        inv_freq = config.rope_theta ** (-torch.arange(0, config.head_dim, 2) / config.head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        position_ids_expanded = position_ids[:, None, :].float()
        freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
        return freqs.cos().to(x.dtype), freqs.sin().to(x.dtype)


def apply_rotary(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
# --- attention.py
import torch
import torch.nn.functional as F


def sliced(q, k, v, cu_seq_lens):
    ends = cu_seq_lens.tolist()
    parts = [slice(start, end) for start, end in zip(ends, ends[1:])]
    return torch.cat([F.scaled_dot_product_attention(q[:, s], k[:, s], v[:, s], is_causal=True) for s in parts], dim=1)


def masked(q, k, v, cu_seq_lens):
    text = torch.bucketize(torch.arange(q.shape[1], device=q.device), cu_seq_lens[1:], right=True)
    mask = (text[:, None] == text[None, :]).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


ATTENTIONS = {"sliced": sliced, "masked": masked}
# --- model.py
from torch import nn

from attention import ATTENTIONS
from rope import RotaryEmbedding, apply_rotary


class Dense(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = ATTENTIONS[config.attn_impl]
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * config.head_dim)
        self.rotary_emb = RotaryEmbedding(config)
        self.lm_head = nn.Linear(config.head_dim, config.vocab_size)

    def forward(self, seq_ctx):
        hidden_states = self.embed_tokens(seq_ctx.input_ids)
        cos, sin = self.rotary_emb(hidden_states, seq_ctx.position_ids)
        q, k, v = self.qkv_proj(hidden_states).chunk(3, dim=-1)
        attended = self.attention(apply_rotary(q, cos, sin), apply_rotary(k, cos, sin), v, seq_ctx.cu_seq_lens)
        logits = self.lm_head(attended)[0, :-1]
        return nn.functional.cross_entropy(logits, seq_ctx.input_ids[0, 1:])

# === captions_read_before_the_training
# thread: https://github.com/ostris/ai-toolkit/issues/1026
# about: captions of a data set are encoded once, before the training. What part of the model is then on the GPU is told by a preset's name, and all else waits on the CPU
# operation: embedding|index_select on cpu, cuda:0
# operands: self|weight|.*embed.*
# category: module-split|input-not-moved
# line: base_model.py: if device_state_preset in ["cache_clip"]:
# line: dataloader_mixins.py: self.sd.set_device_state_preset("cache_text_encoder")
# line: base_model.py: module.to(
# line: base_model.py: tokens = tokens.to(
# repair: base_model.py: if device_state_preset in ["cache_clip"]: -> if device_state_preset in ["cache_clip", "cache_text_encoder"]:
from collections import OrderedDict

import torch

from base_model import BaseModel
from dataloader_mixins import AiToolkitDataset
from jobs import TrainJob

config = OrderedDict(
    name="my_first_lora",
    device="cuda:0" if torch.cuda.is_available() else "cpu",
    model=dict(width=8, vocabulary=30),
    dataset=dict(
        captions=["a cat on a mat", "a dog", "the cat and the dog"],
        cache_text_embeddings=True,
        cache_latents=True,
    ),
    train=dict(steps=4, lr=0.05),
)

torch.manual_seed(30)
job = TrainJob(config, BaseModel, AiToolkitDataset)
print(config["name"], "losses", job.run())
# --- base_model.py
import torch
from torch import nn


class BaseModel:
    def __init__(self, device, width, vocabulary):
        self.device_torch = torch.device(device)
        self.vocabulary = vocabulary
        self.text_encoder = nn.Sequential(nn.Embedding(vocabulary, width), nn.Linear(width, width))
        self.vae = nn.Linear(12, width)
        self.unet = nn.Linear(2 * width, width)

    def set_device_state_preset(self, device_state_preset):
        """What a stage of the work needs goes to the GPU, and nothing else."""
        active_modules = []
        if device_state_preset in ["cache_latents"]:
            active_modules = ["vae"]
        if device_state_preset in ["cache_clip"]:
            active_modules = ["text_encoder"]
        if device_state_preset in ["train"]:
            active_modules = ["unet"]
        if device_state_preset in ["generate"]:
            active_modules = ["text_encoder", "vae", "unet"]
        for name in ("text_encoder", "vae", "unet"):
            module = getattr(self, name)
            module.to(self.device_torch if name in active_modules else "cpu")

    @torch.no_grad()
    def encode_prompt(self, prompt):
        tokens = torch.tensor([sum(map(ord, word)) % self.vocabulary for word in prompt.split()])
        tokens = tokens.to(self.device_torch)
        return self.text_encoder(tokens).mean(0)

    @torch.no_grad()
    def encode_image(self, image):
        return self.vae(image.to(self.device_torch))
# --- dataloader_mixins.py
import torch


class CachingMixin:
    def cache_latents(self):
        self.sd.set_device_state_preset("cache_latents")
        for item in self.file_list:
            item["latent"] = self.sd.encode_image(item["image"]).cpu()

    def cache_text_embeddings(self):
        self.sd.set_device_state_preset("cache_text_encoder")
        for item in self.file_list:
            item["text_embeds"] = self.sd.encode_prompt(item["caption"]).cpu()


class AiToolkitDataset(CachingMixin):
    def __init__(self, sd, captions, cache_text_embeddings, cache_latents):
        self.sd = sd
        draw = torch.Generator().manual_seed(len(captions))
        self.file_list = [{"caption": c, "image": torch.rand(12, generator=draw)} for c in captions]
        if cache_latents:
            self.cache_latents()
        if cache_text_embeddings:
            self.cache_text_embeddings()

    def __getitem__(self, index):
        item = self.file_list[index % len(self.file_list)]
        return item["latent"], item["text_embeds"]
# --- jobs.py
import torch


class TrainJob:
    def __init__(self, config, model_class, dataset_class):
        self.config = config
        self.sd = model_class(config["device"], **config["model"])
        self.dataset = dataset_class(self.sd, **config["dataset"])

    def run(self):
        self.sd.set_device_state_preset("train")
        device = self.sd.device_torch
        optimizer = torch.optim.SGD(self.sd.unet.parameters(), lr=self.config["train"]["lr"], foreach=False)
        losses = []
        for step in range(self.config["train"]["steps"]):
            latent, text_embeds = (each.to(device) for each in self.dataset[step])
            noisy = latent + 0.1 * (step + 1)
            loss = (self.sd.unet(torch.cat([noisy, text_embeds])) - latent).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
        return losses

# === rays_on_the_second_gpu
# thread: https://github.com/yenchenlin/nerf-pytorch/pull/51
# about: a scene is learned from rays through it. The script makes the GPU the default for all tensors; which of the GPUs it is to run on is a setting
# operation: mul on cuda:1, cuda:0
# operands: other|t_vals|.*t_vals.*
# category: default-or-current-device|created-without-device
# line: run_nerf.py: torch.set_default_tensor_type(
# line: run_nerf_render.py: t_vals = torch.linspace(
# line: run_nerf_render.py: z_vals = near
# repair: run_nerf.py: torch.set_default_tensor_type("torch.cuda.FloatTensor") -> torch.cuda.set_device(args.gpu); torch.set_default_tensor_type("torch.cuda.FloatTensor")
from run_nerf import config_parser, setup, train

args = config_parser().parse_args()
device = setup(args)
print("psnr", train(args, device))
# --- run_nerf.py
import argparse

import numpy as np
import torch

from run_nerf_helpers import NeRF, get_rays_np, img2mse, mse2psnr
from run_nerf_render import render


def config_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--netdepth", type=int, default=2, help="layers in network")
    parser.add_argument("--netwidth", type=int, default=16, help="channels per layer")
    parser.add_argument("--N_rand", type=int, default=8, help="random rays per gradient step")
    parser.add_argument("--N_samples", type=int, default=6, help="coarse samples per ray")
    parser.add_argument("--N_iters", type=int, default=4)
    parser.add_argument("--lrate", type=float, default=5e-3)
    parser.add_argument("--gpu", type=int, default=1, help="which of the GPUs to run on")
    return parser


def setup(args):
    np.random.seed(0)
    torch.manual_seed(0)
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    return torch.device("cuda", args.gpu)


def train(args, device):
    H, W, focal = 6, 6, 5.0
    images = np.random.rand(2, H, W, 3).astype(np.float32)
    rays = np.stack([get_rays_np(H, W, focal, shift) for shift in (-0.2, 0.2)], 0)
    rays_rgb = np.concatenate([rays, images[..., None, :]], -2).reshape(-1, 3, 3)
    rays_rgb = torch.from_numpy(rays_rgb).to(device)
    model = NeRF(D=args.netdepth, W=args.netwidth).to(device)
    optimizer = torch.optim.Adam(params=model.parameters(), lr=args.lrate, foreach=False)
    psnrs = []
    for i in range(args.N_iters):
        batch = rays_rgb[i * args.N_rand : (i + 1) * args.N_rand]
        rays_o, rays_d, target_s = batch[:, 0], batch[:, 1], batch[:, 2]
        rgb = render(model, rays_o, rays_d, near=1.0, far=3.0, N_samples=args.N_samples)
        loss = img2mse(rgb, target_s)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        psnrs.append(round(mse2psnr(loss), 3))
    return psnrs
# --- run_nerf_helpers.py
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

img2mse = lambda x, y: torch.mean((x - y) ** 2)
mse2psnr = lambda x: -10.0 * math.log10(x.item())


class NeRF(nn.Module):
    def __init__(self, D, W, input_ch=3, output_ch=4):
        super(NeRF, self).__init__()
        self.pts_linears = nn.ModuleList([nn.Linear(input_ch, W)] + [nn.Linear(W, W) for i in range(D - 1)])
        self.output_linear = nn.Linear(W, output_ch)

    def forward(self, x):
        h = x
        for layer in self.pts_linears:
            h = F.relu(layer(h))
        return self.output_linear(h)


def get_rays_np(H, W, focal, shift):
    i, j = np.meshgrid(np.arange(W, dtype=np.float32), np.arange(H, dtype=np.float32), indexing="xy")
    rays_d = np.stack([(i - W * 0.5) / focal, -(j - H * 0.5) / focal, -np.ones_like(i)], -1)
    rays_o = np.broadcast_to(np.array([shift, 0, 2], dtype=np.float32), rays_d.shape)
    return np.stack([rays_o, rays_d], -2)
# --- run_nerf_render.py
import torch


def raw2outputs(raw, z_vals):
    """Turns what the model has told of all places of a ray into one colour."""
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = torch.cat([dists, dists[..., -1:]], -1)
    alpha = 1.0 - torch.exp(-torch.relu(raw[..., 3]) * dists)
    passed = torch.cumprod(1.0 - alpha + 1e-10, -1)
    weights = alpha * torch.cat([torch.ones_like(passed[..., :1]), passed[..., :-1]], -1)
    return torch.sum(weights[..., None] * torch.sigmoid(raw[..., :3]), -2)


def render(model, rays_o, rays_d, near, far, N_samples):
    near, far = near * torch.ones_like(rays_d[..., :1]), far * torch.ones_like(rays_d[..., :1])
    t_vals = torch.linspace(0.0, 1.0, steps=N_samples)
    z_vals = near * (1.0 - t_vals) + far * t_vals
    pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
    return raw2outputs(model(pts), z_vals)

# === measures_of_a_molecule
# thread: https://github.com/seyonechithrananda/bert-loves-chemistry/pull/15
# about: measures of molecules are read from how they are written, by a model on two GPUs. Their means are taken off in the model, so that all measures count alike
# operation: sub on cuda:1, cuda:0
# operands: other|.*norm_mean.*
# category: data-parallel|state-not-registered|default-or-current-device
# line: regression.py: self.norm_mean = torch.tensor(
# line: regression.py: self.norm_std = torch.tensor(
# line: regression.py: return (labels - self.norm_mean)
# repair: regression.py: self.norm_mean = torch.tensor(config.norm_mean).cuda() -> self.register_buffer("norm_mean", torch.tensor(config.norm_mean))
# repair: regression.py: self.norm_std = torch.tensor(config.norm_std).cuda() -> self.register_buffer("norm_std", torch.tensor(config.norm_std))
import torch
from torch import nn

from molecules import RegressionDataset, collate
from regression import RegressionConfig, RobertaForRegression

SMILES = ["CCO", "CC(=O)O", "c1ccccc1", "CN", "CCN(CC)CC", "OCCO", "C#N", "CCCl"]


def main():
    torch.manual_seed(17)
    dataset = RegressionDataset(SMILES)
    means, stds = dataset.statistics()
    config = RegressionConfig(vocab_size=len(dataset.alphabet) + 1, norm_mean=means, norm_std=stds)
    model = RobertaForRegression(config).cuda()
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=False)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=collate)
    for epoch in range(2):
        total = 0.0
        for input_ids, labels in loader:
            loss = model(input_ids.cuda(), labels.cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("epoch", epoch, "loss", round(total / len(loader), 4))


if __name__ == "__main__":
    main()
# --- molecules.py
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset


class RegressionDataset(Dataset):
    def __init__(self, smiles):
        self.alphabet = sorted(set("".join(smiles)))
        self.ids = [torch.tensor([self.alphabet.index(c) + 1 for c in s]) for s in smiles]
        self.labels = torch.tensor([[s.upper().count("C"), len(s)] for s in smiles], dtype=torch.float)

    def statistics(self):
        return self.labels.mean(0).tolist(), self.labels.std(0).tolist()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return self.ids[index], self.labels[index]


def collate(rows):
    ids, labels = zip(*rows)
    return pad_sequence(ids, batch_first=True), torch.stack(labels)
# --- roberta.py
from torch import nn


class RobertaModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.query_key = nn.Linear(config.hidden_size, 2 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, input_ids):
        hidden = self.embeddings(input_ids)
        query, key = self.query_key(hidden).chunk(2, dim=-1)
        scores = query @ key.transpose(1, 2) / hidden.shape[-1] ** 0.5
        scores = scores.masked_fill((input_ids == 0).unsqueeze(1), -1e4)
        return hidden + self.output(scores.softmax(-1) @ hidden)
# --- regression.py
from dataclasses import dataclass
from typing import List, Optional

import torch
from torch import nn

from roberta import RobertaModel


@dataclass
class RegressionConfig:
    vocab_size: int
    norm_mean: List[float]
    norm_std: List[float]
    hidden_size: int = 8
    num_labels: int = 2


class RobertaForRegression(nn.Module):
    def __init__(self, config: RegressionConfig):
        super().__init__()
        self.norm_mean = torch.tensor(config.norm_mean).cuda()
        # a measure that is the same everywhere must not divide by 0
        self.norm_std = torch.tensor(config.norm_std).cuda()
        self.roberta = RobertaModel(config)
        self.regression = nn.Linear(config.hidden_size, config.num_labels)

    def normalize_labels(self, labels):
        return (labels - self.norm_mean) / self.norm_std.clamp(min=1e-3)

    def forward(self, input_ids: torch.Tensor, labels: Optional[torch.Tensor] = None):
        logits = self.regression(self.roberta(input_ids)[:, 0])
        if labels is None:
            return logits
        return (logits - self.normalize_labels(labels)).square().mean().unsqueeze(0)

# === a_robot_whose_world_is_on_the_cpu
# thread: https://github.com/mani-skill/ManiSkill/pull/1305
# about: a script makes the GPU the default, for the policy that it trains. The world that it steps is simulated on the CPU, with tensors that shall be there too
# operation: add on cpu, cuda:0
# operands: other|.*start_qpos.*
# category: default-or-current-device|created-without-device
# line: controller.py: self._start_qpos = torch.tensor(
# line: main.py: torch.set_default_device(
# line: controller.py: target = self.scale(action) + self._start_qpos
# repair: controller.py: self._start_qpos = torch.tensor(keyframe, dtype=torch.float32) -> self._start_qpos = torch.tensor(keyframe, dtype=torch.float32, device=self.device)
import torch

import envs  # noqa: F401  registers what it has
from policy import Policy
from registration import make

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
torch.set_default_device(DEVICE)
torch.manual_seed(6)

env = make("PickCube-v1", num_envs=1, control_mode="pd_joint_delta_pos", sim_backend="cpu")
policy = Policy(obs_dim=env.obs_dim, act_dim=env.act_dim)
obs = env.reset()
rewards = []
for step in range(4):
    with torch.no_grad():
        action = policy(obs.to(DEVICE))
    obs, reward = env.step(action.to(env.device))
    rewards.append(round(reward.item(), 4))
print("rewards", rewards)
# --- registration.py
REGISTERED_ENVS = {}


def register_env(uid, **defaults):
    def _register(cls):
        REGISTERED_ENVS[uid] = (cls, defaults)
        return cls

    return _register


def make(uid, **kwargs):
    cls, defaults = REGISTERED_ENVS[uid]
    return cls(**{**defaults, **kwargs})
# --- policy.py
from torch import nn


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, 8), nn.Tanh(), nn.Linear(8, act_dim), nn.Tanh())

    def forward(self, obs):
        return self.actor(obs)
# --- controller.py
import torch


class BaseController:
    def __init__(self, lower, upper, device):
        self.device = device
        self.lower = torch.full((1,), lower, device=device)
        self.upper = torch.full((1,), upper, device=device)

    def scale(self, action):
        return self.lower + 0.5 * (action + 1) * (self.upper - self.lower)


class PDJointPosController(BaseController):
    def reset(self, qpos, keyframe):
        pass

    def targets(self, qpos, action):
        return self.scale(action)


class PDJointDeltaPosController(BaseController):
    """An action tells how far from the keyframe a joint shall be."""

    def reset(self, qpos, keyframe):
        self._start_qpos = torch.tensor(keyframe, dtype=torch.float32)

    def targets(self, qpos, action):
        target = self.scale(action) + self._start_qpos
        return target.clamp(-1.5, 1.5)


CONTROLLERS = {
    "pd_joint_pos": (PDJointPosController, -1.5, 1.5),
    "pd_joint_delta_pos": (PDJointDeltaPosController, -0.2, 0.2),
}
# --- envs.py
import torch

from controller import CONTROLLERS
from registration import register_env


class BaseEnv:
    joints, goal, keyframe = 3, (0.4, -0.2, 0.1), [0.0, 0.3, -0.3]

    def __init__(self, num_envs, control_mode, sim_backend):
        self.num_envs = num_envs
        self.device = torch.device("cpu" if sim_backend == "cpu" else "cuda:0")
        controller, lower, upper = CONTROLLERS[control_mode]
        self.controller = controller(lower, upper, self.device)
        self.obs_dim, self.act_dim = 2 * self.joints, self.joints

    def reset(self):
        self.qpos = torch.zeros(self.num_envs, self.joints, device=self.device)
        self.controller.reset(self.qpos, self.keyframe)
        return self.get_obs()

    def get_obs(self):
        goal = torch.tensor(self.goal, device=self.device).expand_as(self.qpos)
        return torch.cat([self.qpos, goal - self.qpos], dim=-1)

    def step(self, action):
        target = self.controller.targets(self.qpos, action)
        self.qpos = self.qpos + 0.5 * (target - self.qpos)
        obs = self.get_obs()
        return obs, -obs[:, self.joints :].norm(dim=-1).mean()


@register_env("PickCube-v1", num_envs=1)
class PickCubeEnv(BaseEnv):
    pass

# === waves_of_the_weather
# thread: https://github.com/meteofrance/py4cast/issues/5
# about: weather is forecast on a grid. How strong waves of each length are, forecast and true, is gathered over the validation by a metric with a state of its own
# operation: add_? on cpu, cuda:0
# operands: self|.*sum_pred.*
# error: on the same device|different devices in metric calculation
# category: module-split|created-without-device|state-not-registered
# line: lightning_module.py: self.psd_plot_metric = MetricPSDK(
# line: lightning_module.py: self.psd_plot_metric.update(
# line: metrics.py: self.sum_pred +=
# repair: lightning_module.py: self.psd_plot_metric = MetricPSDK(pred_step=self.hparams.pred_step) -> self.psd_plot_metric = MetricPSDK(pred_step=self.hparams.pred_step).to(self.device)
import logging
from argparse import ArgumentParser

from lightning.pytorch import Trainer, seed_everything

from dataset import TitanDataModule
from lightning_module import AutoRegressiveLightning

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def main():
    parser = ArgumentParser("Train Neural networks for weather forecasting.")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=2)
    parser.add_argument("--num_pred_steps", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    seed_everything(18, verbose=False)
    model = AutoRegressiveLightning(lr=args.lr, pred_step=args.num_pred_steps)
    trainer = Trainer(
        max_epochs=args.epochs,
        devices=1,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, TitanDataModule(args.batch_size, args.num_pred_steps))
    print("spectra", {name: round(value, 4) for name, value in model.dict_metrics.items()})


if __name__ == "__main__":
    main()
# --- dataset.py
import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader, TensorDataset


class TitanDataModule(LightningDataModule):
    def __init__(self, batch_size, num_pred_steps):
        super().__init__()
        self.batch_size, self.num_pred_steps = batch_size, num_pred_steps

    def _loader(self, seed):
        draw = torch.Generator().manual_seed(seed)
        fields = torch.randn(4, 1 + self.num_pred_steps, 8, 8, generator=draw)
        return DataLoader(TensorDataset(fields[:, 0], fields[:, 1:]), batch_size=self.batch_size)

    def train_dataloader(self):
        return self._loader(1)

    def val_dataloader(self):
        return self._loader(2)
# --- metrics.py
import torch
from torchmetrics import Metric


class MetricPSDK(Metric):
    """Power spectral density over wave numbers, of what is forecast and of what came."""

    def __init__(self, pred_step):
        super().__init__()
        self.pred_step = pred_step
        self.add_state("sum_pred", default=torch.zeros(pred_step, 5), dist_reduce_fx="sum")
        self.add_state("sum_target", default=torch.zeros(pred_step, 5), dist_reduce_fx="sum")
        self.add_state("count", default=torch.tensor(0), dist_reduce_fx="sum")

    @staticmethod
    def spectrum(fields):
        return torch.fft.rfft(fields, dim=-1).abs().square().mean(dim=-2)

    def update(self, preds, target):
        self.sum_pred += self.spectrum(preds).sum(0)
        self.sum_target += self.spectrum(target).sum(0)
        self.count += len(preds)

    def compute(self):
        ratio = (self.sum_pred / self.sum_target).mean(-1)
        return {f"psd_ratio_{step + 1}": ratio[step].item() for step in range(self.pred_step)}
# --- lightning_module.py
import torch
from lightning.pytorch import LightningModule
from torch import nn

from metrics import MetricPSDK


class AutoRegressiveLightning(LightningModule):
    def __init__(self, lr, pred_step):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1))
        self.psd_plot_metric = None
        self.dict_metrics = {}

    def forward(self, field):
        steps = []
        for _ in range(self.hparams.pred_step):
            field = field + self.net(field[:, None])[:, 0]
            steps.append(field)
        return torch.stack(steps, dim=1)

    def training_step(self, batch, batch_idx):
        field, target = batch
        return nn.functional.mse_loss(self(field), target)

    def on_validation_start(self):
        if self.psd_plot_metric is None:
            self.psd_plot_metric = MetricPSDK(pred_step=self.hparams.pred_step)

    def validation_step(self, batch, batch_idx):
        field, target = batch
        self.psd_plot_metric.update(self(field), target)

    def on_validation_epoch_end(self):
        self.dict_metrics.update(self.psd_plot_metric.compute())
        self.psd_plot_metric.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr, foreach=False)

# === a_direction_taken_out_of_weights
# thread: https://github.com/p-e-w/heretic/issues/4
# about: in which direction a model turns from a request is found from what it makes of two sets of prompts. That direction is taken out of the weights, which are on two GPUs
# operation: mm|matmul|addmm on cuda:0, cuda:1
# operands: self|projector
# category: module-split|input-not-moved
# line: model.py: matrix.sub_(
# line: model.py: projector = torch.outer(
# line: model.py: direction = refusal_directions[
# repair: model.py: matrix.sub_(parameters.weight * (projector @ matrix)) -> matrix.sub_(parameters.weight * (projector.to(matrix.device) @ matrix))
import torch
import torch.nn.functional as F

from config import Settings
from evaluator import Evaluator
from model import AbliterationParameters, Model

settings = Settings(good_prompts=[[1, 4, 6], [1, 5, 7], [1, 4, 9]], bad_prompts=[[2, 4, 6], [2, 8, 7], [2, 4, 9]])
torch.set_grad_enabled(False)
model = Model(settings)
evaluator = Evaluator(settings, model)
good = model.get_residuals(settings.good_prompts)
bad = model.get_residuals(settings.bad_prompts)
refusal_directions = F.normalize(bad.mean(dim=0) - good.mean(dim=0), p=2, dim=1)
for trial, weight in enumerate((0.5, 1.0)):
    model.reload_model()
    parameters = {name: AbliterationParameters(weight, first_layer=1) for name in model.get_abliterable_components()}
    model.abliterate(refusal_directions, parameters)
    print("trial", trial, "divergence", round(evaluator.get_score(), 7))
# --- config.py
from dataclasses import dataclass, field
from typing import Dict, List


@dataclass
class Settings:
    good_prompts: List[List[int]]
    bad_prompts: List[List[int]]
    seed: int = 23
    layers: int = 4
    # settings of the model that is made here in the place of one that is loaded
    architecture: Dict[str, int] = field(
        default_factory=lambda: dict(
            vocab_size=16,
            hidden_size=16,
            intermediate_size=24,
            num_attention_heads=2,
            num_key_value_heads=2,
        )
    )
# --- evaluator.py
import torch.nn.functional as F


class Evaluator:
    def __init__(self, settings, model):
        self.settings, self.model = settings, model
        self.base_logprobs = model.get_logprobs(settings.good_prompts)

    def get_score(self):
        logprobs = self.model.get_logprobs(self.settings.good_prompts)
        return F.kl_div(logprobs, self.base_logprobs, reduction="batchmean", log_target=True).item()
# --- model.py
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM


@dataclass
class AbliterationParameters:
    weight: float
    first_layer: int


class Model:
    def __init__(self, settings):
        self.settings = settings
        self.reload_model()

    def reload_model(self):
        torch.manual_seed(self.settings.seed)
        config = LlamaConfig(num_hidden_layers=self.settings.layers, **self.settings.architecture)
        gpus = torch.cuda.device_count()
        device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": gpus - 1, "lm_head": gpus - 1}
        for i in range(self.settings.layers):
            device_map[f"model.layers.{i}"] = i * gpus // self.settings.layers
        self.model = dispatch_model(LlamaForCausalLM(config).eval(), device_map)

    def get_layers(self):
        return self.model.model.layers

    def get_layer_matrices(self, layer_index):
        layer = self.get_layers()[layer_index]
        return {"attn.o_proj": layer.self_attn.o_proj.weight, "mlp.down_proj": layer.mlp.down_proj.weight}

    def get_abliterable_components(self):
        return list(self.get_layer_matrices(0))

    def abliterate(self, refusal_directions, parameters):
        for layer_index in range(len(self.get_layers())):
            # the first is what the words are before any layer
            direction = refusal_directions[layer_index + 1]
            projector = torch.outer(direction, direction)
            for component, matrix in self.get_layer_matrices(layer_index).items():
                if layer_index >= parameters[component].first_layer:
                    self.project_out(matrix, projector, parameters[component])

    def project_out(self, matrix, projector, parameters):
        matrix.sub_(parameters.weight * (projector @ matrix))

    def get_residuals(self, prompts):
        """Of the last word: prompt, layer, component."""
        input_ids = torch.tensor(prompts, device=self.model.device)
        hidden_states = self.model(input_ids=input_ids, output_hidden_states=True, use_cache=False).hidden_states
        return torch.stack([states[:, -1] for states in hidden_states], dim=1)

    def get_logprobs(self, prompts):
        input_ids = torch.tensor(prompts, device=self.model.device)
        return F.log_softmax(self.model(input_ids=input_ids, use_cache=False).logits[:, -1], dim=-1)

# === a_token_that_learns_of_a_teacher
# thread: https://github.com/lucidrains/vit-pytorch/pull/324
# about: a transformer of images learns of a teacher, by a token that is put beside those of the image. The token and its head are in a wrapper round both models
# operation: cat on cuda:0, cpu
# operands: tensors|.*distill_tokens?.*|.*distillation_token.*
# category: module-split|created-without-device|input-not-moved
# line: train.py: distiller = DistillWrapper(
# line: distill.py: self.distillation_token = nn.Parameter(
# line: vit.py: x = torch.cat((x, distill_tokens), dim=1)
# line: vit.py: distill_tokens = distill_token.expand(
# line: distill.py: student_logits, distill_tokens = self.student(
# repair: train.py: distiller = DistillWrapper(teacher=teacher, student=student, temperature=3, alpha=0.5, hard=args.hard) -> distiller = DistillWrapper(teacher=teacher, student=student, temperature=3, alpha=0.5, hard=args.hard).to(device)
import argparse

from train import run

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--hard", action="store_true")
print("losses", run(parser.parse_args()))
# --- vit.py
import torch
from torch import nn

class Transformer(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleList([nn.LayerNorm(dim), nn.Linear(dim, dim * 3), nn.Linear(dim, dim)]) for _ in range(depth)])

    def forward(self, x):
        for norm, to_qkv, to_out in self.layers:
            q, k, v = to_qkv(norm(x)).chunk(3, dim = -1)
            x = x + to_out(nn.functional.scaled_dot_product_attention(q, k, v))
        return x

class ViT(nn.Module):
    def __init__(self, *, patch_dim, num_patches, num_classes, dim, depth):
        super().__init__()
        self.to_patch_embedding = nn.Linear(patch_dim, dim)
        self.pos_embedding = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.transformer = Transformer(dim, depth)
        self.mlp_head = nn.Linear(dim, num_classes)

    def embed(self, img):
        x = self.to_patch_embedding(img)
        return torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1) + self.pos_embedding

    def forward(self, img):
        return self.mlp_head(self.transformer(self.embed(img))[:, 0])

class DistillMixin:
    def forward(self, img, distill_token = None):
        x = self.embed(img)
        if distill_token is not None:
            distill_tokens = distill_token.expand(len(x), -1, -1)
            x = torch.cat((x, distill_tokens), dim=1)
        x = self.transformer(x)
        out = self.mlp_head(x[:, 0])
        return (out, x[:, -1]) if distill_token is not None else out

class DistillableViT(DistillMixin, ViT):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dim, self.num_classes = kwargs["dim"], kwargs["num_classes"]
# --- distill.py
import torch
from torch import nn
import torch.nn.functional as F

class DistillWrapper(nn.Module):
    def __init__(self, *, teacher, student, temperature = 1., alpha = 0.5, hard = False):
        super().__init__()
        self.teacher = teacher
        self.student = student
        self.temperature, self.alpha, self.hard = temperature, alpha, hard
        self.distillation_token = nn.Parameter(torch.randn(1, 1, student.dim))
        self.distill_mlp = nn.Sequential(nn.LayerNorm(student.dim), nn.Linear(student.dim, student.num_classes))

    def forward(self, img, labels):
        with torch.no_grad():
            teacher_logits = self.teacher(img)
        student_logits, distill_tokens = self.student(img, distill_token = self.distillation_token)
        distill_logits = self.distill_mlp(distill_tokens)
        loss = F.cross_entropy(student_logits, labels)
        if self.hard:
            distill_loss = F.cross_entropy(distill_logits, teacher_logits.argmax(dim = -1))
        else:
            T = self.temperature
            distill_loss = F.kl_div(F.log_softmax(distill_logits / T, dim = -1), F.softmax(teacher_logits / T, dim = -1), reduction = 'batchmean') * T ** 2
        return loss * (1 - self.alpha) + distill_loss * self.alpha
# --- train.py
import torch
from torch import nn

from distill import DistillWrapper
from vit import DistillableViT

def images(steps):
    draw = torch.Generator().manual_seed(25)
    for _ in range(steps):
        yield torch.rand(4, 6, 10, generator=draw), torch.randint(0, 5, (4,), generator=draw)

def run(args):
    torch.manual_seed(25)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(60, 5)).to(device).eval()
    student = DistillableViT(patch_dim=10, num_patches=6, num_classes=5, dim=8, depth=2).to(device)
    distiller = DistillWrapper(teacher=teacher, student=student, temperature=3, alpha=0.5, hard=args.hard)
    optimizer = torch.optim.Adam([p for n, p in distiller.named_parameters() if "teacher" not in n], lr=args.lr, foreach=False)
    losses = []
    for img, labels in images(args.steps):
        loss = distiller(img.to(device), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses

# === integrals_in_a_loss
# thread: https://github.com/esa/torchquad/issues/157
# about: a density is learned, whose integral has to be one. The library that integrates is told once to compute with torch, and batches come in another order each epoch
# operation: randperm|random_? on cpu
# operands: generator
# error: Expected a 'cuda' device type for generator but found 'cpu'
# category: generator|default-or-current-device
# line: main.py: train_loader = DataLoader(
# line: main.py: set_up_backend("torch", data_type="float32")
# line: set_up_backend.py: torch.set_default_tensor_type(
# repair: main.py: train_loader = DataLoader(dataset, batch_size=4, shuffle=True) -> train_loader = DataLoader(dataset, batch_size=4, shuffle=True, generator=torch.Generator(device=torch.empty(0).device))
import torch
from torch.utils.data import DataLoader

from data import Heights
from integrate import Trapezoid
from learn import fit
from set_up_backend import set_up_backend

set_up_backend("torch", data_type="float32")
dataset = Heights(count=12, seed=3)
train_loader = DataLoader(dataset, batch_size=4, shuffle=True)
losses, area = fit(train_loader, Trapezoid(), epochs=4)
print("area", round(area, 3), "better", losses[-1] < losses[0])
# --- set_up_backend.py
import torch


def _get_default_backend():
    return "torch"


def set_up_backend(backend=None, data_type=None, torch_enable_cuda=True):
    """Configures a numerical backend for what this library computes."""
    backend = backend or _get_default_backend()
    if backend != "torch":
        raise ValueError(f"no backend is called {backend}")
    if torch_enable_cuda and torch.cuda.is_available():
        kinds = {"float32": torch.cuda.FloatTensor, "float64": torch.cuda.DoubleTensor}
    else:
        kinds = {"float32": torch.FloatTensor, "float64": torch.DoubleTensor}
    if data_type is not None:
        torch.set_default_tensor_type(kinds[data_type])
# --- integrate.py
import torch


class BaseIntegrator:
    def grid(self, domain, N):
        return torch.linspace(domain[0], domain[1], N)

    def integrate(self, fn, N, domain):
        points = self.grid(domain, N)
        return self.weigh(fn(points), (domain[1] - domain[0]) / (N - 1))


class Trapezoid(BaseIntegrator):
    def weigh(self, values, step):
        return step * (values.sum() - 0.5 * (values[0] + values[-1]))
# --- data.py
import numpy as np
from torch.utils.data import Dataset


class Heights(Dataset):
    def __init__(self, count, seed):
        self.values = np.random.default_rng(seed).normal(0.3, 0.8, count).astype(np.float32)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]
# --- learn.py
import torch
from torch import nn


def fit(loader, integrator, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Unflatten(0, (-1, 1)), nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, foreach=False)
    device = next(model.parameters()).device
    losses, area = [], None
    for _ in range(epochs):
        total = 0.0
        for x in loader:
            area = integrator.integrate(lambda points: model(points).exp(), N=33, domain=(-4.0, 4.0))
            loss = area.log() - model(x.to(device)).mean() + (area - 1).square()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(loader))
    return losses, area.item()

# === a_network_traced_before_it_is_served
# thread: https://github.com/qubvel-org/segmentation_models.pytorch/issues/857
# about: what is in pictures is told pixel by pixel. The network is written down by a trace on the CPU and read again where it is served, on the GPU
# operation: cat on cuda:0, cpu
# operands: tensors|.*dummy.*|.*skip.*
# category: cached-state|created-without-device
# line: mix_transformer.py: dummy = torch.empty(
# line: export.py: traced = torch.jit.trace(
# line: export.py: model = model.eval().to(
# line: main.py: TRACE_DEVICE =
# repair: mix_transformer.py: dummy = torch.empty([B, 0, H // 2, W // 2], dtype=x.dtype, device=x.device) -> dummy = x[:, :0, ::2, ::2]
import tempfile
import warnings
from pathlib import Path

import torch

from export import export
from serve import Server
from unet import Unet

warnings.filterwarnings("ignore")
TRACE_DEVICE = "cpu"

torch.manual_seed(2)
model = Unet(encoder_name="mit_b1", in_channels=3, classes=3)
pictures = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(5))
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "sample.jit"
    export(model, pictures[:1], path, device=TRACE_DEVICE)
    server = Server(path, device="cuda" if torch.cuda.is_available() else "cpu")
for number, picture in enumerate(pictures):
    print("picture", number, server.predict(picture))
# --- mix_transformer.py
import torch
from torch import nn


class MixVisionTransformerEncoder(nn.Module):
    """Has no features of half the size: in their place is one without channels."""

    def __init__(self, in_channels, dims):
        super().__init__()
        self.out_channels = (in_channels, 0, *dims)
        self.patch_embed1 = nn.Conv2d(in_channels, dims[0], 7, stride=4, padding=3)
        self.patch_embed2 = nn.Conv2d(dims[0], dims[1], 3, stride=2, padding=1)

    def forward(self, x):
        B, _, H, W = x.shape
        dummy = torch.empty([B, 0, H // 2, W // 2], dtype=x.dtype, device=x.device)
        quarter = self.patch_embed1(x).relu()
        eighth = self.patch_embed2(quarter).relu()
        return [x, dummy, quarter, eighth]


encoders = {
    "mit_b0": dict(dims=(4, 8)),
    "mit_b1": dict(dims=(6, 10)),
}


def get_encoder(name, in_channels):
    return MixVisionTransformerEncoder(in_channels, **encoders[name])
# --- unet.py
import torch
from torch import nn
from torch.nn import functional as F

from mix_transformer import get_encoder


class DecoderBlock(nn.Module):
    def __init__(self, in_channels, skip_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels + skip_channels, out_channels, 3, padding=1)

    def forward(self, x, skip):
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        x = torch.cat([x, skip], dim=1)
        return self.conv(x).relu()


class Unet(nn.Module):
    def __init__(self, encoder_name, in_channels, classes, width=6):
        super().__init__()
        self.encoder = get_encoder(encoder_name, in_channels)
        _, *skips, deepest = self.encoder.out_channels
        widths = [deepest] + [width] * len(skips)
        self.blocks = nn.ModuleList(DecoderBlock(a, s, b) for a, s, b in zip(widths, reversed(skips), widths[1:]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        _, *skips, x = self.encoder(x)
        for block, skip in zip(self.blocks, reversed(skips)):
            x = block(x, skip)
        return F.interpolate(self.head(x), scale_factor=2.0, mode="nearest")
# --- export.py
import torch


def export(model, sample, path, device):
    model = model.eval().to(device)
    traced = torch.jit.trace(model, sample.to(device), check_trace=False)
    traced.save(str(path))
# --- serve.py
import torch


class Server:
    def __init__(self, path, device):
        self.device = torch.device(device)
        self.model = torch.jit.load(str(path), map_location="cpu").to(self.device)

    @torch.no_grad()
    def predict(self, picture):
        scores = self.model(picture[None].to(self.device))
        return [round(score, 4) for score in scores.mean((0, 2, 3)).tolist()]

# === ships_that_remember_where_they_were
# thread: https://github.com/MarWaltz/TUD_RL/issues/21
# about: ships learn to keep clear of each other. What to do is told from what is seen now and what was seen before, of which a network with a memory is given the last steps
# operation: lstm on cpu, cuda:0
# operands: .*hist.*|input, .*weight.*|.*mem_LSTM.*
# error: not at the same device|on the same device
# category: created-without-device|input-not-moved
# line: buffer.py: batch["s2_hist"] = torch.tensor(
# line: buffer.py: batch["s_hist"] = torch.tensor(
# line: LSTMRecDQN.py: q2 = self.target_DQN(
# line: nets.py: _, (mem, _) = self.mem_LSTM(
# repair: buffer.py: batch["s_hist"] = torch.tensor(hist, dtype=torch.float32) -> batch["s_hist"] = torch.tensor(hist, dtype=torch.float32).to(self.device)
# repair: buffer.py: batch["s2_hist"] = torch.tensor(hist2, dtype=torch.float32) -> batch["s2_hist"] = torch.tensor(hist2, dtype=torch.float32).to(self.device)
import numpy as np
import torch
import yaml

from env import MMGEnv
from LSTMRecDQN import LSTMRecDQNAgent

CONFIG = """
env: {name: MMGEnv, ships: 2}
agent: {history_length: 3, hidden: 8, gamma: 0.9, lr: 0.01, buffer_length: 40, batch_size: 6}
timesteps: 30
act_start_step: 10
seed: 3
device: cuda
"""


def train(c):
    rng = np.random.default_rng(c["seed"])
    torch.manual_seed(c["seed"])
    device = c["device"] if torch.cuda.is_available() else "cpu"
    env = MMGEnv(c["env"]["ships"], rng)
    agent = LSTMRecDQNAgent(env.obs_size, env.num_actions, rng, device, **c["agent"])
    s, losses = env.reset(), []
    for step in range(c["timesteps"]):
        a = int(rng.integers(env.num_actions))
        s2, r, d = env.step(a)
        agent.replay_buffer.add(s, a, r, s2, d)
        s = env.reset() if d else s2
        if step >= c["act_start_step"] and step % 5 == 0:
            losses.append(round(agent.train(), 4))
    return losses


if __name__ == "__main__":
    print("losses", train(yaml.safe_load(CONFIG)))
# --- env.py
import numpy as np


class MMGEnv:
    num_actions = 3

    def __init__(self, ships, rng):
        self.ships, self.rng, self.obs_size = ships, rng, 2 + ships

    def reset(self):
        self.steps, self.heading = 0, 0.0
        self.others = self.rng.uniform(-1, 1, self.ships)
        return self._obs()

    def _obs(self):
        return np.array([self.heading, self.steps / 10, *(self.others - self.heading)])

    def step(self, a):
        self.heading += 0.1 * (a - 1)
        self.others = self.others + 0.05
        self.steps += 1
        return self._obs(), -abs(self.heading), self.steps >= 12
# --- buffer.py
import numpy as np
import torch


class UniformReplayBuffer:
    def __init__(self, length, batch_size, rng, device):
        self.length, self.batch_size, self.rng, self.device = length, batch_size, rng, device
        self.rows = []

    def add(self, *row):
        self.rows = (self.rows + [row])[-self.length :]

    def pick(self, first=0):
        return self.rng.integers(first, len(self.rows), self.batch_size)

    def sample(self, indices=None):
        indices = self.pick() if indices is None else indices
        s, a, r, s2, d = (np.array(each) for each in zip(*(self.rows[i] for i in indices)))
        batch = {"s": s, "a": a, "r": r, "s2": s2, "d": d}
        for key, value in batch.items():
            dtype = torch.int64 if key == "a" else torch.float32
            batch[key] = torch.tensor(value, dtype=dtype).to(self.device)
        return batch


class UniformReplayBuffer_LSTM(UniformReplayBuffer):
    """Also what was seen in the steps before."""

    def __init__(self, history_length, **kwargs):
        super().__init__(**kwargs)
        self.history_length = history_length

    def sample(self):
        h = self.history_length
        indices = self.pick(first=h)
        batch = super().sample(indices)
        hist = np.array([[self.rows[j][0] for j in range(i - h, i)] for i in indices])
        hist2 = np.array([[self.rows[j][3] for j in range(i - h, i)] for i in indices])
        batch["s_hist"] = torch.tensor(hist, dtype=torch.float32)
        batch["s2_hist"] = torch.tensor(hist2, dtype=torch.float32)
        return batch
# --- nets.py
import torch
from torch import nn


class LSTMRecDQN(nn.Module):
    def __init__(self, obs_size, num_actions, hidden):
        super().__init__()
        self.mem_LSTM = nn.LSTM(obs_size, hidden, batch_first=True)
        self.curr = nn.Linear(obs_size, hidden)
        self.post = nn.Linear(2 * hidden, num_actions)

    def forward(self, s, s_hist):
        curr = torch.relu(self.curr(s))
        _, (mem, _) = self.mem_LSTM(s_hist)
        return self.post(torch.cat([curr, mem[0]], dim=1))
# --- LSTMRecDQN.py
import copy

import torch
import torch.nn.functional as F

from buffer import UniformReplayBuffer_LSTM
from nets import LSTMRecDQN


class LSTMRecDQNAgent:
    def __init__(self, obs_size, num_actions, rng, device, history_length, hidden, gamma, lr, buffer_length, batch_size):
        self.gamma = gamma
        self.replay_buffer = UniformReplayBuffer_LSTM(
            history_length, length=buffer_length, batch_size=batch_size, rng=rng, device=device
        )
        self.DQN = LSTMRecDQN(obs_size, num_actions, hidden).to(device)
        self.target_DQN = copy.deepcopy(self.DQN)
        self.optimizer = torch.optim.Adam(self.DQN.parameters(), lr=lr, foreach=False)

    def train(self):
        batch = self.replay_buffer.sample()
        with torch.no_grad():
            q2 = self.target_DQN(batch["s2"], batch["s2_hist"]).max(1).values
            y = batch["r"] + self.gamma * q2 * (1 - batch["d"])
        q = self.DQN(batch["s"], batch["s_hist"])
        loss = F.mse_loss(q.gather(1, batch["a"][:, None])[:, 0], y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
