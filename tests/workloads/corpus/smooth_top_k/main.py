# EXPECT {"kind":"refused-op","operation":"ne|eq|index|sub|where","devices":["cuda:0","cpu"],"operands":["self.labels|labels","y|targets"],"category":"state not registered","line":["svm.py: self.labels = torch.arange(","svm.py: wrong = labels","svm.py: def cuda("],"error":"on the same device","thread":"https://github.com/mahmoodlab/MIL-Lab/issues/4","hard":"the module looks after its table in cuda(), which to() does not call"}
# FIX svm.py: self.labels = torch.arange(classes) -> self.register_buffer("labels", torch.arange(classes), persistent=False)
# FIX svm.py: self.labels = self.labels.cuda(device) -> pass
import torch
from torch import nn

from svm import SmoothSVM


class MultipleInstance(nn.Module):
    """A bag of patches: attention says which of them speak for the bag, a classifier is trained on the extremes."""

    def __init__(self, width, loss):
        super().__init__()
        self.attention, self.classifier = nn.Linear(width, 1), nn.Linear(width, 2)
        self.instance_loss = loss

    def forward(self, bag, k=3):
        order = self.attention(bag).squeeze(-1).argsort(descending=True)
        chosen = torch.cat([bag[order[:k]], bag[order[-k:]]])
        targets = torch.cat([torch.ones(k), torch.zeros(k)]).long().to(bag.device)
        return self.instance_loss(self.classifier(chosen), targets)


torch.manual_seed(0)
model = MultipleInstance(6, SmoothSVM(classes=2)).to("cuda:0")
loss = model(torch.randn(20, 6).to("cuda:0"))
loss.backward()
print("instance loss", round(loss.item(), 4))
