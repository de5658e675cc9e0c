import torch

from allocator import NormalSparsityAllocator


class Wrapper:
    """A layer and which of its weights stay."""

    def __init__(self, name, module):
        self.name = name
        self.module = module
        self.weight_mask = torch.ones(module.weight.shape)


class TaylorFOWeightPruner:
    """Weights that matter little for the loss go: those of a small product with their gradient."""

    def __init__(self, model, kinds, sparsity):
        modules = [(name, module) for name, module in model.named_modules() if isinstance(module, kinds)]
        self.wrappers = {name: Wrapper(name, module) for name, module in modules}
        self.metrics = {}
        self.allocator = NormalSparsityAllocator(self.wrappers, sparsity)

    def collect(self):
        for name, wrapper in self.wrappers.items():
            weight = wrapper.module.weight
            importance = (weight * weight.grad).detach().square()
            self.metrics[name] = self.metrics.get(name, 0) + importance

    def compress(self):
        for name, mask in self.allocator.generate_sparsity(self.metrics).items():
            self.wrappers[name].weight_mask = mask
            self.wrappers[name].module.weight.data.mul_(mask)

    def masked_weights(self):
        return {name: w.module.weight.detach() * w.weight_mask for name, w in self.wrappers.items()}
