import torch
from torch import nn

from encoding import sinusoid


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        future = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
        return self.out((q @ k.mT / x.shape[-1] ** 0.5).masked_fill(future, float("-inf")).softmax(-1) @ v)


class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.width = width
        self.embedding, self.attention, self.head = nn.Embedding(vocabulary, width), Attention(width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + sinusoid(tokens.shape[1], self.width)
        return self.head(x + self.attention(x))
