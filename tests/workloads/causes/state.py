# What objects and modules keep: causes that only structure tells apart.
import copy

import torch
from torch import nn
torch.manual_seed(0)

# === a module's device as an attribute
# category: state-not-registered
# confidence: medium
# repairs: cause
# says: self.device says
class Filter(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.device = device
        self.gain = nn.Parameter(torch.ones(3))
    def forward(self, x):
        lowest = torch.zeros(3, device=self.device)
        return torch.maximum(x * self.gain, lowest)
Filter().to("cuda:0")(torch.ones(2, 3, device="cuda:0"))

# === an object keeps the device that its model has left
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
# says: a plain attribute of Predictor
# fix: return x.float().to(next(self.model.parameters()).device)
class Predictor:
    def __init__(self, model):
        self.device = torch.device("cuda:0")
        self.model = model.to(self.device)
    def prepare(self, x):
        return x.float().to(self.device)
    def __call__(self, x):
        return self.model(self.prepare(x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)
    def forward(self, x):
        return self.body(x)
model = Net()
predictor = Predictor(model)
model.to("cuda:1")
predictor(torch.ones(1, 4))

# === a private attribute
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# says: self.__levels
# says: Noise
class Noise:
    def __init__(self):
        self.__levels = torch.linspace(0, 1, 10).to("cuda:0")
    def add(self, step):
        return self.__levels[step]
Noise().add(torch.tensor([1, 2]).to("cuda:1"))

# === a list hides modules
# category: state-not-registered
# confidence: high
# repairs: cause
# says: heads of Heads
# says: plain list
# fix: self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 3)])
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.heads = [nn.Linear(4, 2), nn.Linear(4, 3)]
    def forward(self, x):
        return [head(self.body(x)) for head in self.heads]
model = Heads().to("cuda:0")
model(torch.ones(2, 4, device="cuda:0"))

# === an object that is no module
# category: state-not-registered
# confidence: high
# repairs: line
# says: Scale, which is no module
# fix: return x * self.factor.to(x.device)
class Scale:
    def __init__(self):
        self.factor = torch.full((4,), 0.5)
    def __call__(self, x):
        return x * self.factor
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.scale = Scale()
    def forward(self, x):
        return self.scale(self.body(x))
model = Net().to("cuda:0")
model(torch.ones(2, 4, device="cuda:0"))

# === a distribution
# category: state-not-registered
# confidence: high
# repairs: line
# says: Normal, which is no module
# fix: self.noise = torch.distributions.Normal(torch.zeros(4, device="cuda:0"), torch.ones(4, device="cuda:0"))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.noise = torch.distributions.Normal(torch.zeros(4), torch.ones(4))
    def forward(self, x):
        return self.noise.log_prob(self.body(x))
model = Net().to("cuda:0")
model(torch.ones(2, 4, device="cuda:0"))

# === a closure remembers
# category: cached-state-elsewhere
# confidence: medium
# repairs: line
# says: positions keeps tensors on cuda:0 (results
# fix: return positions(x).to(x.device) + x.square()
def remember(function):
    results = {}
    def asked(x):
        key = x.shape
        if key not in results:
            results[key] = function(x)
        return results[key]
    return asked
@remember
def positions(x):
    return torch.arange(x.shape[-1], dtype=torch.float, device=x.device)
def shifted(x):
    return positions(x) + x.square()
for device in ("cuda:0", "cuda:1"):
    shifted(torch.ones(2, 4, device=device))

# === kept from before it was moved
# category: cached-state-elsewhere
# confidence: high
# repairs: line
# says: is what model.weight was until that was moved to cuda:0
# fix: change = model.weight - kept[0].to(model.weight.device)
model = nn.Linear(4, 4)
kept = [weight.detach() for weight in model.parameters()]
model.to("cuda:0")
change = model.weight - kept[0]

# === a device in a dict of a module
# category: state-not-registered
# confidence: medium
# repairs: cause
# says: self.factory_kwargs["device"] says
class Scale(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.factory_kwargs = {"device": device, "dtype": torch.float32}
        self.mean = nn.Parameter(torch.zeros(3, **self.factory_kwargs))
    def update(self, x):
        x = x.to(**self.factory_kwargs)
        return self.mean + x.mean(0) * 0.5
Scale().to("cuda:0").update(torch.ones(2, 3, device="cuda:0"))

# === two constants of an object in one line
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# fix: return x * self.scale.to(x.device) + self.shift.to(x.device)
class Normalizer:
    def __init__(self, data):
        self.scale, self.shift = data.std(), data.mean(0)
        self.scale = self.scale + torch.zeros(4)
    def __call__(self, x):
        return x * self.scale + self.shift
Normalizer(torch.rand(8, 4))(torch.ones(2, 4, device="cuda:0"))

# === a module of a file that no model has registered
# category: state-not-registered
# confidence: medium
# repairs: line
# says: Block calls Blur, which it has not registered
# fix: return blur.to(x.device)(x)
class Blur(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.ones(4))
    def forward(self, x):
        return x * self.kernel
blur = Blur().to("cuda:0")
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)
    def forward(self, x):
        x = self.mix(x)
        return blur(x)
Block().to("cuda:1")(torch.ones(2, 4, device="cuda:1"))

# === counters that an object keeps and adds to
# category: state-not-registered
# confidence: medium
# repairs: line
# fix: self.right = self.right.to(preds.device)
# fix: self.total = self.total.to(preds.device)
# fix: self.right += (preds == target).sum(0)
class Accuracy(nn.Module):
    def reset(self):
        self.right = torch.zeros(3)
        self.total = torch.zeros(3)
    def forward(self, preds, target):
        self.right += (preds == target).sum(0)
        self.total += torch.ones_like(preds).sum(0)
        return self.right / self.total
accuracy = Accuracy()
accuracy.reset()
accuracy.to("cuda:0")(torch.ones(2, 3, device="cuda:0"), torch.ones(2, 3, device="cuda:0"))

# === buffers that nobody registered
# category: state-not-registered
# confidence: medium
# repairs: cause
# fix: self.register_buffer("mean", torch.zeros(3), persistent=False)
# also: self.register_buffer("std", torch.ones(3), persistent=False)
class Normal(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(3)
        self.std = torch.ones(3)
    def forward(self, x):
        x = x - self.mean
        return x / self.std
Normal().to("cuda:0")(torch.ones(2, 3, device="cuda:0"))

# === two lines read the device that a module has left
# category: state-not-registered
# confidence: medium
# repairs: cause
# says: self.device says
# fix: lowest = torch.zeros(3, device=next(self.parameters()).device)
# also: highest = torch.ones(3, device=next(self.parameters()).device)
class Clamp(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.device = device
        self.gain = nn.Parameter(torch.ones(3))
    def forward(self):
        lowest = torch.zeros(3, device=self.device)
        highest = torch.ones(3, device=self.device)
        return torch.clamp(self.gain, min=lowest, max=highest)
Clamp().to("cuda:0")()

# === a registry gives the module of somebody else
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
# says: was there before
# fix: layer = layer_of(4).to(x.device)
LAYERS = {}
def layer_of(width):
    if width not in LAYERS:
        LAYERS[width] = nn.Linear(width, width)
    return LAYERS[width]
def run(device):
    x = torch.ones(1, 4, device=device)
    layer = layer_of(4)
    return layer(x)
layer_of(4)
run("cuda:0")

# === what a module made in an earlier call and the move of the model left
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
# fix: self.register_buffer("mean", torch.zeros_like(x[0]), persistent=False)
class Mean(nn.Module):
    def forward(self, x):
        if not hasattr(self, "mean"):
            self.mean = torch.zeros_like(x[0])
        self.mean.lerp_(x.mean(0), 0.5)
        return x - self.mean
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.mean = nn.Linear(3, 3), Mean()
    def forward(self, x):
        return self.mean(self.body(x))
net = Net()
with torch.no_grad():
    net(torch.ones(2, 3))
    net.to("cuda:0")(torch.ones(2, 3, device="cuda:0"))

# === made before the model went to its device
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
class Trainer:
    def __init__(self, model, weights):
        self.model, self.weights = model.to("cuda:0"), weights
    def step(self, x, labels):
        loss = nn.CrossEntropyLoss(weight=self.weights)
        return loss(self.model(x), labels)
model = nn.Linear(4, 2)
weights = torch.tensor([1.0, 3.0])
Trainer(model, weights).step(torch.ones(3, 4, device="cuda:0"), torch.zeros(3, dtype=torch.long, device="cuda:0"))

# === a part is given what its model keeps in a dict
# category: state-not-registered
# confidence: medium
# repairs: line
# says: was made by Prompts for itself
# fix: return self.embed(numbers.to(self.embed.weight.device))
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4, 3)
    def forward(self, numbers):
        return self.embed(numbers)
class Prompts(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.numbers = Part(), {}
    def add(self, name):
        self.numbers[name] = torch.arange(4)
    def forward(self, x, name):
        return x + self.part(self.numbers[name].unsqueeze(0).expand(2, -1))
model = Prompts()
model.add("default")
model.to("cuda:0")(torch.ones(2, 4, 3, device="cuda:0"), "default")

# === a part is given a slice of what its model keeps in an object
# category: state-not-registered
# confidence: medium
# repairs: line
# says: was made by Decoder for itself
class Table:
    def __init__(self, cos, sin):
        self.cos, self.sin = cos, sin
    def slice(self, end):
        return Table(self.cos[:end], self.sin[:end])
def table_of(length):
    angles = torch.arange(length).float()
    return Table(angles.cos(), angles.sin())
def rotate(x, table):
    return x * table.cos + x * table.sin
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.table = nn.Linear(4, 4), table_of(8)
    def forward(self, x):
        return rotate(self.layer(x), self.table.slice(4))
Decoder().to("cuda:0")(torch.ones(2, 4, device="cuda:0"))

# === a variable is called out
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# says: is kept from before this call by Schedule
# fix: out = table.to(t.device).gather(-1, t)
def extract(table, t):
    out = table.gather(-1, t)
    return out.unsqueeze(-1)
class Schedule:
    def __init__(self):
        self.levels = torch.tensor([0.1, 0.2, 0.3])
    def noise(self, x, t):
        return extract(self.levels, t) * x
Schedule().noise(torch.ones(2, 4, device="cuda:0"), torch.tensor([0, 2]).to("cuda:0"))

# === what a model computes now meets what it has kept
# category: cached-state-elsewhere
# confidence: medium
# repairs: line
# says: keeps tensors on cuda:0
class Anchors(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = None
    def forward(self, x):
        if self.cells is None:
            self.cells = [torch.ones(4, device=x.device)]
        return torch.cat([cell.repeat(1) for cell in self.cells])
class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.anchors = nn.Linear(4, 4), Anchors()
    def decode(self, deltas, anchors):
        moved = anchors + deltas
        return moved * anchors
    def forward(self, x):
        parts = [self.net(x).relu()]
        deltas = torch.cat([part * 2 for part in parts])
        return self.decode(deltas, self.anchors(x))
model = Detector().to("cuda:0")
model(torch.ones(1, 4, device="cuda:0"))
model.to("cpu")(torch.ones(1, 4))

# === a deque keeps what a line took to the CPU
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
# says: keeps .entries[0].value there since
# fix: memory = self.bank.read().to(x.device)
from collections import deque
class Entry:
    def __init__(self, value):
        self.value = value
class Bank:
    def __init__(self, storage):
        self.entries, self.storage = deque(maxlen=4), storage
    def write(self, x):
        self.entries.append(Entry(x.to(self.storage)))
    def read(self):
        return torch.cat([entry.value for entry in self.entries])
class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank, self.mix = Bank("cpu"), nn.Linear(4, 4)
    def forward(self, x):
        self.bank.write(x)
        memory = self.bank.read()
        return self.mix(memory)
def run(device):
    Tracker().to(device)(torch.ones(2, 4, device=device))
run("cuda:0")

# === two dicts are read by one key
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# fix: self.anchors[name] = self.anchors[name].to(parameter.device)
# fix: self.weights[name] = self.weights[name].to(parameter.device)
# fix: drift = (parameter - self.anchors[name]) ** 2
class Penalty:
    def consolidate(self, model):
        self.weights = {name: parameter.detach().abs().cpu() for name, parameter in model.named_parameters()}
        self.anchors = {name: parameter.detach().cpu().clone() for name, parameter in model.named_parameters()}
    def of(self, model):
        total = 0.0
        for name, parameter in model.named_parameters():
            drift = (parameter - self.anchors[name]) ** 2
            total = total + (self.weights[name] * drift).sum()
        return total
def run(device):
    penalty, model = Penalty(), nn.Linear(4, 2).to(device)
    penalty.consolidate(model)
    return penalty.of(model)
run("cuda:0")

# === an object's tensor is read again in another line
# category: state-not-registered
# confidence: medium
# repairs: line
# fix: self.vectors = self.vectors.to(x.device)
# fix: phases = x @ self.vectors.T
class Waves:
    def __init__(self):
        self.vectors = torch.ones(5, 3)
    def energy(self, x):
        phases = x @ self.vectors.T
        return phases.cos().sum(0) / (self.vectors ** 2).sum(-1)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.waves, self.gain = Waves(), nn.Parameter(torch.ones(3))
    def forward(self, x):
        return self.waves.energy(x * self.gain)
def run(device):
    Net().to(device)(torch.ones(2, 3).to(device))
run("cuda:0")

# === tables of an object that is told a device and does not use it
# category: cached-state-elsewhere
# confidence: low
# repairs: cause
# says: self.alpha_bar
# says: Diffusion, which is no module
# fix: self.betas = torch.linspace(1e-4, 0.02, steps, device=self.device)
class Diffusion:
    def __init__(self, steps, device="cpu"):
        self.steps, self.device = steps, torch.device(device)
        self.betas = torch.linspace(1e-4, 0.02, steps)
        self.alpha_bar = torch.cumprod(1 - self.betas, 0)
    def noised(self, x, t):
        a = self.alpha_bar[t].view(-1, 1)
        return a.sqrt() * x + (1 - a).sqrt()
diffusion = Diffusion(10, "cuda:0")
diffusion.noised(torch.ones(2, 3, device="cuda:0"), torch.tensor([1, 4]))

# === a device that may be left out, as nothing reads it
# category: created-without-device
# confidence: low
# repairs: line
# says: self.scores
# says: says no device
class Beam:
    def __init__(self, width, device=None):
        self.scores = torch.zeros(width)
    def advance(self, found):
        self.scores = (self.scores[:, None] + found).amax(1)
beam = Beam(3)
beam.advance(torch.ones(3, 5, device="cuda:0"))

# === rows that were taken to the CPU where they were chosen
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# says: self.centers
# says: KMeans, which is no module
class KMeans:
    def fit(self, x):
        picks = torch.randperm(len(x))[:2]
        self.centers = x.cpu()[picks]
        return self
    def assign(self, x):
        return torch.cdist(x, self.centers).argmin(1)
kmeans = KMeans().fit(torch.ones(6, 3, device="cuda:0"))
kmeans.assign(torch.ones(2, 3, device="cuda:0"))

# === begun in a constructor that is told its device
# category: state-not-registered
# confidence: medium
# repairs: cause
# fix: self.baseline = torch.full((1,), -1.0, device=device)
class Actor(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.body = nn.Linear(3, 2).to(device)
        self.baseline = torch.full((1,), -1.0)
    def update(self, reward):
        mean = reward.mean()
        self.baseline = 0.9 * self.baseline + 0.1 * mean
        return self.baseline
def search(device):
    actor = Actor(device)
    return actor.update(torch.ones(4).to(device))
search(torch.device("cuda:0"))

# === a graph that the constructor was given
# category: state-not-registered
# confidence: high
# repairs: cause
# fix: self.register_buffer("edges", edges, persistent=False)
class Layer(nn.Module):
    def __init__(self, edges, dim):
        super().__init__()
        self.edges = edges
        self.linear = nn.Linear(dim, dim)
    def forward(self, x):
        return torch.relu(self.edges @ self.linear(x))
def normalised(edges):
    return edges / edges.sum(1, keepdim=True)
given_edges = normalised(torch.ones(4, 4))
Layer(given_edges, 3).cuda()(torch.ones(4, 3).cuda())

# === a spread that is no parameter, in a distribution that a policy gives
# category: state-not-registered
# confidence: medium
# repairs: cause
# says: which keeps policy.log_std
# fix: self.register_buffer("log_std", torch.zeros(2), persistent=False)
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 2)
        self.log_std = torch.zeros(2)
    def forward(self, x):
        return torch.distributions.Normal(self.mean(x), self.log_std.exp())
policy = Policy().to("cuda:0")
chosen = policy(torch.ones(4, 3, device="cuda:0"))
chosen.sample()

# === an average that keeps weights by name
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# fix: self.shadow[name].mul_(0.9).add_(value.to(self.shadow[name].device), alpha=0.1)
class Average:
    def __init__(self, model):
        self.shadow = {name: value.detach().clone() for name, value in model.state_dict().items()}
    def update(self, model):
        for name, value in model.state_dict().items():
            self.shadow[name].mul_(0.9).add_(value, alpha=0.1)
averaged = nn.Linear(3, 3)
average = Average(averaged)
averaged.to("cuda:0")
average.update(averaged)

# === statistics from NumPy, of an object
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# says: is an attribute of Scaler, which is no module
import numpy as np
class Scaler:
    def __init__(self, data):
        self.mean, self.std = torch.from_numpy(data.mean(0)), torch.from_numpy(data.std(0) + 1)
    def inverse(self, x):
        return x * self.std + self.mean
scaler = Scaler(np.arange(12, dtype=np.float32).reshape(4, 3))
scaler.inverse(nn.Linear(3, 3).cuda()(torch.ones(4, 3).cuda()))

# === a bias kept by the lengths alone
# category: cached-state-elsewhere
# confidence: medium
# repairs: line
# says: has kept it from an earlier call
import time
biases = {}
def packed_bias(lengths, device):
    key = tuple(lengths)
    if key not in biases:
        biases[key] = torch.zeros(sum(lengths), 4, device=device)
        time.sleep(0.02)  # until the clock has gone on
    return biases[key]
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(4, 4)
    def forward(self, hidden, lengths):
        bias = packed_bias(lengths, hidden.device)
        query = self.query(hidden)
        return query + bias
class Decoder(nn.Module):
    def __init__(self, devices):
        super().__init__()
        self.devices, self.layers = devices, nn.ModuleList(Attention().to(device) for device in devices)
    def forward(self, hidden, lengths):
        for device, layer in zip(self.devices, self.layers):
            hidden = layer(hidden.to(device), lengths)
        return hidden
Decoder(["cuda:0", "cuda:1"])(torch.ones(3, 4), [1, 2])

# === rows of a cache are filled from a staging area of the first card
# category: default-or-current-device
# confidence: medium
# repairs: line
class Staging:
    def __init__(self, shape, device_id=0):
        device = torch.device("cuda", device_id)
        self.room = torch.zeros(4, *shape, device=device)
    def take(self, count):
        return self.room[:count]
class Pages:
    def __init__(self, shape, device):
        self.cache = torch.zeros(6, *shape, device=device)
        self.staging = Staging(shape)
    def place(self, pages):
        self.cache[:2].add_(pages)
    def lookup(self):
        pages = self.staging.take(2)
        self.place(pages)
Pages((2, 4), "cuda:1").lookup()

# === a network takes the tensors of a file for its own
# category: checkpoint-device
# confidence: medium
# repairs: cause
# says: is the tensor of a file
# fix: network.load_state_dict(torch.load(file, map_location=next(network.parameters()).device), assign=True)
import tempfile
saved = tempfile.NamedTemporaryFile(suffix=".pt")
torch.save(nn.Linear(3, 3).to("cuda:1").state_dict(), saved.name)
def restored(file):
    network = nn.Linear(3, 3).to("cuda:0")
    network.load_state_dict(torch.load(file), assign=True)
    return network
network = restored(saved.name)
network(torch.ones(2, 3, device="cuda:0"))

# === keys of an index that lies in host memory, and may not be there yet
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# fix: self.found = keys if self.found is None else torch.cat([self.found.to(keys.device), keys], 1)
class Index:
    def __init__(self):
        self.found = None
    def offload(self):
        self.found = self.found.to("cpu")
    def add(self, keys):
        self.found = keys if self.found is None else torch.cat([self.found, keys], 1)
index = Index()
index.add(torch.ones(1, 2, device="cuda:0"))
index.offload()
index.add(torch.ones(1, 2, device="cuda:0"))

# === a method gives a buffer anew, from NumPy
# category: created-without-device
# confidence: medium
# repairs: cause
# says: made anew on cpu
# fix: self.limits = torch.from_numpy(np.ones(len(radii), dtype="float32")).to(self.radii.device)
import numpy as np
class Restraints(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("radii", torch.ones(4))
        self.register_buffer("limits", None)
    def build(self):
        radii = self.radii.cpu().numpy()
        self.limits = torch.from_numpy(np.ones(len(radii), dtype="float32"))
    def forward(self, x):
        return (self.limits - x * self.radii).sum()
restraints = Restraints().to("cuda:0")
restraints.build()
restraints(torch.ones(4, device="cuda:0"))

# === a tensor of eight bits and its scale, which are attributes of a module that has nothing registered
# category: state-not-registered
# confidence: medium
# repairs: line
# fix: return self.weight.float() * self.scale.to(self.weight.device)
class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = self.scale = None
    def give(self, weight, scale):
        self.weight, self.scale = weight, scale
    def forward(self):
        return self.weight.float() * self.scale
product = Product()
def scales():
    return torch.ones(2, 1)
product.give(torch.ones(2, 2, dtype=torch.int8).to("cuda:0"), scales())
product()

# === an attribute that a module's own dict has, read twice
# category: state-not-registered
# confidence: medium
# repairs: line
# fix: self.v = self.v.to(x.device)
# fix: self.v = self.v + (x - self.v) / 2
class Neuron(nn.Module):
    def __init__(self):
        super().__init__()
        self.memories = {"v": torch.full((3,), 0.1)}

    def __getattr__(self, name):
        memories = self.__dict__.get("memories", {})
        return memories[name] if name in memories else super().__getattr__(name)

    def __setattr__(self, name, value):
        memories = self.__dict__.get("memories", {})
        memories.__setitem__(name, value) if name in memories else super().__setattr__(name, value)

    def forward(self, x):
        self.v = self.v + (x - self.v) / 2
        return self.v

net = nn.Sequential(nn.Linear(3, 3), Neuron(), nn.Linear(3, 1)).to("cuda:0")
net(torch.ones(2, 3, device="cuda:0"))

# === counts that a module's constructor was given
# category: state-not-registered
# confidence: high
# repairs: cause
# fix: self.register_buffer("seen", seen, persistent=False)
class Weighed(nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.seen = seen
    def loss(self, x, which):
        return (self.layer(x)[:, 0] / self.seen[which]).sum()
def counted(which):
    return torch.bincount(which, minlength=3).float()
which = torch.tensor([0, 1, 2, 2])
model = Weighed(counted(which)).to("cuda:0")
model.loss(torch.ones(4, 2, device="cuda:0"), which.to("cuda:0"))

# === what was computed where only an attribute lies
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# says: has kept self.sigmas
# fix: return sample * ratio.to(sample.device)
class Scheduler:
    def __init__(self):
        self.sigmas = torch.linspace(1, 0, 5)
    def look_back(self, sample, here, then):
        ratio = torch.stack([here - then, here])
        return sample * ratio
    def step(self, sample):
        return self.look_back(sample, self.sigmas[1], self.sigmas[2])
Scheduler().step(torch.ones(2, device="cuda:0"))

# === a model of a file whose buffer was read to where it was saved
# category: checkpoint-device
# confidence: medium
# repairs: cause
# says: is the tensor of a file
# fix: saved = torch.load(path, map_location=device)
import io

class Scaled(nn.Module):
    def __init__(self, scales, device):
        super().__init__()
        self.register_buffer("scales", torch.as_tensor(scales).view(-1, 1))
        self.head = nn.Linear(2, 2, device=device)

    def forward(self, kinds):
        one_hot = nn.functional.one_hot(kinds, 2).float()
        return self.head(one_hot) * (one_hot @ self.scales)

def begun_from(path, device):
    saved = torch.load(path)
    return Scaled(saved["scales"], device)

file = io.BytesIO()
torch.save({"scales": torch.ones(2, device="cuda:1")}, file)
file.seek(0)

def resumed(device):
    model = begun_from(file, device)
    return model(torch.tensor([0, 1], device=device))

resumed("cuda:0")

# === averages of parameters beside an optimizer that knows nothing of them
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# fix: average.lerp_(parameter.data.to(average.device), 0.1)
class Shadow:
    def __init__(self, model):
        self.kept = [copy.deepcopy(each.data) for each in model.parameters()]
class Training:
    def __init__(self, model):
        self.shadow = Shadow(model)
        self.model = model.to("cuda:0")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def follow(self):
        for average, parameter in zip(self.shadow.kept, self.model.parameters()):
            average.lerp_(parameter.data, 0.1)
Training(nn.Linear(3, 2)).follow()

# === slow weights that are copied back into a layer
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# fix: slow.lerp_(parameter.data.to(slow.device), 0.5)
class SlowWeights:
    def __init__(self, layer):
        self.layer = layer
        self.slow = [each.detach().clone() for each in layer.parameters()]
    @torch.no_grad()
    def step(self):
        for slow, parameter in zip(self.slow, self.layer.parameters()):
            slow.lerp_(parameter.data, 0.5)
            parameter.copy_(slow)
def taught(layer):
    ahead = SlowWeights(layer)
    layer.to("cuda:0")
    ahead.step()
taught(nn.Linear(3, 2))

# === what a hook has kept since a layer was constructed
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# says: has kept it
# fix: return grad * kept.to(grad.device)
def only(kept):
    def hook(grad):
        return grad * kept
    return hook
class Pruned(nn.Linear):
    def __init__(self, width, device=None):
        super().__init__(width, width, device=device)
        kept = torch.ones_like(self.weight).tril()
        self.weight.register_hook(only(kept))
def pruned(width):
    return Pruned(width)
pruned(3).to("cuda:0")(torch.ones(2, 3, device="cuda:0")).sum().backward()

# === a list that another branch makes a module
# category: state-not-registered
# confidence: medium
# repairs: cause
# fix: self.rungs = nn.ModuleList(rungs)
class Ladder(nn.Module):
    def __init__(self, whole):
        super().__init__()
        rungs = [nn.Linear(3, 3), nn.Linear(3, 2)]
        self.rungs = rungs
        if whole:
            self.rungs = nn.Sequential(*self.rungs)
    def forward(self, x):
        for rung in self.rungs:
            x = rung(x)
        return x
Ladder(whole=False).to("cuda:0")(torch.ones(2, 3, device="cuda:0"))
