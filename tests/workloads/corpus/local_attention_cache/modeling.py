import torch
from torch import nn


class LocalAttention(nn.Module):
    def __init__(self, width, window):
        super().__init__()
        self.window = window
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))

    def _setup_cache(self, batch, device):
        width = self.k_proj.out_features
        self.key_states = torch.zeros(batch, self.window, width, device=device)
        self.value_states = torch.zeros(batch, self.window, width, device=device)

    def _update_cache(self, key, value):
        """The window goes on by one token."""
        k_out = self.key_states
        v_out = self.value_states
        k_out = torch.cat((k_out[:, 1:], key), dim=1)
        v_out = torch.cat((v_out[:, 1:], value), dim=1)
        self.key_states, self.value_states = k_out, v_out
        return k_out, v_out

    def forward(self, x):
        keys, values = self._update_cache(self.k_proj(x), self.v_proj(x))
        return (self.q_proj(x) @ keys.transpose(1, 2)).softmax(-1) @ values


class Layer(nn.Module):
    def __init__(self, width, window):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.temporal_block = LocalAttention(width, window)

    def forward(self, x):
        x = x.to(self.norm.weight.device)
        return x + self.temporal_block(self.norm(x))


class RecurrentModel(nn.Module):
    def __init__(self, vocabulary, width, layers, window):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, window) for _ in range(layers))

    def dispatch(self, device_map):
        self.embed_tokens.to(device_map[0])
        for index, layer in enumerate(self.layers):
            layer.to(device_map[index])

    def _setup_cache(self, batch, device):
        for layer in self.layers:
            layer.temporal_block._setup_cache(batch, device)

    def forward(self, token):
        x = self.embed_tokens(token)
        for layer in self.layers:
            x = layer(x)
        return x[:, -1].to(self.embed_tokens.weight.device) @ self.embed_tokens.weight.T

    @torch.no_grad()
    def generate(self, input_ids, steps):
        self._setup_cache(input_ids.shape[0], input_ids.device)
        for position in range(input_ids.shape[1]):
            logits = self(input_ids[:, position : position + 1])
        out = []
        for _ in range(steps):
            token = logits.argmax(-1, keepdim=True)
            out.append(token.item())
            logits = self(token)
        return out
