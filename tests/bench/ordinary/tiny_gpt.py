"""A tiny GPT learns a sequence for some steps and continues it: ordinary_bench.py starts it with the device."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = sys.argv[1]
WORDS, WIDTH, HEADS, LAYERS, LENGTH = 64, 128, 4, 3, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(self, ids, most, temperature=0.8, top_k=8):
        for _ in range(most):
            logits = self(ids[:, -LENGTH:])[:, -1] / temperature
            logits[logits < logits.topk(top_k).values[:, -1:]] = -float("inf")
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
        return ids


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = (torch.arange(4096) * 7 % WORDS).to(DEVICE)
    for _ in range(60):
        at = torch.randint(0, 4096 - LENGTH - 1, (8,))
        x = torch.stack([text[i : i + LENGTH] for i in at])
        y = torch.stack([text[i + 1 : i + LENGTH + 1] for i in at])
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    made = model.generate(text[:8].unsqueeze(0), 120)
    assert made.shape == (1, 128) and loss.item() < 1.5, loss.item()


main()
