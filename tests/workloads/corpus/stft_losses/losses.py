import torch
from torch import nn


class SpectralConvergenceLoss(nn.Module):
    def forward(self, x_mag, y_mag):
        return torch.norm(y_mag - x_mag, p="fro") / torch.norm(y_mag, p="fro")


class STFTLoss(nn.Module):
    def __init__(self, fft_size, hop_size, win_length, window="hann_window", w_sc=1.0, w_log_mag=1.0):
        super().__init__()
        self.fft_size, self.hop_size, self.win_length = fft_size, hop_size, win_length
        self.w_sc, self.w_log_mag = w_sc, w_log_mag
        self.window = getattr(torch, window)(win_length)
        self.spectralconv = SpectralConvergenceLoss()

    def stft(self, x):
        x_stft = torch.stft(x, self.fft_size, self.hop_size, self.win_length, self.window, return_complex=True)
        return x_stft.abs().clamp(min=1e-8)

    def forward(self, x, y):
        x_mag, y_mag = self.stft(x.flatten(0, 1)), self.stft(y.flatten(0, 1))
        log_mag = nn.functional.l1_loss(x_mag.log(), y_mag.log())
        return self.w_sc * self.spectralconv(x_mag, y_mag) + self.w_log_mag * log_mag


class MultiResolutionSTFTLoss(nn.Module):
    def __init__(self, fft_sizes, hop_sizes, win_lengths):
        super().__init__()
        self.stft_losses = nn.ModuleList(STFTLoss(*sizes) for sizes in zip(fft_sizes, hop_sizes, win_lengths))

    def forward(self, x, y):
        return sum(each(x, y) for each in self.stft_losses) / len(self.stft_losses)
