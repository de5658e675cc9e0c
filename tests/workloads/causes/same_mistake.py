# The same mistake in several lines, which the report's fix mends together.
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)

# === a module keeps two tensors in lines that follow each other, and registers none
# category: state-not-registered
# confidence: high
# repairs: cause
# fix: self.register_buffer("counts", counts, persistent=False)
# also: self.register_buffer("scale", torch.full((2,), 0.5), persistent=False)
class Likelihood(nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.net = nn.Linear(2, 2)
        self.scale = torch.full((2,), 0.5)
        self.counts = counts
    def forward(self, x, which):
        rates = self.net(x)
        rates = rates / self.counts[which][:, None]
        return (rates / self.scale).sum()
model = Likelihood(torch.arange(1.0, 4.0)).to("cuda:0")
model(torch.ones(2, 2, device="cuda:0"), torch.tensor([0, 2], device="cuda:0"))

# === two values that a mapping of its own gives to one call
# category: cached-state-elsewhere
# confidence: medium
# repairs: line
# fix: return F.linear(x, layer.cache["weight"].to(x.device), layer.cache["bias"].to(x.device))
class Cache:
    def __init__(self, device):
        self.values, self.device = {}, device
    def __setitem__(self, name, value):
        self.values[name] = value.detach().to(self.device)
    def __getitem__(self, name):
        return self.values[name]
def offloaded(layer, x):
    return F.linear(x, layer.cache["weight"], layer.cache["bias"])
layer = nn.Linear(3, 2).to("cuda:0")
layer.cache = Cache("cuda:1")
for name in ("weight", "bias"):
    layer.cache[name] = getattr(layer, name)
offloaded(layer, torch.ones(1, 3, device="cuda:0"))

# === fields of an object's object that the lines below compute with
# category: input-not-moved
# confidence: low
# repairs: line
# fix: torch.gather(robot.data.torque.to(index.device), 1, index, out=torque)
# also: torch.gather(robot.data.position.to(index.device), 1, index, out=position)
class Data:
    def __init__(self, torque, position):
        self.torque, self.position = torque, position
class Robot:
    def __init__(self, data):
        self.data = data
def observe(robot, device):
    index = torch.tensor([[0, 2], [1, 2]], device=device)
    torque, position = torch.empty(2, 2, device=device), torch.empty(2, 2, device=device)
    torch.gather(robot.data.torque, 1, index, out=torque)
    torch.gather(robot.data.position, 1, index, out=position)
    return torque + position
torque, position = torch.rand(2, 3), torch.zeros(2, 3)
observe(Robot(Data(torque, position)), "cuda:0")

# === a line far above is changed, and another value of the failing one lies where that was
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: noise = torch.ones(2, device=schedule.device)
# also: kept["samples"] = kept["samples"].clone().to(noise.device) + noise * strength
def execute(kept, schedule, device):
    noise = torch.ones(2)
    first = 0
    last = len(schedule) - 1
    names = ["samples", "mask"]
    count = len(names)
    if count != 2:
        raise ValueError(count)
    if last <= first:
        raise ValueError(last)
    strength = schedule[first] - schedule[last]
    kept["samples"] = kept["samples"].clone() + noise * strength
    return kept
execute({"samples": torch.zeros(2)}, torch.linspace(1, 0, 3, device="cuda:0"), torch.device("cuda:0"))

# === two tensors that one is computed of, each made in a line of its own
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: rows = torch.arange(3, device=x.device) * 2
# also: columns = torch.arange(2, device=x.device) * 2
class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(2, 1)
    def forward(self, x):
        scores = self.score(x)
        columns = torch.arange(2) * 2
        rows = torch.arange(3) * 2
        rows, columns = torch.meshgrid(rows, columns, indexing="ij")
        places = torch.stack([rows.flatten(), columns.flatten()]).t()
        windows = places.reshape(3, 2, 2).transpose(0, 1).flatten(1)
        return windows[scores[:, 0] > -9]
Points().to("cuda:0")(torch.ones(2, 2, device="cuda:0"))

# === parameters that a layer makes at its first call
# category: created-without-device
# confidence: medium
# repairs: cause
# fix: self.fraction = nn.Parameter(torch.full((1,), 4.0, device=x.device))
# also: self.sign = nn.Parameter(torch.full((1,), 1.0, device=x.device), requires_grad=False)
# also: self.integer = nn.Parameter(torch.full((1,), 2.0, device=x.device))
class Rounding(nn.Module):
    def __init__(self):
        super().__init__()
        self.built = False
    def reset(self):
        self.seen = torch.zeros(1)
    def build(self, x):
        self.sign = nn.Parameter(torch.full((1,), 1.0), requires_grad=False)
        self.integer = nn.Parameter(torch.full((1,), 2.0))
        self.fraction = nn.Parameter(torch.full((1,), 4.0))
        self.built = True
    def forward(self, x):
        if not self.built:
            self.build(x)
        step = torch.exp2(-self.fraction)
        return torch.minimum(torch.round(x / step) * step, self.sign * torch.exp2(self.integer))
Rounding().to("cuda:0")(torch.ones(1, 2, device="cuda:0"))

# === a second tensor that another method computes with
# category: state-not-registered
# confidence: high
# repairs: cause
# fix: self.register_buffer("offset", torch.full((3,), 0.5), persistent=False)
# also: self.register_buffer("stretch", torch.arange(1.0, 4.0), persistent=False)
class Recalled(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 3)
        self.offset = torch.full((3,), 0.5)
        self.stretch = torch.arange(1.0, 4.0)
        self.order = torch.tensor([2, 0, 1])
    def centred(self, x):
        return x - self.offset
    def stretched(self, x):
        longest = x.abs().max()
        return x * self.stretch / longest
    def sorted(self, x):
        return x[:, self.order]
    def forward(self, x):
        x = self.centred(self.net(x))
        return self.stretched(x)
Recalled().to("cuda:0")(torch.ones(2, 3, device="cuda:0"))
