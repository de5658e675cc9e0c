import numpy as np
import torch


class UniPCScheduler:
    """Predicts the next sample from the last two outputs of the model, for flow matching."""

    def __init__(self, train_steps=1000):
        self.train_steps = train_steps

    def set_timesteps(self, steps, device=None):
        sigmas = np.linspace(0.98, 0.05, steps + 1).astype(np.float32)
        self.timesteps = torch.from_numpy(sigmas[:-1] * self.train_steps).to(device=device, dtype=torch.int64)
        self.sigmas = torch.from_numpy(sigmas)
        self.sigmas = self.sigmas.to("cpu")  # avoid too much traffic between the CPU and the device
        self.outputs, self.index = [], 0

    def lambda_at(self, index):
        return torch.log(1 - self.sigmas[index]) - torch.log(self.sigmas[index])

    def step(self, model_output, sample):
        converted = sample - self.sigmas[self.index] * model_output
        self.outputs = (self.outputs + [converted])[-2:]
        sample = self.predict(sample, order=len(self.outputs))
        self.index += 1
        return sample

    def predict(self, sample, order):
        now, m0 = self.index, self.outputs[-1]
        h = self.lambda_at(now + 1) - self.lambda_at(now)
        rks, d1s = [], []
        for k in range(1, order):
            rk = (self.lambda_at(now - k) - self.lambda_at(now)) / h
            rks.append(rk)
            d1s.append((self.outputs[-1 - k] - m0) / rk)
        rks.append(torch.ones((), device=sample.device))
        rks = torch.stack(rks)
        rhos = 0.5 * rks / rks.abs().sum()
        ratio = self.sigmas[now + 1] / self.sigmas[now]
        predicted = ratio * sample + (1 - ratio) * m0
        for rho, d1 in zip(rhos, d1s):
            predicted = predicted + 0.1 * rho * d1
        return predicted
