# EXPECT {"kind":"refused-op","operation":"index","devices":["cuda:0","cuda:1"],"operands":["timestep","sqrt_alphas_cumprod"],"category":"default or current device|input not moved|cached state","line":["main.py: self.latents = [vae(","main.py: latents = cache[step"],"error":"indices should be either on cpu or on the same device as the indexed tensor \\(cuda:0\\)","thread":"https://github.com/Nerogar/OneTrainer/issues/366","hard":"what is cached follows the latents, which a stage of the data loader left on the default device, in another class"}
# FIX main.py: self.latents = [vae(image.to("cuda")) for image in images] -> self.latents = [vae(image.to("cuda")).to(config.train_device) for image in images]
from dataclasses import dataclass

import torch
from torch import nn

from noise import DiffusionNoiseMixin


@dataclass
class TrainConfig:
    train_device: str = "cuda:0"
    steps: int = 2
    num_train_timesteps: int = 10


class LatentCache:
    """Images are encoded once, before the training."""

    def __init__(self, config, images):
        torch.manual_seed(0)
        vae = nn.Conv2d(3, 4, 2, stride=2).to("cuda").requires_grad_(False)
        self.latents = [vae(image.to("cuda")) for image in images]

    def __getitem__(self, i):
        return self.latents[i]


class Setup(DiffusionNoiseMixin):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.unet = nn.Conv2d(4, 4, 3, padding=1).to(config.train_device)
        self.betas = torch.linspace(0.001, 0.02, config.num_train_timesteps)

    def predict(self, latents):
        timestep = self._timesteps(len(latents), self.config)
        noise = torch.full_like(latents, 0.5)
        noisy = self._add_noise(latents, noise, timestep, self.betas)
        return (self.unet(noisy) - noise).square().mean()


config = TrainConfig(train_device="cuda:1")
cache = LatentCache(config, [torch.full((2, 3, 8, 8), 0.3), torch.full((2, 3, 8, 8), 0.6)])
setup = Setup(config)
for step in range(config.steps):
    latents = cache[step % 2]
    loss = setup.predict(latents)
print("loss", round(loss.item(), 4))
