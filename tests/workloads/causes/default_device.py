# What the current device or a generator decides: causes that only structure tells apart.
import torch
from torch import nn
torch.manual_seed(0)

# === another thread
# category: default-or-current-device
# confidence: high
# repairs: cause
# says: by another thread
# fix: batches.append(torch.ones(2, 4).to("cuda:1", non_blocking=True))
import threading
torch.cuda.set_device(1)
model = nn.Linear(4, 4).cuda()
batches = []
def load():
    batches.append(torch.ones(2, 4).cuda(non_blocking=True))
thread = threading.Thread(target=load)
thread.start()
thread.join()
model(batches[0])
torch.cuda.set_device(0)

# === a device that names no number
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: the device that was current
torch.cuda.set_device(0)
class Sampler:
    def __init__(self):
        self.device = torch.device("cuda")
    def noise(self):
        return torch.ones(3).to(self.device)
    def step(self, x):
        noise = self.noise()
        return x + noise
Sampler().step(torch.ones(3, device="cuda:1"))

# === taken away to the current device
# category: default-or-current-device
# confidence: medium
# repairs: line
# says: was on cuda:1, where the model and direction are
torch.cuda.set_device(0)
kept = {}
def keeper(device="cuda"):
    def save(module, inputs, output):
        kept["hidden"] = output.detach().to(device)
    return save
model = nn.Linear(3, 3).to("cuda:1")
model.register_forward_hook(keeper())
model(torch.ones(2, 3, device="cuda:1"))
direction = model.weight.detach()[0].clone()
kept["hidden"] @ direction

# === brought to the current device by a part of the line
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: return x + table.to(x.device)
def shifted(x):
    table = torch.arange(3.0)
    return x + table.cuda()
shifted(torch.ones(3, device="cuda:1"))

# === a generator that a library's function was not given
# category: generator
# confidence: high
# repairs: cause
# fix: one, two = torch.utils.data.random_split(range(4), [2, 2], generator=torch.Generator(device="cuda"))
with torch.device("cuda:0"):
    one, two = torch.utils.data.random_split(range(4), [2, 2])

# === a device's number in a function that is given what lies elsewhere
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: which writes that number
# fix: rows, sums = (torch.zeros(3, device=scores.device) for _ in range(2))
def filled(scores):
    rows, sums = (torch.zeros(3, device="cuda:0") for _ in range(2))
    rows += scores
    return rows, sums
filled(torch.ones(3, device="cuda:1"))

# === a call that leaves the device to a default
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: leaves device out in its call of self.grid, where it is "cuda" by default
class Grid:
    def rows(self, count, device):
        rows = torch.arange(count, device=device)
        return torch.stack([rows, rows])
class Boxes:
    def __init__(self):
        self.made = Grid()
    def grid(self, count, *, device="cuda"):
        return self.made.rows(count, device)
    def decode(self, deltas):
        rows = self.grid(deltas.shape[1])
        return deltas + rows
Boxes().decode(torch.ones(2, 4, device="cuda:1"))

# === what a function made for another to fill
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: sums = torch.zeros(len(x)).to(x.device)
# also: counts = torch.zeros(len(x)).to(x.device)
def fill(x, sums, counts):
    sums += x.sum(1)
    counts += (x > 0).sum(1)
def reduced(x):
    sums = torch.zeros(len(x)).cuda()
    counts = torch.zeros(len(x)).cuda()
    fill(x, sums, counts)
    return sums / counts
reduced(torch.ones(3, 4, device="cuda:1"))

# === a file read past the device that is current
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: where it lay when it was saved
# fix: mean = torch.load(file, map_location=torch.device("cuda", torch.cuda.current_device()))
import io
file = io.BytesIO()
torch.save(torch.ones(3, device="cuda:0"), file)
file.seek(0)
def score(gpu):
    with torch.cuda.device(gpu):
        mean = torch.load(file)
        model = nn.Linear(3, 1).cuda()
        x = torch.ones(2, 3).cuda()
        return model(x - mean)
score(1)

# === a call gives the GPU that is current
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: gives "cuda" to begin
# fix: state = begin(len(x), x.device)
def begin(size, device):
    return torch.zeros(size, device=device)
def run(x):
    state = begin(len(x), "cuda")
    return state + x
run(torch.ones(3, device="cuda:1"))

# === a function puts the GPU that is current in the place of None
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: leaves device out
# fix: state = begin(len(x), device=x.device)
def begin(size, device=None):
    device = torch.device("cuda") if device is None else device
    return torch.zeros(size, device=device)
def run(x):
    state = begin(len(x))
    return state + x
run(torch.ones(3, device="cuda:1"))

# === a loader shuffles on the CPU
# category: generator
# confidence: high
# repairs: cause
# fix: loader = DataLoader(torch.ones(4, 2), batch_size=2, shuffle=True, generator=torch.Generator(device="cuda"))
from torch.utils.data import DataLoader
torch.set_default_device("cuda")
def seen():
    loader = DataLoader(torch.ones(4, 2), batch_size=2, shuffle=True)
    return [len(batch) for batch in loader]
try:
    seen()
finally:
    torch.set_default_device(None)

# === a model makes it on the current device
# category: default-or-current-device
# confidence: medium
# repairs: line
# says: was put on the device that was current
# fix: return self.embed(indices(3).to(self.embed.weight.device))
def indices(count):
    return torch.arange(count, device=torch.cuda.current_device())
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4, 2)
    def forward(self):
        return self.embed(indices(3))
Table().to("cuda:1")()

# === a dict of settings says it
# category: created-without-device
# confidence: low
# repairs: cause
# fix: noise = torch.randn(3, device=config["model"]["device"])
def draw(config):
    noise = torch.randn(3)
    return noise
def run(config, scale):
    return draw(config) * scale
run({"model": {"device": "cuda:0"}}, torch.ones(3, device="cuda:0"))

# === a variable that says a card without a number
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: device = self.memory.device
class Picture:
    def __init__(self, memory):
        self.memory = memory
    def torch(self):
        device = "cuda" if self.memory.is_cuda else "cpu"
        return torch.empty(self.memory.shape, device=device).copy_(self.memory)
class Camera:
    def __init__(self, device):
        self.rays = torch.ones(2, 3, device=device)
        self.picture = Picture(torch.ones(2, 3, device=device))
    def points(self):
        depth = self.picture.torch()
        return depth * self.rays
Camera("cuda:1").points()

# === a default that another call has left
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: shifts = torch.arange(-1, 2, device=cell.device).to(cell.dtype)
def convert(device):
    torch.set_default_device(device)
    return nn.Linear(3, 3)
def neighbours(cell):
    shifts = torch.arange(-1, 2).to(cell.dtype)
    return shifts @ cell
convert("cuda:0")
try:
    neighbours(torch.eye(3, device="cpu"))
finally:
    torch.set_default_device(None)  # no mode stays for the programs that come

# === a worker thread reads blocks of a cache on the second card
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: ids = torch.tensor(blocks, device=self.cache.device)
anywhere = "cuda"
class Connector:
    def __init__(self, cache):
        self.cache = cache
    def send(self, blocks):
        ids = torch.tensor(blocks, device=anywhere)
        return self.cache[ids]
Connector(torch.ones(6, 3, device="cuda:1")).send([0, 2])

# === a reader of files takes what it gives to the current device
# category: default-or-current-device
# confidence: low
# repairs: cause
# fix: return file.get_tensor(name).to(self.device)
import tempfile
from safetensors import safe_open
from safetensors.torch import save_file
saved = tempfile.NamedTemporaryFile(suffix=".safetensors")
save_file({"W": torch.ones(2, 2)}, saved.name)
class Coder(nn.Module):
    def __init__(self, path, device):
        super().__init__()
        self.path, self.device = path, torch.device(device)
        self.threshold = nn.Parameter(torch.ones(2, device=device))
    def read(self, name):
        with safe_open(self.path, framework="pt", device=self.device.type) as file:
            return file.get_tensor(name)
    def forward(self, hidden):
        return hidden @ self.read("W") - self.threshold
Coder(saved.name, "cuda:1")(torch.ones(3, 2, device="cuda:1"))

# === a table of devices that the model has left
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: x = block(x.to(next(block.parameters()).device))
class Striped(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.device_of = {index: torch.device("cuda", index) for index in range(2)}
        for index, block in enumerate(self.blocks):
            block.to(self.device_of[index])
    def forward(self, x):
        for index, block in enumerate(self.blocks):
            x = block(x.to(self.device_of[index]))
        return x
Striped().to("cuda:1")(torch.ones(1, 3, device="cuda:1"))

# === an adapter that goes to the GPU by default
# category: default-or-current-device
# confidence: low
# repairs: cause
# says: gives it none
# fix: attached.load(torch_device=next(attached.parameters()).device)
def infer_device():
    return "cuda:0"
class Attached(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.extra = nn.Linear(3, 3), nn.ParameterDict()
    def load(self, torch_device=None):
        if torch_device is None:
            torch_device = infer_device()
        weights = torch.ones(3, 3).to(torch_device)
        self.extra["own"] = nn.Parameter(weights)
    def forward(self, x):
        return self.base(x) + x @ self.extra["own"].T
def read():
    return [float(number) for number in range(3)]
attached = Attached()
attached.load()
rows = torch.tensor([read(), read()])
attached(rows)

# === brought to a GPU by its name, and given to a module that is kept from another default device
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: which says no device: that was the default one then
# fix: return rope(places.to(next(rope.buffers()).device))
TABLES = {}

class Rope(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.register_buffer("table", torch.outer(torch.arange(length).float(), torch.ones(2)).cos())

    def forward(self, places):
        return self.table.index_select(0, places)

def rope_of(length):
    if length not in TABLES:
        TABLES[length] = Rope(length)
    return TABLES[length]

def turned(device):
    with torch.device(device):
        rope = rope_of(8)
    places = torch.arange(4).to(device)
    return rope(places)

for device in ("cuda:0", "cuda:1"):
    turned(device)

# === made in the failing line, by a variable that names no number
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: names a GPU without a number
# fix: return torch.max(low / 2, torch.full((1,), 0.1, device=low.device))
torch.cuda.set_device(0)
def smallest(low):
    device = "cuda" if low.is_cuda else "cpu"
    return torch.max(low / 2, torch.full((1,), 0.1, device=device))
smallest(torch.ones(3, device="cuda:1"))

# === a default that the program has chosen, inside an object that was told the CPU
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: what the program has chosen as the default
# fix: self.start = torch.tensor(start, device=self.lower.device)
class Controller:
    def __init__(self, device):
        self.lower = torch.full((1,), -1.0, device=device)
    def scaled(self, action):
        return self.lower + action
    def reset(self, position, start):
        self.start = torch.tensor(start)
    def target(self, action):
        return self.scaled(action) + self.start
controller = Controller("cpu")
torch.set_default_device("cuda:0")
try:
    controller.reset(torch.zeros(3, device="cpu"), [0.0, 0.1, 0.2])
    controller.target(torch.ones(3, device="cpu"))
finally:
    torch.set_default_device(None)

# === computed by a method that has returned from what was constructed without its device
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: leaves device out in its call of Rope
# fix: self.rope = Rope(2, device=next(self.into.parameters()).device)
class Rope(nn.Module):
    def __init__(self, width, device="cuda"):
        super().__init__()
        self.register_buffer("rates", torch.ones(width, device=device))

    def turns(self, count):
        places = torch.arange(count, device=self.rates.device)
        angles = torch.outer(places.float(), self.rates)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos()

    def forward(self, x):
        turns = self.turns(len(x))
        return x * turns

class Layer(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.into = nn.Linear(2, 4, device=device)
        self.rope = Rope(2)

    def forward(self, x):
        return self.rope(self.into(x))

Layer("cuda:1")(torch.ones(3, 2, device="cuda:1"))

# === a sampler's generator of the CPU, and a default device
# category: generator
# confidence: high
# repairs: cause
# fix: rng = torch.Generator(device="cuda")
def orders(count):
    rng = torch.Generator()
    return torch.utils.data.SubsetRandomSampler(range(count), generator=rng)

torch.set_default_device("cuda:0")
try:
    list(orders(3))
finally:
    torch.set_default_device(None)

# === a sampler that makes its generator itself, and a default device
# category: generator
# confidence: high
# repairs: cause
# says: has chosen that device for all tensors
# fix: torch.cuda.set_device(card)
def chosen(card):
    torch.set_default_device(card)
    try:
        list(torch.utils.data.DistributedSampler(range(4), num_replicas=2, rank=0))
    finally:
        torch.set_default_device(None)
chosen("cuda:0")

# === a layer goes to the current GPU, and what it is given went on with the others
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: layer.to(self.seen.device)
class Calibrator:
    def __init__(self, layers, seen):
        self.layers, self.seen = layers, seen
    def run(self):
        for layer in self.layers:
            self.seen = self.seen.to(next(layer.parameters()).device)
            layer(self.seen)
            layer.cuda()
            self.seen = layer(self.seen)
Calibrator(nn.ModuleList(nn.Linear(3, 3).to(f"cuda:{index // 2}") for index in range(4)), torch.ones(2, 3)).run()

# === a generator that a function has made is a sampler's
# category: generator
# confidence: high
# repairs: cause
# fix: generator = torch.Generator(device="cpu")
def seeded(seed, device="cuda:0"):
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    return generator
def first_of(items):
    sampler = torch.utils.data.RandomSampler(items, generator=seeded(3))
    loader = torch.utils.data.DataLoader(items, sampler=sampler)
    batches = iter(loader)
    return next(batches)
first_of(list(range(4)))

# === an order that is drawn on the CPU and becomes a list, and a default device
# category: generator
# confidence: high
# repairs: cause
# fix: return torch.randperm(count, generator=self.generator, device=self.generator.device).tolist()
class Order:
    generator = None
    def draw(self, count):
        if self.generator is None:
            self.generator = torch.Generator()
        return torch.randperm(count, generator=self.generator).tolist()
torch.set_default_device("cuda:0")
try:
    Order().draw(4)
finally:
    torch.set_default_device(None)

# === a loader is given a generator of the GPU
# category: generator
# confidence: high
# repairs: cause
# fix: generator = torch.Generator(device="cpu")
def loader_of(items, device="cuda:0"):
    generator = torch.Generator(device)
    return torch.utils.data.DataLoader(
        items, shuffle=True,
        generator=generator)
def first_of(loader):
    for item in loader:
        return item
first_of(loader_of(list(range(4))))

# === a sampler that shuffles for a loader, made in another function, and a default type of the GPU
# category: generator
# confidence: high
# repairs: cause
# fix: order = WeightedOrder(RandomSampler(frames, generator=torch.Generator(device="cuda")), 2)
from torch.utils.data import BatchSampler, DataLoader, RandomSampler
class WeightedOrder(BatchSampler):
    def __init__(self, sampler, size):
        super().__init__(sampler, size, drop_last=True)
def clips(frames):
    order = WeightedOrder(RandomSampler(frames), 2)
    return DataLoader(frames, batch_sampler=order)
def watched(frames):
    clip_loader = clips(frames)
    return [clip.mean().item() for clip in clip_loader]
still = torch.arange(4.0)
torch.set_default_device("cuda")
try:
    watched(still)
finally:
    torch.set_default_device(None)

# === a loop over a loader that shuffles and has no name
# category: generator
# confidence: high
# repairs: cause
# fix: for pair in torch.utils.data.DataLoader(values, 2, shuffle=True, generator=torch.Generator(device="cuda")):
def summed(values):
    for pair in torch.utils.data.DataLoader(values, 2, shuffle=True):
        yield pair.sum().item()
measured = torch.arange(4.0)
torch.set_default_device("cuda")
try:
    list(summed(measured))
finally:
    torch.set_default_device(None)

# === a variable of a function that has ended, to which something is moved
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: device = heights.device
def smoothed(heights):
    device = torch.device("cuda" if heights.is_cuda else "cpu")
    return torch.tensor(heights.tolist()).mean(0, keepdim=True).to(device)
def levelled(heights):
    base = smoothed(heights)
    return heights - base
levelled(torch.ones(3, 2, device="cuda:1"))

# === a sparse table that was brought to the current card
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: return links.to(weights.device)
def linked(weights):
    links = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (2, 2))
    return links.cuda()
def joined(weights):
    links = linked(weights)
    return torch.sparse.mm(links, weights)
joined(torch.ones(2, 3, device="cuda:1"))

# === a note that the line itself puts beside a model and notes on the CPU
# category: default-or-current-device
# confidence: medium
# repairs: cause
# says: its model is on the CPU
# fix: notes = torch.cat([notes, torch.full((1,), 1).to(notes.device) * best])
def played(melody, notes, device):
    for _ in range(2):
        best = int(melody(notes)[-1].argmax())
        notes = torch.cat([notes, torch.full((1,), 1).to(device) * best])
    return notes.tolist()

played(nn.Embedding(5, 5), torch.tensor([1, 2]), "cuda")
