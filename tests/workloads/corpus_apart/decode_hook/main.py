# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:0","cuda:1"],"operands":["z|latents|input","weight|bias"],"category":"input not moved|module split","line":["vae.py: self._hf_hook.pre_forward(self)","main.py: image = self.vae.decode("],"error":"on the same device","thread":"https://github.com/huggingface/diffusers/issues/7602","hard":"a hook has moved the arguments, but its answer is thrown away by a decorator"}
# FIX vae.py: self._hf_hook.pre_forward(self) -> args, kwargs = self._hf_hook.pre_forward(self, *args, **kwargs)
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import nn

from vae import AutoencoderKL


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, sample, timestep):
        return self.conv(sample) * (1 - timestep / 10)


class Pipeline:
    """Every model has a device of its own; hooks bring it what it is given."""

    def __init__(self, unet, vae, devices):
        self.unet, self.vae = unet, vae
        for model, device in zip((unet, vae), devices):
            model.to(device)
            add_hook_to_module(model, AlignDevicesHook(execution_device=device))

    @torch.no_grad()
    def __call__(self, latents, steps=3):
        for timestep in reversed(range(steps)):
            latents = latents - 0.1 * self.unet(latents, timestep).to(latents.device)
        image = self.vae.decode(latents / self.vae.scaling_factor)
        return image.clamp(0, 1)


torch.manual_seed(7602)
pipe = Pipeline(UNet(), AutoencoderKL(), devices=[torch.device("cuda:0"), torch.device("cuda:1")])
image = pipe(torch.randn(1, 4, 4, 4).to("cuda:0"))
print(tuple(image.shape), f"{image.mean().item():.4f}")
