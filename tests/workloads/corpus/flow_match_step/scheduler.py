import torch


class FlowMatchScheduler:
    def __init__(self, shift=1.0, num_train_timesteps=1000):
        self.shift = shift
        self.num_train_timesteps = num_train_timesteps

    def set_timesteps(self, num_inference_steps, device="cpu"):
        sigmas = torch.linspace(1.0, 0.0, num_inference_steps + 1)[:-1]
        sigmas = self.shift * sigmas / (1 + (self.shift - 1) * sigmas)
        self.sigmas = sigmas.to(device)
        self.timesteps = self.sigmas * self.num_train_timesteps

    def step(self, model_output, timestep, sample):
        if isinstance(timestep, torch.Tensor):
            timestep = timestep.cuda()
        index = torch.argmin((self.timesteps - timestep).abs())
        sigma = self.sigmas[index]
        after = self.sigmas[index + 1] if index + 1 < len(self.sigmas) else torch.zeros_like(sigma)
        return sample + model_output * (after - sigma)
