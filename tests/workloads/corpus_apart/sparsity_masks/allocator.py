class NormalSparsityAllocator:
    def __init__(self, wrappers, sparsity):
        self.wrappers = wrappers
        self.sparsity = sparsity

    def generate_sparsity(self, metrics):
        """New masks; what has gone stays gone."""
        masks = {}
        for name, wrapper in self.wrappers.items():
            metric = metrics[name]
            metric = metric * wrapper.weight_mask
            n_pruned = int(self.sparsity * metric.numel())
            threshold = metric.flatten().kthvalue(n_pruned).values
            masks[name] = (metric > threshold).to(metric.dtype)
        return masks
