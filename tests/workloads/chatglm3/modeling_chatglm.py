"""A ChatGLM-like decoder, small: rotary attention with one shared key/value head group, gated MLP, and the cache's two forms.

While the prompt is read, the layers' caches are joined into one tensor, `presents`, [layers, 2, batch, groups, tokens, width]. Layer by layer it
is taken apart again for the next token. The joining is where a model that is spread over devices meets itself.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class ChatGLMConfig:
    vocabulary: int = 96
    width: int = 64
    layers: int = 4
    heads: int = 4
    groups: int = 2
    inner: int = 128
    longest: int = 256
    presents_follow: bool = False  # the repair: what was joined so far goes to the later layer's device


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """x: [batch, tokens, heads, width]; angles: [tokens, width / 4, 2]. The first half of the width turns, the other stays."""
    half = x.shape[-1] // 2
    turning, staying = x[..., :half].unflatten(-1, (-1, 2)), x[..., half:]
    cosine, sine = angles[None, :, None, :, 0], angles[None, :, None, :, 1]
    even, odd = turning[..., 0], turning[..., 1]
    turned = torch.stack((even * cosine - odd * sine, odd * cosine + even * sine), dim=-1)
    return torch.cat((turned.flatten(-2), staying), dim=-1)


class SelfAttention(nn.Module):
    def __init__(self, config: ChatGLMConfig):
        super().__init__()
        self.heads, self.groups = config.heads, config.groups
        self.head_width = config.width // config.heads
        self.query_key_value = nn.Linear(config.width, (config.heads + 2 * config.groups) * self.head_width)
        self.dense = nn.Linear(config.width, config.width, bias=False)

    def forward(self, hidden_states, rotary, kv_cache=None):
        mixed = self.query_key_value(hidden_states).unflatten(-1, (-1, self.head_width))
        query, key, value = mixed.split((self.heads, self.groups, self.groups), dim=-2)
        query, key = rotate(query, rotary).transpose(1, 2), rotate(key, rotary).transpose(1, 2)
        value = value.transpose(1, 2)
        if kv_cache is not None:
            key = torch.cat((kv_cache[0], key), dim=2)
            value = torch.cat((kv_cache[1], value), dim=2)
        kept = torch.stack((key, value))

        repeat = self.heads // self.groups
        key, value = key.repeat_interleave(repeat, dim=1), value.repeat_interleave(repeat, dim=1)
        context = F.scaled_dot_product_attention(query, key, value, is_causal=kv_cache is None)
        return self.dense(context.transpose(1, 2).flatten(-2)), kept


class MLP(nn.Module):
    def __init__(self, config: ChatGLMConfig):
        super().__init__()
        self.dense_h_to_4h = nn.Linear(config.width, 2 * config.inner, bias=False)
        self.dense_4h_to_h = nn.Linear(config.inner, config.width, bias=False)

    def forward(self, hidden_states):
        gate, up = self.dense_h_to_4h(hidden_states).chunk(2, dim=-1)
        return self.dense_4h_to_h(F.silu(gate) * up)


class GLMBlock(nn.Module):
    def __init__(self, config: ChatGLMConfig):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.width)
        self.self_attention = SelfAttention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.width)
        self.mlp = MLP(config)

    def forward(self, hidden_states, rotary, kv_cache=None):
        attended, kv_cache = self.self_attention(self.input_layernorm(hidden_states), rotary, kv_cache)
        hidden_states = hidden_states + attended
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states)), kv_cache


class GLMTransformer(nn.Module):
    def __init__(self, config: ChatGLMConfig):
        super().__init__()
        self.presents_follow = config.presents_follow
        self.layers = nn.ModuleList(GLMBlock(config) for _ in range(config.layers))
        self.final_layernorm = nn.RMSNorm(config.width)

    def forward(self, hidden_states, rotary, kv_caches=None):
        presents = ()
        for index, layer in enumerate(self.layers):
            past = None if kv_caches is None else kv_caches[index]
            hidden_states, kv_cache = layer(hidden_states, rotary, past)
            if kv_caches is not None:
                presents = presents + (kv_cache,)
                continue
            kv_cache = kv_cache.unsqueeze(0)
            if len(presents) == 0:
                presents = kv_cache
            elif self.presents_follow:
                presents = torch.cat((presents.to(kv_cache.device), kv_cache), dim=0)
            else:
                presents = torch.cat((presents, kv_cache), dim=0)
        return self.final_layernorm(hidden_states), tuple(presents)


class ChatGLMForConditionalGeneration(nn.Module):
    def __init__(self, config: ChatGLMConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.encoder = GLMTransformer(config)
        self.output_layer = nn.Linear(config.width, config.vocabulary, bias=False)
        rotary_width = config.width // config.heads // 2
        speeds = 10000.0 ** (-torch.arange(0, rotary_width, 2) / rotary_width)
        angles = torch.outer(torch.arange(config.longest), speeds)
        self.register_buffer("angles", torch.stack((angles.cos(), angles.sin()), dim=-1), persistent=False)

    def forward(self, input_ids, past_key_values=None):
        """input_ids: int64 [batch, tokens]. Returns the logits of the last token and what the next call wants as past_key_values."""
        seen = 0 if past_key_values is None else past_key_values[0].shape[-2]
        rotary = self.angles[seen : seen + input_ids.shape[1]]
        hidden_states, past_key_values = self.encoder(self.embedding(input_ids), rotary, past_key_values)
        return self.output_layer(hidden_states[:, -1]), past_key_values
