import torch
from torch import nn
from torch.nn import functional as F


def backbone(width, classes, hidden):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class Distiller(nn.Module):
    """A student that also learns from what larger networks answer."""

    def __init__(self, width, classes, teachers):
        super().__init__()
        self.student = backbone(width, classes, 8)
        self.teachers = [backbone(width, classes, 32).eval() for _ in range(teachers)]

    @torch.no_grad()
    def answers(self, images):
        outputs = [teacher(images) for teacher in self.teachers]
        return torch.stack(outputs).mean(0)

    def forward(self, images, targets):
        logits = self.student(images)
        soft = F.kl_div(logits.log_softmax(-1), self.answers(images).softmax(-1), reduction="batchmean")
        return {"hard": F.cross_entropy(logits, targets), "soft": soft}
