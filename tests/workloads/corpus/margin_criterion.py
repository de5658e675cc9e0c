# EXPECT {"kind":"refused-op","operation":"linear|addmm|mm","devices":["cpu","cuda:0"],"operands":["fc.weight|weight","embeddings|x|input|features"],"category":"module split|input not moved","line":["criterion = ArcFaceLoss("],"error":"on the same device|is on","thread":"https://github.com/OML-Team/open-metric-learning/issues/620","hard":"the loss has a weight of its own, and nobody moved it"}
# FIX criterion = ArcFaceLoss(in_features=8, num_classes=5) -> criterion = ArcFaceLoss(in_features=8, num_classes=5).to(device)
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class ArcFaceLoss(nn.Module):
    def __init__(self, in_features, num_classes, margin=0.5, scale=8.0):
        super().__init__()
        self.fc = nn.Linear(in_features, num_classes, bias=False)
        nn.init.eye_(self.fc.weight)
        self.margin, self.scale = margin, scale
        self.last_logs = {}

    def logits(self, embeddings, labels):
        cosine = F.linear(F.normalize(embeddings), F.normalize(self.fc.weight))
        sine = (1.0 - cosine.square()).clamp(min=1e-6).sqrt()
        turned = cosine * math.cos(self.margin) - sine * math.sin(self.margin)
        chosen = F.one_hot(labels, cosine.shape[1]).bool()
        return self.scale * torch.where(chosen, turned, cosine)

    def forward(self, embeddings, labels):
        logits = self.logits(embeddings, labels)
        self.last_logs["accuracy"] = (logits.argmax(1) == labels).float().mean().item()
        return F.cross_entropy(logits, labels)


def training(model, criterion, optimizer, loader, device):
    for inputs, labels in loader:
        embeddings = model(inputs.to(device))
        loss = criterion(embeddings, labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
device = "cuda"
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = ArcFaceLoss(in_features=8, num_classes=5)
loader = DataLoader(TensorDataset(torch.rand(20, 6), torch.arange(20) % 5), batch_size=10)
print("loss", round(training(model, criterion, optimizer, loader, device), 3))
