import torch


class Automagic(torch.optim.Optimizer):
    """Signed steps; each weight has a rate of its own, larger while its sign stays."""

    def __init__(self, params, lr, more=1e-3):
        super().__init__(params, dict(lr=lr, more=more))

    def state_dict(self):
        packed = super().state_dict()
        for state in packed["state"].values():
            state["lr_mask"] = state["lr_mask"].tolist()
        return packed

    def load_state_dict(self, packed):
        super().load_state_dict(packed)
        parameters = [p for group in self.param_groups for p in group["params"]]
        for index, saved in packed["state"].items():
            p = parameters[index]
            state = self.state[p]
            state["lr_mask"] = torch.tensor(saved["lr_mask"])

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["lr_mask"] = torch.full_like(p, group["lr"])
                    state["sign"] = torch.zeros_like(p)
                same = state["sign"] == p.grad.sign()
                change = torch.where(same, group["more"], -group["more"])
                rates = state["lr_mask"].add_(change).clamp_(min=1e-4)
                state["sign"] = p.grad.sign()
                p.sub_(rates * state["sign"])
