# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["ga_masks","att_ws"],"category":"created without device","line":["losses.py: ga_masks = torch.zeros("],"error":"on the same device","thread":"https://github.com/mozilla/TTS/issues/491","hard":"what is made without a device is filled by a function that knows one"}
# FIX losses.py: ga_masks = torch.zeros((B, max_olen, max_ilen)) -> ga_masks = torch.zeros((B, max_olen, max_ilen), device=olens.device)
import torch
from torch import nn

from losses import TacotronLoss


class Attention(nn.Module):
    """Which letter each frame of speech is about."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, frames, text):
        return torch.softmax(self.query(frames) @ self.key(text).transpose(1, 2), dim=-1)


torch.manual_seed(0)
device = torch.device("cuda", 0)
model = Attention(6).to(device)
criterion = TacotronLoss(ga_alpha=5.0).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
frames, text = torch.rand(2, 8, 6).to(device), torch.rand(2, 5, 6).to(device)
text_lengths, mel_lengths = torch.tensor([5, 3]).to(device), torch.tensor([8, 6]).to(device)
for _ in range(2):
    alignments = model(frames, text)
    losses = criterion(alignments, mel_lengths, text_lengths)
    optimizer.zero_grad()
    losses["loss"].backward()
    optimizer.step()
print("loss", round(losses["loss"].item(), 4))
