# thread: https://github.com/huggingface/trl/issues/532
# about: the base model is spread by its device map, and the value head that is put on top of it stays on the device where it was made.
# category: module-split-or-hook-missing
# operands: v_head.summary.weight cpu
# fails: return self.summary(hidden_states)



import torch
from torch import nn


class ValueHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.summary = nn.Linear(width, 1)

    def forward(self, hidden_states):
        return self.summary(hidden_states)


class CausalLMWithValueHead(nn.Module):
    def __init__(self, pretrained_model):
        super().__init__()
        self.pretrained_model = pretrained_model
        self.v_head = ValueHead(16)

    def forward(self, input_ids):
        return self.v_head(self.pretrained_model(input_ids))


base = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 16))
base[0].to("cuda:0")
base[1].to("cuda:0")
model = CausalLMWithValueHead(base)
model(torch.randint(0, 32, (2, 5)).to("cuda:0"))
