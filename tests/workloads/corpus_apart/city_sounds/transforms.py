import torch
from torch import nn
from torch.nn import functional as F


class Resample(nn.Module):
    """To a frequency that divides the original one."""

    def __init__(self, orig_freq, new_freq):
        super().__init__()
        self.step = orig_freq // new_freq
        kernel = torch.hann_window(2 * self.step + 1)
        self.register_buffer("kernel", (kernel / kernel.sum()).view(1, 1, -1))

    def forward(self, waveform):
        return F.conv1d(waveform.unsqueeze(1), self.kernel, stride=self.step, padding=self.step).squeeze(1)


class Spectrogram(nn.Module):
    def __init__(self, n_fft, hop_length):
        super().__init__()
        self.n_fft, self.hop_length = n_fft, hop_length
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, waveform):
        return torch.stft(waveform, self.n_fft, self.hop_length, window=self.window, return_complex=True).abs()
