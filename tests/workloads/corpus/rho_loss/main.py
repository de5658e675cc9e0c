# EXPECT {"kind":"refused-op","operation":"cat","devices":["cpu","cuda:0"],"operands":["self.rho_loss|rho_loss"],"category":"created without device","line":["sampling.py: self.rho_loss = torch.tensor([])","sampling.py: self.rho_loss = torch.cat("],"error":"on the same device","thread":"https://github.com/eth-easl/modyn/pull/525","hard":"the tensor is empty, and made again for every sampling; the class knows its device"}
# FIX sampling.py: self.rho_loss = torch.tensor([]) -> self.rho_loss = torch.tensor([], device=self._device)
import torch
from torch import nn

from sampling import RHOLossDownsampling

torch.manual_seed(0)
model, holdout = nn.Linear(4, 3).to("cuda:0"), nn.Linear(4, 3).to("cuda:0")
sampler = RHOLossDownsampling(0.5, holdout, "cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
used = []
for epoch in range(2):
    sampler.init_downsampler()
    batches = [(torch.rand(4, 4).to("cuda:0"), torch.randint(0, 3, (4,)).to("cuda:0")) for _ in range(2)]
    for data, target in batches:
        sampler.inform_samples(model(data), data, target)
    chosen = sampler.select_points()
    data, target = (torch.cat(each)[chosen] for each in zip(*batches))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    used += chosen.tolist()
print("used", used)
