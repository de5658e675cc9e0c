# What was kept, and where: in memory of NumPy's, in a table of a file's, in a cache that is no mistake.
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)

# === a module keeps memory of NumPy's that its constructor was given
# category: state-not-registered
# confidence: high
# repairs: cause
# fix: self.register_buffer("roads", roads, persistent=False)
class GraphConv(nn.Module):
    def __init__(self, roads):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2))
        self.roads = roads
    def forward(self, x):
        return torch.einsum("hi,bic->bhc", self.roads, x) @ self.weight
roads = torch.from_numpy(np.eye(3, dtype="float32"))
GraphConv(roads).to("cuda:0")(torch.ones(1, 3, 2, device="cuda:0"))

# === a table that was filled while another device was current
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
# fix: grid = grids[key].to(flow.device)
grids = {}
def warped(flow):
    key = len(flow)
    if key not in grids:
        grids[key] = torch.linspace(-1, 1, key).cuda()
    grid = grids[key]
    return (grid + flow).sum()
for card in range(2):
    with torch.cuda.device(card):
        warped(torch.ones(3, device="cuda"))

# === an index for a cache whose layer is on the other device
# category: cached-state-elsewhere
# confidence: medium
# repairs: line
# fix: self.past_keys = [keys[kept.to(keys.device)] for keys in self.past_keys]
class Batch:
    def __init__(self, past_keys):
        self.past_keys = past_keys
    def trim(self, kept):
        self.past_keys = [keys[kept] for keys in self.past_keys]
def past_of(layers, x):
    return [layer(x.to(layer.weight.device)) for layer in layers]
layers = [nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1")]
batch = Batch(past_of(layers, torch.ones(3, 2)))
batch.trim(torch.tensor([0, 2], device="cuda:0"))

# === numbers of a table that an object keeps beside a tensor of its own
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# says: is an attribute of Table, which is no module, from before this call
# fix: self.start = self.start + each.to(seconds.device) * seconds
def row(*numbers):
    return torch.tensor(numbers)
class Table:
    def __init__(self, steps):
        self.steps = steps
MIDPOINT = Table([[row(0.5)], [row(1.0)]])
class Solver:
    def __init__(self, start, table):
        self.start, self.table = start, table
    def step(self, seconds):
        for rows in self.table.steps:
            for each in rows:
                self.start = self.start + each * seconds
        return self.start
start = torch.tensor([1.0], device="cuda:0")
Solver(start, MIDPOINT).step(torch.ones(1, device="cuda:0"))

# === an attribute that was None before
# category: state-not-registered
# confidence: medium
# repairs: cause
# fix: self.register_buffer("weight", None, persistent=False)
class Weighed(nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.weight = None
        if weight is not None:
            self.weight = torch.Tensor(weight)
    def forward(self, scores, labels):
        return nn.functional.cross_entropy(scores, labels, weight=self.weight)
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.loss = nn.Linear(2, 2), Weighed([1.0, 2.0])
    def forward(self, x, labels):
        return self.loss(self.score(x), labels)
Head().to("cuda:0")(torch.ones(1, 2, device="cuda:0"), torch.tensor([1], device="cuda:0"))

# === what a method made that the constructor calls
# category: state-not-registered
# confidence: high
# repairs: cause
# fix: self.register_buffer("floor", self.least ** 2, persistent=False)
class Divide(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.least = torch.FloatTensor([0.5])
        self.build(channels)
    def build(self, channels):
        self.floor = self.least ** 2
        self.beta = nn.Parameter(torch.ones(channels) + self.floor)
    def forward(self, x):
        return x / (self.beta - self.floor)
Divide(3).to("cuda:0")(torch.ones(2, 3, device="cuda:0"))

# === an object of three layers that is no module itself
# category: state-not-registered
# confidence: high
# repairs: cause
# fix: self.expert = Expert(2)
# fix: self.expert_modules = nn.ModuleList([self.expert.norm, self.expert.ask, self.expert.answer])
class Expert:
    def __init__(self, width):
        self.norm = nn.LayerNorm(width)
        self.ask, self.answer = nn.Linear(width, width), nn.Linear(width, 1)
    def __call__(self, x):
        normal = self.norm(x)
        return self.answer(self.ask(normal))
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry = nn.Linear(3, 2)
        self.expert = Expert(2)
    def forward(self, x):
        return self.expert(self.entry(x))
Reader().to("cuda:0")(torch.ones(2, 3, device="cuda:0"))

# === a limit that a trainer gives a module
# category: state-not-registered
# confidence: high
# repairs: cause
# fix: limit = torch.tensor([3.0], device=self.device)
class Renorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.limit = nn.Parameter(torch.ones(2)), 1.0
    def forward(self, x):
        return torch.clamp(x * self.scale, max=self.limit)
class Strategy:
    def __init__(self, device):
        self.device = device
        self.model = Renorm().to(device)
    def experience(self):
        limit = torch.tensor([3.0])
        self.model.limit = limit
    def train(self, x):
        self.experience()
        return self.model(x.to(self.device))
strategy = Strategy(torch.device("cuda:0"))
strategy.train(torch.ones(4, 2))

# === a state whose line brings it to the device of the model's options
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: state = [each.to(x.device) for each in self.begin(len(x))]
class Tagger(nn.Module):
    def __init__(self, gpu):
        super().__init__()
        self.device = torch.device("cpu" if gpu < 0 else f"cuda:{gpu}")
        self.lstm = nn.LSTM(2, 3, batch_first=True)
    def begin(self, rows):
        h = torch.zeros(1, rows, 3)
        c = torch.zeros(1, rows, 3)
        return h, c
    def forward(self, x):
        state = [each.to(self.device) for each in self.begin(len(x))]
        return self.lstm(x, state)[0]
Tagger(gpu=-1).to("cuda:0")(torch.ones(2, 4, 2, device="cuda:0"))

# === a buffer on a GPU that has no rows yet
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# fix: self.rows = torch.cat([self.rows.to(rows.device), rows])
class Buffer:
    def __init__(self, device):
        self.device, self.rows = device, None
    def reserve(self, width):
        self.rows = torch.empty(0, width, device=self.device)
    def add(self, rows):
        self.rows = torch.cat([self.rows, rows])
buffer = Buffer("cuda:0")
buffer.reserve(3)
buffer.add(torch.ones(2, 3, device="cuda:1"))

# === what a model took to the CPU piece by piece is put together there, and compared
# category: input-not-moved
# confidence: low
# repairs: line
# says: whose call had taken something there at
# fix: return nn.functional.l1_loss(told["pitch"].to(tones.device), tones)
class Keep:
    def __init__(self, place):
        self.place = place

    def __call__(self, x):
        return x.to(self.place)

class Singer(nn.Module):
    def __init__(self, place):
        super().__init__()
        self.voice, self.keep = nn.Linear(2, 2), Keep(place)

    def forward(self, x):
        sung = {"pitch": []}
        for _ in range(3):
            x = torch.tanh(self.voice(x))
            sung["pitch"].append(self.keep(x))
        return {name: torch.stack(all_of, dim=1) for name, all_of in sung.items()}, x

def judged(singer, x, tones):
    told, _ = singer(x)
    return nn.functional.l1_loss(told["pitch"], tones)

judged(Singer("cpu").to("cuda:0"), torch.ones(2, 2).to("cuda:0"), torch.zeros(2, 3, 2).to("cuda:0"))
