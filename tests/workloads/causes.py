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

# === a loss with a weight beside a model
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# says: Learner is no module and holds several
# fix: self.loss_function.to(y.device)
# fix: self.loss = self.loss_function(self.model(x), y)
class Learner:
    def __init__(self, model, loss_function, device):
        self.model = model.to(device)
        self.loss_function = loss_function
    def step(self, x, y):
        self.loss = self.loss_function(self.model(x), y)
learner = Learner(nn.Linear(4, 3), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 5.0])), "cuda:0")
learner.step(torch.ones(2, 4, device="cuda:0"), torch.zeros(2, dtype=torch.long, device="cuda:0"))

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

# === a move whose result is dropped
# category: input-not-moved
# confidence: high
# repairs: cause
# says: drops what it makes
# fix: t = t.to(x.device)
# also: weights = weights.to(x.device)
def steps(size):
    return torch.arange(size).long(), torch.ones(size) / size
def loss(x):
    t, weights = steps(len(x))
    t.to(x.device)
    weights.to(x.device)
    return (x.index_select(0, t).sum(1) * weights).mean()
loss(torch.ones(3, 4, device="cuda:0"))

# === a move whose result a function dropped that has returned
# category: input-not-moved
# confidence: high
# repairs: cause
# says: drops what it makes
# fix: ids = ids.cuda()
def collated(rows):
    ids = torch.tensor(rows)
    ids.cuda()
    return {"ids": ids}
table = nn.Embedding(9, 2).to("cuda:0")
batch = collated([[1, 2], [3, 4]])
table(batch["ids"])

# === arguments that came the same way
# category: module-split-or-hook-missing
# confidence: low
# repairs: line
# fix: chosen = chosen.to(like_chosen.device)
# fix: rejected = rejected.to(like_chosen.device)
# fix: first = chosen - like_chosen
policy, reference = nn.Linear(3, 1).to("cuda:0"), nn.Linear(3, 1).to("cuda:1")
def scores(model, rows):
    out = model(rows.to(model.weight.device)).squeeze(1)
    return out[:2], out[2:]
def loss(chosen, rejected, like_chosen, like_rejected):
    first = chosen - like_chosen
    second = rejected - like_rejected
    return (first - second).mean()
rows = torch.ones(4, 3)
loss(*scores(policy, rows), *scores(reference, rows))

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

# === an expression of a variable that is read again
# category: input-not-moved
# confidence: low
# repairs: line
# fix: labels = labels.to(losses.device)
# fix: losses.masked_fill_(labels == -1, 0)
head = nn.Linear(4, 3).to("cuda:1")
def loss(logits, labels):
    losses = logits.logsumexp(1)
    losses.masked_fill_(labels == -1, 0)
    return (losses * (labels != -1)).mean()
loss(head(torch.ones(2, 4, device="cuda:1")), torch.tensor([-1, 2], device="cuda:0"))

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

# === a model that a call took to the CPU
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: until
# fix: exported = export(model, x)
# fix: model.to(x.device)
def export(model, x):
    model.to("cpu")
    return model(x.cpu())
model = nn.Linear(4, 2).to("cuda:0")
x = torch.ones(1, 4, device="cuda:0")
exported = export(model, x)
model(x)

# === a layer that was taken from where its input is
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: layer.to(x.device)
def run(layers, x):
    for layer in layers:
        x = layer(x.to(next(layer.parameters()).device))
        x = x.sigmoid()
        layer.cuda()
        x = layer(x)
    return x
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
    def forward(self, x):
        return self.inner(x)
run(nn.ModuleList(Layer().to(f"cuda:{i}") for i in range(2)), torch.ones(1, 4))

# === a state that was read before the parameters moved on
# category: optimizer-state
# confidence: medium
# repairs: cause
# says: moved after
# fix: self.model.to(device)
# fix: self.optimizer.load_state_dict(self.optimizer.state_dict())
import io
class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
    def resume(self, file):
        saved = torch.load(file, map_location="cpu")
        self.optimizer.load_state_dict(saved)
    def fit(self, device):
        self.model.to(device)
        self.step(device)
    def step(self, device):
        self.optimizer.zero_grad()
        self.model(torch.ones(3, 4, device=device)).sum().backward()
        self.optimizer.step()
first, second, file = Trainer(), Trainer(), io.BytesIO()
first.step("cpu")
torch.save(first.optimizer.state_dict(), file)
file.seek(0)
second.resume(file)
second.fit("cuda:0")

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

# === a list among what was moved
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: lies within a container
# fix: return {key: torch.utils._pytree.tree_map_only(torch.Tensor, lambda value: value.to(device), value) for key, value in batch.items()}
def to_device(batch, device):
    return {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
def run(batch, device):
    batch = to_device(batch, device)
    first, second = batch["pair"]
    return batch["x"] * first + second
run({"x": torch.ones(3), "pair": [torch.ones(3), torch.ones(3)]}, "cuda:0")

# === what NumPy holds is given to a method of a module
# category: input-not-moved
# confidence: low
# repairs: cause
# says: was given to Policy.log_prob on the CPU
# fix: chosen = torch.as_tensor(np.arange(3)).to(x.device)
import numpy as np
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)
    def log_prob(self, x, chosen):
        return torch.distributions.Categorical(logits=self.net(x)).log_prob(chosen)
def run(policy):
    x = torch.ones(3, 4, device="cuda:0")
    chosen = torch.as_tensor(np.arange(3))
    return policy.log_prob(x, chosen)
run(Policy().to("cuda:0"))

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

# === two layers that a constructor leaves behind
# category: module-split-or-hook-missing
# confidence: high
# repairs: cause
# also: self.value = nn.Linear(4, 1).to(self.device)
class Heads(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = torch.device(device)
        self.body = nn.Linear(4, 4).to(self.device)
        self.action = nn.Linear(4, 2)
        self.value = nn.Linear(4, 1)
    def forward(self, x):
        hidden = self.body(x)
        return self.action(hidden), self.value(hidden)
Heads("cuda:0")(torch.ones(2, 4, device="cuda:0"))

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

# === given to a model twice, and used behind it
# category: input-not-moved
# confidence: high
# repairs: cause
class Value(nn.Module):
    def __init__(self):
        super().__init__()
        self.state, self.weight = nn.Linear(4, 2), nn.Linear(2, 2)
    def forward(self, state, weights):
        return self.state(state) + self.weight(weights)
def best(value, state, weights):
    return (value(state, weights) @ weights).argmax()
best(Value().to("cuda:0"), torch.ones(4), torch.ones(2))

# === most of what a line reads is on the other device
# category: module-split-or-hook-missing
# confidence: high
# repairs: line
class Low(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.d, self.b = nn.Linear(4, 4).to("cuda:1"), nn.Parameter(torch.ones(2, device="cuda:1")), nn.Parameter(torch.ones(4, device="cuda:1"))
        self.first, self.second = nn.Parameter(torch.ones(2, 4, device="cuda:0")), nn.Parameter(torch.ones(4, 2, device="cuda:0"))
    def forward(self, x):
        d, b, first, second = self.d, self.b, self.first[:, :4], self.second[:4]
        result = self.base(x)
        result = result + b * nn.functional.linear(d * nn.functional.linear(x, first), second)
        return result + self.base(x)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.low = nn.Linear(4, 4).to("cuda:1"), Low()
    def forward(self, x):
        return self.low(self.start(x))
Model()(torch.ones(1, 4, device="cuda:1"))

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

# === a batch with words beside its tensors
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: return model({key: value.to(next(model.parameters()).device) if hasattr(value, "to") else value for key, value in batch.items()})
class Lanes(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)
    def forward(self, batch):
        return self.body(batch["points"]) * batch["weight"]
def run(model, batch):
    return model(batch)
run(Lanes().to("cuda:0"), {"points": torch.ones(2, 4), "weight": torch.ones(2), "file": "lane.png"})

# === a dataclass within one that moves its fields
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: did not look into
# fix: return replace(self, x=self.x.to(device), pair=replace(self.pair, **{key: value.to(device) for key, value in vars(self.pair).items() if hasattr(value, "to")}))
from dataclasses import dataclass, replace
@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor
@dataclass
class Batch:
    x: torch.Tensor
    pair: Pair
    def to(self, device):
        return replace(self, x=self.x.to(device))
def run(batch, device):
    batch = batch.to(device)
    return batch.x * batch.pair.first + batch.pair.second
run(Batch(torch.ones(3), Pair(torch.ones(3), torch.ones(3))), "cuda:0")

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

# === an optimizer's copies of weights that an engine moves later
# category: optimizer-state
# confidence: medium
# repairs: cause
# says: the parameter was moved after
# fix: self.model, self.optimizer = model.to(device), optimizer
# fix: self.optimizer.load_state_dict(self.optimizer.state_dict())
class Copies(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["z"] = parameter.detach().clone()
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                z = self.state[parameter]["z"]
                z.sub_(parameter.grad)
class Engine:
    def __init__(self, model, optimizer, device):
        self.model, self.optimizer = model.to(device), optimizer
    def step(self, x):
        self.model(x).sum().backward()
        self.optimizer.step()
def run():
    model = nn.Linear(4, 2)
    Engine(model, Copies(model.parameters()), "cuda:0").step(torch.ones(1, 4, device="cuda:0"))
run()

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

# === a buffer that is registered when the model has been moved
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: was given to Policy by Normalizer.fit after that was moved
# fix: policy.normalizer.fit(data)
# fix: policy.to(device)
class Normalizer(nn.Module):
    def fit(self, data):
        self.register_buffer("mean", data.mean(dim=0))
    def forward(self, x):
        return x - self.mean
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.normalizer, self.net = Normalizer(), nn.Linear(4, 2)
    def forward(self, x):
        return self.net(self.normalizer(x))
def run(data, device):
    policy = Policy().to(device)
    policy.normalizer.fit(data)
    x = torch.ones(1, 4, device=device)
    return policy(x)
run(torch.ones(8, 4), "cuda:0")

# === what a network computes of what its caller made
# category: input-not-moved
# confidence: low
# repairs: cause
# fix: return torch.tensor([sizes], device=next(self.encoder.parameters()).device)
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 1)
    def forward(self, given):
        sizes = given["sizes"].float().cos()
        return self.out(torch.cat([given["text"], sizes], dim=-1))
class Pipeline:
    def __init__(self, device):
        self.encoder, self.network = nn.Linear(4, 4).to(device), Network().to(device)
    def sizes_of(self, sizes):
        return torch.tensor([sizes])
    def run(self, x):
        text = self.encoder(x)
        sizes = self.sizes_of([1, 2])
        return self.network({"text": text, "sizes": sizes})
Pipeline("cuda:0").run(torch.ones(1, 4, device="cuda:0"))

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

# === a state is begun on the GPU in a model on the CPU
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: all of whose state is on the CPU
# fix: state = self.begin(len(x), x.device)
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)
    def begin(self, count, device):
        return torch.zeros(count, 4, device=device)
    def forward(self, x):
        state = self.begin(len(x), torch.device("cuda:0"))
        return torch.addmm(x, state, self.net.weight)
Cell()(torch.ones(2, 4))

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

# === a model taken to the CPU for a while
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# says: took it to the CPU
# fix: return vae.to(pixels.device)(pixels)
import contextlib
@contextlib.contextmanager
def on_the_cpu(model):
    model.to("cpu")
    yield
    model.to("cuda:0")
def encode(vae, pixels):
    with on_the_cpu(vae):
        return vae(pixels)
encode(nn.Linear(4, 4).to("cuda:0"), torch.ones(1, 4, device="cuda:0"))

# === options say the device
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: parts = dict(net=Late().to(options.device))
class Options:
    def __init__(self):
        self.device = "cuda:0"
class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
class Pipeline:
    def __init__(self, parts):
        self.net = parts["net"]
def load(options):
    parts = dict(net=Late())
    return Pipeline(parts)
def run(options):
    pipeline = load(options)
    return pipeline.net(torch.ones(1, 4, device=options.device))
run(Options())

# === a transform of which one constant was given a device
# category: module-split-or-hook-missing
# confidence: high
# repairs: cause
# says: Two parts of Transform
# fix: return self.transform.to(self.device)(x.to(self.device))
class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bank", torch.ones(4, 2))
class Transform(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.register_buffer("window", torch.ones(4, **given))
        self.mel = Bank()
    def forward(self, x):
        return torch.matmul(self.window, self.mel.bank) + x.sum()
class Features:
    def __init__(self, transform, device):
        self.transform, self.device = transform, device
    def __call__(self, x):
        return self.transform(x.to(self.device))
Features(Transform({"device": "cuda:0"}), "cuda:0")(torch.ones(1, 4))

# === a batch of attributes that a loop set
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: stands beside batch.ids
# fix: self.ids = self.ids.to(device)
# fix: self.mask = self.mask.to(device)
class Batch:
    def __init__(self, values):
        for key, value in values.items():
            setattr(self, key, value)
    def to(self, device):
        self.ids = self.ids.to(device)
        return self
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
    def forward(self, batch):
        return self.embed(batch.ids) * batch.mask[..., None]
def run(device):
    ids = torch.tensor([[1, 2], [3, 4]])
    batch = Batch({"ids": ids, "mask": torch.ones_like(ids)}).to(device)
    return Net().to(device)(batch)
run("cuda:0")

# === a gradient that backward makes of nothing
# category: gradient-elsewhere
# confidence: high
# repairs: cause
# says: Quantize.backward
# fix: return grad, torch.zeros(levels.shape, device=levels.device)
class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.save_for_backward(levels)
        return x.round()
    @staticmethod
    def backward(ctx, grad):
        levels, = ctx.saved_tensors
        return grad, torch.zeros(levels.shape)
def run(device):
    levels = nn.Parameter(torch.ones(4, device=device))
    Quantize.apply(torch.ones(2, 4, device=device), levels).sum().backward()
run("cuda:0")

# === a gradient that backward makes for a weight that it does not name
# category: gradient-elsewhere
# confidence: high
# repairs: cause
# fix: return grad, torch.zeros(4, device=grad.device)
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        return x.round()
    @staticmethod
    def backward(ctx, grad):
        return grad, torch.zeros(4)
def run(device):
    levels = nn.Parameter(torch.ones(4, device=device))
    Round.apply(torch.ones(2, 4, device=device), levels).sum().backward()
run("cuda:0")

# === a model takes its own result away, and its next part gives the variable another value
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: was taken from cuda:0 to cpu
# fix: return (x * self.weight)
class Bands(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.device, self.weight = device, nn.Parameter(torch.ones(4))
    def forward(self, x):
        return (x * self.weight).to(self.device)
class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.ones(4))
    def forward(self, x):
        x = x - x.mean()
        x = x * 2
        return x + self.shift
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bands, self.shift = Bands(), Shift()
    def forward(self, x):
        return self.shift(self.bands(x))
def run(device):
    model = Net().to(device)
    model(torch.ones(2, 4, device=device))
run("cuda:0")

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

# === an object constructs a model of a class that it is given
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: evaluator = Evaluator(lambda: nn.Linear(4, 2))
# fix: evaluator.network.to(device)
class Evaluator:
    def __init__(self, kind):
        self.network = kind()
    def play(self, state):
        return self.network(state)
def run(device):
    evaluator = Evaluator(lambda: nn.Linear(4, 2))
    evaluator.play(torch.ones(2, 4).to(device))
run("cuda:0")

# === an object that has a device is given a second model
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: self.average = average.to(self.device)
class Trainer:
    def __init__(self, model, average, device):
        self.device = device
        self.model = model.to(self.device)
        self.average = average
    def evaluate(self, x):
        return self.model(x.to(self.device)) - self.average(x.to(self.device))
model, average = nn.Linear(4, 2), nn.Linear(4, 2)
Trainer(model, average, "cuda:0").evaluate(torch.ones(3, 4))

# === an array's namespace makes a tensor
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: steps = xp.arange(4, dtype=center.dtype, device=direction.device)
def sample(center, direction, xp=torch):
    steps = xp.arange(4, dtype=center.dtype)
    return center + steps[:, None] * direction
sample(torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:0"))

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

# === labels that came with a split model's input
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: loss = criterion(model(inputs), labels.to("cuda:1"))
class Stages(nn.Module):
    def __init__(self, first, last):
        super().__init__()
        self.first, self.last = first, last
        self.encode, self.decode = nn.Linear(4, 4).to(first), nn.Linear(4, 3).to(last)
    def forward(self, x):
        return self.decode(self.encode(x).to(self.last))
def run(model, inputs, labels, criterion=nn.CrossEntropyLoss()):
    inputs, labels = inputs.to(model.first), labels.to(model.first)
    loss = criterion(model(inputs), labels)
    return loss
run(Stages("cuda:0", "cuda:1"), torch.ones(2, 4), torch.tensor([0, 2]))
