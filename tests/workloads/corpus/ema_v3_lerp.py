# EXPECT {"kind":"refused-op","operation":"lerp","devices":["cpu","cuda:0"],"operands":["slow","quick"],"category":"module split|input not moved|cached state","line":["slow.lerp_(","ema = SlowCopy("],"error":"on the same device","thread":"https://github.com/huggingface/pytorch-image-models/issues/2127","hard":"the copy is on the CPU because its author asked for it"}
# FIX slow.lerp_(quick, weight=1.0 - decay) -> slow.lerp_(quick.to(slow.device), weight=1.0 - decay)
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SlowCopy(nn.Module):
    """The average of the last models, for validation. `device`: another place for it, to save memory."""

    def __init__(self, model, decay, warmup=0, device=None):
        super().__init__()
        self.module = copy.deepcopy(model).requires_grad_(False).eval()
        if device is not None:
            self.module.to(device)
        self.decay, self.warmup, self.steps = decay, warmup, 0

    @torch.no_grad()
    def update(self, model):
        self.steps += 1
        decay = self.decay * min(1.0, self.steps / max(1, self.warmup))
        of = model.state_dict()
        for name, slow in self.module.state_dict().items():
            quick = of[name]
            if slow.dtype.is_floating_point:
                slow.lerp_(quick, weight=1.0 - decay)
            else:
                slow.copy_(quick)

    def forward(self, images):
        return self.module(images)


def train_one_epoch(model, ema, loader, optimizer):
    for images, labels in loader:
        images, labels = images.to("cuda"), labels.to("cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
    return loss.item()


torch.manual_seed(42)
model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4)).to("cuda")
ema = SlowCopy(model, decay=0.95, warmup=2, device="cpu")
dataset = TensorDataset(torch.rand(16, 1, 8, 8), torch.arange(16) % 4)
loss = train_one_epoch(model, ema, DataLoader(dataset, batch_size=4), torch.optim.SGD(model.parameters(), lr=0.05))
drift = sum((a.cpu() - b.cpu()).abs().sum() for a, b in zip(model.parameters(), ema.parameters()))
print("loss", round(loss, 3), "drift", round(drift.item(), 3))
