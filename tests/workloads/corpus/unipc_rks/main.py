# EXPECT {"kind":"refused-op","operation":"stack|cat","devices":["cuda:0","cpu"],"operands":["rks|rk|tensors"],"category":"cached state|created without device|input not moved","line":["scheduler.py: self.sigmas = self.sigmas.to(","scheduler.py: rks.append(torch.ones(","scheduler.py: rks = torch.stack("],"error":"on the same device","thread":"https://github.com/huggingface/diffusers/pull/13450","hard":"the list mixes a tensor computed from the sigmas, which are kept on the CPU on purpose, with a new one"}
# FIX scheduler.py: self.sigmas = self.sigmas.to("cpu")  # avoid too much traffic between the CPU and the device -> self.sigmas = self.sigmas.to(device=device)
import torch
from torch import nn

from scheduler import UniPCScheduler


class Transformer(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.time = nn.Linear(1, channels)
        self.conv = nn.Conv3d(channels, channels, 3, padding=1)

    def forward(self, latents, timestep):
        shift = self.time(timestep.float().reshape(1, 1) / 1000)
        return self.conv(latents + shift[:, :, None, None, None])


class ImageToVideoPipeline:
    def __init__(self, transformer, scheduler):
        self.transformer, self.scheduler = transformer, scheduler

    def to(self, device):
        self.transformer.to(device)
        self.device = torch.device(device)
        return self

    @torch.no_grad()
    def __call__(self, latents, num_inference_steps):
        latents = latents.to(self.device)
        self.scheduler.set_timesteps(num_inference_steps, device=self.device)
        for t in self.scheduler.timesteps:
            noise = self.transformer(latents, t)
            latents = self.scheduler.step(noise, latents)
        return latents


torch.manual_seed(0)
pipe = ImageToVideoPipeline(Transformer(4), UniPCScheduler()).to("cuda:0")
video = pipe(torch.randn(1, 4, 2, 4, 4), num_inference_steps=4)
print("video", tuple(video.shape), round(video.abs().mean().item(), 3))
