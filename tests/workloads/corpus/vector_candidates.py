# EXPECT {"kind":"refused-op","operation":"cat","devices":["cuda:0","cuda:1"],"operands":["input_ids|ids|tensors","tokens|candidates|candidate"],"category":"module split","line":["return torch.cat([input_ids, tokens]","tokens = logits"],"error":"on the same device","thread":"https://github.com/huggingface/transformers/pull/47877","hard":"ids computed from what the last part of the model gave meet ids that were given"}
# FIX return torch.cat([input_ids, tokens], dim=1) -> return torch.cat([input_ids, tokens.to(input_ids.device)], dim=1)
import torch
from torch import nn


class BlockDrafter(nn.Module):
    """Several tokens at once: the embeddings on the first device, the output on the last."""

    def __init__(self, vocabulary, width, block):
        super().__init__()
        self.block = block
        self.embed = nn.Embedding(vocabulary, width).to("cuda:0")
        self.mix = nn.Linear(width, width).to("cuda:0")
        self.out = nn.Linear(width, vocabulary * block).to("cuda:1")

    def forward(self, ids):
        hidden = torch.tanh(self.mix(self.embed(ids).mean(1)))
        return self.out(hidden.to(self.out.weight.device)).unflatten(-1, (self.block, -1))


class CandidateGenerator:
    def __init__(self, drafter):
        self.drafter = drafter

    @torch.no_grad()
    def get_candidates(self, input_ids):
        logits = self.drafter(input_ids)
        tokens = logits.argmax(-1)
        return torch.cat([input_ids, tokens], dim=1)


torch.manual_seed(0)
generator = CandidateGenerator(BlockDrafter(16, 8, block=3))
ids = torch.tensor([[2, 7]]).to("cuda:0")
for _ in range(2):
    ids = generator.get_candidates(ids)
print("ids", ids.tolist()[0])
