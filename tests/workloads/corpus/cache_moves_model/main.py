# EXPECT {"kind":"refused-op","operation":"index_select|embedding|addmm|linear","devices":["cpu","cuda:0"],"operands":["weight|bias","tokens|input|ids"],"category":"module split|input not moved","line":["bridge.py: self.model.to(device)","main.py: logits, cache = bridge.run_with_cache("],"error":"on the same device","thread":"https://github.com/TransformerLensOrg/TransformerLens/issues/1336","hard":"an earlier call has taken the model away and not brought it back"}
# FIX bridge.py: self.model.to(device) -> pass
# FIX bridge.py: logits = self.model(tokens.to(device)) -> logits = self.model(tokens)
import torch
from torch import nn

from bridge import Bridge


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.blocks, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(torch.relu(self.blocks(self.embed(tokens))))


torch.manual_seed(0)
bridge = Bridge(Model(20, 8).to("cuda:0"))
tokens = torch.tensor([[1, 5, 9]]).to("cuda:0")
logits, cache = bridge.run_with_cache(tokens, device="cpu")
norms = {name: round(value.norm().item(), 3) for name, value in cache.items()}
print("next", bridge(tokens).argmax(-1).tolist(), norms)
