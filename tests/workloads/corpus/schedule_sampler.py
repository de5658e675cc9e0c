# EXPECT {"kind":"refused-op","operation":"embedding|index_select","devices":["cuda:0","cpu"],"operands":["t|input|indices","weight"],"category":"input not moved|created without device","line":["t.to(batch.device)","t = th.from_numpy("],"error":"on the same device","thread":"https://github.com/huggingface/accelerate/issues/2251","hard":".to() is called, its result is thrown away"}
# FIX t.to(batch.device) -> t = t.to(batch.device)
# FIX weights.to(batch.device) -> weights = weights.to(batch.device)
import numpy as np
import torch as th
import torch.nn as nn


class LossSecondMomentResampler:
    """Takes the steps more often whose loss has been large."""

    def __init__(self, num_timesteps):
        self._loss_history = np.linspace(1, 2, num_timesteps)
        self._random = np.random.RandomState(2251)

    def sample(self, batch_size):
        p = self._loss_history / np.sum(self._loss_history)
        indices_np = self._random.choice(len(p), size=(batch_size,), p=p)
        t = th.from_numpy(indices_np).long()
        weights = th.from_numpy(1 / (len(p) * p[indices_np])).float()
        return t, weights


class Denoiser(nn.Module):
    def __init__(self, num_timesteps, dim):
        super().__init__()
        self.time_embed = nn.Embedding(num_timesteps, dim)
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, t):
        return self.net(x + self.time_embed(t))


def run_step(model, sampler, opt, batch):
    opt.zero_grad()
    t, weights = sampler.sample(batch.shape[0])
    t.to(batch.device)
    weights.to(batch.device)
    losses = (model(batch, t) - batch).pow(2).mean(dim=1)
    loss = (losses * weights).mean()
    loss.backward()
    opt.step()
    return loss.item()


th.manual_seed(0)
model = Denoiser(num_timesteps=10, dim=6).to("cuda")
opt = th.optim.AdamW(model.parameters(), lr=1e-3)
sampler = LossSecondMomentResampler(10)
data = th.randn(2, 8, 6)
print("losses", [round(run_step(model, sampler, opt, part.to("cuda")), 3) for part in data])
