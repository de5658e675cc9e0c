import torch
from torch import nn

IMAGE_TOKEN = 31


class VisionTower(nn.Module):
    def __init__(self, width, image_size=8, patch=4):
        super().__init__()
        self.image_size = image_size
        self.patch_embedding = nn.Conv2d(3, width, patch, stride=patch)
        self.norm = nn.LayerNorm(width)

    def forward(self, images):
        return self.norm(self.patch_embedding(images).flatten(2).transpose(1, 2))


class Llava(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.vision_tower = None
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.mm_projector = nn.Linear(width, width)
        self.layer = nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocabulary)

    @property
    def device(self):
        return self.embed_tokens.weight.device

    def forward(self, input_ids, images):
        features = self.vision_tower(images)
        features = self.mm_projector(features.to(self.device))
        at = int((input_ids[0] == IMAGE_TOKEN).nonzero())
        words = self.embed_tokens(input_ids)
        hidden, _ = self.layer(torch.cat((words[:, :at], features, words[:, at + 1 :]), dim=1))
        return self.lm_head(hidden)
