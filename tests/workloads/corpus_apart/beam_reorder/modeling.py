import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, n_embd):
        super().__init__()
        self.ln = nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, layer_past=None):
        query, key, value = self.c_attn(self.ln(x)).chunk(3, dim=-1)
        if layer_past is not None:
            key = torch.cat((layer_past[0], key), dim=1)
            value = torch.cat((layer_past[1], value), dim=1)
        attn = (query @ key.transpose(1, 2)).softmax(-1) @ value
        return x + self.c_proj(attn), (key, value)


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, n_embd, n_layer):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.h = nn.ModuleList(Block(n_embd) for _ in range(n_layer))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.device_of = {}

    def parallelize(self, device_map):
        """{0: [0, 1], 1: [2, 3]}: which blocks go where. Both ends go to the first."""
        self.device_of = {block: f"cuda:{gpu}" for gpu, blocks in device_map.items() for block in blocks}
        for i, block in enumerate(self.h):
            block.to(self.device_of[i])
        self.wte.to(self.device_of[0])
        self.lm_head.to(self.device_of[0])

    def forward(self, input_ids, past=None):
        hidden = self.wte(input_ids)
        presents = ()
        for i, block in enumerate(self.h):
            hidden, present = block(hidden.to(self.device_of[i]), None if past is None else past[i])
            presents += (present,)
        return self.lm_head(hidden.to(self.lm_head.weight.device)), presents

    @staticmethod
    def reorder_cache(past, beam_idx):
        return tuple(tuple(state.index_select(0, beam_idx) for state in layer_past) for layer_past in past)
