import torch
from torch import nn


class CausalLMWithValueHead(nn.Module):
    """The first half of the blocks on one device, the rest and the heads on another."""

    def __init__(self, blocks, devices, vocabulary=16, width=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width).to(devices[0])
        half = blocks // 2
        self.stages = nn.ModuleList(
            nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(half))).to(device) for device in devices
        )
        self.lm_head = nn.Linear(width, vocabulary).to(devices[-1])
        self.v_head = nn.Linear(width, 1).to(devices[-1])

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        for stage in self.stages:
            hidden = stage(hidden.to(stage[0][0].weight.device))
        return self.lm_head(hidden), self.v_head(hidden).squeeze(-1)


class RewardModel(nn.Module):
    def __init__(self, vocabulary=16):
        super().__init__()
        self.score = nn.EmbeddingBag(vocabulary, 1)

    def forward(self, input_ids):
        return torch.tanh(self.score(input_ids)).squeeze(-1)
