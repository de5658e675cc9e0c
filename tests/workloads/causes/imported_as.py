# PyTorch by another name than torch.
import torch as th
from torch import nn
th.manual_seed(0)

# === places that a function makes on the current device
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: places = th.arange(int(lengths.max()), device=lengths.device)
def mask(lengths):
    places = th.arange(int(lengths.max()))
    return places[None, :] < lengths[:, None]

mask(th.tensor([2, 3], device="cuda:1"))

# === what a constructor makes of numbers
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: limits = th.Tensor([2.0, 3.0]).to(lengths.device)
def excess(lengths):
    limits = th.Tensor([2.0, 3.0])
    return lengths / limits[:, None] - 1

excess(nn.Linear(2, 2).to("cuda:0")(th.ones(2, 2, device="cuda:0")))

# === moments of a checkpoint
# category: optimizer-state
# confidence: high
# repairs: cause
# fix: saved = th.load(file, map_location=next(net.parameters()).device)
import io

class Momentum(th.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].setdefault("mean", th.zeros_like(p)).lerp_(p.grad, 0.1)

net = nn.Linear(2, 2).to("cuda:0")
file = io.BytesIO()
th.save({0: {"mean": th.zeros(2, 2)}, 1: {"mean": th.zeros(2)}}, file)
file.seek(0)
optimizer = Momentum(net.parameters())
saved = th.load(file)
for p, index in zip(net.parameters(), saved):
    optimizer.state[p] = saved[index]
net(th.ones(1, 2, device="cuda:0")).sum().backward()
optimizer.step()
