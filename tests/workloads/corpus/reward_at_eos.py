# EXPECT {"kind":"refused-op","operation":"gather","devices":["cuda:1","cuda:0"],"operands":["values","eos_indices"],"category":"module split","line":["reward = values.gather(","eos_indices = "],"error":"on the same device","thread":"https://github.com/OpenRLHF/OpenRLHF/issues/938","hard":"accelerate's hooks moved all that modules were given; the mask is used beside them"}
# FIX reward = values.gather(dim=1, index=eos_indices).squeeze(1) -> reward = values.gather(dim=1, index=eos_indices.to(values.device)).squeeze(1)
import torch
from accelerate import dispatch_model
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, hidden):
        return hidden + torch.tanh(self.mix(self.norm(hidden)))


class RewardModel(nn.Module):
    """One number for a sequence: what the head says of its last token."""

    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.value_head = nn.Linear(width, 1, bias=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        values = self.value_head(hidden).squeeze(-1)
        eos_indices = attention_mask.size(1) - 1 - attention_mask.long().fliplr().argmax(dim=1, keepdim=True)
        reward = values.gather(dim=1, index=eos_indices).squeeze(1)
        return reward


torch.manual_seed(0)
model = RewardModel(32, 8, layers=4).eval()
device_map = {"embed": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "value_head": 1}
model = dispatch_model(model, device_map)
input_ids = torch.randint(32, (3, 7)).to("cuda:0")
attention_mask = (torch.arange(7)[None] < torch.tensor([[7], [4], [6]])).to("cuda:0")
with torch.no_grad():
    scores = model(input_ids=input_ids, attention_mask=attention_mask)
print("scores", [round(score, 4) for score in scores.tolist()])
