import torch
from torch import nn


class TripletEncoder(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.code_embedding, self.value_embedding = nn.Embedding(codes, width), nn.Linear(1, width)

    def forward(self, batch):
        view = batch["early_fusion"]
        embedded = self.embed(view["code"], view["value"])
        mask = torch.arange(embedded.shape[1], device=embedded.device)[None] < view["length"][:, None]
        return (embedded * mask[..., None]).sum(1) / view["length"][:, None]

    def embed(self, codes, values):
        return self.code_embedding(codes) + self.value_embedding(values[..., None])
