# EXPECT {"kind":"refused-op","operation":"eq","devices":["cpu","cuda:0"],"operands":["index","stop_idx"],"category":"input not moved|cached state|","line":["owner = index.unsqueeze(0) == stop_idx.unsqueeze(1)","index = torch.multinomial(","stop_idx = "],"error":"on the same device","thread":"https://github.com/pytorch/rl/issues/2207","hard":"the storage lies on the GPU, the tree of priorities on the CPU; both are right where they are"}
# FIX owner = index.unsqueeze(0) == stop_idx.unsqueeze(1) -> owner = index.unsqueeze(0) == stop_idx.unsqueeze(1).to(index.device)
import torch


class Storage:
    def __init__(self, capacity, device):
        self.data, self.device, self.capacity = {}, torch.device(device), capacity

    def extend(self, items):
        self.data = {key: value[: self.capacity].to(self.device) for key, value in items.items()}

    def __getitem__(self, key):
        return self.data[key]


class PrioritizedSlices:
    def __init__(self, length, alpha=0.7):
        self.length, self.alpha = length, alpha
        self.priorities = None

    def fill(self, size):
        self.priorities = torch.linspace(0.5, 1.0, size) ** self.alpha

    def ends(self, storage):
        trajectory = storage["trajectory"]
        last = torch.ones_like(trajectory, dtype=torch.bool)
        last[:-1] = trajectory[1:] != trajectory[:-1]
        return last.nonzero().squeeze(-1)

    def sample(self, storage, number):
        index = torch.multinomial(self.priorities, number, generator=torch.Generator().manual_seed(0))
        stop_idx = self.ends(storage)
        owner = index.unsqueeze(0) == stop_idx.unsqueeze(1)
        index = (index - owner.any(0).long() * self.length).clamp(min=0)
        return index[:, None] + torch.arange(self.length)


class Replay:
    def __init__(self, storage, sampler):
        self.storage, self.sampler = storage, sampler

    def extend(self, items):
        self.storage.extend(items)
        self.sampler.fill(len(items["steps"]))

    def sample(self, number):
        index = self.sampler.sample(self.storage, number).clamp(max=9).to(self.storage.device)
        return self.storage["steps"][index]


replay = Replay(Storage(20, "cuda:0"), PrioritizedSlices(length=2))
replay.extend({"trajectory": torch.tensor([3, 3, 0, 1, 1, 1, 2, 2, 2, 3]), "steps": torch.arange(10)})
print("sampled", replay.sample(6).sum().item())
