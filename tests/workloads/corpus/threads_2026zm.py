# === rewards_read_at_the_last_word
# thread: https://github.com/InternLM/InternLM/issues/810
# about: a model tells how good an answer is, and is split over two GPUs. Where each answer ends is counted from its mask, and the reward is read there
# operation: gather on cuda:1, cuda:0
# operands: index|ends
# category: module-split|input-not-moved
# line: modeling_internlm2.py: reward_scores = torch.gather(
# line: modeling_internlm2.py: ends = attention_mask.cumsum(
# line: main.py: "v_head": last,
# repair: modeling_internlm2.py: reward_scores = torch.gather(hidden_states.squeeze(-1), 1, ends) -> reward_scores = torch.gather(hidden_states.squeeze(-1), 1, ends.to(hidden_states.device))
import argparse

import torch
from accelerate import dispatch_model

from chat import format_chat
from modeling_internlm2 import InternLM2Config, InternLM2ForRewardModel


def device_map_of(layers, gpus):
    first, last = 0, gpus - 1
    device_map = {
        "model.tok_embeddings": first,
        "model.norm": last,
        "v_head": last,
    }
    for number in range(layers):
        device_map[f"model.layers.{number}"] = number * gpus // layers
    return device_map


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    args = parser.parse_args()

    torch.manual_seed(3)
    config = InternLM2Config(num_hidden_layers=args.layers)
    model = InternLM2ForRewardModel(config).eval()
    model = dispatch_model(model, device_map_of(args.layers, args.gpus))

    chats = [
        ["is it far", "no it is near"],
        ["is it far", "yes"],
        ["who came", "all of them came in time"],
    ]
    tokens = format_chat(chats, config.pad_token_id)
    scores = model.get_scores(**tokens)
    print("scores", [round(score, 4) for score in scores])


if __name__ == "__main__":
    main()
# --- chat.py
import torch

WORDS = "<pad> <user> <bot> <reward> is it far no near yes who came all of them in time".split()


def format_chat(chats, pad):
    """One row for each chat; what is short is filled up at its right."""
    rows = []
    for question, answer in chats:
        words = f"<user> {question} <bot> {answer} <reward>".split()
        rows.append([WORDS.index(word) for word in words])
    length = max(len(row) for row in rows)
    input_ids = torch.full((len(rows), length), pad)
    attention_mask = torch.zeros_like(input_ids)
    for number, row in enumerate(rows):
        input_ids[number, : len(row)] = torch.tensor(row)
        attention_mask[number, : len(row)] = 1
    return {"input_ids": input_ids, "attention_mask": attention_mask}
# --- modeling_internlm2.py
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class InternLM2Config:
    vocab_size: int = 24
    hidden_size: int = 16
    intermediate_size: int = 32
    num_hidden_layers: int = 4
    pad_token_id: int = 0


class InternLM2DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden_size)
        self.wqkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.ffn_norm = nn.LayerNorm(config.hidden_size)
        self.w1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.w2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states):
        q, k, v = self.wqkv(self.attention_norm(hidden_states)).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden_states = hidden_states + attended
        return hidden_states + self.w2(torch.relu(self.w1(self.ffn_norm(hidden_states))))


class InternLM2Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(InternLM2DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, input_ids):
        hidden_states = self.tok_embeddings(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.norm(hidden_states)


class InternLM2ForRewardModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = InternLM2Model(config)
        self.v_head = nn.Linear(config.hidden_size, 1, bias=False)

    @property
    def device(self):
        return self.model.tok_embeddings.weight.device

    def forward(self, input_ids, attention_mask):
        hidden_states = self.v_head(self.model(input_ids))
        ends = attention_mask.cumsum(dim=1).argmax(dim=1).view(-1, 1)
        reward_scores = torch.gather(hidden_states.squeeze(-1), 1, ends)
        return reward_scores

    @torch.no_grad()
    def get_scores(self, input_ids, attention_mask):
        outputs = self.forward(input_ids.to(self.device), attention_mask.to(self.device))
        return outputs.cpu().flatten().tolist()

# === beams_of_a_sharded_model
# thread: https://github.com/BlackSamorez/tensor_parallel/pull/56
# about: each of two GPUs has one half of a model's heads, and keeps the keys and values of these. When the best beams are kept, what is remembered is put in their order
# operation: index_select on cuda:1, cuda:0
# operands: index|beam_idx
# category: module-split|input-not-moved|cached-state
# line: pretrained_model.py: shard_past.append((key.index_select(
# line: beam_search.py: past = model._reorder_cache(past, beam_idx)
# repair: pretrained_model.py: shard_past.append((key.index_select(0, beam_idx), value.index_select(0, beam_idx))) -> shard_past.append((key.index_select(0, beam_idx.to(key.device)), value.index_select(0, beam_idx.to(key.device))))
import torch

import tensor_parallel as tp
from beam_search import beam_search
from tiny_gpt import TinyGPT

torch.manual_seed(11)
devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]
model = tp.tensor_parallel(TinyGPT(vocab_size=12, width=8, heads=2), devices)
found, score = beam_search(model, [1, 4, 7], num_beams=3, max_new_tokens=5)
print("found", found, "score", round(score, 4))
# --- tiny_gpt.py
from torch import nn


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, width, heads):
        super().__init__()
        self.heads = heads
        self.wte = nn.Embedding(vocab_size, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width // heads, bias=False) for _ in range(heads))
        self.out = nn.ModuleList(nn.Linear(width // heads, width, bias=False) for _ in range(heads))
        self.lm_head = nn.Linear(width, vocab_size, bias=False)
# --- tensor_parallel.py
from pretrained_model import TensorParallelPreTrainedModel


def tensor_parallel(model, device_ids):
    return TensorParallelPreTrainedModel(model.eval(), device_ids)
# --- shard.py
import torch
from torch import nn


class AttentionShard(nn.Module):
    """The heads that are one device's, with all that they have seen."""

    def __init__(self, qkv, out):
        super().__init__()
        self.qkv, self.out = nn.ModuleList(qkv), nn.ModuleList(out)

    def forward(self, x, past):
        output, present = 0, []
        for number, (qkv, out) in enumerate(zip(self.qkv, self.out)):
            q, k, v = qkv(x).chunk(3, dim=-1)
            if past is not None:
                k = torch.cat([past[number][0], k], dim=1)
                v = torch.cat([past[number][1], v], dim=1)
            weights = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1)
            output = output + out(weights @ v)
            present.append((k, v))
        return output, present
# --- pretrained_model.py
import torch
from torch import nn

from shard import AttentionShard


class TensorParallelPreTrainedModel(nn.Module):
    def __init__(self, module, device_ids):
        super().__init__()
        self.devices = [torch.device(device) for device in device_ids]
        self.wte = module.wte.to(self.devices[0])
        self.lm_head = module.lm_head.to(self.devices[0])
        count = len(self.devices)
        self.module_shards = nn.ModuleList(
            AttentionShard(module.qkv[i::count], module.out[i::count]).to(device) for i, device in enumerate(self.devices)
        )

    def forward(self, input_ids, past=None):
        hidden = self.wte(input_ids.to(self.devices[0]))
        if past is None:
            past = [None] * len(self.devices)
        summed, presents = hidden, []
        for shard, device, shard_past in zip(self.module_shards, self.devices, past):
            output, present = shard(hidden.to(device), shard_past)
            summed = summed + output.to(self.devices[0])
            presents.append(present)
        return self.lm_head(summed[:, -1]), presents

    def _reorder_cache(self, past, beam_idx):
        reordered = []
        for shard in past:
            shard_past = []
            for key, value in shard:
                shard_past.append((key.index_select(0, beam_idx), value.index_select(0, beam_idx)))
            reordered.append(shard_past)
        return reordered
# --- beam_search.py
import torch


@torch.no_grad()
def beam_search(model, prompt, num_beams, max_new_tokens):
    tokens = torch.tensor([prompt] * num_beams)
    logits, past = None, None
    for token in tokens.T:
        logits, past = model(token[:, None], past)
    scores = torch.full((num_beams,), -1e9)
    scores[0] = 0
    scores = scores.to(logits.device)
    for _ in range(max_new_tokens):
        following = scores[:, None] + logits.log_softmax(-1)
        scores, flat = following.flatten().topk(num_beams)
        beam_idx = flat // logits.shape[-1]
        next_tokens = flat % logits.shape[-1]
        tokens = torch.cat([tokens[beam_idx.cpu()], next_tokens.cpu()[:, None]], dim=1)
        past = model._reorder_cache(past, beam_idx)
        logits, past = model(next_tokens[:, None], past)
    return tokens[0].tolist(), scores[0].item()

# === averages_after_a_sample
# thread: https://github.com/lucidrains/DALLE2-pytorch/issues/87
# about: a decoder draws an image in two sizes, with a network for each, and one of them at a time is on the GPU. Images are drawn with the averaged networks, between steps of the training
# operation: add on cpu, cuda:0
# operands: self|old|.*beta.*
# category: cached-state|module-split|input-not-moved
# line: decoder.py: unet.cpu()
# line: decoder.py: self.unets.cpu()
# line: trainer.py: self.decoder.unets = trainable_unets
# line: ema.py: return old * beta + new * (1 - beta)
# repair: decoder.py: unet.cpu() -> self.unets.to(self.device)
import torch

from decoder import Decoder
from trainer import DecoderTrainer
from unet import Unet

config = {"timesteps": 3, "sample_every": 2, "steps": 5, "lr": 1e-2, "ema_beta": 0.9}


def image_embeds(count, seed):
    draw = torch.Generator().manual_seed(seed)
    return torch.rand(count, 4, generator=draw), torch.rand(count, 8, generator=draw)


def train(trainer, embeds, images, device):
    losses, samples = [], []
    for step in range(1, config["steps"] + 1):
        unet_number = 1 + step % 2
        loss = trainer(images.to(device), embeds.to(device), unet_number=unet_number)
        trainer.update(unet_number)
        losses.append(round(loss, 4))
        if step % config["sample_every"] == 0:
            samples.append(round(trainer.sample(embeds[:2]).mean().item(), 4))
    return losses, samples


if __name__ == "__main__":
    torch.manual_seed(1)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    decoder = Decoder([Unet(8), Unet(8)], timesteps=config["timesteps"], device=device)
    trainer = DecoderTrainer(decoder, lr=config["lr"], ema_beta=config["ema_beta"])
    embeds, images = image_embeds(count=4, seed=2)
    print(*train(trainer, embeds, images, device))
# --- unet.py
import torch
from torch import nn


class Unet(nn.Module):
    def __init__(self, dim, cond_dim=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + cond_dim, 16), nn.SiLU(), nn.Linear(16, dim))

    def forward(self, x, image_embed):
        return self.net(torch.cat((x, image_embed), dim=-1))
# --- decoder.py
from contextlib import contextmanager

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, unets, timesteps, device):
        super().__init__()
        self.unets = nn.ModuleList(unets).to(device)
        self.timesteps, self.device = timesteps, device

    @contextmanager
    def one_unet_in_gpu(self, unet):
        self.unets.cpu()
        unet.to(self.device)
        yield
        unet.cpu()

    @torch.no_grad()
    def sample(self, image_embed):
        image_embed = image_embed.to(self.device)
        img = torch.zeros(len(image_embed), 8, device=self.device)
        for unet in self.unets:
            with self.one_unet_in_gpu(unet):
                for _ in range(self.timesteps):
                    img = img - 0.1 * unet(img, image_embed)
        return img

    def forward(self, image, image_embed, unet_number):
        noise = torch.full_like(image, 0.3 * unet_number)
        return nn.functional.mse_loss(self.unets[unet_number - 1](image + noise, image_embed), noise)
# --- ema.py
import copy

import torch
from torch import nn


class EMA(nn.Module):
    def __init__(self, model, beta):
        super().__init__()
        self.online_model, self.beta = model, beta
        self.ema_model = copy.deepcopy(model)

    def update(self):
        self.update_moving_average(self.ema_model, self.online_model)

    @torch.no_grad()
    def update_moving_average(self, ma_model, current_model):
        def calculate_ema(beta, old, new):
            return old * beta + new * (1 - beta)

        for current_params, ma_params in zip(current_model.parameters(), ma_model.parameters()):
            ma_params.data = calculate_ema(self.beta, ma_params.data, current_params.data)
# --- trainer.py
import torch
from torch import nn

from ema import EMA


class DecoderTrainer(nn.Module):
    def __init__(self, decoder, lr, ema_beta):
        super().__init__()
        self.decoder = decoder
        self.optims = [torch.optim.Adam(unet.parameters(), lr=lr, foreach=False) for unet in decoder.unets]
        self.ema_unets = nn.ModuleList(EMA(unet, ema_beta) for unet in decoder.unets)

    def forward(self, image, image_embed, unet_number):
        loss = self.decoder(image, image_embed, unet_number)
        loss.backward()
        return loss.item()

    def update(self, unet_number):
        index = unet_number - 1
        self.optims[index].step()
        self.optims[index].zero_grad()
        self.ema_unets[index].update()

    def sample(self, image_embed):
        """With the averaged networks in the place of those that are trained."""
        trainable_unets = self.decoder.unets
        ema_unets = nn.ModuleList(ema.ema_model for ema in self.ema_unets)
        self.decoder.unets = ema_unets
        output = self.decoder.sample(image_embed)
        self.decoder.unets = trainable_unets
        return output

# === norms_kept_with_the_group
# thread: https://github.com/NVIDIA/apex/pull/459
# about: an optimizer keeps a norm for each of a group's weights beside the group's own settings. A run goes on from a file, which is read to the CPU
# operation: add_?|lerp_? on cpu, cuda:0
# operands: self|.*exp_avg_sq.*
# category: optimizer|checkpoint
# line: novograd.py: group["exp_avg_sq"] = list(group["exp_avg_sq"])
# line: checkpoint.py: saved = torch.load(
# line: novograd.py: group["exp_avg_sq"][0].mul_(
# line: checkpoint.py: optimizer.load_state_dict(
# line: novograd.py: super().load_state_dict(
# repair: novograd.py: group["exp_avg_sq"] = list(group["exp_avg_sq"]) -> group["exp_avg_sq"] = [each.to(group["params"][0].device) for each in group["exp_avg_sq"]]
import argparse
import os
import tempfile

import torch
from torch import nn

from checkpoint import load_checkpoint, save_checkpoint
from novograd import FusedNovoGrad

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.98))


def build(args):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    model.cuda() if torch.cuda.is_available() else model
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 1e-3}, {"params": others}]
    return model, FusedNovoGrad(groups, lr=args.lr, betas=args.betas)


def run_epoch(model, optimizer):
    device = next(model.parameters()).device
    draw = torch.Generator().manual_seed(8)
    loss = None
    for _ in range(4):
        x = torch.rand(5, 6, generator=draw).to(device)
        loss = (model(x)[:, 0] - x.sum(dim=1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


args = parser.parse_args()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    model, optimizer = build(args)
    print("first", round(run_epoch(model, optimizer), 4))
    save_checkpoint(path, model, optimizer, epoch=1)
    model, optimizer = build(args)
    start = load_checkpoint(path, model, optimizer)
for epoch in range(start, args.epochs):
    print("epoch", epoch, "loss", round(run_epoch(model, optimizer), 4))
# --- checkpoint.py
import torch


def save_checkpoint(path, model, optimizer, epoch):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)


def load_checkpoint(path, model, optimizer):
    # to the CPU, so that the first GPU has not all of it twice
    saved = torch.load(path, map_location="cpu")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"]
# --- novograd.py
import torch


class FusedNovoGrad(torch.optim.Optimizer):
    """Each layer's gradient is divided by how long it has been; one number for a layer."""

    def __init__(self, params, lr, betas, eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay))

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group["exp_avg_sq"] = list(group["exp_avg_sq"])

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            norms = torch.stack([p.grad.square().sum() for p in group["params"]])
            if "exp_avg_sq" not in group:
                group["exp_avg_sq"] = [norms]
            else:
                group["exp_avg_sq"][0].mul_(beta2).add_(norms, alpha=1 - beta2)
            denominators = group["exp_avg_sq"][0].sqrt() + group["eps"]
            for p, denominator in zip(group["params"], denominators):
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                grad = p.grad / denominator + group["weight_decay"] * p
                state["exp_avg"].mul_(beta1).add_(grad)
                p.sub_(group["lr"] * state["exp_avg"])

# === few_tokens_of_a_picture
# thread: https://github.com/rish-16/tokenlearner-pytorch/issues/4
# about: a picture is told by a few tokens; each is what one small attention sees of the picture. The class of the picture is read from the tokens
# operation: conv.*|.*convolution.* on cuda:0, cpu
# operands: input|.*, weight|.*weight.*
# error: Input type \(torch.cuda.FloatTensor\) and weight type \(torch.FloatTensor\) should be the same|on the same device
# category: state-not-registered
# line: tokenlearner_pytorch.py: self.tokenizers = [
# repair: tokenlearner_pytorch.py: self.tokenizers = [SpatialAttention() for _ in range(S)] -> self.tokenizers = nn.ModuleList([SpatialAttention() for _ in range(S)])
import yaml

import torch

from engine import fit
from vit import TokenViT

CONFIG = """
model: {channels: 6, tokens: 3, classes: 4}
train: {epochs: 2, lr: 0.1, batch_size: 4}
seed: 7
"""

config = yaml.safe_load(CONFIG)
torch.manual_seed(config["seed"])
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = TokenViT(**config["model"]).to(device)
draw = torch.Generator().manual_seed(config["seed"])
pictures, labels = torch.rand(8, 3, 9, 9, generator=draw), torch.randint(0, 4, (8,), generator=draw)
losses = fit(model, pictures, labels, device, **config["train"])
print("losses", losses)
# --- tokenlearner_pytorch.py
import torch
import torch.nn as nn

class SpatialAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(2, 1, kernel_size=(1, 1), stride=1),
            nn.BatchNorm2d(1),
            nn.ReLU()
        )
        self.sgap = nn.AvgPool2d(3, stride=1, padding=1)

    def forward(self, x):
        x = x.permute(0, 3, 1, 2)
        mx = torch.max(x, 1)[0].unsqueeze(1)
        avg = torch.mean(x, 1).unsqueeze(1)
        combined = torch.cat([mx, avg], dim=1)
        fmap = self.conv(combined)
        weight_map = torch.sigmoid(fmap)
        out = (x * weight_map).mean(dim=(-2, -1))
        return out, x * weight_map

class TokenLearner(nn.Module):
    def __init__(self, S) -> None:
        super().__init__()
        self.S = S
        self.tokenizers = [SpatialAttention() for _ in range(S)]

    def forward(self, x):
        B, _, _, C = x.shape
        Z = torch.zeros(B, self.S, C, device=x.device)
        for i in range(self.S):
            Ai, _ = self.tokenizers[i](x)
            Z[:, i, :] = Ai
        return Z
# --- vit.py
import torch.nn as nn

from tokenlearner_pytorch import TokenLearner

class TokenViT(nn.Module):
    def __init__(self, channels, tokens, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.tokens = TokenLearner(S=tokens)
        self.mix = nn.Linear(channels, channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, images):
        x = self.stem(images).permute(0, 2, 3, 1)
        z = self.tokens(x)
        return self.head((z + self.mix(z).tanh()).mean(dim=1))
# --- engine.py
import torch
from torch.utils.data import DataLoader, TensorDataset

def fit(model, pictures, labels, device, epochs, lr, batch_size):
    loader = DataLoader(TensorDataset(pictures, labels), batch_size=batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, foreach=False)
    history = []
    for epoch in range(epochs):
        total = 0.0
        for images, target in loader:
            loss = torch.nn.functional.cross_entropy(model(images.to(device)), target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        history.append(round(total / len(loader), 4))
    return history

# === codes_of_a_part_of_the_pictures
# thread: https://github.com/aassxun/SEMICON/issues/2
# about: pictures get short codes for a search. Codes of a part of the pictures are learned at a time, so that they tell which of all pictures are alike
# operation: index on cpu, cuda:0
# operands: self|S|sample_index|indices|index
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: input-not-moved|created-without-device|input
# line: baseline_train.py: data, index = data.to(
# line: baseline_train.py: S = (train_targets @ retrieval_targets.t()
# line: baseline_train.py: S = torch.where(
# line: baseline_train.py: cnn_loss, hash_loss, quan_loss = criterion(
# repair: baseline_train.py: data, index = data.to(args.device), index.to(args.device) -> data = data.to(args.device)
import argparse

import torch

import baseline_train
from data_loader import FineGrained, load_data


def load_config():
    parser = argparse.ArgumentParser(description="ADSH_PyTorch")
    parser.add_argument("--code-length", default="4", type=str)
    parser.add_argument("--max-iter", default=2, type=int)
    parser.add_argument("--max-epoch", default=2, type=int)
    parser.add_argument("--num-samples", default=6, type=int)
    parser.add_argument("--batch-size", default=3, type=int)
    parser.add_argument("--gamma", default=200, type=float)
    parser.add_argument("--gpu", default=0, type=int)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        args.device = torch.device("cpu")
    else:
        args.device = torch.device("cuda:%d" % args.gpu)
    return args


def run():
    torch.manual_seed(0)
    args = load_config()
    retrieval_dataloader = load_data(FineGrained(count=12, classes=3), args.batch_size)
    for code_length in [int(c) for c in args.code_length.split(",")]:
        B, last = baseline_train.train(retrieval_dataloader, code_length, args)
        print("code_length", code_length, "loss", round(last, 3), "bits", int((B > 0).sum()))


if __name__ == "__main__":
    run()
# --- data_loader.py
import torch
from torch.utils.data import DataLoader, Dataset


class FineGrained(Dataset):
    def __init__(self, count, classes):
        draw = torch.Generator().manual_seed(6)
        self.data = torch.rand(count, 5, generator=draw)
        self.targets = torch.nn.functional.one_hot(torch.arange(count) % classes, classes).float()

    def __getitem__(self, index):
        return self.data[index], self.targets[index], index

    def __len__(self):
        return len(self.data)


class Renumbered(Dataset):
    """What is drawn of a set, counted anew from 0."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, position):
        data, target, _ = self.dataset[self.indices[position]]
        return data, target, position


def load_data(dataset, batch_size):
    return DataLoader(dataset, batch_size=batch_size)


def sample_dataloader(dataloader, num_samples, seed):
    order = torch.randperm(len(dataloader.dataset), generator=torch.Generator().manual_seed(seed))
    sample_index = order[:num_samples]
    sample = Renumbered(dataloader.dataset, sample_index.tolist())
    return DataLoader(sample, batch_size=dataloader.batch_size), sample_index
# --- adsh_loss.py
import torch


class ADSH_Loss(torch.nn.Module):
    def __init__(self, code_length, gamma):
        super().__init__()
        self.code_length, self.gamma = code_length, gamma

    def forward(self, F, B, S, omega):
        hash_loss = ((self.code_length * S.to(F) - F @ B.t()) ** 2).sum() / (F.shape[0] * B.shape[0])
        quan_loss = self.gamma * ((F - B[omega, :]) ** 2).sum() / (F.shape[0] * B.shape[0])
        return hash_loss + quan_loss, hash_loss, quan_loss
# --- baseline_train.py
import torch

from adsh_loss import ADSH_Loss
from data_loader import sample_dataloader


def train(retrieval_dataloader, code_length, args):
    num_retrieval = len(retrieval_dataloader.dataset)
    model = torch.nn.Sequential(torch.nn.Linear(5, code_length), torch.nn.Tanh()).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, foreach=False)
    criterion = ADSH_Loss(code_length, args.gamma)
    B = torch.randn(num_retrieval, code_length).to(args.device).sign()
    retrieval_targets = retrieval_dataloader.dataset.targets
    cnn_loss = None
    for it in range(args.max_iter):
        train_dataloader, sample_index = sample_dataloader(retrieval_dataloader, args.num_samples, it)
        train_targets = retrieval_targets[sample_index]
        # what is of one class is alike
        S = (train_targets @ retrieval_targets.t() > 0).float()
        S = torch.where(S == 1, torch.full_like(S, 1), torch.full_like(S, -1))
        for epoch in range(args.max_epoch):
            for data, targets, index in train_dataloader:
                data, index = data.to(args.device), index.to(args.device)
                F = model(data)
                cnn_loss, hash_loss, quan_loss = criterion(F, B, S[index, :], sample_index[index])
                optimizer.zero_grad()
                cnn_loss.backward()
                optimizer.step()
        with torch.no_grad():
            for data, _, index in retrieval_dataloader:
                B[index] = (0.5 * B[index] + model(data.to(args.device))).sign()
    return B, cnn_loss.item()

# === pages_of_what_was_said
# thread: https://github.com/turboderp-org/exllamav3/issues/196
# about: a model's layers are on two GPUs, each with its share of a cache in pages. A table of the pages, which all layers read, tells where a sequence's words are
# operation: index on cuda:1, cuda:0
# operands: indices|phys_blocks|.*block_table.*
# error: indices should be either on cpu or on the same device as the indexed tensor \(cuda:1\)
# category: module-split|input-not-moved
# line: attn.py: phys_blocks = block_table[
# line: attn.py: k_buf = k_cache[phys_blocks]
# line: attn.py: block_table = params["block_table"]
# line: attn.py: o = flash_attn_with_kvcache_sdpa_fallback(
# line: generator.py: block_table = torch.tensor(
# repair: attn.py: phys_blocks = block_table[b, :num_blocks_needed] -> phys_blocks = block_table[b, :num_blocks_needed].to(k_cache.device)
import torch

from cache import PagedCache
from config import Config
from generator import Generator
from model import Model

torch.manual_seed(9)
config = Config(layers=4, hidden_dim=8, vocab_size=14, page_size=4, max_pages=6)
model = Model(config)
model.load_autosplit(use_per_device=[2, 2])
cache = PagedCache(model)
generator = Generator(model, cache)
texts = generator.generate([[1, 5, 2], [7, 3, 3, 9, 4]], max_new_tokens=6)
print("texts", texts)
# --- config.py
from dataclasses import dataclass


@dataclass
class Config:
    layers: int
    hidden_dim: int
    vocab_size: int
    page_size: int
    max_pages: int
# --- cache.py
import torch


class PagedCache:
    def __init__(self, model):
        c = model.config
        self.page_size = c.page_size
        self.layers = []
        for attn in model.attn_modules():
            shape = (c.max_pages, c.page_size, c.hidden_dim)
            self.layers.append(tuple(torch.zeros(shape, device=attn.device) for _ in range(2)))

    def get_layer(self, layer_idx: int):
        return self.layers[layer_idx]
# --- attn.py
import torch
import torch.nn.functional as F
from torch import nn


def get_for_device(params: dict, key: str, device: torch.device):
    """The tensor of that name on that device; a copy is made once for a forward pass."""
    copies = params.setdefault(f"{key}_copies", {})
    if device not in copies:
        copies[device] = params[key].to(device)
    return copies[device]


def flash_attn_with_kvcache_sdpa_fallback(q, k, v, k_cache, v_cache, block_table, cache_seqlens):
    outputs, page_size = [], k_cache.shape[1]
    for b, past in enumerate(cache_seqlens.tolist()):
        end = past + q.shape[1]
        num_blocks_needed = -(-end // page_size)
        phys_blocks = block_table[b, :num_blocks_needed]
        k_buf = k_cache[phys_blocks].reshape(-1, k.shape[-1])
        v_buf = v_cache[phys_blocks].reshape(-1, v.shape[-1])
        k_buf[past:end], v_buf[past:end] = k[b], v[b]
        k_cache[phys_blocks] = k_buf.view(-1, page_size, k.shape[-1])
        v_cache[phys_blocks] = v_buf.view(-1, page_size, v.shape[-1])
        mask = torch.ones(q.shape[1], end, dtype=torch.bool, device=q.device).tril(past)
        outputs.append(F.scaled_dot_product_attention(q[b], k_buf[:end], v_buf[:end], attn_mask=mask))
    return torch.stack(outputs)


class Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.device = layer_idx, None
        self.qkv_proj = nn.Linear(config.hidden_dim, 3 * config.hidden_dim, bias=False)

    def load(self, device):
        self.device = device
        self.to(device)

    def forward(self, x, params):
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        k_cache, v_cache = params["cache"].get_layer(self.layer_idx)
        cache_seqlens = get_for_device(params, "cache_seqlens", self.device)
        block_table = params["block_table"]
        o = flash_attn_with_kvcache_sdpa_fallback(q, k, v, k_cache, v_cache, block_table, cache_seqlens)
        return x + o
# --- model.py
import torch
from torch import nn

from attn import Attention


class Model:
    def __init__(self, config):
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_dim)
        self.modules = [Attention(config, i) for i in range(config.layers)]
        self.head = nn.Linear(config.hidden_dim, config.vocab_size, bias=False)

    def attn_modules(self):
        return self.modules

    def load_autosplit(self, use_per_device):
        count = max(torch.cuda.device_count(), 1)
        places = [i % count for i, used in enumerate(use_per_device) for _ in range(used)]
        for module, place in zip(self.modules, places):
            module.load(torch.device("cuda", place) if torch.cuda.is_available() else torch.device("cpu"))
        self.input_device, self.output_device = self.modules[0].device, self.modules[-1].device
        self.embed.to(self.input_device)
        self.head.to(self.output_device)

    @torch.inference_mode()
    def forward(self, input_ids, params):
        x = self.embed(input_ids.to(self.input_device))
        for module in self.modules:
            x = x.to(module.device)
            x = module.forward(x, params)
        return self.head(x)
# --- generator.py
import torch


class Generator:
    def __init__(self, model, cache):
        self.model, self.cache = model, cache
        self.free = list(range(model.config.max_pages))

    def generate(self, prompts, max_new_tokens):
        return [self.one(prompt, max_new_tokens) for prompt in prompts]

    def one(self, prompt, max_new_tokens):
        pages = -(-(len(prompt) + max_new_tokens) // self.cache.page_size)
        held = [self.free.pop() for _ in range(pages)]
        block_table = torch.tensor([held], dtype=torch.long, device=self.model.input_device)
        ids, past = list(prompt), 0
        for _ in range(max_new_tokens):
            params = {"block_table": block_table, "cache_seqlens": torch.tensor([past]), "cache": self.cache}
            logits = self.model.forward(torch.tensor([ids[past:]]), params)
            past = len(ids)
            ids.append(int(logits[0, -1].argmax()))
        self.free.extend(held)
        return ids

# === numbers_of_an_epoch
# thread: https://github.com/neuro-ml/thunder/issues/49
# about: a callback of a trainer gathers what was predicted of all batches, and reckons with NumPy how good it was. What it is given is the batch as the model has seen it
# operation:  on cuda:0
# operands: .*predictions.*|.*
# category: |input
# error: can't convert cuda:0 device type tensor to numpy
# line: metric_logger.py: self.all_predictions.append(
# line: metric_logger.py: predictions, targets = map(
# line: torch_core.py: return predictions, y
# line: torch_core.py: predictions = self.predictor(
# repair: metric_logger.py: self.all_predictions.append(tuple(each[0] for each in outputs)) -> self.all_predictions.append(tuple(each[0].cpu() for each in outputs))
import numpy as np
import torch
from lightning.pytorch import Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from metric_logger import MetricLogger
from torch_core import ThunderModule


def accuracy(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float((y_true == (y_pred > 0)).mean())


def spread(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.abs(y_pred - y_true).std())


def loader(seed: int, count: int) -> DataLoader:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 5, generator=draw)
    return DataLoader(TensorDataset(x, (x.sum(1) > 0).float()), batch_size=1)


if __name__ == "__main__":
    torch.manual_seed(4)
    metrics = MetricLogger(group_metrics={"accuracy": accuracy, "spread": spread})
    module = ThunderModule(nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)), nn.BCEWithLogitsLoss(), lr=0.1)
    trainer = Trainer(
        callbacks=[metrics],
        max_epochs=2,
        accelerator="auto",
        devices=1,
        logger=False,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader(1, 12), loader(2, 6))
    print("metrics", {name: round(value, 4) for name, value in metrics.history[-1].items()})
# --- predictor.py
class BasePredictor:
    """What is done round the model when it predicts; to pad, to cut into patches."""

    def __call__(self, batches, predict_fn):
        raise NotImplementedError


class Predictor(BasePredictor):
    def __call__(self, batches, predict_fn):
        return [predict_fn(batch) for batch in batches]
# --- torch_core.py
import torch
from lightning.pytorch import LightningModule

from predictor import Predictor


class ThunderModule(LightningModule):
    def __init__(self, model, criterion, lr, predictor=None):
        super().__init__()
        self.model, self.criterion, self.lr = model, criterion, lr
        self.predictor = predictor or Predictor()

    def forward(self, x):
        return self.model(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return self.criterion(self(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        predictions = self.predictor([x], self)[0]
        return predictions, y

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, foreach=False)
# --- metric_logger.py
import numpy as np
from lightning.pytorch.callbacks import Callback


class MetricLogger(Callback):
    def __init__(self, group_metrics=None):
        self.group_metrics = group_metrics or {}
        self.all_predictions, self.history = [], []

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
        self.all_predictions.append(tuple(each[0] for each in outputs))

    def on_validation_epoch_end(self, trainer, pl_module):
        self.history.append(self.evaluate_epoch())
        self.all_predictions.clear()

    def evaluate_epoch(self):
        predictions, targets = map(np.asarray, zip(*self.all_predictions))
        return {name: metric(targets, predictions) for name, metric in self.group_metrics.items()}

# === sentences_by_what_they_claim
# thread: https://github.com/schen149/sub-sentence-encoder/issues/1
# about: sentences are held against each other claim by claim. A sentence's words, and which words each claim has, are put together for the model; it is on the GPU
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|input_ids|.*input_ids.*
# category: input-not-moved|input
# line: main.py: sent1_inputs = collate(
# line: main.py: sent2_inputs = collate(
# line: modeling.py: encoded = self.encoder(
# line: modeling.py: embeddings = self.embed(inputs)
# line: main.py: scores = model.compare(
# repair: main.py: sent1_inputs = collate(sentences[:2], claims[:2]) -> sent1_inputs = collate(sentences[:2], claims[:2]).to(model.device)
# repair: main.py: sent2_inputs = collate(sentences[2:], claims[2:]) -> sent2_inputs = collate(sentences[2:], claims[2:]).to(model.device)
import torch
from transformers import BertConfig, BertModel

from data_utils import PropositionCollator, WordTokenizer
from modeling import SubEncoder

sentences = [
    "dracula is a novel by stoker",
    "it was published in may",
    "stoker wrote dracula",
    "a novel was published",
]
claims = [[(0, 4), (3, 6)], [(0, 3), (2, 5)], [(0, 3)], [(0, 2), (2, 4)]]

torch.manual_seed(12)
tokenizer = WordTokenizer(sentences)
encoder = BertModel(
    BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
    )
)
model = SubEncoder(encoder, dim=8).eval()
if torch.cuda.is_available():
    model = model.cuda()
collate = PropositionCollator(tokenizer)
sent1_inputs = collate(sentences[:2], claims[:2])
sent2_inputs = collate(sentences[2:], claims[2:])
scores = model.compare(sent1_inputs, sent2_inputs)
print("scores", [[round(score, 3) for score in row] for row in scores.tolist()])
# --- data_utils.py
from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch


@dataclass
class PropositionModelInput:
    encoder_inputs: Dict[str, torch.Tensor]
    all_prop_mask: torch.Tensor
    num_prop_per_sentence: torch.Tensor

    def to(self, device):
        for key, value in self.encoder_inputs.items():
            self.encoder_inputs[key] = value.to(device)
        self.all_prop_mask = self.all_prop_mask.to(device)
        self.num_prop_per_sentence = self.num_prop_per_sentence.to(device)
        return self


class WordTokenizer:
    def __init__(self, sentences: List[str]):
        words = sorted({word for sentence in sentences for word in sentence.split()})
        self.ids = {word: number for number, word in enumerate(words, 1)}

    def __len__(self):
        return len(self.ids) + 1

    def __call__(self, sentences: List[str]) -> Dict[str, torch.Tensor]:
        rows = [[self.ids[word] for word in sentence.split()] for sentence in sentences]
        width = max(map(len, rows))
        input_ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        return {"input_ids": input_ids, "attention_mask": (input_ids > 0).long()}


@dataclass
class PropositionCollator:
    tokenizer: WordTokenizer

    def __call__(self, sentences: List[str], claims: List[List[Tuple[int, int]]]):
        encoded = self.tokenizer(sentences)
        masks = []
        for spans in claims:
            for start, end in spans:
                mask = torch.zeros(encoded["input_ids"].shape[1])
                mask[start:end] = 1
                masks.append(mask)
        counts = torch.tensor([len(spans) for spans in claims])
        return PropositionModelInput(encoded, torch.stack(masks), counts)
# --- modeling.py
import torch
from torch import nn


class SubEncoder(nn.Module):
    def __init__(self, encoder, dim):
        super().__init__()
        self.encoder = encoder
        self.mlp = nn.Sequential(nn.Linear(encoder.config.hidden_size, dim), nn.ReLU(), nn.Linear(dim, dim))

    @property
    def device(self):
        return self.encoder.device

    def embed(self, inputs):
        encoded = self.encoder(**inputs.encoder_inputs).last_hidden_state
        hidden = encoded.repeat_interleave(inputs.num_prop_per_sentence, dim=0)
        mask = inputs.all_prop_mask.unsqueeze(-1)
        return self.mlp((hidden * mask).sum(1) / mask.sum(1))

    @torch.no_grad()
    def compare(self, *sides):
        vectors = []
        for inputs in sides:
            embeddings = self.embed(inputs)
            vectors.append(nn.functional.normalize(embeddings, dim=-1))
        return vectors[0] @ vectors[1].T

# === weights_that_tell_no_one
# thread: https://github.com/APPFL/APPFL/issues/150
# about: clients learn, each of its own data, and send their weights with noise on them, so that these tell of no one. How strong the noise is depends on a privacy budget
# operation: add_? on cuda:0, cpu
# operands: other|.*perturb.*|.*sample.*
# category: created-without-device
# line: client_optimizer.py: self.primal_state[name] += self.perturb(
# line: privacy.py: mean = torch.zeros(
# line: privacy.py: scale = torch.full(
# line: privacy.py: return torch.distributions.Laplace(
# repair: client_optimizer.py: self.primal_state[name] += self.perturb(param.shape, scale_value) -> self.primal_state[name] += self.perturb(param.shape, scale_value).to(param.device)
import torch

from client_optimizer import ClientOptim
from config import Config
from server import FedAvgServer


def client_data(number, size=6):
    draw = torch.Generator().manual_seed(number)
    x = torch.randn(size, 4, generator=draw)
    return x, (x[:, 0] > 0.2 * number).long()


def main(cfg):
    torch.manual_seed(cfg.seed)
    server = FedAvgServer(torch.nn.Linear(4, 2), cfg)
    clients = [ClientOptim(i, server.model, client_data(i), cfg) for i in range(cfg.num_clients)]
    for t in range(cfg.num_epochs):
        states = [client.update(server.global_state()) for client in clients]
        server.update(states)
    print("bias", [round(v, 4) for v in server.model.bias.tolist()])


if __name__ == "__main__":
    main(Config())
# --- config.py
from dataclasses import dataclass, field

import torch


def default_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class Config:
    device: str = field(default_factory=default_device)
    device_server: str = "cpu"
    num_clients: int = 2
    num_epochs: int = 2
    num_local_epochs: int = 2
    lr: float = 0.1
    clip_value: float = 1.0
    use_dp: bool = True
    mechanism: str = "laplace_output"
    epsilon: float = 5.0
    seed: int = 1
# --- privacy.py
import torch

MECHANISMS = {}


def register(name):
    def wrap(function):
        MECHANISMS[name] = function
        return function

    return wrap


@register("none")
def no_noise(shape, scale_value):
    return 0.0


@register("laplace_output")
def laplace(shape, scale_value):
    mean = torch.zeros(shape)
    scale = torch.full(shape, scale_value)
    return torch.distributions.Laplace(mean, scale).sample()
# --- server.py
import torch


class FedAvgServer:
    def __init__(self, model, cfg):
        self.model = model.to(cfg.device_server)
        self.device = cfg.device_server

    def global_state(self):
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def update(self, states):
        mean = {}
        for name in states[0]:
            mean[name] = torch.stack([state[name].to(self.device) for state in states]).mean(0)
        self.model.load_state_dict(mean)
# --- client_optimizer.py
import copy

import torch
from torch import nn

from privacy import MECHANISMS


class BaseClient:
    def __init__(self, id, model, data, cfg):
        self.id, self.cfg, self.data = id, cfg, data
        self.model = copy.deepcopy(model)
        self.perturb = MECHANISMS[cfg.mechanism if cfg.use_dp else "none"]
        self.primal_state = {}

    def output_perturb(self, scale_value):
        """Differential privacy for output perturbation."""
        for name, param in self.primal_state.items():
            self.primal_state[name] += self.perturb(param.shape, scale_value)


class ClientOptim(BaseClient):
    def update(self, global_state):
        self.model.to(self.cfg.device)
        self.model.load_state_dict(global_state)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.cfg.lr, foreach=False)
        x, y = (each.to(self.cfg.device) for each in self.data)
        for _ in range(self.cfg.num_local_epochs):
            optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip_value, foreach=False)
            optimizer.step()
        self.primal_state = copy.deepcopy(self.model.state_dict())
        sensitivity = 2.0 * self.cfg.clip_value * self.cfg.lr
        self.output_perturb(sensitivity / self.cfg.epsilon)
        return self.primal_state

# === a_picture_with_nothing_to_find
# thread: https://github.com/PeizeSun/OneNet/issues/9
# about: things are found in pictures; each thing that is there has the one place that tells it best. Some pictures have nothing in them
# operation: cat on cuda:0, cpu
# operands: tensors|.*src.*|.*empty.*
# category: created-without-device
# line: matcher.py: empty = torch.as_tensor(
# line: matcher.py: indices.append((empty, empty))
# line: loss.py: src_idx = torch.cat(
# repair: matcher.py: empty = torch.as_tensor([], dtype=torch.int64) -> empty = torch.as_tensor([], dtype=torch.int64, device=outputs["pred_logits"].device)
import torch

from loss import SetCriterion
from matcher import MinCostMatcher
from onenet import OneNetHead
from pictures import batches

torch.manual_seed(2)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
model = OneNetHead(channels=5, num_classes=3).to(device)
criterion = SetCriterion(3, MinCostMatcher(cost_class=2.0, cost_bbox=5.0), {"loss_ce": 2.0, "loss_bbox": 5.0}).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
losses = []
for images, targets in batches(count=3, seed=4):
    targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
    loss_dict = criterion(model(images.to(device)), targets)
    loss = sum(criterion.weight_dict[k] * v for k, v in loss_dict.items())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 4))
print("losses", losses)
# --- pictures.py
import torch

def batches(count, seed, places=6):
    draw = torch.Generator().manual_seed(seed)
    for number in range(count):
        images = torch.rand(3, places, 5, generator=draw)
        targets = []
        for boxes in (2, number % 2, 1):
            targets.append({"labels": torch.randint(0, 3, (boxes,), generator=draw), "boxes": torch.rand(boxes, 4, generator=draw)})
        yield images, targets
# --- onenet.py
from torch import nn

class OneNetHead(nn.Module):
    def __init__(self, channels, num_classes):
        super().__init__()
        self.feat1 = nn.Linear(channels, 8)
        self.cls_score = nn.Linear(8, num_classes)
        self.ltrb_pred = nn.Linear(8, 4)

    def forward(self, features):
        feat = self.feat1(features).relu()
        return {"pred_logits": self.cls_score(feat), "pred_boxes": self.ltrb_pred(feat).sigmoid()}
# --- matcher.py
import torch
from torch import nn

class MinCostMatcher(nn.Module):
    def __init__(self, cost_class, cost_bbox):
        super().__init__()
        self.cost_class, self.cost_bbox = cost_class, cost_bbox

    @torch.no_grad()
    def forward(self, outputs, targets):
        indices = []
        for out_prob, out_bbox, target in zip(outputs["pred_logits"].sigmoid(), outputs["pred_boxes"], targets):
            tgt_ids, tgt_bbox = target["labels"], target["boxes"]
            if tgt_ids.shape[0] == 0:
                empty = torch.as_tensor([], dtype=torch.int64)
                indices.append((empty, empty))
                continue
            cost = self.cost_bbox * torch.cdist(out_bbox, tgt_bbox, p=1) - self.cost_class * out_prob[:, tgt_ids]
            _, src_ind = torch.min(cost, dim=0)
            tgt_ind = torch.arange(len(tgt_ids)).to(src_ind)
            indices.append((src_ind, tgt_ind))
        return indices
# --- loss.py
import torch
import torch.nn.functional as F
from torch import nn

class SetCriterion(nn.Module):
    def __init__(self, num_classes, matcher, weight_dict):
        super().__init__()
        self.num_classes, self.matcher, self.weight_dict = num_classes, matcher, weight_dict

    def _get_src_permutation_idx(self, indices):
        # permute predictions following indices
        src_idx = torch.cat([src for (src, _) in indices])
        batch_idx = torch.cat([torch.full_like(src, i) for i, (src, _) in enumerate(indices)])
        return batch_idx, src_idx

    def forward(self, outputs, targets):
        indices = self.matcher(outputs, targets)
        idx = self._get_src_permutation_idx(indices)
        num_boxes = max(len(idx[0]), 1)
        labels = torch.cat([t["labels"][J] for t, (_, J) in zip(targets, indices)])
        boxes = torch.cat([t["boxes"][J] for t, (_, J) in zip(targets, indices)])
        onehot = torch.zeros_like(outputs["pred_logits"])
        onehot[idx[0], idx[1], labels] = 1
        loss_ce = F.binary_cross_entropy_with_logits(outputs["pred_logits"], onehot, reduction="sum") / num_boxes
        return {"loss_ce": loss_ce, "loss_bbox": F.l1_loss(outputs["pred_boxes"][idx], boxes, reduction="sum") / num_boxes}

# === labels_that_a_model_has_given
# thread: https://github.com/GoGoDuck912/Self-Correction-Human-Parsing/issues/59
# about: parts of a body are told by a model on two GPUs, and it is corrected by labels that an older state of it has given. Outputs of the GPUs are not gathered, for the loss is theirs too
# operation: cat on cuda:0, cuda:1
# operands: tensors|.*soft_parsing.*|.*pred.*
# category: data-parallel
# line: train.py: soft_parsing.append(
# line: train.py: soft_preds = torch.cat(
# line: encoding.py: return outputs
# repair: train.py: soft_parsing.append(pred[-1]) -> soft_parsing.append(pred[-1].to(images.device))
import argparse
import copy

import torch

from criterion import CriterionAll
from encoding import DataParallelCriterion, DataParallelModel
from networks import AugmentCE2P
from train import train_cycle


def get_arguments():
    parser = argparse.ArgumentParser(description="Self Correction for Human Parsing")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--num-classes", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--cycles", type=int, default=2)
    parser.add_argument("--gpu", type=str, default="0,1")
    return parser.parse_args()


def main():
    args = get_arguments()
    gpus = [int(i) for i in args.gpu.split(",")]
    torch.manual_seed(0)
    AugmentCE2P_model = AugmentCE2P(num_classes=args.num_classes)
    model = DataParallelModel(AugmentCE2P_model.cuda(gpus[0]), device_ids=gpus)
    schp_model = copy.deepcopy(model)
    criterion = DataParallelCriterion(CriterionAll().cuda(gpus[0]), device_ids=gpus)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate, foreach=False)
    draw = torch.Generator().manual_seed(1)
    loader = []
    for _ in range(2):
        images = torch.rand(args.batch_size, 3, 6, 6, generator=draw)
        labels = torch.randint(0, args.num_classes, (args.batch_size, 6, 6), generator=draw)
        loader.append((images, labels))
    for cycle in range(args.cycles):
        loss = train_cycle(model, schp_model, criterion, optimizer, loader, cycle)
        schp_model.load_state_dict(model.state_dict())
        print("cycle", cycle, "loss", round(loss, 6))


if __name__ == "__main__":
    main()
# --- networks.py
from torch import nn


class AugmentCE2P(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.layer1 = nn.Conv2d(3, 6, 3, padding=1)
        self.aux = nn.Conv2d(6, num_classes, 1)
        self.fushion = nn.Conv2d(6, num_classes, 3, padding=1)

    def forward(self, x):
        x = self.layer1(x).relu()
        return [self.aux(x), self.fushion(x)]
# --- criterion.py
from torch import nn


class CriterionAll(nn.Module):
    def forward(self, preds, target, soft=None):
        loss = sum(nn.functional.cross_entropy(pred, target) for pred in preds)
        if soft is not None:
            kl = nn.functional.kl_div(preds[-1].log_softmax(1), soft.softmax(1), reduction="batchmean")
            loss = loss + 0.5 * kl
        return loss
# --- encoding.py
"""Data parallel for a model whose loss is parallel too: saves memory of the first GPU."""
import torch
from torch.nn.parallel import DataParallel


class DataParallelModel(DataParallel):
    def gather(self, outputs, output_device):
        return outputs


class DataParallelCriterion(DataParallel):
    def forward(self, inputs, *targets, **kwargs):
        targets, kwargs = self.scatter(targets, kwargs, self.device_ids)
        outputs = [self.module(*each) for each in zip(inputs, *zip(*targets))]
        return torch.stack([output.to(self.output_device) for output in outputs]).mean()
# --- train.py
import torch


def train_cycle(model, schp_model, criterion, optimizer, loader, cycle):
    total = 0.0
    for images, labels in loader:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        preds = model(images)
        if cycle > 0:
            with torch.no_grad():
                soft_parsing = []
                for pred in schp_model(images):
                    soft_parsing.append(pred[-1])
                soft_preds = torch.cat(soft_parsing, dim=0)
            loss = criterion(preds, labels, soft_preds)
        else:
            loss = criterion(preds, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)
