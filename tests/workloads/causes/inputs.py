# What a caller gives to a model or a function: causes that only structure tells apart.
import torch
from torch import nn
torch.manual_seed(0)

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
# confidence: medium
# repairs: cause
# fix: rows = torch.ones(2, 4, device=self.device)
class Runner:
    def __init__(self):
        self.device = "cuda"
    def run(self, model):
        rows = torch.ones(2, 4)
        return model(rows)
Runner().run(nn.Linear(4, 2).to("cuda:0"))

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

# === what a network computes of what its caller made
# category: created-without-device
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

# === labels that came with a split model's input
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: loss = criterion(model(inputs), labels.to(model.last))
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

# === one of a line's two was moved later
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: stands beside batch.x
# fix: return Batch(self.x.to(device), self.y.to(device))
class Batch:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def to(self, device):
        return Batch(self.x.to(device), self.y)
batch = Batch(torch.ones(3, 2), torch.ones(3, 2))
batch = batch.to("cuda:0")
print((batch.x - batch.y).sum())

# === a loader's function made it
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: is given to a model whose state is on cuda:0
# fix: model(x, batch["mask"].to(x.device))
def collate(samples):
    return {"x": torch.stack(samples), "mask": torch.zeros(len(samples), 2, dtype=torch.bool)}
class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 2)
    def forward(self, x, mask):
        x = self.body(x)
        return x.masked_fill(mask, 0.0)
model = Masked().to("cuda:0")
for batch in torch.utils.data.DataLoader([torch.ones(2)] * 2, batch_size=2, collate_fn=collate):
    x = batch["x"].to("cuda:0")
    model(x, batch["mask"])

# === a hook has taken it to the CPU
# category: input-not-moved
# confidence: low
# repairs: line
# says: was taken from cuda:0 to the CPU
# fix: print((now - kept["body"].to(now.device)).sum())
kept = {}
def keep(name):
    def hook(module, inputs, out):
        kept[name] = out.detach().cpu()
    return hook
model = nn.Sequential(nn.Linear(3, 3)).cuda()
model[0].register_forward_hook(keep("body"))
x = torch.ones(1, 3, device="cuda")
model(x)
now = x * 2
print((now - kept["body"]).sum())

# === brought to its device by the call itself
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: return self.second(self.first(start.to(self.device)))
class Pair:
    def __init__(self, device):
        self.device, self.first, self.second = device, nn.Linear(4, 4), nn.Linear(4, 2)
        for each in (self.first, self.second):
            each.register_forward_pre_hook(lambda module, given: module.to(self.device) and None)
    def run(self):
        start = torch.ones(1, 4, device=self.first.weight.device)
        return self.second(self.first(start))
Pair(torch.device("cuda:0")).run()

# === a method was given it
# category: input-not-moved
# confidence: low
# repairs: line
# says: was given to an object that is no module
# fix: return x * self.scale + self.offset.to(x.device)
class Shift:
    def __init__(self, scale):
        self.scale = scale
    def set_offset(self, offset):
        self.offset = offset
    def apply(self, x):
        return x * self.scale + self.offset
shift = Shift(torch.full((3,), 2.0, device="cuda:0"))
offset = torch.ones(3)
shift.set_offset(offset)
shift.apply(torch.ones(3).to("cuda:0"))

# === a field that its class does not move
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: stands beside data.x
# fix: self.x, self.edges = self.x.to(device), self.edges.to(device)
# fix: self.batch = self.batch.to(device)
class Graph:
    def __init__(self, x, edges):
        self.x, self.edges, self.batch = x, edges, torch.zeros(len(x), dtype=torch.long)
    def to(self, device):
        self.x, self.edges = self.x.to(device), self.edges.to(device)
        return self
def pooled(x, batch):
    return x.new_zeros(1, x.shape[1]).index_add(0, batch, x)
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 5)
    def forward(self, data):
        return pooled(self.lin(data.x), data.batch)
Pool().to("cuda:1")(Graph(torch.ones(4, 3), torch.zeros(2, 3, dtype=torch.long)).to("cuda:1"))

# === made of nothing, and filled on the CPU in the same line
# category: input-not-moved
# confidence: low
# repairs: line
# fix: return logits.masked_fill(mask.to(logits.device), 0.0)
def unlikely(logits):
    rows = logits.argsort(-1)
    mask = torch.zeros(logits.shape, dtype=torch.bool).scatter(-1, rows.cpu(), (logits > 0).cpu())
    return logits.masked_fill(mask, 0.0)
head = nn.Linear(4, 6).to("cuda:0")
unlikely(head(torch.ones(2, 4, device="cuda:0")))

# === read in the line that binds it
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: return (x := inbox.pop()) is not None and module(x.to(next(module.parameters()).device))
def stage(module, inbox):
    return (x := inbox.pop()) is not None and module(x)
first, second = nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")
between = [stage(first, [torch.ones(2, 4, device="cuda:0")])]
stage(second, between)

# === lengths that a collate function counted
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: pooling(padded, lengths.to(padded.device))
def collate(sequences):
    return nn.utils.rnn.pad_sequence(sequences, batch_first=True), torch.tensor([len(each) for each in sequences])
class Pooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 5)
    def forward(self, x, lengths):
        hidden = self.linear(x)
        mask = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        return (hidden * mask[..., None]).sum(1)
pooling = Pooling().to("cuda:0")
for padded, lengths in torch.utils.data.DataLoader([torch.ones(2, 3), torch.ones(4, 3)], batch_size=2, collate_fn=collate):
    padded = padded.to("cuda:0")
    pooling(padded, lengths)

# === what classes weigh is counted of the labels
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: weights = weights_of(counted, 3).to(device)
def weights_of(labels, classes):
    return 1 / torch.bincount(labels, minlength=classes).float()
def train(net, batches, device, weights):
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        nn.functional.cross_entropy(net(x), y, weight=weights)
device = torch.device("cuda:0")
counted = torch.tensor([0, 1, 1, 2])
weights = weights_of(counted, 3)
train(nn.Linear(3, 3).to(device), [(torch.ones(4, 3), counted)], device, weights)

# === an action for a robot that was told its card
# category: input-not-moved
# confidence: low
# repairs: line
# says: since it was constructed for that device
class Robot:
    def __init__(self, joints, device):
        self.joints = torch.zeros(2, joints, device=device)
    def now(self):
        return self.joints.clone()
class Motion:
    def __init__(self, robot):
        self.robot = robot
    def __call__(self, action):
        return self.robot.now() + 0.5 * action
Motion(Robot(3, "cuda:0"))(nn.Linear(4, 3).to("cuda:1")(torch.ones(2, 4, device="cuda:1")))

# === images and labels go to a device that the function makes up
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: images, answers = images.to(next(model.parameters()).device), answers.to(next(model.parameters()).device)
def one_epoch(model, batches, device="cuda:0"):
    for images, answers in batches:
        images, answers = images.to(device), answers.to(device)
        nn.functional.cross_entropy(model(images), answers)
one_epoch(nn.Linear(3, 2).to("cuda:1"), [(torch.ones(4, 3), torch.tensor([0, 1, 0, 1]))])

# === an attack is given a model, and what it is to be wrong about
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: changed = changed.to(next(model.parameters()).device)
# fix: loss = nn.functional.cross_entropy(model(changed), answers.to(next(model.parameters()).device))
def gradient_of(model, inputs, answers):
    changed = inputs.clone().requires_grad_()
    loss = nn.functional.cross_entropy(model(changed), answers)
    return torch.autograd.grad(loss, changed)[0]
gradient_of(nn.Linear(3, 2).to("cuda:0"), torch.ones(4, 3), torch.tensor([0, 1, 0, 1]))

# === where in a cache is no cache
# category: input-not-moved
# confidence: low
# repairs: line
def hidden_of(cache_position, count, device):
    return torch.arange(count, device=device)[None] > cache_position[:, None]
def step(words):
    cache_position = torch.arange(3, device="cuda:0")
    return hidden_of(cache_position, 3, words.device)
step(torch.ones(2, 3, device="cuda:1"))

# === a function moves the one of two and not the other
# category: input-not-moved
# confidence: low
# repairs: cause
# says: They meet here
# fix: low = down.flatten(1).float().to(weight.device)
def change(up, down, weight):
    high = up.flatten(1).float().to(weight.device)
    low = down.flatten(1).float()
    return torch.mm(high, low)
def read(device):
    return torch.ones(2, 2).to(device), torch.ones(2, 2).to(device)
up, down = read("cuda:0")
change(up, down, torch.ones(2, 2))

# === two parts of a dict that a line takes apart
# category: input-not-moved
# confidence: low
# repairs: cause
# fix: samples, mask = latent["samples"].to(next(model.parameters()).device), latent["mask"].to(next(model.parameters()).device)
class Sampler:
    def __init__(self, model, mask, known):
        self.model, self.mask, self.known = model, mask, known
    def run(self, x):
        return self.model(torch.cat([x, self.mask, self.known * (1 - self.mask)], 1))
def sample(model, latent):
    samples, mask = latent["samples"], latent["mask"]
    noise = torch.ones(samples.shape).to(next(model.parameters()).device)
    return Sampler(model, mask, samples).run(noise)
sample(nn.Linear(6, 2).to("cuda:0"), {"samples": torch.ones(2, 2), "mask": torch.ones(2, 2)})

# === a layer between two others works on the CPU
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: return squared(self.scale.cpu() * x.cpu()).to(self.scale.device)
def squared(x):
    state = torch.zeros(x.shape) + x
    return state**2
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
    def forward(self, x):
        return squared(self.scale.cpu() * x.cpu())
model = nn.Sequential(nn.Linear(3, 2), Inner(), nn.Linear(2, 1)).to("cuda:0")
model(torch.ones(4, 3, device="cuda:0"))

# === a tuple with names that an object gives
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: batch = memory.sample()
# fix: batch = batch._make(value.to(device) for value in batch)
from typing import NamedTuple
class Batch(NamedTuple):
    states: torch.Tensor
    actions: torch.Tensor
class Memory:
    def __init__(self):
        self.rows = [Batch(torch.ones(3), torch.tensor(1)) for _ in range(2)]
    def sample(self):
        return Batch(*(torch.stack(column) for column in zip(*self.rows)))
def learn(net, memory, device):
    batch = memory.sample()
    values = net(batch.states).gather(1, batch.actions[:, None])
    return values.sum()
learn(nn.Linear(3, 2).to("cuda:0"), Memory(), torch.device("cuda:0"))

# === of one display the line moved some
# category: input-not-moved
# confidence: low
# repairs: cause
# fix: weight, scale, zero = weight.to("cpu"), scale.to("cpu"), zero.to("cpu")
def packed(weight, scale, zero):
    return weight / scale + zero

def export(weight, scale, zero):
    weight, scale, zero = weight.to("cpu"), scale.to("cpu"), zero
    return packed(weight, scale, zero)

ones = torch.ones(2, 1, device="cuda:0")
export(torch.ones(2, 2, device="cuda:0"), ones, ones * 0)

# === a function that a line below calls again
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: x = as_tensor(rows).to(next(model.parameters()).device)
# also: y = as_tensor(aims).to(next(model.parameters()).device)
def as_tensor(rows):
    return torch.tensor(rows)

def step(model, rows, aims):
    x = as_tensor(rows)
    out = model(x)
    y = as_tensor(aims)
    difference = out - y
    return (difference * difference).sum()

step(nn.Linear(3, 1).to("cuda:0"), [[1.0, 2.0, 3.0]], [[1.0]])

# === taken to a default device, and computed with, above the line that meets the model
# category: default-or-current-device
# confidence: medium
# repairs: cause
# fix: image = image.to(next(self.model.parameters()).device)
class Processor:
    def __init__(self, model, device="cuda"):
        self.model, self.device = model, device

    def features(self, image):
        image = image.to(self.device)
        image = nn.functional.interpolate(image, size=8)
        return self.model.patches(image - 0.5)

model = nn.Module()
model.patches = nn.Conv2d(3, 2, 4)
Processor(model.to("cuda:1")).features(torch.ones(1, 3, 4, 4))

# === kept by who gives a batch, and left by the line that brings the rest
# category: input-not-moved
# confidence: medium
# repairs: line
# says: was left there
class Cached:
    left = ("image",)

    def __init__(self, device):
        self.device = device
        self.cached = {"image": torch.rand(4, 3), "place": torch.tensor([0, 2])}

    def batch(self):
        moved = {}
        for key, value in self.cached.items():
            if key in self.left:
                moved[key] = value
            else:
                moved[key] = value.to(self.device)
        return moved

def drawn(batch):
    places = batch["place"] + 1
    return batch["image"][places]

drawn(Cached("cuda:0").batch())

# === what a library makes of memory of NumPy's, in the line that gives it
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: return spectrum(sound.to(next(spectrum.buffers()).device))
import numpy as np

class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(8))

    def forward(self, wave):
        return torch.stft(wave, 8, 4, window=self.window, return_complex=True).abs()

def heard(spectrum, wave):
    sound = torch.from_numpy(wave)
    return spectrum(sound)

heard(Spectrum().to("cuda:0"), np.ones(32, dtype=np.float32))

# === a gradient beside what a display has put together on the CPU
# category: input-not-moved
# confidence: low
# repairs: line
# fix: return grads @ directions.T.to(grads.device)
def scores(net, x, kept):
    hidden = net(x)
    grads = torch.autograd.grad(hidden.square().sum(), hidden)[0]
    grads = grads.flatten(1)
    directions = torch.stack([each for each in kept.values()])
    return grads @ directions.T

scores(nn.Linear(3, 2).to("cuda:0"), torch.ones(4, 3, device="cuda:0"), {"a": torch.ones(2), "b": torch.zeros(2)})

# === a move whose result is dropped, above lines that go on with what was to move
# category: input-not-moved
# confidence: high
# repairs: cause
# says: drops what it makes
# fix: pictures = pictures.to(weight.device)
def scores(pictures, weight):
    pictures.to(weight.device)
    pictures = pictures.view(-1, 2)
    pictures, count = pictures[..., :2].float(), len(pictures)
    return pictures @ weight / count
scores(torch.ones(4), torch.ones(2, 2, device="cuda:0"))

# === a dropped move in a branch that was not taken
# category: unknown
# confidence: low
# repairs: line
# fix: return pictures.to(weight.device) @ weight
def scores_of(pictures, weight, on_gpu):
    if on_gpu:
        pictures.to(weight.device)
    return pictures @ weight
scores_of(torch.ones(2, 2), torch.ones(2, 2, device="cuda:0"), None)

# === a dropped move in a branch that may not have been taken
# category: input-not-moved
# confidence: medium
# repairs: cause
# says: if `if pictures.dim() > 1:` was taken, drops what it makes
# fix: pictures = pictures.to(weight.device)
def scores_of(pictures, weight):
    if pictures.dim() > 1:
        pictures.to(weight.device)
    return pictures @ weight
scores_of(torch.ones(2, 2), torch.ones(2, 2, device="cuda:0"))

# === a dropped move in a branch that was taken, of one that was made there
# category: input-not-moved
# confidence: high
# repairs: cause
# says: drops what it makes
# fix: pictures = pictures.cuda()
def picture(size):
    pictures = torch.ones(size, size)
    with torch.no_grad():
        if torch.cuda.is_available():
            pictures.cuda()
    return pictures
picture(2) @ torch.ones(2, 2, device="cuda:0")

# === a dropped move, and a function that gives the variable something else
# category: created-without-device
# confidence: low
# repairs: cause
# fix: pictures = read(pictures).to(weight.device)
def read(pictures):
    return torch.ones(2, 2)
def scores_of(pictures, weight):
    pictures.to(weight.device)
    pictures = read(pictures)
    return pictures @ weight
scores_of(torch.ones(2, 2), torch.ones(2, 2, device="cuda:0"))

# === a dropped move, and a line that says another device
# category: unknown
# confidence: low
# repairs: line
# fix: return pictures.to(weight.device) @ weight
def weighted_twice(pictures, weight):
    pictures.to(weight.device)
    pictures = torch.ones_like(pictures, device="cpu")
    return pictures @ weight
weighted_twice(torch.ones(2, 2), torch.ones(2, 2, device="cuda:1"))

# === a table that a layer is given, whose part of a cache lies with it
# category: input-not-moved
# confidence: low
# repairs: line
# says: was given to a layer on cuda:1
# fix: return keys[pages.to(keys.device)] * self.scale
class Cache:
    def __init__(self, devices):
        self.layers = [torch.zeros(4, 3, device=device) for device in devices]
class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number, self.scale = number, nn.Parameter(torch.ones(3))
    def forward(self, given):
        keys = given["cache"].layers[self.number]
        pages = given["table"][:2]
        return keys[pages] * self.scale
layers = [Layer(0).to("cuda:0"), Layer(1).to("cuda:1")]
given = {"cache": Cache(["cuda:0", "cuda:1"]), "table": torch.tensor([0, 2, 1], device="cuda:0")}
for layer in layers:
    layer(given)

# === given to a model of which a part has followed its input
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: return model.sample(wave.to(next(model.parameters()).device), [1, 2])
class Spectrogram(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.ones(4))

    def forward(self, wave):
        if self.window.device != wave.device:
            self.to(wave.device)
        return wave * self.window

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4)

    def forward(self, text, frames):
        text = text + 1
        return (self.embed(text) + frames).sum()

class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.spectrogram, self.words = Spectrogram(), Words()

    def sample(self, wave, text):
        frames = self.spectrogram(wave)
        device = frames.device
        text = torch.tensor(text).to(device)
        text = nn.functional.pad(text, (0, 1))
        return self.words(text, frames.mean(dim=0))

def spoken(model, wave):
    return model.sample(wave, [1, 2])

spoken(Speech().to("cuda:0"), torch.ones(2, 4))

# === written to at places of a mask that nobody moved, where it was made like that
# category: input-not-moved
# confidence: low
# repairs: line
# fix: return loss(scores, mask.to(scores.device))
def placed(mask, scores):
    all_scores = torch.zeros_like(mask, dtype=scores.dtype)
    all_scores[mask] = scores
    return all_scores.masked_fill(~mask, -1.0)

def loss(scores, mask):
    return (placed(mask, scores) - scores.mean()).sum()

def trained(net, mask):
    scores = net(torch.ones(2, 3).to("cuda:0")).flatten()
    return loss(scores, mask)

trained(nn.Linear(3, 1).to("cuda:0"), torch.tensor([True, False, True]))

# === each of several that one line makes of lists, by an old constructor
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: kinds, places = (torch.LongTensor(each).to(next(tagger.parameters()).device) for each in zip(*sentence))
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.slots = nn.Embedding(5, 4), nn.Embedding(5, 4)

    def of(self, table, ids):
        return table(ids)

    def forward(self, kinds, places):
        return self.of(self.words, kinds) + self.of(self.slots, places)

def tagged(tagger, sentences):
    for sentence in sentences:
        kinds, places = (torch.LongTensor(each) for each in zip(*sentence))
        yield tagger(kinds, places).argmax(dim=1).tolist()

list(tagged(Tagger().to("cuda:0"), [[(3, 0), (1, 1)], [(4, 0)]]))

# === a dropped move, of what a call is given a view of
# category: input-not-moved
# confidence: high
# repairs: cause
# says: drops what it makes
# fix: boards = boards.to(device)
# also: values = values.to(device)
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.look, self.weigh = nn.Linear(3, 3), nn.Linear(3, 1)
    def forward(self, squares, worth):
        return self.weigh(self.look(squares) * worth)
def judged(judge, games, device):
    found = []
    for boards, values in games:
        boards.to(device)
        values.to(device)
        found.append(judge(boards.transpose(0, 1), values[:2]))
    return found
judged(Judge().to("cuda:0"), [(torch.ones(3, 2), torch.ones(4, 3))], torch.device("cuda:0"))

# === marks that were read, and of which a function chooses some
# category: input-not-moved
# confidence: low
# repairs: cause
# fix: marks = torch.tensor(register["marks"], device=seats.device)
def chosen(marks, seats):
    return marks.gather(0, seats)

def listed(register, seats):
    marks = torch.tensor(register["marks"])
    return chosen(marks, seats)

listed({"marks": [2.0, 3.0, 4.0]}, torch.tensor([1, 0], device="cuda:0"))

# === places that a function has scaled, beside a map of a file that lies with the model
# category: input-not-moved
# confidence: low
# repairs: cause
# fix: places = torch.tensor(rows.tolist(), device=ground.device)
import io
class Terrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Linear(2, 1)

    def heights(self, places, ground):
        places = places / 2.0
        parts = [part @ ground for part in places.split(2)]
        return self.slope(torch.cat(parts))

def walked(args, rows, ground):
    places = torch.tensor(rows.tolist())
    return args["terrain"].heights(places, ground)

saved = io.BytesIO()
torch.save(torch.ones(2, 2, device="cuda:0"), saved)
saved.seek(0)
walked({"terrain": Terrain().to("cuda:0")}, torch.ones(3, 2), torch.load(saved))
