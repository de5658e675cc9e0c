# EXPECT {"kind":"refused-op","operation":"quantile","devices":["cuda:0","cpu"],"operands":["flat|returns|lambda_target|input","_q|q"],"category":"module split|state not registered","line":["actor_loss = DreamerActorLoss(","low, high = torch.quantile(flat, self._q)"],"error":"quantile\\(\\) q tensor must be on the same device as the input tensor","thread":"https://github.com/pytorch/rl/pull/4241","hard":"registered and all; nobody moved the loss, which is a module as well"}
# FIX actor_loss = DreamerActorLoss(world, actor) -> actor_loss = DreamerActorLoss(world, actor).to("cuda:0")
import torch
from torch import nn


class PercentileValueNorm(nn.Module):
    """Divides returns by how far the usual ones are apart."""

    def __init__(self, low=0.05, high=0.95, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("_q", torch.tensor([low, high]))
        self.register_buffer("_span", torch.ones(()))

    def forward(self, returns):
        flat = returns.detach().flatten()
        low, high = torch.quantile(flat, self._q)
        self._span = self.decay * self._span + (1 - self.decay) * (high - low)
        return returns / self._span.clamp_min(1.0)


class DreamerActorLoss(nn.Module):
    def __init__(self, world, actor, horizon=3):
        super().__init__()
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "actor", actor)
        self.horizon = horizon
        self.value_norm = PercentileValueNorm()

    def forward(self, state):
        total = 0
        for _ in range(self.horizon):
            state = torch.tanh(self.world(torch.cat((state, self.actor(state)), -1)))
            total = total + state.sum(-1)
        return -self.value_norm(total).mean()


torch.manual_seed(0)
world, actor = nn.Linear(6, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:0")
actor_loss = DreamerActorLoss(world, actor)
loss = actor_loss(torch.rand(5, 4, device="cuda:0"))
loss.backward()
print("loss", round(loss.item(), 4))
