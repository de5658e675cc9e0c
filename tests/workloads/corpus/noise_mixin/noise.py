import torch

from coefficients import ScheduleCoefficients


class DiffusionNoiseMixin:
    def __init__(self):
        self.__coefficients = None

    def _timesteps(self, batch_size, config):
        return torch.arange(1, batch_size + 1, device=config.train_device) * 3 % config.num_train_timesteps

    def _add_noise(self, latents, noise, timestep, betas):
        if self.__coefficients is None:
            self.__coefficients = ScheduleCoefficients.from_betas(betas.to(latents.device))
        signal = self.__coefficients.sqrt_alphas_cumprod[timestep]
        rest = self.__coefficients.sqrt_one_minus_alphas_cumprod[timestep]
        return latents * signal.view(-1, 1, 1, 1) + noise * rest.view(-1, 1, 1, 1)
