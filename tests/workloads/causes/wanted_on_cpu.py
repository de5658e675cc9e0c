# What PyTorch takes on the CPU alone.
import torch
from torch import nn
torch.manual_seed(0)

# === an argument of the CPU
# category: input-wanted-on-cpu
# confidence: high
# repairs: cause
# says: on the CPU only
# fix: return pack_padded_sequence(x, lengths.cpu(), batch_first=True)
from torch.nn.utils.rnn import pack_padded_sequence
def pack(x, lengths):
    return pack_padded_sequence(x, lengths, batch_first=True)
pack(torch.ones(2, 3, 4, device="cuda:0"), torch.tensor([3, 2], device="cuda:0"))

# === a generator's state
# category: input-wanted-on-cpu
# confidence: high
# repairs: cause
# fix: torch.random.set_rng_state(state["rng"].cpu())
state = {"rng": torch.get_rng_state().to("cuda:0")}
torch.random.set_rng_state(state["rng"])

# === what becomes an array in the next line, too
# category: input-wanted-on-cpu
# confidence: high
# repairs: cause
# fix: mean_np = mean.detach().cpu().numpy()
# also: all_np = told.detach().cpu().numpy()
def forecast(model, x):
    told = model(x)
    mean = told[..., 0]
    mean_np = mean.detach().numpy()
    all_np = told.detach().numpy()
    return mean_np, all_np
forecast(nn.Linear(2, 2).to("cuda:0"), torch.ones(3, 2, device="cuda:0"))

# === an argument of the CPU that the program calls otherwise
# category: input-wanted-on-cpu
# confidence: high
# repairs: cause
# fix: return pack_padded_sequence(x, sizes.cpu(), batch_first=True, enforce_sorted=False)
from torch.nn.utils.rnn import pack_padded_sequence
def packed(x, sizes):
    return pack_padded_sequence(x, sizes, batch_first=True, enforce_sorted=False)
packed(torch.ones(2, 3, 1, device="cuda:0"), torch.tensor([2, 3], device="cuda:0"))

# === … and gives by its keyword, in front of the others
# category: input-wanted-on-cpu
# confidence: high
# repairs: cause
# fix: return nn.utils.rnn.pack_padded_sequence(lengths=(x > 0).sum(1)[:, 0].cpu(), input=x, batch_first=True, enforce_sorted=False)
def packed(x):
    return nn.utils.rnn.pack_padded_sequence(lengths=(x > 0).sum(1)[:, 0], input=x, batch_first=True, enforce_sorted=False)
packed(torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], device="cuda:0")[..., None])

# === a table whose rows are moved, not the table
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: is meant to stay on the CPU
# fix: picked = order[begin:begin + 2].to("cpu")
def batches(features, order, device):
    for begin in range(0, 4, 2):
        picked = order[begin:begin + 2]
        yield features[picked].view(2, -1).to(device), picked
features = torch.randn(6, 3)
order = torch.randperm(6).to("cuda:0")
for rows, numbers in batches(features, order, torch.device("cuda:0")):
    rows.sum()

# === a table whose rows are given another type, and stay
# category: input-not-moved
# confidence: low
# repairs: line
# fix: return values.to(picked.device)[picked].to(torch.float64)
def taken(values, picked):
    return values[picked].to(torch.float64)
taken(torch.randn(5, 2), torch.randperm(5).to("cuda:0"))
