# The line that a fix changes is not the last one in which what it brings along meets what stays.
import time

import torch
from torch import nn
torch.manual_seed(0)

# === what else was computed from the argument
# category: created-without-device
# confidence: medium
# repairs: line
# fix: beam = (height[:, None].to(edges.device) > edges).sum(1)
# also: return torch.stack([beam.float(), angle.abs().to(beam.device), (-points[:, 2]).to(beam.device)], 1)
def raster(points, edges):
    height = points[:, 1] / points[:, 2]
    beam = (height[:, None] > edges).sum(1)
    angle = points[:, 0] * 2
    return torch.stack([beam.float(), angle.abs(), -points[:, 2]], 1)
def run(points, device):
    return raster(points, torch.linspace(0, 1, 4, device=device)).to(device)
run(torch.rand(6, 3), "cuda:0")

# === what the caller computes with the result
# category: unknown
# confidence: low
# repairs: line
# fix: return x.to(scale.device) * scale
# also: return y - means.to(y.device)
def scaled(x, scale):
    return x * scale
def normal(x, scale, means):
    y = scaled(x, scale)
    return y - means
normal(torch.ones(3), torch.ones(3, device="cuda:0"), torch.ones(3))

# === what may lie anywhere stays
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: x = torch.ones(3, device=scale.device)
class Kept:
    def __init__(self):
        self.last, self.order = torch.zeros(3), torch.tensor([2, 0, 1])
    def run(self, scale):
        x = torch.ones(3)
        y = x * scale
        y = y[self.order]
        self.last.copy_(y)
        for each in self.last.tolist():
            y = y + each
        return y + self.last[0] * 2
Kept().run(torch.ones(3, device="cuda:0"))

# === the module that the next line calls
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: seen = self.eyes(pixels.to(next(self.eyes.parameters()).device))
# also: felt = self.hand(state.to(next(self.hand.parameters()).device))
class Robot:
    def __init__(self, device):
        self.eyes, self.hand = nn.Linear(3, 4).to(device), nn.Linear(2, 4).to(device)
    def act(self, pixels, state):
        seen = self.eyes(pixels)
        felt = self.hand(state)
        return seen + felt
def stated():
    return torch.ones(1, 2)
Robot("cuda:0").act(torch.ones(1, 3), stated())

# === what a cache is given
# category: cached-state-elsewhere
# confidence: medium
# repairs: line
# fix: self.keys[layer][:, places.to(self.keys[layer].device)] = keys.to(self.keys[layer].device)
class StaticCache:
    def __init__(self, layers, device):
        self.keys = [torch.zeros(1, 4, 3, device=device) for _ in range(layers)]
    def update(self, layer, keys, places):
        self.keys[layer][:, places] = keys
        return self.keys[layer]
def run(cache, x):
    for layer, device in enumerate(("cuda:0", "cuda:1")):
        x = cache.update(layer, x.to(device), torch.arange(2, device=device))[:, :2]
    return x
cache = StaticCache(2, "cuda:0")
time.sleep(0.02)  # the clock of allocations is coarse
run(cache, torch.ones(1, 2, 3))

# === the best of each row, further down
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: places = torch.arange(3, device=heights.device)
# also: return taken - peaks.max(dim=1)[0].to(taken.device)
def above(heights, peaks):
    places = torch.arange(3)
    taken = (heights * places).sum(1)
    return taken - peaks.max(dim=1)[0]
above(torch.ones(2, 3, device="cuda:0"), torch.ones(2, 3).cumsum(1))

# === two tensors that one line makes, further down
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: x = torch.tensor(rows, device=next(model.parameters()).device)
# also: unit = torch.distributions.Normal(torch.zeros(1, device=next(model.parameters()).device), torch.ones(1, device=next(model.parameters()).device))
def chances(model, rows):
    x = torch.tensor(rows)
    unit = torch.distributions.Normal(torch.zeros(1), torch.ones(1))
    return unit.cdf(model(x))
chances(nn.Linear(2, 1).to("cuda:0"), [[0.5, 1.0], [2.0, -1.0]])

# === a name that a line further down gives a new value of its own
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: mask = torch.arange(5, device=kept["rows"].device) < counts[:, None].to(kept["rows"].device)
# also: return rows / counts[:, None].to(rows.device)
def means(kept, counts):
    mask = torch.arange(5) < counts[:, None]
    counts = counts - 1
    rows = (kept["rows"] * mask).sum(1, keepdim=True)
    return rows / counts[:, None]
means({"rows": torch.ones(2, 5, device="cuda:0")}, torch.tensor([4, 3]))

# === a loss, which has no state of its own
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: letters = begun(letters).to(next(reader.parameters()).device)
# also: return judge(told.tanh(), meant[:, None].to(told.device))
def begun(letters):
    return torch.tensor(letters).float()
def read(reader, judge, letters, meant):
    letters = begun(letters)
    told = reader(letters)
    return judge(told.tanh(), meant[:, None])
read(nn.Linear(2, 1).to("cuda:0"), nn.MSELoss(), [[1, 0], [0, 1]], torch.ones(3)[1:])

# === a number that the next line gives to a module
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: first = self.words(torch.tensor(codes[0], device=next(self.parameters()).device)).unsqueeze(0)
# also: self.last = self.words(torch.tensor(codes[-1]).to(next(self.words.parameters()).device))
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(4, 3), nn.Linear(3, 2)
        self.to("cuda:0")
    def ends(self, codes):
        first = self.words(torch.tensor(codes[0])).unsqueeze(0)
        self.last = self.words(torch.tensor(codes[-1]))
        return first
Reader().ends([1, 3, 2])

# === the layer behind one that was brought
# category: module-split-or-hook-missing
# confidence: medium
# repairs: line
# fix: self.inner.to(x.device)
# fix: seen = self.inner(x)
# also: return self.outer.to(seen.device)(seen)
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(2, 3), nn.Linear(3, 1)
    def __call__(self, x):
        seen = self.inner(x)
        return self.outer(seen)
class Pair:
    def __init__(self, device):
        self.player, self.judge = nn.Linear(2, 2), Judge()
        self.player.to(device)
    def run(self, x):
        return self.judge(self.player(x))
Pair("cuda:0").run(torch.ones(1, 2, device="cuda:0"))

# === what a module that was brought is given
# category: module-split-or-hook-missing
# confidence: medium
# repairs: cause
# fix: self.cell.to(x.device)
# fix: self.kept = self.cell(x, self.kept.to(next(self.cell.parameters()).device))
class Player:
    def __init__(self):
        self.cell, self.kept = nn.GRUCell(2, 3), None
    def begin(self):
        self.kept = self.cell.weight_hh.new_zeros(1, 3)
    def step(self, x):
        self.kept = self.cell(x, self.kept)
        return self.kept.sum()
class Game:
    def __init__(self, device):
        self.new, self.old = Player(), Player()
        self.new.cell.to(device)
    def run(self, x):
        self.old.begin()
        return self.old.step(x)
Game("cuda:0").run(torch.ones(1, 2, device="cuda:0"))

# === a list that a name was before it was a tensor
# category: created-without-device
# confidence: low
# repairs: cause
# fix: kinds.append(torch.full((len(rows),), number, device=chosen.device))
# also: kinds = kinds.to(chosen.device)[chosen]
def kinds_of(levels, chosen):
    kinds = []
    for number, rows in enumerate(levels):
        kinds.append(torch.full((len(rows),), number))
    kinds = torch.cat(kinds)
    kinds = kinds[chosen]
    return kinds
kinds_of([torch.ones(2, device="cuda:0"), torch.ones(1, device="cuda:0")], torch.tensor([True, False, True], device="cuda:0"))

# === what a function that is called below gives
# category: created-without-device
# confidence: low
# repairs: line
# fix: soft = tones * slope(tones.shape[0]).to(tones.device)
# also: return soft @ bands(tones.shape[0]).to(soft.device)
def slope(count):
    return torch.linspace(0, 1, count).square()
def bands(count):
    rows = torch.arange(count)
    return (rows[:, None] - rows).abs().float()
def heard(tones):
    soft = tones * slope(tones.shape[0])
    return soft @ bands(tones.shape[0])
heard(torch.ones(4, device="cuda:0"))

# === what a method that is called below computes
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: pages = self.pages(scans.to(next(self.pages.parameters()).device))
# also: lines = self.words(marks.to(next(self.words.parameters()).device))
# also: return self.judge(pages, marks[:, None].expand_as(pages).to(pages.device)) + lines.sum()
class Library(nn.Module):
    def __init__(self):
        super().__init__()
        self.pages, self.words, self.judge = nn.Linear(3, 2), nn.Embedding(4, 2), nn.MSELoss()
    def cost(self, pages, marks):
        lines = self.words(marks)
        return self.judge(pages, marks[:, None].expand_as(pages)) + lines.sum()
    def read(self, scans, marks):
        pages = self.pages(scans)
        return self.cost(pages, marks=marks)
class Shelf:
    def __init__(self):
        self.marks = torch.tensor([2, 3])
    def taken(self):
        return torch.ones(2, 3)
def run(library, shelf):
    return library.read(shelf.taken(), shelf.marks)
run(Library().to("cuda:0"), Shelf())

# === what a called function calls, and what another object's method has
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: steps = torch.arange(3, device=ways.device)
# also: return steps * torch.ones(3).to(steps.device)
# also: return (worth - self.costs.to(worth.device)).sum()
def weighed(steps):
    return steps * torch.ones(3)
class Map:
    def __init__(self):
        self.costs = torch.tensor([1.0, 0.5, 2.0])
    def total(self, steps):
        worth = weighed(steps)
        return (worth - self.costs).sum()
def planned(ways, chart):
    steps = torch.arange(3)
    steps = ways * steps
    return chart.total(steps)
planned(torch.ones(3, device="cuda:0"), Map())

# === what evaluates a model as it is trained
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: loss = nn.functional.cross_entropy(told, kinds.to(told.device))
# also: total = total + nn.functional.cross_entropy(told, kinds.to(told.device)).item()
def evaluated(model, batches, device):
    total = 0.0
    for rows, kinds in batches:
        told = model(rows.to(device))
        total = total + nn.functional.cross_entropy(told, kinds).item()
    return total
def trained(model, batches, device):
    for rows, kinds in batches:
        told = model(rows.to(device))
        loss = nn.functional.cross_entropy(told, kinds)
        loss.backward()
    return evaluated(model, batches, device)
trained(nn.Linear(3, 2).to("cuda:0"), [(torch.ones(2, 3), torch.tensor([1, 0]))], "cuda:0")

# === where the line below a comprehension has words for a device
# category: created-without-device
# confidence: low
# repairs: line
# fix: left = [place.item() for place in left if place not in taken.to(place.device)]
# also: taken = torch.cat([taken.to(more.device), more])
def taken_by(count):
    return torch.arange(count) * 2, count
def places(pairs, scores, device):
    for pair in pairs:
        taken, count = pair
        left = torch.arange(len(scores), device=device)
        left = [place.item() for place in left if place not in taken]
        more = torch.tensor(left[:1], device=device)
        taken = torch.cat([taken, more])
    return taken
places([taken_by(2)], torch.ones(4, device="cuda:0"), torch.device("cuda:0"))

# === what NumPy is given below
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: shown = (scores > 0.5) * torch.tensor(picture, device=scores.device)
# also: return kept, shown.cpu().numpy()
def masked(scores, picture):
    kept = (scores > 0.5).sum().item()
    shown = (scores > 0.5) * torch.tensor(picture)
    return kept, shown.numpy()
masked(torch.ones(2, device="cuda:0"), [3.0, 4.0])

# === what is written to through its data stays where it is
# category: optimizer-state
# confidence: medium
# repairs: line
# fix: slow.data.add_(fast.data.to(slow.data.device) - slow.data, alpha=0.5)
class Slow(torch.optim.SGD):
    def __init__(self, parameters):
        super().__init__(list(parameters), lr=0.1)
        self.slow = [each.detach().clone() for each in self.param_groups[0]["params"]]
    def step(self):
        super().step()
        for slow, fast in zip(self.slow, self.param_groups[0]["params"]):
            slow.data.add_(fast.data - slow.data, alpha=0.5)
            fast.data.copy_(slow.data)
def trained(model, device):
    optimizer = Slow(model.parameters())
    model.to(device)
    model(torch.ones(1, 2, device=device)).sum().backward()
    optimizer.step()
trained(nn.Linear(2, 1), "cuda:0")

# === layers that a function makes within calls of another one
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: narrow = frozen(nn.Linear(4, 2, dtype=sound.dtype).to(sound.device))
# also: wide = frozen(nn.Linear(2, 4, dtype=bent.dtype).to(sound.device))
def frozen(layer):
    return layer.requires_grad_(False)
class Squeeze(nn.Module):
    def forward(self, sound):
        narrow = frozen(nn.Linear(4, 2, dtype=sound.dtype))
        bent = torch.tanh(narrow(sound))
        wide = frozen(nn.Linear(2, 4, dtype=bent.dtype))
        _unused = frozen(nn.Linear(2, 4, dtype=bent.dtype))
        return wide(bent)
Squeeze()(torch.ones(1, 4, device="cuda:0"))

# === a method of the same object that is called after one that returned nothing
# category: created-without-device
# confidence: medium
# repairs: line
# fix: weight -= self.given[name].to(self.own[name].device) - self.own[name]
# also: total = total + (self.given[name].to(self.own[name].device) * self.own[name]).sum()
class Drift:
    def __init__(self, weights):
        self.own, self.given = {name: torch.ones_like(weight) for name, weight in weights.items()}, {}
    def load(self, arrays):
        self.given = {name: torch.as_tensor(values) for name, values in arrays.items()}
    def correct(self, weights):
        for name, weight in weights.items():
            weight -= self.given[name] - self.own[name]
    def size(self, weights):
        total = 0.0
        for name in weights:
            total = total + (self.given[name] * self.own[name]).sum()
        return total
class Client:
    def __init__(self, device):
        self.weights = {"w": torch.ones(2, device=device)}
        self.drift = Drift(self.weights)
    def train(self, arrays):
        self.drift.load(arrays)
        self.drift.correct(self.weights)
        return self.drift.size(self.weights)
client = Client("cuda:0")
time.sleep(0.02)
client.train({"w": torch.tensor([1.0, 2.0]).numpy()})

# === the same options for a device in another method
# category: state-not-registered
# confidence: medium
# repairs: cause
# fix: rows = rows.to(**{**self.options, "device": next(self.parameters()).device})
# also: rows = rows.to(**{**self.options, "device": next(self.parameters()).device})
class Scaler(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.options = {"dtype": torch.float32, "device": torch.device(device)}
        self.mean = nn.Parameter(torch.zeros(2), requires_grad=False)
    def update(self, rows):
        rows = rows.to(**self.options)
        self.mean.mul_(0.5).add_(rows.mean(0) * 0.5)
    def scaled(self, rows):
        rows = rows.to(**self.options)
        return rows - self.mean
def run(scaler, rows):
    scaler.update(rows)
    return scaler.scaled(rows).sum()
scaler = Scaler().to("cuda:0")
time.sleep(0.02)
run(scaler, torch.ones(3, 2, device="cuda:0"))

# === a name that another running function has for a part of it
# category: input-not-moved
# confidence: low
# repairs: cause
# fix: told = {key: value.to(x.device) if hasattr(value, "to") else value for key, value in read(rows).items()}
def read(rows):
    return {name: torch.from_numpy(values) for name, values in rows.items()}
class Scale:
    def __init__(self, device):
        self.scale = torch.full((2,), 2.0, device=device)
    def apply(self, told):
        return told * self.scale
def run(scale, rows, x):
    told = read(rows)
    y = scale.apply(told["rows"])
    return x + y
run(Scale("cuda:0"), {"rows": torch.ones(2).numpy()}, torch.ones(2, device="cuda:0"))

# === an object that is called below as a function is
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: places = torch.arange(3, device=scores.device)
# also: return torch.ones(3).to(scores.device) * scores
class Matcher:
    def __call__(self, scores):
        return torch.ones(3) * scores
def matched(scores, matcher):
    places = torch.arange(3)
    scores = scores * places
    return matcher(scores)
matched(torch.ones(3, device="cuda:0"), Matcher())
