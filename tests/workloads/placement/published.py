"""Runs whose peaks others have published, by their shapes: the same operations in the same order, written anew.

usage: published.py generate|lora MODEL [BATCH]; one line of JSON comes out, in bytes.

A GPT as LitGPT of October 2023 computes it (https://github.com/Lightning-AI/litgpt at 8641822), in bfloat16. generate: 50 tokens after a prompt of six, with
a cache of keys and values. lora: one step of LoRA, of rank 8 on queries and values, on its longest text.
"""

import argparse
import json
import math

import torch
import torch.nn.functional as F
from accelerate.utils import calculate_maximum_sizes
from torch import nn

# width, layers, heads, rows of the vocabulary, width of the MLP, share of a head that rotates, the longest text, what else differs
MODELS = {
    "llama-2-7b": (4096, 32, 32, 32000, 11008, 1.0, 1304, "llama"),
    "llama-2-13b": (5120, 40, 40, 32000, 13824, 1.0, 1304, "llama"),
    "codellama-34b": (8192, 48, 64, 32016, 22016, 1.0, 1304, "llama"),
    "stablelm-3b": (4096, 16, 32, 50688, 16384, 0.25, 1034, "neox"),
    "phi-1.5": (2048, 24, 32, 51200, 8192, 0.5, 1044, "phi"),
}
PROMPT, NEW = 6, 50


class RMSNorm(nn.Module):
    """Of single operators, as it was then."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
        return self.weight * (x * scale)


class Projection(nn.Module):
    """Queries, keys and values at once, with LoRA's update of the first and the last."""

    def __init__(self, width, bias, rank):
        super().__init__()
        self.linear, self.rank, self.width = nn.Linear(width, 3 * width, bias=bias), rank, width
        if rank:
            self.lora_A, self.lora_B = nn.Parameter(torch.zeros(2 * rank, width)), nn.Parameter(torch.zeros(2 * width, rank))

    def forward(self, x):
        out = self.linear(x)
        if not self.rank:
            return out
        low = F.linear(F.dropout(x, 0.05), self.lora_A)
        high = F.conv1d(low.transpose(-2, -1), self.lora_B.unsqueeze(-1), groups=2).transpose(-2, -1)
        places = torch.tensor([*range(self.width), *range(2 * self.width, 3 * self.width)], device=x.device)
        turned = high.transpose(0, 1)
        wide = turned.new_zeros((*turned.shape[:-1], 3 * self.width)).view(-1, 3 * self.width)
        wide = wide.index_copy(1, places, turned.reshape(-1, 2 * self.width))
        return out + wide.view((*turned.shape[:-1], 3 * self.width)).transpose(0, 1) * 2.0


class Attention(nn.Module):
    def __init__(self, width, heads, rotating, bias, rank):
        super().__init__()
        self.attn, self.proj = Projection(width, bias, rank), nn.Linear(width, width, bias=bias)
        self.heads, self.rotating, self.cache = heads, int(width // heads * rotating), None

    def rotate(self, x, cos, sin):
        part = x[..., : self.rotating]
        half = self.rotating // 2
        turned = torch.cat((-part[..., half:], part[..., :half]), dim=-1)
        return torch.cat((((part * cos) + (turned * sin)).type_as(x), x[..., self.rotating :]), dim=-1)

    def forward(self, x, cos, sin, mask, at):
        batch, length, width = x.shape
        size = width // self.heads
        qkv = self.attn(x).view(batch, length, self.heads, 3, size).permute(0, 2, 3, 1, 4)
        q, k, v = (each.reshape(batch, -1, length, size) for each in qkv.split((1, 1, 1), dim=2))
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        if at is not None:
            k, v = (kept.index_copy_(2, at, new) for kept, new in zip(self.cache, (k, v)))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1 / math.sqrt(size), is_causal=mask is None)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, inner, rotating, kind, rank):
        super().__init__()
        bias, norm = kind != "llama", RMSNorm if kind == "llama" else nn.LayerNorm
        self.norm_1, self.attn, self.kind = norm(width), Attention(width, heads, rotating, bias, rank), kind
        self.norm_2 = None if kind == "phi" else norm(width)
        self.into = nn.ModuleList(nn.Linear(width, inner, bias=bias) for _ in range(2 if kind == "llama" else 1))
        self.back = nn.Linear(inner, width, bias=bias)

    def mlp(self, x):
        if self.kind == "llama":
            a, b = (each(x) for each in self.into)
            return self.back(F.silu(a) * b)
        return self.back(F.gelu(self.into[0](x), approximate="tanh" if self.kind == "phi" else "none"))

    def forward(self, x, *rest):
        n = self.norm_1(x)
        h = self.attn(n, *rest)
        if self.kind == "llama":
            x = x + h
            return x + self.mlp(self.norm_2(x))
        return x + h + self.mlp(n if self.norm_2 is None else self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, width, layers, heads, rows, inner, rotating, _, kind, rank):
        super().__init__()
        self.lm_head = nn.Linear(width, rows, bias=kind == "phi")
        self.wte = nn.Embedding(rows, width)
        self.h = nn.ModuleList(Block(width, heads, inner, rotating, kind, rank) for _ in range(layers))
        self.ln_f = RMSNorm(width) if kind == "llama" else nn.LayerNorm(width)
        self.angles = int(width // heads * rotating)

    def waves(self, length, device):
        steps = torch.outer(torch.arange(length, device=device), 10000.0 ** (-torch.arange(0, self.angles, 2, device=device) / self.angles)).repeat(1, 2)
        self.cos, self.sin = steps.cos().bfloat16(), steps.sin().bfloat16()

    def forward(self, ids, mask=None, at=None, chunk=0):
        cos, sin = ((each[: ids.shape[1]] if at is None else each.index_select(0, at)) for each in (self.cos, self.sin))
        x = self.wte(ids)
        for block in self.h:
            x = block(x, cos, sin, mask if at is None else mask.index_select(2, at), at)
        x = self.ln_f(x)
        return [self.lm_head(each) for each in x.split(chunk, dim=1)] if chunk else self.lm_head(x)


@torch.inference_mode()
def generate(model, shape, device):
    width, layers, heads, *_ = shape
    length = PROMPT + NEW
    model.waves(length, device)
    for block in model.h:
        block.attn.cache = [torch.zeros(1, heads, length, width // heads, device=device, dtype=torch.bfloat16) for _ in range(2)]
    mask = torch.ones(length, length, device=device, dtype=torch.bool).tril()[None, None]
    ids, at = torch.zeros(length, dtype=torch.long, device=device), torch.arange(PROMPT, device=device)
    for _ in range(NEW):
        logits = model(ids.index_select(0, at).view(1, -1), mask, at)[0, -1] / 0.8
        least = logits.topk(200).values[-1]
        chances = torch.where(logits < least, -float("inf"), logits).softmax(-1)
        at = at[-1:] + 1
        if at.item() < length:
            ids = ids.index_copy(0, at, torch.multinomial(chances, 1))


def tune(model, shape, batch, device):
    length = shape[6]
    model.waves(length, device)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora" in name)
    ids = torch.randint(1000, (batch, length), device=device)
    logits = [each.float() for each in model(ids, chunk=128)]  # Lightning's Fabric gives a model's results in the default type
    logits[-1] = logits[-1][..., :-1, :]
    rows = [each.reshape(-1, each.shape[-1]) for each in logits]
    targets = [each.reshape(-1) for each in ids[:, 1:].split(128, dim=1)]
    losses = [F.cross_entropy(a, b, ignore_index=-1, reduction="none") for a, b in zip(rows, targets)]
    (torch.cat(losses).mean() / 128).backward()


parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["generate", "lora"])
parser.add_argument("model")
parser.add_argument("batch", type=int, nargs="?", default=1)
options = parser.parse_args()
device, error = torch.device("cuda"), None
shape, tunes = MODELS[options.model], options.what == "lora"
with torch.device("meta"):
    model = GPT(*shape, rank=8 if tunes else 0).bfloat16()
estimate = calculate_maximum_sizes(model)[0]  # what `accelerate estimate-memory` says: the weights
try:
    model.to_empty(device=device)
    if tunes:
        tune(model, shape, options.batch, device)
    else:
        generate(model, shape, device)
except torch.OutOfMemoryError as full:
    error = str(full)
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "accelerate": estimate, "error": error}))
