import torch
from torch import nn


class FeedbackDelayNetwork(nn.Module):
    """Delay lines that are mixed back into themselves; answers with its impulse response."""

    def __init__(self, delays):
        super().__init__()
        n = len(delays)
        self.delays = delays
        self.skew = nn.Parameter(0.3 * torch.randn(n, n))
        self.gain = nn.Parameter(torch.full((n,), 1.0))
        self.out = nn.Parameter(torch.linspace(1, 0.5, n))

    def forward(self, n_samples):
        mixing = torch.linalg.matrix_exp(self.skew - self.skew.T) * self.gain.sigmoid()
        lines = [[torch.ones_like(self.gain[0])] + [torch.zeros_like(self.gain[0])] * (d - 1) for d in self.delays]
        response = []
        for _ in range(n_samples):
            heads = torch.stack([line.pop(0) for line in lines])
            response.append((self.out * heads).sum())
            for line, sample in zip(lines, (mixing @ heads).unbind()):
                line.append(sample)
        return torch.stack(response)
