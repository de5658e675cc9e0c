import torch


class SimEnv:
    """Carts that are to stay where they are, all simulated at once."""

    def __init__(self, n_envs, seed=0, device="cpu"):
        self.n_envs, self.device = n_envs, torch.device(device)
        self.generator = torch.Generator().manual_seed(seed)
        self.state = torch.zeros(n_envs, 2, device=self.device)
        self.ticks = torch.zeros(n_envs, dtype=torch.long, device=self.device)

    def fresh(self):
        return (torch.rand(self.n_envs, 2, generator=self.generator) - 0.5).to(self.device)

    def reset(self):
        self.state = self.fresh()
        self.ticks.zero_()
        return self.state.clone()

    def step(self, actions):
        push = actions.clamp(-1, 1)
        velocity = self.state[:, 1] + 0.1 * push
        self.state = torch.stack([self.state[:, 0] + 0.1 * velocity, velocity], dim=1)
        self.ticks += 1
        reward = 1 - self.state[:, 0].abs() - 0.1 * push.abs()
        done = (self.state[:, 0].abs() > 1) | (self.ticks >= 8)
        self.state = torch.where(done.unsqueeze(1), self.fresh(), self.state)
        self.ticks = torch.where(done, torch.zeros_like(self.ticks), self.ticks)
        return self.state.clone(), reward, done
