# EXPECT {"kind":"refused-op","operation":"mm|matmul|bmm","devices":["cuda:0","cpu"],"operands":["power|specgram|.*","fb|self.fb|mel_scale.fb|.*fb"],"category":"module split","line":["mfcc = MFCC(","self.transform, self.device = transform, device","self.mel_scale = MelScale("],"error":"on the same device","thread":"https://github.com/pytorch/audio/issues/3765","hard":"the window was given a device by its keyword arguments; the other two constants of the transform were not, and the transform is no part of the model"}
# FIX mfcc = MFCC(8, 64, {"device": "cuda:0"}) -> mfcc = MFCC(8, 64, {"device": "cuda:0"}).to("cuda:0")
import math

import torch
from torch import nn


class Spectrogram(nn.Module):
    def __init__(self, n_fft, wkwargs):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft, **wkwargs))

    def forward(self, waveform):
        frames = waveform.unfold(-1, self.n_fft, self.n_fft // 2) * self.window
        return torch.fft.rfft(frames).abs().square()


class MelScale(nn.Module):
    def __init__(self, n_mels, n_stft):
        super().__init__()
        centres = torch.linspace(0, n_stft - 1, n_mels)
        self.register_buffer("fb", (1 - (torch.arange(n_stft)[:, None] - centres).abs() / 4).clamp(min=0))

    def forward(self, specgram):
        return specgram @ self.fb


class MFCC(nn.Module):
    def __init__(self, n_mfcc, n_fft, wkwargs):
        super().__init__()
        self.spectrogram = Spectrogram(n_fft, wkwargs)
        self.mel_scale = MelScale(16, n_fft // 2 + 1)
        n = torch.arange(16.0)
        self.register_buffer("dct_mat", torch.cos(math.pi / 16 * (n[:, None] + 0.5) * torch.arange(n_mfcc)))

    def forward(self, waveform):
        mel = self.mel_scale(self.spectrogram(waveform))
        return (mel + 1e-6).log() @ self.dct_mat


class Features:
    """What a data loader's batches go through, on the GPU."""

    def __init__(self, transform, device):
        self.transform, self.device = transform, device

    def __call__(self, waveforms):
        return self.transform(waveforms.to(self.device))


torch.manual_seed(0)
mfcc = MFCC(8, 64, {"device": "cuda:0"})
features = Features(mfcc, "cuda:0")
classifier = nn.Sequential(nn.Flatten(), nn.Linear(8 * 7, 3)).to("cuda:0")
print("class", classifier(features(torch.rand(4, 256))).argmax(1).tolist())
