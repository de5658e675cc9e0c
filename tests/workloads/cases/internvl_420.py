# thread: https://github.com/OpenGVLab/InternVL/issues/420
# about: the vision tower is on one GPU, the language model on another, and the image's features are put among the embeddings of the text.
# category: module-split-or-hook-missing
# operands: vit_embeds cuda:1, input_embeds cuda:0
# fails: return torch.cat([vit_embeds, input_embeds], dim=1)
# fix: return torch.cat([vit_embeds.to(input_embeds.device), input_embeds], dim=1)



import torch
from torch import nn


class Chat(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_model = nn.Linear(12, 16).to("cuda:1")
        self.embed_tokens = nn.Embedding(32, 16).to("cuda:0")

    def forward(self, pixel_values, input_ids):
        input_embeds = self.embed_tokens(input_ids)
        vit_embeds = self.vision_model(pixel_values)
        return torch.cat([vit_embeds, input_embeds], dim=1)


Chat()(torch.randn(1, 4, 12).to("cuda:1"), torch.randint(0, 32, (1, 6)).to("cuda:0"))
