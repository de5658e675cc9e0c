# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:0","cpu"],"operands":["waveform|signal|input","kernel|weight"],"category":"input not moved|created without device|state not registered","line":["dataset.py: resampler = transforms.Resample(","dataset.py: signal = resampler("],"error":"Input type \\(torch.cuda.FloatTensor\\) and weight type \\(torch.FloatTensor\\) should be the same|on the same device","thread":"https://github.com/musikalkemist/pytorchforaudio/issues/11","hard":"the module is made anew at every use; another of the same kind has been moved"}
# FIX dataset.py: resampler = transforms.Resample(sr, self.target_sample_rate) -> resampler = transforms.Resample(sr, self.target_sample_rate).to(self.device)
import torch

import transforms
from dataset import UrbanSounds

if torch.cuda.is_available():
    device = "cuda"
else:
    device = "cpu"
print(f"Using device {device}")

recordings = [
    (torch.sin(torch.arange(480) * 0.05)[None], 4000, 3),
    (torch.sin(torch.arange(960) * 0.03).repeat(2, 1), 8000, 7),
]
spectrogram = transforms.Spectrogram(n_fft=64, hop_length=32)
usd = UrbanSounds(recordings, spectrogram, target_sample_rate=4000, num_samples=512, device=device)

print(f"There are {len(usd)} samples in the dataset.")
for signal, label in (usd[i] for i in range(len(usd))):
    summary = tuple(signal.shape), label, round(signal.sum().item(), 2)
    print(*summary)
