"""One LLaMA block as a server runs it: what the session's cache holds comes in as past_key_value and goes out longer."""

import torch
from torch import nn
from torch.nn import functional as F


def rotary(tokens: int, first: int, width: int, device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine, [tokens, width], of the positions first, first + 1, …"""
    speeds = 10000.0 ** (-torch.arange(0, width, 2, device=device) / width)
    angles = torch.outer(torch.arange(first, first + tokens, device=device), speeds).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-high, low), dim=-1) * sine


class LlamaAttention(nn.Module):
    def __init__(self, width: int, heads: int, cache_follows: bool):
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.cache_follows = cache_follows
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(width, width, bias=False))

    def by_head(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, self.head_width)).transpose(1, 2)

    def forward(self, hidden_states, past_key_value):
        query_states = self.by_head(self.q_proj(hidden_states))
        key_states = self.by_head(self.k_proj(hidden_states))
        value_states = self.by_head(self.v_proj(hidden_states))
        seen, new = past_key_value[0].shape[2], hidden_states.shape[1]
        cosine, sine = rotary(new, seen, self.head_width, hidden_states.device)
        query_states, key_states = rotate(query_states, cosine, sine), rotate(key_states, cosine, sine)

        if self.cache_follows:
            past_key_value = [past.to(key_states.device) for past in past_key_value]
        key_states = torch.cat([past_key_value[0], key_states], dim=2)
        value_states = torch.cat([past_key_value[1], value_states], dim=2)

        allowed = torch.ones(new, seen + new, dtype=torch.bool, device=hidden_states.device).tril(seen)
        context = F.scaled_dot_product_attention(query_states, key_states, value_states, attn_mask=allowed)
        return self.o_proj(context.transpose(1, 2).flatten(-2)), (key_states, value_states)


class LlamaBlock(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4, inner: int = 128, cache_follows: bool = False):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.self_attn = LlamaAttention(width, heads, cache_follows)
        self.gate_proj, self.up_proj = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def cache_shape(self, batch: int, longest: int) -> tuple[int, ...]:
        """Of a session's keys and values together: [2, batch, heads, longest, width of a head]."""
        return 2, batch, self.self_attn.heads, longest, self.self_attn.head_width

    def forward(self, hidden_states, past_key_value):
        attended, present = self.self_attn(self.input_layernorm(hidden_states), past_key_value)
        hidden_states = hidden_states + attended
        x = self.post_attention_layernorm(hidden_states)
        return hidden_states + self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)), present
