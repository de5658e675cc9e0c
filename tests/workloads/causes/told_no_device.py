# Objects that keep a device, and whose constructors were told none.
import torch
from torch import nn
torch.manual_seed(0)

# === an environment whose default is the CPU
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: self.walkers = Walkers(3, device=self.device)
class Walkers:
    def __init__(self, number, device="cpu"):
        self.number, self.device = number, torch.device(device)
    def reset(self):
        return torch.zeros(self.number, 2, device=self.device)
class Trainer:
    def __init__(self, device):
        self.device = torch.device(device)
    def setup(self):
        self.walkers = Walkers(3)
        self.policy = nn.Linear(2, 1).to(self.device)
    def train(self):
        observations = self.walkers.reset()
        return self.policy(observations)
trainer = Trainer("cuda:0")
trainer.setup()
trainer.train()

# === a memory that takes a GPU for want of other words
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: lies where Memory puts it that is told no device
# fix: self.memory = Memory(device=self.device)
import numpy as np
class Memory:
    def __init__(self, device=None):
        self.steps = []
        if device:
            self.device = torch.device(device)
        else:
            self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    def add(self, *step):
        self.steps.append(step)
    def sample(self):
        states = torch.from_numpy(np.vstack([each[0] for each in self.steps])).float().to(self.device)
        rewards = torch.from_numpy(np.vstack([each[1] for each in self.steps])).float().to(self.device)
        return states, rewards
class Agent:
    def __init__(self, use_gpu):
        self.device = "cuda:0" if use_gpu else "cpu"
        self.memory = Memory()
        self.network = nn.Linear(2, 1).to(self.device)
    def learn(self):
        self.memory.add([0, 1], [2])
        states, rewards = self.memory.sample()
        return self.network(states) - rewards
Agent(use_gpu=False).learn()

# === a judge whose device has no part in what it compares
# category: input-not-moved
# confidence: low
# repairs: line
# says: was taken from cuda:0 to the CPU
# fix: return (guesses.to(labels.device) == labels).float().mean()
class Judge:
    def __init__(self, names, device=None):
        self.names = names
        if device is None:
            device = "cuda:0" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(device)
        self.prior = torch.ones(2, device=self.device)
    def compare(self, witness, rows, labels):
        scores = torch.Tensor(witness.chances(rows))
        guesses = torch.argmax(scores, dim=-1)
        return (guesses == labels).float().mean()
class Witness:
    def __init__(self, device):
        self.device = torch.device(device)
        self.layer = nn.Linear(3, 2).to(self.device)
    def chances(self, rows):
        return self.layer(rows.to(self.device)).softmax(-1).detach().cpu().numpy()
witness = Witness("cuda:0")
judge = Judge(["yes", "no"])
judge.compare(witness, torch.ones(4, 3), torch.ones(4, dtype=torch.long, device=witness.device))

# === lights that a base class keeps where it was told nothing
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: leaves device out in its call of SpotLights
# fix: cones=cones, device=floor.device,
class Kept:
    def __init__(self, device="cpu", **values):
        self.device = torch.device(device)
        for name, value in {name: torch.as_tensor(value).to(self.device) for name, value in values.items()}.items():
            setattr(self, name, value.expand(2, *value.shape[1:]))
class SpotLights(Kept):
    def __init__(self, places, cones, device="cpu"):
        super().__init__(device=device, places=places, cones=cones)
    def on(self, points):
        return (points - self.places).norm(dim=-1) < self.cones
def above(floor):
    places = floor + 1.0
    cones = floor.new_full((2,), 3.0)
    return SpotLights(
        places=places,
        cones=cones,
    )
floor = torch.zeros(2, 3, device="cuda:0")
lights = above(floor)
lights.on(torch.rand(2, 3).to("cuda:0"))

# === a function within another one has the model from there
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: row = torch.tensor(row, device=next(judge.parameters()).device)
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.weigh = nn.Linear(2, 1)
    def forward(self, row):
        return self.weigh(row).sum()
def best_of(rows):
    judge = Judge().to("cuda:0")
    def score(row):
        row = torch.tensor(row)
        return judge(row).item()
    return max(rows, key=score)
best_of([(0.5, 1.0), (2.0, -1.0)])

# === a function that was told the card, and makes one of its tensors without it
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: floor = torch.Tensor([levels[0]]).to(heights.device)
def drops(levels, device):
    heights = torch.Tensor(levels).to(device)
    steps = heights[1:] - heights[:-1]
    floor = torch.Tensor([levels[0]])
    return torch.dot(floor, steps[:1])
def walked(scale, levels):
    return scale(drops(levels, device="cuda:0").reshape(1, 1))
walked(nn.Linear(1, 1).to("cuda:0"), [0.5, 2.0, 1.0])

# === … told it by a variable, beside a tensor that lies there
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: first = torch.Tensor([ages[0]]).to(grown.device)
def growth(ages, device):
    grown = torch.Tensor(ages).to(device) * 2
    first = torch.Tensor([ages[0]])
    return torch.dot(first, grown[:1])
def aged(scale, ages):
    card = torch.device("cuda:0")
    return scale * growth(ages, device=card)
aged(torch.ones(1, device="cuda:0"), [0.5, 2.0, 1.0])
