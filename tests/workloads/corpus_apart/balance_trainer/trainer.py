from dataclasses import dataclass

import torch
from torch import nn

from env import SimEnv


@dataclass
class PpoConfig:
    n_envs: int = 8
    horizon: int = 16
    updates: int = 4
    gamma: float = 0.95
    clip: float = 0.2
    learning_rate: float = 0.01
    device: str = ""
    seed: int = 877


class ActorCritic(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, hidden), nn.Tanh())
        self.actor, self.critic = nn.Linear(hidden, 1), nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.full((), -1.0))

    def forward(self, observations):
        hidden = self.body(observations)
        return self.actor(hidden).squeeze(-1), self.critic(hidden).squeeze(-1)

    def log_prob(self, mean, actions):
        return -0.5 * ((actions - mean) / self.log_std.exp()).square() - self.log_std


class PpoTrainer:
    def __init__(self, config):
        self.config = config
        self.device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def setup(self):
        torch.manual_seed(self.config.seed)
        self.noise = torch.Generator().manual_seed(self.config.seed)
        self.env = SimEnv(self.config.n_envs, seed=self.config.seed)
        self.policy = ActorCritic().to(self.device)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=self.config.learning_rate)
        shape = self.config.horizon, self.config.n_envs
        self.buffer = {
            "observations": torch.zeros(*shape, 2, device=self.device),
            **{name: torch.zeros(shape, device=self.device) for name in ("actions", "rewards", "values", "log_probs", "going")},
        }

    @torch.no_grad()
    def collect(self):
        observations = self.env.reset()
        for t in range(self.config.horizon):
            mean, values = self.policy(observations)
            draw = torch.randn(self.config.n_envs, generator=self.noise).to(self.device)
            actions = mean + self.policy.log_std.exp() * draw
            following, rewards, done = self.env.step(actions)
            row = (observations, actions, rewards, values, self.policy.log_prob(mean, actions), (~done).float())
            for name, value in zip(("observations", "actions", "rewards", "values", "log_probs", "going"), row):
                self.buffer[name][t] = value
            observations = following
        return self.policy(observations)[1]

    def returns(self, last):
        found = torch.zeros_like(self.buffer["rewards"])
        for t in reversed(range(self.config.horizon)):
            last = self.buffer["rewards"][t] + self.config.gamma * self.buffer["going"][t] * last
            found[t] = last
        return found

    def train(self):
        for _ in range(self.config.updates):
            returns = self.returns(self.collect())
            advantages = returns - self.buffer["values"]
            mean, values = self.policy(self.buffer["observations"])
            ratio = (self.policy.log_prob(mean, self.buffer["actions"]) - self.buffer["log_probs"]).exp()
            clipped = ratio.clamp(1 - self.config.clip, 1 + self.config.clip)
            loss = -torch.minimum(ratio * advantages, clipped * advantages).mean() + (values - returns).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return self.buffer["rewards"].mean().item()
