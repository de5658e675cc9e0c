# thread: https://github.com/zai-org/ChatGLM3/issues/1285
# about: the model is loaded with device_map="auto", and .cuda() behind it brings all weights to the first GPU, while accelerate's hooks go on sending
#   activations to the second.
# category: module-split-or-hook-missing
# operands: layers.1.weight cuda:0


import torch
from accelerate import dispatch_model
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, input_ids):
        hidden_states = self.embedding(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return hidden_states


model = dispatch_model(Decoder(), {"embedding": 0, "layers.0": 0, "layers.1": 1})
nn.Module.cuda(model)
model(torch.randint(0, 32, (1, 6)).cuda())
