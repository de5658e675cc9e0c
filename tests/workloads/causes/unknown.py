# Why nobody can say it: causes that only structure tells apart.
import torch
from torch import nn
torch.manual_seed(0)

# === nobody knows
# category: unknown
# confidence: low
# repairs: line
# says: not why
# says: left was made at
# says: and never moved
# fix: return torch.cat([left.to(right.device), right])
def joined(left, right):
    return torch.cat([left, right])
a, b = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
joined(a, b)

# === a variable that is read again below
# category: unknown
# confidence: low
# repairs: line
# fix: steps = steps.to(batch.device)
# fix: scaled = batch * steps
def weighted(batch, steps):
    scaled = batch * steps
    return scaled + steps
weighted(torch.ones(2, 4, device="cuda:0"), torch.ones(2, 4))

# === several elements of a list
# category: unknown
# confidence: low
# repairs: line
# fix: return torch.stack([value.to(norms[0].device) for value in norms]).sum()
def total(parameters):
    norms = [each.norm() for each in parameters]
    return torch.stack(norms).sum()
total([torch.ones(2, device=device) for device in ("cuda:0", "cuda:0", "cuda:0", "cuda:1", "cuda:1")])

# === a call that says which device
# category: unknown
# confidence: low
# repairs: cause
def made(count, device="cpu"):
    return torch.arange(count, device=device)
def added(deltas):
    wanted = "cpu"
    rows = made(deltas.shape[1], wanted)
    return deltas + rows
added(torch.ones(2, 4, device="cuda:1"))

# === what is put into elements lies where these do
# category: unknown
# confidence: low
# repairs: line
# fix: out[mask] = table.to(rows.device)[rows]
def filled(out, mask, table, rows):
    out[mask] = table[rows]
    return out
filled(torch.zeros(4, 3, device="cuda:0"), torch.tensor([True, False, True, False], device="cuda:0"),
       torch.ones(5, 3, device="cuda:1"), torch.tensor([1, 2], device="cuda:0"))

# === behind a mode of the program's own, that counts what is called
# category: unknown
# confidence: low
# repairs: line
# fix: return average.mul(0.5) + data.to(average.device)
class Counted(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))

def blended(average, data):
    with Counted():
        return average.mul(0.5) + data

blended(torch.ones(3, device="cuda:0"), torch.ones(3))
