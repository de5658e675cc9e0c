# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["metric","weight_mask|mask"],"category":"created without device|state not registered","line":["pruner.py: self.weight_mask = torch.ones(","allocator.py: metric = metric * wrapper.weight_mask"],"error":"on the same device","thread":"https://github.com/microsoft/nni/issues/4911"}
# FIX pruner.py: self.weight_mask = torch.ones(module.weight.shape) -> self.weight_mask = torch.ones_like(module.weight.detach())
import torch
from torch import nn
from torch.nn import functional as F

from pruner import TaylorFOWeightPruner

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def trainer(model, optimizer, criterion, batches):
    model.train()
    for data, target in batches:
        optimizer.zero_grad()
        loss = criterion(model(data.to(device)), target.to(device))
        loss.backward()
        optimizer.step()
        yield loss.item()


def main():
    torch.manual_seed(4911)
    model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3)).to(device)
    batches = [(torch.rand(5, 6), torch.arange(5) % 3) for _ in range(4)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pruner = TaylorFOWeightPruner(model, kinds=(nn.Linear,), sparsity=0.5)
    for _ in trainer(model, optimizer, F.cross_entropy, batches):
        pruner.collect()
    pruner.compress()
    *_, loss = trainer(model, optimizer, F.cross_entropy, batches)
    print("zeros", {name: int((w == 0).sum()) for name, w in pruner.masked_weights().items()}, "loss %.4f" % loss)


if __name__ == "__main__":
    main()
