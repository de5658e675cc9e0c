# Causes that only structure tells apart: what holds a tensor, which thread chose its device, whose method is called.
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
# repairs: line
# says: a plain attribute of Predictor
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

# === results of two models
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# says: self.reference
class Trainer:
    def __init__(self):
        self.model, self.reference = nn.Linear(4, 2).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")
    def answers(self, model, x):
        return model(x.to(model.weight.device)).log_softmax(-1).sum(-1)
    def loss(self, chosen, reference):
        ratios = chosen - reference
        return ratios.mean()
    def step(self, x):
        return self.loss(self.answers(self.model, x), self.answers(self.reference, x))
Trainer().step(torch.ones(3, 4))

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

# === registered after all
# category: input-not-moved
# confidence: high
# repairs: cause
# says: is given to Net
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])
        self.order = list(self.layers)
    def forward(self, x):
        for layer in self.order:
            x = layer(x)
        return x
model = Net().to("cuda:1")
model(torch.ones(2, 4))

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

# === a replica calls the original
# category: data-parallel
# confidence: high
# repairs: cause
# says: is bound to _near
# fix: return self._near(x)
class Near(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)
        self.near = self._near
    def _near(self, x):
        return self.project(x)
    def forward(self, x):
        return self.near(x)
model = nn.DataParallel(Near().to("cuda:0"), device_ids=[0, 1])
model(torch.ones(4, 4, device="cuda:0"))

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

# === a value of a parameter group
# category: optimizer-state
# confidence: high
# repairs: cause
# says: param_groups[0]["total"]
# says: load_state_dict
class Counting(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(total=None))
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if group["total"] is None:
                    group["total"] = torch.zeros(1, device=p.device)
                group["total"].add_(p.grad.sum().reshape(1))
import io
model = nn.Linear(4, 1).to("cuda:0")
optimizer = Counting(model.parameters())
def step():
    model(torch.ones(2, 4, device="cuda:0")).sum().backward()
    optimizer.step()
step()
file = io.BytesIO()
torch.save(optimizer.state_dict(), file)
file.seek(0)
optimizer.load_state_dict(torch.load(file, map_location="cpu"))
step()

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

# === two models of one object
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# says: Converter is no module
# fix: self.encoder.to(x.device)
# fix: return self.encoder(x)
class Converter:
    def __init__(self):
        self.model, self.encoder = nn.Linear(4, 4).to("cuda:1"), nn.LSTM(4, 4).to("cuda:0")
    def convert(self, x):
        x = x.to(self.model.weight.device)
        return self.encoder(x)
Converter().convert(torch.ones(3, 2, 4))

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

# === slow weights around an optimizer
# category: optimizer-state
# confidence: medium
# repairs: cause
# says: is kept by optimizer (Lookahead)
class Lookahead:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.slow = [p.detach().clone() for p in optimizer.param_groups[0]["params"]]
    def step(self):
        for p, slow in zip(self.optimizer.param_groups[0]["params"], self.slow):
            slow = slow.lerp(p.detach(), 0.5)
model = nn.Linear(4, 2)
optimizer = Lookahead(torch.optim.SGD(model.parameters(), lr=0.1))
model.to("cuda:0")
optimizer.step()

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

# === a model that its owner put on the CPU
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: put on the CPU as a whole
class Embedder:
    def __init__(self, device):
        self.model = nn.Embedding(8, 4)
        self.model.to(device)
    def embed(self, ids):
        ids = ids.to("cuda:0")
        return self.model(ids)
Embedder("cpu").embed(torch.tensor([1, 2]))

# === weights of the classes, beside labels that were moved
# category: input-not-moved
# confidence: low
# repairs: cause
# fix: weights = torch.from_numpy(1.0 / counts.numpy()).float().to(logits.device)
def loss(logits, labels):
    counts = torch.bincount(labels.cpu(), minlength=3)
    weights = torch.from_numpy(1.0 / counts.numpy()).float()
    return nn.functional.cross_entropy(logits, labels, weight=weights)
loss(torch.randn(4, 3).to("cuda:0"), torch.tensor([0, 1, 2, 2]).to("cuda:0"))

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

# === a generator's state
# category: input-wanted-on-cpu
# confidence: high
# repairs: cause
# fix: torch.random.set_rng_state(state["rng"].cpu())
state = {"rng": torch.get_rng_state().to("cuda:0")}
torch.random.set_rng_state(state["rng"])

# === a rank's module that was not moved
# category: data-parallel
# confidence: high
# repairs: cause
# says: it moves no parameters
# fix: replica = nn.parallel.DistributedDataParallel(model.to(device), device_ids=[1])
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
def wrapped(device):
    model = nn.Linear(4, 2)
    replica = nn.parallel.DistributedDataParallel(model, device_ids=[1])
    return replica
try:
    wrapped(torch.device("cuda:1"))
finally:
    torch.distributed.destroy_process_group()

# === an object's device without a number
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: rows = torch.ones(2, 4, device=self.device)
class Runner:
    def __init__(self):
        self.device = "cuda"
    def run(self, model):
        rows = torch.ones(2, 4)
        return model(rows)
Runner().run(nn.Linear(4, 2).to("cuda:0"))

# === several elements of a list
# category: unknown
# confidence: low
# repairs: line
# fix: return torch.stack([value.to(norms[0].device) for value in norms]).sum()
def total(parameters):
    norms = [each.norm() for each in parameters]
    return torch.stack(norms).sum()
total([torch.ones(2, device=device) for device in ("cuda:0", "cuda:0", "cuda:0", "cuda:1", "cuda:1")])

# === a module that has buffers alone
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: return scale(image.to(next(scale.buffers()).device))
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("factor", torch.ones(4))
    def forward(self, image):
        return image * self.factor
def brighter(scale, image):
    return scale(image)
brighter(Scale().to("cuda:0"), torch.ones(2, 4))

# === two arguments of a model that were left behind
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: return model(rows.to(next(model.parameters()).device), weights.to(next(model.parameters()).device), 2)
class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 2)
    def forward(self, rows, weights, times):
        return self.mix(rows) * weights * times
def answer(model, rows, weights):
    return model(rows, weights, 2)
answer(Weighted().to("cuda:0"), torch.ones(2, 4), torch.ones(2))

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
