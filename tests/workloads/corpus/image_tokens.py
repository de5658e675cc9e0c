# EXPECT {"kind":"refused-op","operation":"index_put|copy|masked_scatter","devices":["cuda:0","cuda:1"],"operands":["inputs_embeds","image_embeds"],"category":"module split","line":["inputs_embeds[where] =","image_embeds = self.connector("],"error":"same device|cuda:1","thread":"https://github.com/huggingface/transformers/pull/27346","hard":"written into the embeddings of the text by a mask"}
# FIX inputs_embeds[where] = image_embeds.flatten(0, 1) -> inputs_embeds[where] = image_embeds.flatten(0, 1).to(inputs_embeds.device)
import torch
from accelerate import dispatch_model
from torch import nn


class VisionLanguage(nn.Module):
    def __init__(self, vocabulary, width, latents):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.vision = nn.Sequential(nn.Linear(12, width), nn.GELU(), nn.Linear(width, width))
        self.connector = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)
        self.image_token = vocabulary - 1

    def embed(self, input_ids, image_embeds):
        inputs_embeds = self.embed_tokens(input_ids)
        where = (input_ids == self.image_token).to(inputs_embeds.device)
        inputs_embeds[where] = image_embeds.flatten(0, 1)
        return inputs_embeds

    def forward(self, input_ids, patches):
        image_embeds = self.connector(self.vision(patches))
        hidden = self.embed(input_ids, image_embeds)
        return self.head(hidden)


torch.manual_seed(0)
model = VisionLanguage(20, 8, latents=2).eval()
model = dispatch_model(model, {"embed_tokens": 0, "vision": 1, "connector": 1, "head": 0}, main_device=0)
ids = torch.tensor([[1, 19, 19, 4]]).to("cuda:0")
with torch.no_grad():
    logits = model(ids, torch.rand(1, 2, 12).to("cuda:0"))
print("logits", tuple(logits.shape), round(logits.sum().item(), 3))
