# EXPECT {"kind":"refused-op","operation":"mul|add|index","devices":["cuda:0","cpu"],"operands":["vmax|vmin|x|new_mu"],"category":"created without device","line":["new_mu = torch.rand("],"error":"on the same device|cuda:0","thread":"https://github.com/balbasty/cornucopia/pull/22","hard":"the result of an expression meets another one's; one of them has no dimension"}
# FIX new_mu = torch.rand(self.levels) * (vmax - vmin) + vmin -> new_mu = torch.rand(self.levels).to(x.device) * (vmax - vmin) + vmin
import torch


class ContrastLookup:
    """Every intensity window gets a new mean, as another scanner would show it."""

    def __init__(self, levels):
        self.levels = levels

    def make_final(self, x):
        vmin, vmax = x.aminmax()
        edges = torch.linspace(0, 1, self.levels + 1).to(x) * (vmax - vmin) + vmin
        new_mu = torch.rand(self.levels) * (vmax - vmin) + vmin
        return edges, new_mu

    def __call__(self, x):
        edges, new_mu = self.make_final(x)
        window = torch.bucketize(x, edges[1:-1])
        return new_mu[window.flatten()].view_as(x)


torch.manual_seed(0)
scan = torch.rand(1, 8, 8).to("cuda:0")
augmented = ContrastLookup(4)(scan)
print("windows", len(augmented.unique()), tuple(augmented.shape))
