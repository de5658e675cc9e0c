# Statements over several lines, of which Python tells another one than the first.
import torch
from torch import nn
torch.manual_seed(0)

# === a call within a call that Python tells by its own line
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: x.to(next(net.parameters()).device),
def scores(net, x):
    return torch.relu(
        net(
            x,
        )
    )

scores(nn.Linear(3, 2).to("cuda:0"), torch.ones(2, 3))

# === a chain of methods
# category: unknown
# confidence: low
# repairs: line
# fix: .add(data.to(average.device))
def blended(average, data, share):
    result = (
        average
        .mul(share)
        .add(data)
    )
    return result

blended(torch.ones(3, device="cuda:0"), torch.ones(3), 0.5)

# === what an expression over several lines gives
# category: created-without-device
# confidence: medium
# repairs: line
# fix: self.sums += (
# fix:     answers * weights
# fix: ).sum(-1).to(self.sums.device)
class Metric:
    def __init__(self, device):
        self.sums = torch.zeros(3, device=device)

    def update(self, answers, weights):
        self.sums += (
            answers * weights
        ).sum(-1)

Metric("cuda:0").update(torch.ones(3, 2), torch.ones(3, 2))

# === read again below the statement
# category: unknown
# confidence: low
# repairs: line
# fix: y = y.to(x.device)
# fix: out = torch.max(
# fix:     x.sum() * y,
# fix:     x,
# fix: )
def largest(x, y):
    out = torch.max(
        x.sum() * y,
        x,
    )
    return out * y

largest(torch.ones(3, device="cuda:0"), torch.ones(3))
