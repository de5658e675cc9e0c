"""Causes that are found through methods: of objects that keep a device, of models that call their own."""

import torch
from torch import nn

# === a device made of a parameter that a call leaves out
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: net.fit(torch.ones(3, 2), device=device)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)

    def fit(self, data, steps=2, device="cpu"):
        device = torch.device(device)
        for _ in range(steps):
            x = data.clone().to(device)
            self(x)

device = torch.device("cuda:0")
net = Net().to(device)
net.fit(torch.ones(3, 2))

# === a model that was never moved, whose own method calls its parts
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: return model.to(batch["codes"].device).answer(batch)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes, self.out = nn.Embedding(4, 2), nn.Linear(2, 2)

    def answer(self, given):
        codes = self.codes(given["codes"])
        return self.out(codes)

def asked(model, batch):
    return model.answer(batch)

asked(Model(), {"codes": torch.tensor([1, 2]).to("cuda:0")})

# === one of several that a constructor makes without the device it is given
# category: cached-state-elsewhere
# confidence: low
# repairs: cause
# fix: self.energies = torch.tensor([0.0] * count, device=self.equal.device)
class Window:
    def __init__(self, count, device):
        self.equal = torch.zeros(count, dtype=torch.bool, device=device)
        self.energies = torch.tensor([0.0] * count)

    def compare(self, energies):
        torch.eq(energies, self.energies, out=self.equal)

def watched(spins):
    window = Window(3, spins.device)
    window.compare(spins.sum(0))

watched(torch.ones(2, 3).to("cuda:0"))

# === a batch whose tensors are computed with one by one, beside what is no tensor
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: return model({key: value.to(next(model.parameters()).device) if hasattr(value, "to") else value for key, value in batch.items()})
class Node(nn.Module):
    def __init__(self, keys):
        super().__init__()
        self.keys, self.output, self.layer = keys, "y", nn.Linear(2, 2)

    def forward(self, data):
        for key in self.keys:
            data[key] = data[key].detach().requires_grad_(True)
        data[self.output] = self.layer(torch.cat([data[key] for key in self.keys], dim=-1))
        return data

class Problem(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nn.ModuleList(nodes)

    def forward(self, data):
        output = dict(data)
        for node in self.nodes:
            output = node(output)
        return output

def trained(model, loader):
    for epoch, batch in enumerate(loader):
        batch["epoch"] = epoch
        return model(batch)

trained(Problem([Node(["x", "t"])]).to("cuda:0"), [{"x": torch.ones(3, 1), "t": torch.zeros(3, 1)}])

# === what a module's forward has kept in the place of None
# category: cached-state-elsewhere
# confidence: medium
# repairs: cause
# says: is kept from an earlier call
# fix: places = self.places(x).to(x.device)
class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rates", torch.ones(2))
        self.kept = None

    def forward(self, x):
        if self.kept is not None and self.kept.shape == x.shape:
            return self.kept
        self.kept = torch.arange(len(x), device=x.device)[:, None] * self.rates
        return self.kept

class Adds(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = Places()

    def forward(self, x):
        places = self.places(x)
        return x + places

def counted(model):
    model(torch.ones(3, 2))

model = Adds()
counted(model)
model.to("cuda:0")
model(torch.ones(3, 2).to("cuda:0"))

# === made by a method that calls one which says the object's device
# category: default-or-current-device
# confidence: low
# repairs: cause
# says: lies where self._device of a Windows says
# fix: kernel = self.kernel(2).to(windows.device)
# also: canvas[:2] += (window * kernel).to(canvas.device)
# also: counts[:2] += kernel.to(counts.device)
class HasDevice:
    def __init__(self, device="cpu"):
        self._device = device

class Windows(HasDevice):
    def line(self, size):
        return torch.ones(size, device=self._device)

    def kernel(self, size):
        line = [self.line(size) for _ in range(2)]
        return torch.outer(*line)

    def together(self, windows):
        kernel = self.kernel(2)
        canvas = torch.zeros(*windows.shape[1:], device=self._device)
        counts = torch.zeros(*windows.shape[1:], device=self._device)
        for window in windows:
            canvas[:2] += window * kernel
            counts[:2] += kernel
        return canvas / counts

Windows().together(torch.ones(2, 2, 2).to("cuda:0"))

# === a model on the CPU that takes what it is given to the GPU
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: wherever Answers is
# fix: kinds = torch.as_tensor(kinds).to(x.device)
class Answers(nn.Module):
    def __init__(self):
        super().__init__()
        self.kinds, self.out = nn.Embedding(3, 2), nn.Linear(2, 1)

    def forward(self, x, kinds):
        kinds = torch.as_tensor(kinds).to("cuda")
        return self.out(x + self.kinds(kinds))

Answers()(torch.ones(2, 2), [0, 1])

# === parts of a base class's constructor, beside what each object was given
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: self.down = nn.Linear(2, 1).to(next(self.base.parameters()).device)
# also: self.up = nn.Linear(1, 2).to(next(self.base.parameters()).device)
class Beside(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Linear(2, 1)
        self.up = nn.Linear(1, 2)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))

class BesideLinear(Beside):
    pass

class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.two(self.one(x))

layers = Layers().to("cuda:0")
layers.one, layers.two = BesideLinear(layers.one), BesideLinear(layers.two)
layers(torch.ones(3, 2).to("cuda:0"))

# === put elsewhere by an attribute, in a function that has a parameter for a device as well
# category: default-or-current-device
# confidence: low
# repairs: line
# fix: return x - mean.to(x.device)
class Pipeline:
    def __init__(self):
        self.device = torch.device("cpu")

    def prepared(self, x, device):
        x = x.to(device)
        mean = torch.tensor([1.0, 2.0]).to(self.device)
        return x - mean

def started(pipeline, x):
    steps = torch.ones(2, device="cuda:0")
    return pipeline.prepared(x, "cuda:0") + steps

started(Pipeline(), torch.ones(2, 2))
