import torch
from torch import nn


class SmoothSVM(nn.Module):
    """A hinge loss over all wrong classes, smoothed."""

    def __init__(self, classes, alpha=1.0, tau=1.0):
        super().__init__()
        self.alpha, self.tau = alpha, tau
        self.labels = torch.arange(classes)

    def cuda(self, device=None):
        super().cuda(device)
        self.labels = self.labels.cuda(device)
        return self

    def forward(self, x, y):
        return smooth_hinge(x, y, self.labels, self.alpha, self.tau)


def smooth_hinge(x, y, labels, alpha, tau):
    wrong = labels[None] != y[:, None]
    margins = x + alpha * wrong - x.gather(1, y[:, None])
    return tau * torch.logsumexp(margins / tau, dim=1).mean()
