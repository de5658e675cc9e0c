# EXPECT {"kind":"refused-op","operation":"mul|lerp|add|sub","devices":["cuda:0","cpu"],"operands":["self.low|low|self.high|high"],"category":"module split","line":["self.normalizer = ReturnNormalizer(","self.low.lerp_("],"error":"on the same device","thread":"https://github.com/pytorch/rl/pull/4248","hard":"a loss makes a module of its own beside networks that were moved before"}
# FIX self.normalizer = ReturnNormalizer(decay=0.9) -> self.normalizer = ReturnNormalizer(decay=0.9).to(next(actor.parameters()).device)
import torch
from torch import nn


class ReturnNormalizer(nn.Module):
    """Running percentiles of returns."""

    def __init__(self, decay):
        super().__init__()
        self.decay = decay
        self.register_buffer("low", torch.zeros(1))
        self.register_buffer("high", torch.ones(1))

    def update(self, returns):
        flat = returns.detach().flatten()
        self.low.lerp_(torch.quantile(flat, 0.05), 1 - self.decay)
        self.high.lerp_(torch.quantile(flat, 0.95), 1 - self.decay)

    def scale(self):
        return (self.high - self.low).clamp(min=1.0)


class ActorLoss(nn.Module):
    """Imagined returns, as large as their spread lets them be."""

    def __init__(self, actor, value):
        super().__init__()
        self.actor, self.value = actor, value
        self.normalizer = ReturnNormalizer(decay=0.9)

    def forward(self, states):
        action = torch.tanh(self.actor(states))
        returns = self.value(torch.cat([states, action], dim=-1))
        self.normalizer.update(returns)
        return -(returns / self.normalizer.scale()).mean()


torch.manual_seed(0)
actor = nn.Linear(6, 2).to("cuda:0")
value = nn.Sequential(nn.Linear(8, 16), nn.ELU(), nn.Linear(16, 1)).to("cuda:0")
objective = ActorLoss(actor, value)
optimizer = torch.optim.Adam(actor.parameters(), lr=1e-2)
for _ in range(2):
    loss = objective(torch.randn(32, 6).to("cuda:0"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("actor loss", round(loss.item(), 4))
