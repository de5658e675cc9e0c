# Batches: dicts, dataclasses and the like, of which a line moves a part.
import dataclasses

import torch
from torch import nn
torch.manual_seed(0)

# === a list among what was moved
# category: input-not-moved
# confidence: high
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

# === a batch whose class gives another one
# category: input-not-moved
# confidence: high
# repairs: cause
# says: drops what it makes
# fix: batch = batch.to("cuda:0")
class Batch(dict):
    def to(self, device):
        return Batch({key: value.to(device) for key, value in self.items()})
def evaluate(model):
    batch = Batch(x=torch.ones(4, 3))
    batch.to("cuda:0")
    return model(batch["x"])
evaluate(nn.Linear(3, 2).to("cuda:0"))

# === one field of a batch in a constructor's line
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: return Graph(self.x.to(device), self.edges.to(device))
class Graph:
    def __init__(self, x, edges):
        self.x, self.edges = x, edges
    def to(self, device):
        return Graph(self.x.to(device), self.edges)
class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
    def forward(self, graph):
        hidden = self.linear(graph.x)
        source, target = graph.edges
        return torch.zeros_like(hidden).index_add_(0, target, hidden[source])
graph = Graph(torch.ones(4, 3), torch.tensor([[0, 1, 2], [1, 2, 3]])).to("cuda:0")
Convolution().to("cuda:0")(graph)

# === fields of a batch that moves itself
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: batch = batch.to(next(model.parameters()).device)
# fix: loss = nn.functional.mse_loss(model(batch.x), batch.y)
@dataclasses.dataclass(frozen=True)
class Batch:
    x: torch.Tensor
    y: torch.Tensor

    def to(self, device):
        return dataclasses.replace(self, x=self.x.to(device), y=self.y.to(device))

def collated(rows):
    return Batch(torch.ones(rows, 3), torch.ones(rows, 2))

def loss_of(model, batch):
    loss = nn.functional.mse_loss(model(batch.x), batch.y)
    return loss

loss_of(nn.Linear(3, 2).to("cuda:0"), collated(2))

# === fields of a batch that cannot be assigned
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: out = model(batch.x.to(next(model.parameters()).device))
@dataclasses.dataclass(frozen=True)
class Pair:
    x: torch.Tensor
    y: torch.Tensor

def paired(rows):
    return Pair(torch.ones(rows, 3), torch.ones(rows, 2))

def answer(model, batch):
    out = model(batch.x)
    return out, batch.y * 2

answer(nn.Linear(3, 2).to("cuda:0"), paired(2))

# === a dict of which lines below read more
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: batch = {key: value.to(next(model.parameters()).device) for key, value in batch.items()}
# fix: outputs = {"next": model(batch["ids"])}
def sums_of(model, batch):
    total = 0.0
    outputs = {"next": model(batch["ids"])}
    for name, logits in outputs.items():
        total += (logits - batch[name]).sum().item()
    return total

sums_of(nn.Linear(3, 2).to("cuda:0"), {"ids": torch.ones(2, 3), "next": torch.ones(2, 2)})

# === what a line does not look into that moves a batch, and a tensor is stacked of
# category: input-not-moved
# confidence: high
# repairs: cause
# says: was computed from
# fix: batch = {key: torch.utils._pytree.tree_map_only(torch.Tensor, lambda value: value.to(device), value) for key, value in batch.items()}
class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, cond):
        pixels = torch.stack(cond["views"])
        return self.layer(pixels)

def evaluate(model, batch, device):
    batch = {key: value.to(device) if torch.is_tensor(value) else value for key, value in batch.items()}
    return model(batch["cond"]).sum() + batch["image"].sum()

def sample():
    pictures = torch.ones(2, 3)
    return {"image": pictures, "cond": {"views": [pictures * 2, pictures * 3]}}

evaluate(Views().to("cuda:0"), sample(), torch.device("cuda:0"))

# === a dict of which one line reads two
# category: input-not-moved
# confidence: high
# repairs: line
# fix: return self.image(data["image"].flatten(1).to(next(self.image.parameters()).device)) + self.state(data["state"].to(next(self.state.parameters()).device))
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.state = nn.Linear(4, 2), nn.Linear(3, 2)
    def act(self, data):
        return self.image(data["image"].flatten(1)) + self.state(data["state"])
Policy().to("cuda:0").act({"image": torch.ones(1, 2, 2), "state": torch.ones(1, 3)})

# === a dict of which one line reads two, beside a value
# category: cached-state-elsewhere
# confidence: low
# repairs: line
# fix: stats = {key: each.to(value.device) if hasattr(each, "to") else each for key, each in stats.items()}
# fix: return (value - stats["mean"]) / stats["std"]
class Normalize:
    def __init__(self):
        self.stats = {"mean": torch.zeros(2), "std": torch.ones(2)}
    def __call__(self, value):
        stats = self.stats
        return (value - stats["mean"]) / stats["std"]
Normalize()(torch.ones(2, device="cuda:0"))

# === a batch that is nested
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: return model(torch.utils._pytree.tree_map_only(torch.Tensor, lambda value: value.to(next(model.parameters()).device), batch))
class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts, self.rays = nn.Linear(4, 2), nn.Linear(2, 2)
    def forward(self, batch):
        return self.parts(batch["parts"]) + self.rays(batch["camera"]["centers"])
def run(model, batch):
    return model(batch)
run(Body().to("cuda:0"), {"parts": torch.ones(1, 4), "camera": {"centers": torch.ones(1, 2), "focal": 20.0}})

# === a dict that the next line moves elsewhere
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: inputs = {name: value.to(next(model.embed.parameters()).device) for name, value in inputs.items()}
class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision, self.embed = nn.Linear(3, 3), nn.Embedding(4, 3)
    @property
    def device(self):
        return next(self.parameters()).device
    def generate(self, ids):
        return self.embed(ids)
def process(words):
    return {"ids": torch.tensor([words])}
def run(model):
    inputs = process([1, 2])
    inputs = {name: value.to(model.device) for name, value in inputs.items()}
    return model.generate(**inputs)
model = Partly()
model.embed.to("cuda:0")
run(model)

# === what a wrapper passes on
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: return layer(*[value.to(next(layer.parameters()).device) for value in args], **{key: value.to(next(layer.parameters()).device) if hasattr(value, "to") else value for key, value in kwargs.items()})
class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 3)
    def forward(self, x, gate):
        return self.up(x) * gate
def caught():
    return (torch.ones(2, 3).cpu(),), {"gate": torch.ones(2, 3).cpu()}
def again(layer, device):
    args, kwargs = caught()
    return layer(*args, **kwargs)
again(Gated().to("cuda:0"), "cuda:0")

# === what several ranks have saved is read by one line
# category: checkpoint-device
# confidence: medium
# repairs: cause
# says: read what had been saved from
# fix: parts.append(torch.load(file, map_location="cpu"))
import io

def collected(files):
    parts = []
    for file in files:
        parts.append(torch.load(file))
    return torch.cat([part["scores"] for part in parts])

files = [io.BytesIO(), io.BytesIO()]
for rank, file in enumerate(files):
    torch.save({"scores": torch.ones(2, device=f"cuda:{rank}")}, file)
    file.seek(0)
collected(files)

# === a dict within a batch whose class has a method to
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: batch = batch.to(next(net.parameters()).device)
# fix: hidden = net(**batch.rows)
class Claims:
    def __init__(self, rows, mask):
        self.rows, self.mask = rows, mask
    def to(self, device):
        self.rows = {key: value.to(device) for key, value in self.rows.items()}
        self.mask = self.mask.to(device)
        return self
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4)
    def forward(self, ids):
        return self.embed(ids)
def embedded(net, batch):
    hidden = net(**batch.rows)
    return hidden * batch.mask
embedded(Words().to("cuda:0"), Claims({"ids": torch.ones(3, dtype=torch.long)}, torch.ones(4)))

# === pairs that lines below go over, too
# category: created-without-device
# confidence: low
# repairs: line
# fix: indices = torch.utils._pytree.tree_map_only(torch.Tensor, lambda value: value.to(indices[0][0].device), indices)
# fix: sources = torch.cat([source for source, _ in indices])
def permutation(indices):
    sources = torch.cat([source for source, _ in indices])
    batches = torch.cat([torch.full_like(source, number) for number, (source, _) in enumerate(indices)])
    return batches, sources
nothing = torch.as_tensor([], dtype=torch.int64)
found = torch.tensor([0, 2], device="cuda:0")
permutation([(found, found), (nothing, nothing)])

# === a batch that is a dict with a method to move it
# category: input-not-moved
# confidence: medium
# repairs: cause
# fix: batch = batch.to(next(net.parameters()).device)
# fix: answer = net(batch)
class Features(dict):
    def to(self, device):
        for name, value in self.items():
            self[name] = value.to(device)
        return self

class Asker(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5, 3)

    def forward(self, batch):
        return self.words(batch["ids"]) * batch["mask"][..., None]

def asked(net, batch):
    answer = net(batch)
    return answer.sum(1) - batch["label"][:, None]

asked(Asker().to("cuda:1"), Features(ids=torch.ones(2, 3, dtype=torch.long), mask=torch.ones(2, 3), label=torch.ones(2)).to("cuda:0"))

# === a batch that moves itself, given to a second model
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: sure.append(judge(second.to(judge.embed.weight.device)))
class Graph:
    def __init__(self, atoms, places):
        self.atoms, self.places = atoms, places
    def to(self, device):
        return Graph(self.atoms.to(device), self.places.to(device))
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(4, 3), nn.Linear(3, 1)
    def forward(self, graph):
        atoms = self.embed(graph.atoms)
        return self.head(atoms * graph.places[:, None])
def rate(judge, graphs):
    sure = []
    for second in graphs:
        sure.append(judge(second))
    return sure
rate(Judge().to("cuda:0"), [Graph(torch.tensor([1, 2]), torch.ones(2))])

# === a batch that a method of the model's gives to the model, and goes on with
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: return ranker.ranked(deck.to(ranker.read.weight.device))
class Deck:
    def __init__(self, cards):
        self.cards = cards
    def to(self, device):
        return Deck({name: value.to(device) for name, value in self.cards.items()})
class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.doubt = nn.Linear(2, 1), nn.Linear(2, 1)
    def forward(self, deck):
        return self.read(deck.cards["faces"])
    def ranked(self, deck):
        scores = self(deck)
        return scores - self.doubt(deck.cards["faces"])
def best(ranker, decks):
    for deck in decks:
        return ranker.ranked(deck)
best(Ranker().to("cuda:0"), [Deck({"faces": torch.ones(3, 2)})])

# === … that a function gives to a model, and goes on with
# category: input-not-moved
# confidence: high
# repairs: cause
# fix: sheet = sheet.to(reader.weigh.weight.device)
# fix: read = reader(sheet)
class Sheet:
    def __init__(self, rows):
        self.rows = rows
    def to(self, device):
        return Sheet({name: value.to(device) for name, value in self.rows.items()})
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.weigh = nn.Linear(2, 2)
    def forward(self, sheet):
        return self.weigh(sheet.rows["marks"])
def kept(reader, sheet):
    read = reader(sheet)
    return read + sheet.rows["marks"]
kept(Reader().to("cuda:0"), Sheet({"marks": torch.ones(3, 2)}))
