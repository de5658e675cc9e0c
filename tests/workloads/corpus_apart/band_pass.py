# EXPECT {"kind":"refused-op","operation":"mul|sub|add|minimum","devices":["cuda:0","cpu"],"operands":["bandwidth_fraction|bandwidth","center_freq|center"],"category":"created without device","line":["bandwidth_dist = Uniform(","low=torch.tensor(self.min_bandwidth_fraction)","high=torch.tensor(self.max_bandwidth_fraction)","\"bandwidth\": bandwidth_dist.sample("],"error":"on the same device","thread":"https://github.com/iver56/torch-audiomentations/issues/137","hard":"two distributions side by side: one has its bounds on the device of the examples, the other does not"}
# FIX low=torch.tensor(self.min_bandwidth_fraction), -> low=torch.tensor(self.min_bandwidth_fraction, device=examples.device),
# FIX high=torch.tensor(self.max_bandwidth_fraction), -> high=torch.tensor(self.max_bandwidth_fraction, device=examples.device),
import math

import torch
from torch import nn
from torch.distributions import Uniform


class BandPassFilter(nn.Module):
    """Lets a band of every example through, whose middle and width are drawn anew."""

    def __init__(self, min_center=200.0, max_center=4000.0, min_bandwidth_fraction=0.5, max_bandwidth_fraction=1.9):
        super().__init__()
        self.min_center, self.max_center = min_center, max_center
        self.min_bandwidth_fraction = min_bandwidth_fraction
        self.max_bandwidth_fraction = max_bandwidth_fraction
        self.parameters_drawn = {}

    def randomize_parameters(self, examples):
        center_dist = Uniform(
            low=torch.tensor(math.log(self.min_center), device=examples.device),
            high=torch.tensor(math.log(self.max_center), device=examples.device),
        )
        bandwidth_dist = Uniform(
            low=torch.tensor(self.min_bandwidth_fraction),
            high=torch.tensor(self.max_bandwidth_fraction),
        )
        self.parameters_drawn = {
            "center_freq": center_dist.sample((len(examples),)).exp(),
            "bandwidth": bandwidth_dist.sample((len(examples),)),
        }

    def forward(self, examples, sample_rate):
        self.randomize_parameters(examples)
        center_freq = self.parameters_drawn["center_freq"]
        bandwidth = self.parameters_drawn["bandwidth"] * center_freq
        low = (center_freq - 0.5 * bandwidth).unsqueeze(1)
        high = (center_freq + 0.5 * bandwidth).unsqueeze(1)
        spectrum = torch.fft.rfft(examples)
        frequencies = torch.fft.rfftfreq(examples.shape[1], 1 / sample_rate, device=examples.device)
        passes = (frequencies >= low) & (frequencies <= high)
        return torch.fft.irfft(spectrum * passes, n=examples.shape[1])


torch.manual_seed(137)
time = torch.arange(256) / 8000
tones = torch.stack([torch.sin(2 * math.pi * hertz * time) for hertz in (500, 1500, 3000)])
augment = BandPassFilter().to("cuda")
filtered = augment(tones.to("cuda"), sample_rate=8000)
# The draws are the device's own: what is printed does not hang on them.
print("filtered", tuple(filtered.shape), "never louder:", bool((filtered.square().sum(1) < tones.to("cuda").square().sum(1) + 1).all()))
