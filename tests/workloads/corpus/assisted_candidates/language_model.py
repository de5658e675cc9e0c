import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.lm_head = nn.Linear(width, vocabulary)

    @property
    def device(self):
        return self.lm_head.weight.device

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids).cumsum(1)
        return self.lm_head(torch.tanh(hidden))
