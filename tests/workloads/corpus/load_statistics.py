# EXPECT {"kind":"refused-op","operation":"sub","devices":["cuda:0","cuda:1"],"operands":["batch|x|rows","mean|statistics|stats"],"category":"default or current device|input not moved","line":["stats = torch.load("],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/17364","hard":"torch.load puts tensors where they were saved, whatever device is current around it"}
# FIX stats = torch.load(path) -> stats = torch.load(path, map_location=f"cuda:{gpu}")
import pathlib
import tempfile

import torch

COLUMNS = 6


def rows(seed, n=20):
    return torch.rand(n, COLUMNS, generator=torch.Generator().manual_seed(seed)) * torch.arange(1, COLUMNS + 1)


def fit(path):
    """First job: learns the statistics on the first GPU."""
    table = rows(1).to("cuda:0")
    torch.save({"mean": table.mean(0), "std": table.std(0)}, path)


def score(path, gpu):
    """Second job: shares the machine with the first one, so it takes the other GPU."""
    torch.manual_seed(0)
    with torch.cuda.device(gpu):
        stats = torch.load(path)
        model = torch.nn.Linear(COLUMNS, 1).cuda()
        batch = rows(2).cuda()
        normalized = (batch - stats["mean"]) / stats["std"]
        return model(normalized).sum().item()


with tempfile.TemporaryDirectory() as folder:
    statistics = pathlib.Path(folder) / "statistics.pt"
    fit(statistics)
    print("score %.3f" % score(statistics, gpu=1))
