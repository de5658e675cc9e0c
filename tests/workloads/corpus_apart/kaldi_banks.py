# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["strided_input|frames","window|window_function"],"category":"created without device","line":["return torch.hann_window(window_size, periodic=False).pow(0.85)","window = feature_window(","strided_input = strided_input * window"],"error":"on the same device","thread":"https://github.com/pytorch/audio/issues/310","hard":"one function of several makes tensors without looking at the wave's device; another one below it does the same, and is not reached"}
# FIX return torch.hann_window(window_size, periodic=False).pow(0.85) -> return torch.hann_window(window_size, periodic=False, device=device).pow(0.85)
# FIX window = feature_window(window_type, window_size) -> window = feature_window(window_type, window_size, strided_input.device)
# FIX def feature_window(window_type, window_size): -> def feature_window(window_type, window_size, device=None):
# FIX banks = mel_banks(num_mel_bins, power.shape[-1], sample_frequency) -> banks = mel_banks(num_mel_bins, power.shape[-1], sample_frequency).to(power.device)
import math

import torch


def frames(waveform, window_size, shift):
    count = 1 + (len(waveform) - window_size) // shift
    return waveform.as_strided((count, window_size), (shift * waveform.stride(0), waveform.stride(0)))


def feature_window(window_type, window_size):
    if window_type == "hanning":
        return torch.hann_window(window_size, periodic=False)
    if window_type == "hamming":
        return torch.hamming_window(window_size, periodic=False, alpha=0.54, beta=0.46)
    if window_type == "povey":
        return torch.hann_window(window_size, periodic=False).pow(0.85)
    raise ValueError("no window of the name " + window_type)


def mel(hertz):
    return 1127.0 * math.log(1.0 + hertz / 700.0)


def mel_banks(num_bins, num_frequencies, sample_frequency, low=20.0):
    edges = torch.linspace(mel(low), mel(sample_frequency / 2), num_bins + 2)
    hertz = torch.arange(num_frequencies) * (sample_frequency / 2 / (num_frequencies - 1))
    mels = 1127.0 * (1.0 + hertz / 700.0).log()
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return torch.minimum((mels - left) / (middle - left), (right - mels) / (right - middle)).clamp(min=0)


def fbank(waveform, sample_frequency=8000.0, num_mel_bins=8, frame_length=25.0, frame_shift=10.0, window_type="povey"):
    window_size = int(sample_frequency * frame_length / 1000)
    strided_input = frames(waveform, window_size, int(sample_frequency * frame_shift / 1000))
    strided_input = strided_input - strided_input.mean(dim=1, keepdim=True)
    window = feature_window(window_type, window_size)
    strided_input = strided_input * window
    power = torch.fft.rfft(strided_input, n=256).abs().square()
    banks = mel_banks(num_mel_bins, power.shape[-1], sample_frequency)
    return (power @ banks.T).clamp(min=1e-8).log()


time = torch.arange(1600) / 8000
wave = torch.sin(2 * math.pi * 440 * time) + 0.3 * torch.sin(2 * math.pi * 1800 * time)
features = fbank(wave.to("cuda"))
print("features", tuple(features.shape), round(features.mean().item(), 3))
