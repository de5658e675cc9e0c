# EXPECT {"kind":"refused-op","operation":"index|mul","devices":["cuda:0","cuda:1"],"operands":["ddim_alphas|alphas|a_t","x|e_t"],"category":"default or current device|cached state","line":["attr = attr.to(torch.device(\"cuda\"))","sampler = PlainSampler(model)"],"error":"on the same device","thread":"https://github.com/easydiffusion/easydiffusion/pull/561","hard":"the sampler is no module and has a register_buffer of its own, which knows one GPU"}
# FIX attr = attr.to(torch.device("cuda")) -> attr = attr.to(self.model.device)
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, channels=4, steps=20):
        super().__init__()
        self.steps = steps
        self.net = nn.Conv2d(channels, channels, 3, padding=1)

    @property
    def device(self):
        return self.net.weight.device

    def apply_model(self, x, t):
        return self.net(x) * (1 + t.float().view(-1, 1, 1, 1) / self.steps)


class PlainSampler:
    def __init__(self, model):
        self.model = model

    def register_buffer(self, name, attr):
        if isinstance(attr, torch.Tensor):
            attr = attr.to(torch.device("cuda"))
        setattr(self, name, attr)

    def make_schedule(self, steps):
        betas = torch.linspace(0.01, 0.2, self.model.steps)
        alphas = torch.cumprod(1 - betas, 0)
        chosen = torch.arange(0, self.model.steps, self.model.steps // steps)
        self.register_buffer("ddim_alphas", alphas[chosen].clone())
        self.register_buffer("ddim_steps", steps)

    def p_sample(self, x, index):
        t = torch.full((len(x),), index, device=x.device)
        e_t = self.model.apply_model(x, t)
        a_t = self.ddim_alphas[index].expand(len(x)).view(-1, 1, 1, 1)
        return (x - (1 - a_t).sqrt() * e_t) / a_t.sqrt()

    @torch.no_grad()
    def sample(self, shape, steps=4):
        self.make_schedule(steps)
        x = torch.ones(shape).to(self.model.device)
        for index in reversed(range(self.ddim_steps)):
            x = self.p_sample(x, index)
        return x


torch.manual_seed(0)
model = Denoiser().to("cuda:1").eval()
sampler = PlainSampler(model)
print("image", round(sampler.sample((2, 4, 8, 8)).mean().item(), 4))
