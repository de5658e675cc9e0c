import torch
from torch import nn


class DSP(nn.Module):
    """A processor whose parameters are mapped to where it is stable."""

    def __init__(self, initial, nfft, fs, device="cpu"):
        super().__init__()
        self.device = device
        self.nfft, self.fs = nfft, fs
        self.param = nn.Parameter(torch.tensor(initial, device=device))
        self.map = self.get_map()

    def forward(self, spectrum):
        return spectrum * self.freq_response(self.map(self.param))


class Biquad(DSP):
    def __init__(self, n_sections, nfft, fs, device="cpu"):
        super().__init__([[1000.0 * (i + 1), 0.7, 6.0] for i in range(n_sections)], nfft, fs, device)

    def get_map(self):
        """Frequency, resonance and gain, each within its bounds."""

        def bounded(x):
            lowest = torch.tensor([0.0, 0.0, -60.0], device=self.device)
            highest = torch.tensor([self.fs / 2, 10.0, 60.0], device=self.device)
            return torch.clamp(x, min=lowest, max=highest)

        return bounded

    def freq_response(self, param):
        frequency, resonance, gain = param.unsqueeze(-1).unbind(dim=1)
        bins = torch.linspace(0, self.fs / 2, self.nfft // 2 + 1, device=param.device)
        lowpass = 1 / (1 + (bins / frequency).square() / resonance)
        return (lowpass * 10 ** (gain / 20)).prod(dim=0)
