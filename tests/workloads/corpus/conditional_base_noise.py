# EXPECT {"kind":"refused-op","operation":"mul|add","devices":["cpu","cuda:0"],"operands":["noise","stds|means"],"category":"created without device","line":["noise = torch.randn(","samples = means + stds * noise"],"error":"on the same device","thread":"https://github.com/bayesiains/nflows/issues/8"}
# FIX noise = torch.randn(len(context) * num_samples, *self._shape) -> noise = torch.randn(len(context) * num_samples, *self._shape).to(means.device)
import torch
from torch import nn


class ConditionalDiagonalNormal(nn.Module):
    def __init__(self, shape, context_encoder):
        super().__init__()
        self._shape = torch.Size(shape)
        self._context_encoder = context_encoder

    def _compute_params(self, context):
        params = self._context_encoder(context)
        split = params.shape[-1] // 2
        return params[..., :split], params[..., split:]

    def sample(self, num_samples, context):
        means, log_stds = self._compute_params(context)
        means = means.repeat_interleave(num_samples, dim=0)
        stds = log_stds.exp().repeat_interleave(num_samples, dim=0)
        noise = torch.randn(len(context) * num_samples, *self._shape)
        samples = means + stds * noise
        return samples.reshape(len(context), num_samples, *self._shape)


class Affine(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.shift, self.log_scale = nn.Parameter(torch.zeros(features)), nn.Parameter(torch.full((features,), 0.1))

    def inverse(self, z):
        return z * self.log_scale.exp() + self.shift


class Flow(nn.Module):
    def __init__(self, transform, base):
        super().__init__()
        self.transform, self.base = transform, base

    @torch.no_grad()
    def sample(self, num_samples, context):
        return self.transform.inverse(self.base.sample(num_samples, context))


torch.manual_seed(0)
flow = Flow(Affine(3), ConditionalDiagonalNormal([3], nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 6)))).to("cuda:0")
drawn = flow.sample(5, context=torch.ones(4, 2).to("cuda:0"))
print("drawn", tuple(drawn.shape), bool(drawn.isfinite().all()))
