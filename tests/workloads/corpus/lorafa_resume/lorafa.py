import torch


class LoraFAOptimizer(torch.optim.Optimizer):
    """Learns the B of each adapter, A is frozen; the gradient is scaled by what A lets through."""

    def __init__(self, named_parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        names, params = zip(*named_parameters)
        super().__init__([{"params": list(params), "names": list(names)}], dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            found = dict(zip(group["names"], group["params"]))
            for name, lora_B in found.items():
                if not name.endswith("lora_B") or lora_B.grad is None:
                    continue
                lora_A = found[name.replace("lora_B", "lora_A")]
                grad_B = lora_B.grad @ torch.linalg.inv(lora_A @ lora_A.T + 1e-3 * torch.eye(len(lora_A), device=lora_A.device))
                state = self.state[name.replace("lora_B", "lora")]
                if not state:
                    state.update(step=0, exp_avg_B=torch.zeros_like(lora_B), exp_avg_sq_B=torch.zeros_like(lora_B))
                exp_avg, exp_avg_sq = state["exp_avg_B"], state["exp_avg_sq_B"]
                state["step"] += 1
                exp_avg.mul_(beta1)
                exp_avg.add_(grad_B, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad_B, grad_B, value=1 - beta2)
                rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                lora_B.addcdiv_(exp_avg, exp_avg_sq.sqrt().add_(group["eps"]), value=-rate)
