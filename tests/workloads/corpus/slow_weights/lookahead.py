import torch


class Lookahead:
    """k steps forward, one back."""

    def __init__(self, optimizer, k, alpha):
        self.optimizer, self.k, self.alpha = optimizer, k, alpha
        self.steps = 0
        self.slow = [[p.detach().clone() for p in group["params"]] for group in optimizer.param_groups]

    def zero_grad(self):
        self.optimizer.zero_grad()

    @torch.no_grad()
    def update(self, group, slow_params):
        for p, slow in zip(group["params"], slow_params):
            slow.lerp_(p, self.alpha)
            p.copy_(slow)

    def step(self):
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.k == 0:
            for group, slow_params in zip(self.optimizer.param_groups, self.slow):
                self.update(group, slow_params)
