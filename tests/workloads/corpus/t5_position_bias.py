# EXPECT {"kind":"refused-op","operation":"index_select|embedding","devices":["cpu","cuda:0"],"operands":["weight|self.relative_attention_bias.weight|.*relative_attention_bias.weight","relative_position_bucket|buckets|input"],"category":"created without device|default or current device","line":["query_position = torch.arange(","key_position = torch.arange(","position_bias = self._compute_bias("],"error":"on the same device","thread":"https://github.com/pytorch/text/pull/2007","hard":"the device is given to the constructor, cpu by default, and kept; the model was moved afterwards"}
# FIX position_bias = self._compute_bias(x.shape[1], x.shape[1], self.device) -> position_bias = self._compute_bias(x.shape[1], x.shape[1], x.device)
import torch
from torch import nn


class T5Attention(nn.Module):
    def __init__(self, width, heads, buckets=8, device=None):
        super().__init__()
        self.device = torch.device("cpu") if device is None else torch.device(device)
        self.heads, self.buckets = heads, buckets
        self.in_proj = nn.Linear(width, 3 * width, device=device)
        self.out_proj = nn.Linear(width, width, device=device)
        self.relative_attention_bias = nn.Embedding(buckets, heads, device=device)

    def _relative_position_bucket(self, relative_position):
        half = self.buckets // 2
        positive = (relative_position > 0).long() * half
        return positive + relative_position.abs().clamp(max=half - 1)

    def _compute_bias(self, query_length, key_length, device):
        query_position = torch.arange(query_length, device=device)[:, None]
        key_position = torch.arange(key_length, device=device)[None]
        relative_position_bucket = self._relative_position_bucket(key_position - query_position)
        values = self.relative_attention_bias(relative_position_bucket)
        return values.permute(2, 0, 1)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.in_proj(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        position_bias = self._compute_bias(x.shape[1], x.shape[1], self.device)
        scores = query @ key.transpose(-1, -2) + position_bias
        return self.out_proj((scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width))


class T5Encoder(nn.Module):
    def __init__(self, vocabulary, width, layers, device=None):
        super().__init__()
        self.token_embeddings = nn.Embedding(vocabulary, width, device=device)
        self.layers = nn.ModuleList(T5Attention(width, 2, device=device) for _ in range(layers))

    def forward(self, tokens):
        x = self.token_embeddings(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return x


torch.manual_seed(0)
encoder = T5Encoder(40, 8, 2).to("cuda:0")
model_input = torch.tensor([[3, 9, 11, 1], [5, 7, 1, 0]]).to("cuda:0")
print("encoded", tuple(encoder(model_input).shape), round(encoder(model_input).sum().item(), 3))
