# thread: https://github.com/huggingface/accelerate/issues/993
# about: the embedding and the output layer are one tensor, and a device map places them on two devices. accelerate unties them there without a word; moving
#   the parts by hand leaves the tensor with one of them.
# category: tied-weights
# operands: hidden_states cuda:1, self.lm_head.weight cuda:0
# fails: logits = self.lm_head(hidden_states)
# fix: logits = self.lm_head(hidden_states.to(self.embed_tokens.weight.device))


import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(32, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.lm_head = nn.Linear(8, 32, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states.to(layer.weight.device))
        logits = self.lm_head(hidden_states)
        return logits


model = LanguageModel()
for name, device in {"embed_tokens": "cuda:0", "layers.0": "cuda:0", "layers.1": "cuda:1"}.items():
    model.get_submodule(name).to(device)
model(torch.randint(0, 32, (1, 6)).to("cuda:0"))
