# thread: https://github.com/huggingface/transformers/issues/34456
# about: a device map written by hand names embeddings and layers, and not the rotary embedding, a module of its own since 4.45 (whose later versions move
#   its frequencies themselves): it stays on the CPU.
# category: module-split-or-hook-missing
# operands: inv_freq_expanded cpu, position_ids_expanded cuda:0
# fails: freqs = torch.bmm(inv_freq_expanded, position_ids_expanded)


import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, width, 2) / width), persistent=False)

    def forward(self, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].expand(position_ids.shape[0], -1, 1)
        position_ids_expanded = position_ids[:, None, :].float()
        freqs = torch.bmm(inv_freq_expanded, position_ids_expanded)
        return freqs.transpose(1, 2).cos()


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(32, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.rotary_emb = RotaryEmbedding()

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        position_ids = torch.arange(input_ids.shape[1], device=hidden_states.device)[None]
        rotary = self.rotary_emb(position_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states * rotary)
        return hidden_states


model = Decoder()
for name, device in {"embed_tokens": "cuda:0", "layers.0": "cuda:0", "layers.1": "cuda:1"}.items():
    model.get_submodule(name).to(device)
model(torch.randint(0, 32, (1, 6)).to("cuda:0"))
