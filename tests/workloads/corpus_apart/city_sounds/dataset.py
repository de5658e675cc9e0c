import torch
from torch.utils.data import Dataset

import transforms


class UrbanSounds(Dataset):
    def __init__(self, recordings, transformation, target_sample_rate, num_samples, device):
        self.recordings = recordings
        self.device = device
        self.transformation = transformation.to(self.device)
        self.target_sample_rate = target_sample_rate
        self.num_samples = num_samples

    def __len__(self):
        return len(self.recordings)

    def __getitem__(self, index):
        signal, sr, label = self.recordings[index]
        signal = signal.to(self.device)
        signal = self._resample_if_necessary(signal, sr)
        signal = self._mix_down_if_necessary(signal)
        signal = self._right_pad_if_necessary(signal)
        return self.transformation(signal), label

    def _resample_if_necessary(self, signal, sr):
        if sr != self.target_sample_rate:
            resampler = transforms.Resample(sr, self.target_sample_rate)
            signal = resampler(signal)
        return signal

    def _mix_down_if_necessary(self, signal):
        if signal.shape[0] > 1:
            signal = torch.mean(signal, dim=0, keepdim=True)
        return signal

    def _right_pad_if_necessary(self, signal):
        missing = self.num_samples - signal.shape[1]
        if missing > 0:
            signal = torch.nn.functional.pad(signal, (0, missing))
        return signal
