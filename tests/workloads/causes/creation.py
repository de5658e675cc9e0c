# Tensors that a line makes without a device: causes that only structure tells apart.
import torch
from torch import nn
torch.manual_seed(0)

# === what a result was computed from
# category: created-without-device
# confidence: medium
# repairs: cause
# says: was computed from seen
# says: says no device
def scores(query):
    seen = torch.ones(4, 4, dtype=torch.bool).tril()
    return torch.zeros(4, 4, device=query.device).masked_fill(seen.logical_not(), -1.0) + query
scores(torch.ones(4, 4, device="cuda:0"))

# === drawn inside a model
# category: created-without-device
# confidence: medium
# repairs: cause
# says: says no device
class Blend(nn.Module):
    def chances(self, x):
        draws = torch.rand(len(x))
        return {"apply": draws < 0.5}
    def forward(self, x):
        apply = self.chances(x)["apply"]
        return torch.where(apply, x, -x)
Blend()(torch.ones(4, device="cuda:0"))

# === made in the failing line
# category: created-without-device
# confidence: medium
# repairs: cause
# says: says no device
def means(x):
    low, high = x.aminmax()
    return torch.rand(4) * (high - low)
means(torch.ones(3, device="cuda:0"))

# === a function in the closure of an optimizer
# category: created-without-device
# confidence: medium
# repairs: cause
# says: was made on cpu
# fix: spread = nn.Parameter(torch.zeros(3, device=QUANTILES.device))
QUANTILES = torch.linspace(-1, 1, 5).to("cuda:0")
def likelihood(spread):
    return (spread[:, None] * QUANTILES).sum()
spread = nn.Parameter(torch.zeros(3))
optimizer = torch.optim.Adam([spread])
def closure():
    optimizer.zero_grad()
    loss = likelihood(spread)
    loss.backward()
    return loss
optimizer.step(closure)

# === a model in the closure of an optimizer
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: rows = torch.ones(2, 4, device=next(self.parameters()).device)
class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 2)
    def forward(self):
        rows = torch.ones(2, 4)
        return self.mix(rows).sum()
def trained(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def closure():
        loss = model()
        loss.backward()
        return loss
    return optimizer.step(closure)
trained(Step().to("cuda:0"))

# === tied weights, and what the model makes for itself
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: ids = torch.arange(3, device=next(self.parameters()).device)
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Module(), nn.Module()
        self.inner.table = nn.Embedding(5, 4)
        self.outer.table = self.inner.table
    def forward(self):
        ids = torch.arange(3)
        return self.inner.table(ids)
Tied().to("cuda:0")()

# === made in the function for a device that a property says
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: mean = torch.tensor([1.0, 2.0]).to(encoded.device, torch.float32)
class Pipe:
    def __init__(self, part):
        self.part = part
    @property
    def device(self):
        return torch.device("cpu")
    def __call__(self, image):
        encoded = self.part(image)
        mean = torch.tensor([1.0, 2.0]).to(self.device, torch.float32)
        return encoded - mean
Pipe(nn.Linear(4, 2).to("cuda:0"))(torch.ones(3, 4, device="cuda:0"))

# === a part that is constructed when the model has moved
# category: created-without-device
# confidence: medium
# repairs: cause
# says: apart from it
# fix: head = Head(5).to(self.device)
class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(4, width)
    def forward(self, x):
        return self.out(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), Head(2)
    def forward(self, x):
        return self.head(self.body(x))
class Runner:
    def __init__(self, device):
        self.device = device
        self.model = self.load()
    def load(self):
        model = Net().to(self.device)
        head = Head(5)
        model.head = head
        return model
runner = Runner("cuda:0")
runner.model(torch.ones(1, 4, device="cuda:0"))

# === a module that every call constructs
# category: created-without-device
# confidence: medium
# repairs: cause
# says: is constructed in this call
# fix: norm = nn.LayerNorm(4).to(x.device)
def normalized(x):
    norm = nn.LayerNorm(4)
    return norm(x)
normalized(torch.ones(1, 4, device="cuda:0"))

# === a line constructs what it asks
# category: created-without-device
# confidence: medium
# repairs: cause
# says: is constructed by
# fix: return MulticlassF1Score(num_classes=3).to(labels.device)(labels, labels)
from torchmetrics.classification import MulticlassF1Score
def score(labels):
    return MulticlassF1Score(num_classes=3)(labels, labels)
score(torch.arange(3, device="cuda:0"))

# === parts that were put into a list first
# category: created-without-device
# confidence: low
# repairs: cause
# fix: masks.append(torch.ones(size, device=x.device))
def masks_of(x, sizes):
    masks = []
    for size in sizes:
        masks.append(torch.ones(size))
    return torch.cat(masks)
def run(layer, x):
    masks = masks_of(x, (1, 2))
    return layer(x) * masks
run(nn.Linear(3, 3).to("cuda:0"), torch.ones(2, 3, device="cuda:0"))

# === a line below puts a new tensor beside it
# category: created-without-device
# confidence: medium
# repairs: line
# also: return index[:, None] + torch.arange(self.length, device=index.device), first
class Sampler:
    def __init__(self):
        self.length = 3
    def sample(self, ends):
        index = torch.multinomial(torch.ones(4), 2, generator=torch.Generator().manual_seed(0))
        owner = index.unsqueeze(0) == ends.unsqueeze(1)
        first = owner.int().argmax(0)
        return index[:, None] + torch.arange(self.length), first
Sampler().sample(torch.arange(4, device="cuda:0"))

# === a list whose second element is not always there
# category: created-without-device
# confidence: low
# repairs: line
class Steps:
    def __init__(self):
        self.sizes = torch.linspace(0, 1, 4)
    def step(self, sample, order):
        ratios = [self.sizes[number + 1] for number in range(order)]
        ratios.append(torch.ones((), device=sample.device))
        return torch.stack(ratios).sum() * sample
steps, sample = Steps(), torch.ones(2, device="cuda:0")
for order in range(2):
    sample = steps.step(sample, order)

# === a constructor that had words for the device
# category: created-without-device
# confidence: medium
# repairs: cause
# says: where start.device is cuda:0
# fix: self.scores = torch.zeros(2, 1, device=start.device)
# also: self.ended = torch.zeros(2, 1, dtype=torch.bool, device=start.device)
class State:
    def __init__(self, start):
        self.last = start
        self.scores = torch.zeros(2, 1)
        self.ended = torch.zeros(2, 1, dtype=torch.bool)
    def step(self, scores):
        self.scores, self.ended = scores, self.ended | (scores > 0)
def search(model, start):
    state = State(start)
    scores = model(state.last)
    state.step(scores + state.scores[..., None].squeeze(-1))
search(nn.Linear(4, 1).to("cuda:0"), torch.ones(2, 4, device="cuda:0"))

# === a part that comes when the model has been moved
# category: created-without-device
# confidence: medium
# repairs: cause
# says: no move of the model came after that
# fix: self.head.add_module("out", nn.Linear(4, classes).to(next(self.parameters()).device))
class Part(nn.Module):
    def forward(self, x):
        return self.out(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), Part()
    def add(self, classes):
        self.head.add_module("out", nn.Linear(4, classes))
    def forward(self, x):
        return self.head(self.body(x))
def run(device):
    model = Net().to(device)
    model.add(3)
    return model(torch.ones(1, 4, device=device))
run("cuda:0")

# === a distribution of two tensors
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: base = torch.distributions.Normal(torch.zeros(3, device=x.device), torch.ones(3, device=x.device))
def score(x):
    base = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    return base.log_prob(x)
score(torch.ones(2, 3, device="cuda:0"))

# === a line moves what it goes through, and what its call gives has come from elsewhere
# category: created-without-device
# confidence: low
# repairs: cause
# says: was computed from mean
# fix: mean = collect(model, [each.to(device) for each in batches]).to(device)
def collect(model, batches):
    total = torch.zeros(4)
    for batch in batches:
        total += model(batch).detach().mean(0).cpu()
    return total / len(batches)
def run(device):
    batches = [torch.ones(2, 4), torch.ones(3, 4)]
    model = nn.Linear(4, 4).to(device)
    mean = collect(model, [each.to(device) for each in batches])
    return model(batches[0].to(device)) + 0.5 * mean
run("cuda:0")

# === an array's namespace makes a tensor
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: steps = xp.arange(4, dtype=center.dtype, device=direction.device)
def sample(center, direction, xp=torch):
    steps = xp.arange(4, dtype=center.dtype)
    return center + steps[:, None] * direction
sample(torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:0"))

# === two properties in one line
# category: created-without-device
# confidence: low
# repairs: line
# fix: return (images - self.mean.to(images.device)) / self.std.to(images.device) * self.gain
class Normalizer:
    @property
    def mean(self):
        return torch.tensor([0.5, 0.4])
    @property
    def gain(self):
        return 2.0
    @property
    def std(self):
        values = [0.2, 0.1]
        return torch.tensor(values)
    def __call__(self, images):
        return (images - self.mean) / self.std * self.gain
Normalizer()(torch.ones(1, 2, device="cuda:0"))

# === a call in the line gave it
# category: created-without-device
# confidence: low
# repairs: line
# says: where nothing is that the line names
# fix: return x + (self.step * self.noise(x.shape)).to(x.device)
class Sampler:
    def __init__(self, step):
        self.step, self.generator = step, torch.Generator()
    def noise(self, shape):
        return torch.randn(shape, generator=self.generator)
    def sample(self, x):
        return x + self.step * self.noise(x.shape)
Sampler(0.1).sample(torch.ones(3, device="cuda:0"))

# === computed with what a call gave
# category: created-without-device
# confidence: low
# repairs: cause
# says: with what a call in that line gave
# fix: keep = (decays(3, 0.5) + 0.1).to(high.device)
def decays(steps, rate):
    return torch.tensor([rate**step for step in range(steps)])
def blend(x):
    low, high = x - 1.0, x + 1.0
    keep = decays(3, 0.5) + 0.1
    return high * (1 - keep) + low * keep
blend(torch.ones(3, device="cuda:0"))

# === counted out by a function that gives more than that back
# category: created-without-device
# confidence: low
# repairs: cause
# says: which says no device
# fix: return torch.arange(inputs[0].numel(), device=inputs.device).view(inputs[0].shape)
def features_of(inputs):
    return torch.arange(inputs[0].numel()).view(inputs[0].shape)
def ablated(inputs, mask):
    current = torch.stack([(mask == feature).float() for feature in range(2)])[:, None]
    copies = inputs[None].expand(2, *inputs.shape)
    keep = 1 - current
    return copies * keep
def attribute(inputs):
    mask = features_of(inputs)
    return ablated(inputs, mask)
attribute(torch.ones(2, 3).to("cuda:0"))

# === labels of both sides in one line
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: ones, zeros = torch.ones(len(real), 1, device=real.device), torch.zeros(len(real), 1, device=real.device)
class Critic:
    def __init__(self, device):
        self.judge, self.loss = nn.Linear(3, 1).to(device), nn.BCEWithLogitsLoss()
    def step(self, real, fake):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        return self.loss(self.judge(real), ones) + self.loss(self.judge(fake), zeros)
Critic("cuda:0").step(torch.ones(4, 3, device="cuda:0"), torch.ones(4, 3, device="cuda:0"))

# === what a reasoner thinks to begin with
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: high, low = (torch.zeros(size, self.dim, device=next(self.parameters()).device) for _ in range(2))
class Carry:
    def __init__(self, high, low):
        self.high, self.low = high, low
class Reasoner(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim, self.think = dim, nn.Linear(dim, dim)
    def empty(self, size):
        high, low = (torch.zeros(size, self.dim) for _ in range(2))
        return Carry(high, low)
    def forward(self, carry, x):
        return torch.where(x > 0, self.think(x), carry.high)
reasoner = Reasoner(4).to("cuda:0")
reasoner(reasoner.empty(2), torch.ones(2, 4, device="cuda:0"))

# === an identity beside the matrix of an object
# category: created-without-device
# confidence: low
# repairs: cause
# fix: identity = eye(2).to(matrix.device)
class Circuit:
    def __init__(self, device):
        self.gates = []
        self.angle = torch.ones((), device=device)
    def rotate(self):
        self.gates.append(torch.eye(2, device=self.angle.device) * self.angle)
def eye(size):
    return torch.eye(size)
def expanded(matrix):
    identity = eye(2)
    return torch.kron(matrix, identity)
circuit = Circuit("cuda:0")
circuit.rotate()
expanded(circuit.gates[0])

# === noise of a sampler that is told a shape
# category: created-without-device
# confidence: medium
# repairs: cause
# says: where condition.device is cuda:0
# fix: state = self.initial(condition.shape).to(condition.device)
class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(6, 3)
    def forward(self, noisy, condition):
        return self.step(torch.cat([noisy, condition], dim=1))
class Sampler:
    def initial(self, shape):
        return torch.randn(shape)
    def sample(self, flow, condition):
        state = self.initial(condition.shape)
        return flow(state, condition)
Sampler().sample(Flow().to("cuda:0"), torch.ones(2, 3).to("cuda:0"))

# === where each graph of a batch begins
# category: created-without-device
# confidence: medium
# repairs: line
# fix: return other.offsets.to(self.ends.device) + self.ends[-1]
class Graphs:
    def __init__(self, ends, offsets):
        self.ends, self.offsets = ends, offsets
    @classmethod
    def collate(cls, graphs):
        offsets = torch.tensor([0, *[len(each) for each in graphs[:-1]]]).cumsum(0)
        ends = torch.tensor([len(each) for each in graphs], device=graphs[0].device).cumsum(0)
        return cls(ends, offsets)
    def extend(self, other):
        return other.offsets + self.ends[-1]
graph = torch.ones(3, 2, device="cuda:0")
joined = Graphs.collate([graph, graph])
joined.extend(Graphs.collate([graph]))

# === a model that a method of its owner puts around one that was read
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: self.model = nn.Sequential(inner, nn.Linear(3, 2)).to(self.device)
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x).relu()

class Trainer:
    def __init__(self):
        self.device = torch.device("cuda:0")
        self.build()

    def build(self):
        inner = Inner()
        self.model = nn.Sequential(inner, nn.Linear(3, 2))

    def step(self, x):
        return self.model(x.to(self.device))

Trainer().step(torch.ones(2, 3))

# === a number that a module keeps, made a vector
# category: created-without-device
# confidence: low
# repairs: cause
# says: is of Species
# fix: species = Species().to(device)
class Species(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("charge", torch.tensor(-1.0))
def at_rest(count, device, total=None):
    species = Species()
    if total is None:
        total = species.charge * count
    return torch.ones(count, device=device) * total.unsqueeze(-1)
at_rest(3, "cuda:0")

# === what a function makes below, and computes with the same
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: steps = torch.arange(3, device=seconds.device)[:, None]
# also: row = torch.arange(2, device=seconds.device)[None]
# also: text = torch.arange(2, device=seconds.device) + places.max()
def positions(seconds):
    steps = torch.arange(3)[:, None]
    alone = torch.zeros(3)
    row = torch.arange(2)[None]
    count = int(alone.sum()) + 2
    time = (steps * seconds).expand(-1, count)
    places = torch.cat([time, row])
    text = torch.arange(2) + places.max()
    return torch.cat([places, text[None]]), alone.numpy()
positions(torch.ones(1, device="cuda:0"))

# === a buffer that a method of its module assigns, and PyTorch makes a mask of
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: self.mask = (owner[:, None] != owner[None]).to(next(self.attend.parameters()).device)
class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.zeros(0, 0, dtype=torch.bool), persistent=False)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)

    def classes(self, counts):
        owner = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        self.mask = owner[:, None] != owner[None]

    def forward(self, x):
        return self.attend(x, x, x, attn_mask=self.mask, need_weights=False)[0]

class Reader:
    def __init__(self, counts):
        self.model = Points().to("cuda:0").eval()
        self.model.classes(counts)

with torch.inference_mode():
    Reader([2, 1]).model(torch.ones(1, 3, 4, device="cuda:0"))

# === lengths that a method of a model is given
# category: created-without-device
# confidence: low
# repairs: cause
# says: which says no device
# fix: lengths = torch.tensor([mels.shape[1]], device=mels.device)
class Streamed(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(3, 4)
    def step(self, mels, lengths):
        fresh = self.encode(mels)
        return fresh * (torch.arange(fresh.shape[1], device=fresh.device) < lengths[:, None])[..., None]
class Backend:
    def __init__(self, device):
        self.model = Streamed().to(device)
    def step(self, mels):
        lengths = torch.tensor([mels.shape[1]])
        return self.model.step(mels, lengths)
Backend("cuda:0").step(torch.ones(1, 5, 3, device="cuda:0"))

# === weights that a loss is constructed with
# category: created-without-device
# confidence: medium
# repairs: cause
# says: which says no device
# fix: weight = torch.tensor([(labels == 0).sum().item() / 2.0], device=labels.device)
class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 1)
    def forward(self, x):
        return self.out(x)[:, 0]
def train(x, labels):
    model = Scores().to(x.device)
    weight = torch.tensor([(labels == 0).sum().item() / 2.0])
    criterion = nn.BCEWithLogitsLoss(pos_weight=weight)
    return criterion(model(x), labels)
train(torch.ones(2, 3, device="cuda:0"), torch.ones(2, device="cuda:0"))

# === what a module collects from call to call, some of it elsewhere
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: second = torch.tensor(0.0, device=next(self.parameters()).device)
class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.seen = nn.Linear(2, 1), []

    def losses(self, first, second):
        if second is None:
            second = torch.tensor(0.0)
        return first, second

    def step(self, x, both):
        loss = self.net(x).mean()
        self.seen.append(self.losses(loss, loss * 0.5 if both else None))

    def end(self):
        return torch.stack([second for _, second in self.seen])

trained = Trained().to("cuda:0")
for both in (False, True):
    trained.step(torch.ones(3, 2, device="cuda:0"), both)
trained.end()

# === a line says that it is to be on the CPU
# category: created-without-device
# confidence: low
# repairs: cause
# says: was made on cpu, as
# fix: places = torch.tensor(places, device=seen.device)
def gathered(seen, places):
    places = torch.tensor(places, device="cpu")
    return torch.gather(
        seen, 1, places.reshape(1, -1, 1).expand(-1, -1, seen.shape[2])
    )

gathered(torch.ones(1, 4, 3, device="cuda:0"), [1, 2])

# === computed by a function that has ended from what it made without a device
# category: created-without-device
# confidence: low
# repairs: cause
# says: which says no device
# fix: centre, axes = shape[:3].to(points.device), shape[3:].to(points.device)
def ellipsoid(size):
    centre = torch.full((size,), 0.5)

    axes = torch.full((size,), 0.3)

    shape = torch.cat((centre, axes))
    shape.requires_grad = True
    return shape

def distance(points, shape):
    centre, axes = shape[:3], shape[3:]
    return ((points - centre) / axes).norm(dim=1)

def fitted(points):
    shape = ellipsoid(3)
    return distance(points, shape)

fitted(torch.ones(4, 3, device="cuda:0") * 2)

# === the variable of a loop below is no word for a line above it
# category: created-without-device
# confidence: medium
# repairs: line
# fix: self.storage[name][slots] = value.to(self.storage[name].device)
class Rows:
    def __init__(self):
        self.storage = {"x": torch.zeros(4, 3)}
    def extend(self, batch):
        slots = torch.arange(2)
        for name, value in batch.items():
            self.storage[name][slots] = value
Rows().extend({"x": torch.ones(2, 3).to("cuda:0")})

# === of numbers that a running model has drawn itself
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: level = torch.from_numpy(np.random.RandomState(1).uniform(size=(2,))).float().to(next(self.parameters()).device)
import numpy as np
class Spiking(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Linear(2, 2)
    def forward(self, x, level=None):
        if level is None:
            level = torch.from_numpy(np.random.RandomState(1).uniform(size=(2,))).float()
        x = self.gain(x)
        for _ in range(2):
            level = level + x.sum()
        return level
Spiking().to("cuda:0")(torch.ones(1, 2, device="cuda:0"))

# === a table that grows while the model runs, whose move is dropped
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: table = table.to(self.table.device)
class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", self.made(2))
        self.scale = nn.Parameter(torch.ones(1))
    @staticmethod
    def made(length):
        return torch.zeros(length, 2)
    def forward(self, x):
        if len(x) > len(self.table):
            table = self.made(len(x))
            table.to(self.table.device)
            self.register_buffer("table", table)
        return self.table[x] * self.scale
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.positions = nn.Linear(2, 2), Positions()
    def forward(self, x):
        return self.layer(x) + self.positions(torch.arange(len(x), device=x.device))
Model().to("cuda:0")(torch.ones(3, 2, device="cuda:0"))

# === … and has none
# category: created-without-device
# confidence: medium
# repairs: line
# says: was made by Model while it runs
# fix: return self.table.to(x.device)[x] * self.scale
class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", self.made(2))
        self.scale = nn.Parameter(torch.ones(1))
    @staticmethod
    def made(length):
        return torch.zeros(length, 2)
    def forward(self, x):
        if len(x) > len(self.table):
            self.table = self.made(len(x))
        return self.table[x] * self.scale
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.positions = nn.Linear(2, 2), Positions()
    def forward(self, x):
        return self.layer(x) + self.positions(torch.arange(len(x), device=x.device))
Model().to("cuda:0")(torch.ones(3, 2, device="cuda:0"))

# === an old constructor in the failing line of a hook
# category: created-without-device
# confidence: medium
# repairs: line
# says: says no device
# fix: layer.seen += torch.LongTensor([len(given[0])]).to(layer.seen.device)
def count(layer, given, answer):
    layer.seen += torch.LongTensor([len(given[0])])
counted = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
for part in counted:
    part.register_buffer("seen", torch.zeros(1, dtype=torch.long))
    part.register_forward_hook(count)
counted.to("cuda:0")(torch.ones(4, 3, device="cuda:0"))

# === what NumPy is given stays where it is
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: steps = torch.FloatTensor(0.5 * torch.arange(4).numpy()).to(heights.device)
# also: slope = torch.stack([rises, widths.to(rises.device)])
def slopes(heights):
    steps = torch.FloatTensor(0.5 * torch.arange(4).numpy())
    rises = heights * steps
    widths = torch.FloatTensor(torch.full((4,), 2).numpy())
    slope = torch.stack([rises, widths])
    return slope[0] / slope[1]
slopes(torch.ones(4, device="cuda:0"))

# === what a function in an attribute gives to a library's
# category: created-without-device
# confidence: low
# repairs: line
# says: names nothing that lies there
# fix: return torch.stft(sound, 8, window=self.shape(8).to(sound.device), return_complex=True)
class Spectrum:
    def __init__(self, shape):
        self.shape = shape
    def of(self, sound):
        return torch.stft(sound, 8, window=self.shape(8), return_complex=True)
def heard(layer, sound):
    return Spectrum(torch.hann_window).of(layer(sound))
heard(nn.Linear(32, 32).to("cuda:0"), torch.ones(1, 32, device="cuda:0"))

# === a column of what a callable gives, and the path that is filled with it
# category: created-without-device
# confidence: low
# repairs: cause
# fix: noise = drawn(rate).to(rate.device)
# also: path = torch.empty(4, 3, device=rate.device)
def spread(rate):
    return torch.distributions.Normal(torch.tensor(0.0), torch.tensor(1.0)).icdf(torch.full((4, 3), 0.4))
def walked(rate, drawn):
    path = torch.empty(4, 3)
    path[:, 0] = 1.0
    noise = drawn(rate)
    for i in range(2):
        step = rate[:, i].sqrt() * noise[:, i]
        path[:, i + 1] = path[:, i] + step
    return path.exp() * rate
walked(torch.ones(4, 3, device="cuda:0"), spread)
