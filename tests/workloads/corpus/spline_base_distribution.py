# EXPECT {"kind":"refused-op","operation":"sub|mul|div","devices":["cpu","cuda:0"],"operands":["loc|self.loc|scale","value"],"category":"created without device|cached state","line":["base_dist = dist.Normal("],"error":"on the same device","thread":"https://github.com/pyro-ppl/pyro/issues/2761","hard":"the transform is a module and was moved; the distribution is none, and raises inside torch.distributions"}
# FIX base_dist = dist.Normal(torch.zeros(2), torch.ones(2)) -> base_dist = dist.Normal(torch.zeros(2, device=device), torch.ones(2, device=device))
import torch
from torch import distributions as dist
from torch import nn
from torch.distributions import constraints, transforms


class Coupling(transforms.Transform, nn.Module):
    """The second half is shifted and scaled by what a network makes of the first."""

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, width=8):
        nn.Module.__init__(self)
        transforms.Transform.__init__(self)
        self.network = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 2))

    __hash__ = nn.Module.__hash__

    def parts(self, first):
        shift, log_scale = self.network(first).chunk(2, -1)
        return shift, log_scale.tanh()

    def _call(self, x):
        shift, log_scale = self.parts(x[..., :1])
        return torch.cat([x[..., :1], x[..., 1:] * log_scale.exp() + shift], -1)

    def _inverse(self, y):
        shift, log_scale = self.parts(y[..., :1])
        return torch.cat([y[..., :1], (y[..., 1:] - shift) * (-log_scale).exp()], -1)

    def log_abs_det_jacobian(self, x, y):
        return self.parts(x[..., :1])[1].sum(-1)


torch.manual_seed(0)
device = "cuda:0"
dataset = torch.rand(32, 2).to(device)
base_dist = dist.Normal(torch.zeros(2), torch.ones(2))
transform = Coupling().to(device)
flow_dist = dist.TransformedDistribution(base_dist, [transform])
optimizer = torch.optim.Adam(transform.parameters(), lr=1e-2)
for _ in range(3):
    optimizer.zero_grad()
    loss = -flow_dist.log_prob(dataset).mean()
    loss.backward()
    optimizer.step()
    transform._cached_x_y = None, None
print("loss", round(loss.item(), 3))
