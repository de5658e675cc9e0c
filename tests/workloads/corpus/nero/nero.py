import torch


def neuron_norm(x):
    """The norm of what comes into each neuron."""
    return x.abs() if x.dim() <= 1 else x.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))


class Nero(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01, beta=0.999):
        super().__init__(params, dict(lr=lr))
        self.beta = beta
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = 0
                state["exp_avg_sq"] = torch.zeros_like(neuron_norm(p.detach()))
                state["scale"] = neuron_norm(p.detach()).mean().item() or 0.01

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] += 1
                state["exp_avg_sq"] = self.beta * state["exp_avg_sq"] + (1 - self.beta) * neuron_norm(p.grad) ** 2
                denominator = (state["exp_avg_sq"] / (1 - self.beta ** state["step"])).sqrt()
                p.sub_(group["lr"] * state["scale"] * torch.nan_to_num(p.grad / denominator))
