# EXPECT {"kind":"refused-op","operation":"div","devices":["cuda:0","cpu"],"operands":["ranknum|rank"],"category":"created without device|module split","line":["adalora.py: for part in (self.lora_A","adalora.py: self.ranknum[name] = nn.Parameter(","adalora.py: rank = self.ranknum[self.active] + 1e-5","main.py: model = get_svd_model("],"error":"on the same device","thread":"https://github.com/huggingface/peft/pull/583","hard":"three of an adapter's four parameters follow the layer that they are added to; the fourth is made with them"}
# FIX adalora.py: for part in (self.lora_A, self.lora_E, self.lora_B): -> for part in (self.lora_A, self.lora_E, self.lora_B, self.ranknum):
import torch
from torch import nn

from adalora import get_svd_model


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        weights = (self.q_proj(x) @ self.k_proj(x).transpose(-1, -2)).softmax(-1)
        return x + weights @ self.v_proj(x)


class OPT(nn.Module):
    def __init__(self, vocabulary=24, width=8):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(Attention(width), Attention(width))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids):
        return self.lm_head(self.layers(self.embed_tokens(input_ids)))


torch.manual_seed(0)
model = OPT().to("cuda")
model = get_svd_model(model, ["q_proj", "v_proj"], init_r=4, lora_alpha=16)
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-2)
text = torch.randint(0, 24, (2, 9)).to("cuda")
for _ in range(3):
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trainable", sum(p.numel() for p in trainable), "loss", round(loss.item(), 3))
