import torch


class Offloader:
    """Leaves modules without their weights on the GPU, until so many numbers are saved there."""

    def __init__(self, budget):
        self.budget = budget

    def wrap(self, module):
        device = next(module.parameters()).device
        taken = [name for name, param in module.named_parameters() if self.take(param)]
        if taken:
            self.fetch_in_forward(module, set(taken), device)
        return module

    def take(self, param):
        if self.budget <= 0:
            return False
        self.budget -= param.numel()
        param.data = param.data.to("cpu")
        return True

    def fetch_in_forward(self, module, taken, device):
        forward = module.forward

        def fetch(*args, **kwargs):
            module.forward = forward
            fetched = {name: param.to(device) for name, param in module.named_parameters() if name in taken}
            result = torch.func.functional_call(module, fetched, args, kwargs)
            module.forward = fetch
            return result

        module.forward = fetch
