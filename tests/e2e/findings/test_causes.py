"""Causes that only structure tells apart: what holds a tensor, which thread chose its device, whose method is called. Each is a small program
with its defect; the fix, put into the line that it names, makes it run."""

import pytest
from conftest import findings_of, start_snippets

HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
"""


def case(source, category, confidence, repairs, says=(), fix=None):
    return {"source": HEAD + source, "category": category, "confidence": confidence, "repairs": repairs, "says": says, "fix": fix}


CASES = {
    "what a result was computed from": case(
        """
def scores(query):
    seen = torch.ones(4, 4, dtype=torch.bool).tril()
    return torch.zeros(4, 4, device=query.device).masked_fill(seen.logical_not(), -1.0) + query
scores(torch.ones(4, 4, device="cuda:0"))
""",
        "created-without-device", "medium", "cause", ["was computed from seen", "says no device"],
    ),
    "a module's device as an attribute": case(
        """
class Filter(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.device = device
        self.gain = nn.Parameter(torch.ones(3))
    def forward(self, x):
        lowest = torch.zeros(3, device=self.device)
        return torch.maximum(x * self.gain, lowest)
Filter().to("cuda:0")(torch.ones(2, 3, device="cuda:0"))
""",
        "state-not-registered", "medium", "line", ["self.device says"],
    ),
    "an object keeps the device that its model has left": case(
        """
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
""",
        "cached-state-elsewhere", "medium", "line", ["a plain attribute of Predictor"],
    ),
    "results of two models": case(
        """
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
""",
        "module-split-or-hook-missing", "low", "line", ["self.reference"],
    ),
    "a private attribute": case(
        """
class Noise:
    def __init__(self):
        self.__levels = torch.linspace(0, 1, 10).to("cuda:0")
    def add(self, step):
        return self.__levels[step]
Noise().add(torch.tensor([1, 2]).to("cuda:1"))
""",
        "cached-state-elsewhere", "low", "line", ["self.__levels", "Noise"],
    ),
    "a list hides modules": case(
        """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.heads = [nn.Linear(4, 2), nn.Linear(4, 3)]
    def forward(self, x):
        return [head(self.body(x)) for head in self.heads]
model = Heads().to("cuda:0")
model(torch.ones(2, 4, device="cuda:0"))
""",
        "state-not-registered", "high", "cause", ["heads of Heads", "plain list"],
        "self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 3)])",
    ),
    "an object that is no module": case(
        """
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
""",
        "state-not-registered", "high", "line", ["Scale, which is no module"], "return x * self.factor.to(x.device)",
    ),
    "a distribution": case(
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.noise = torch.distributions.Normal(torch.zeros(4), torch.ones(4))
    def forward(self, x):
        return self.noise.log_prob(self.body(x))
model = Net().to("cuda:0")
model(torch.ones(2, 4, device="cuda:0"))
""",
        "state-not-registered", "high", "line", ["Normal, which is no module"],
        'self.noise = torch.distributions.Normal(torch.zeros(4, device="cuda:0"), torch.ones(4, device="cuda:0"))',
    ),
    "registered after all": case(
        """
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
""",
        "input-not-moved", "high", "line", ["is given to Net"],
    ),
    "another thread": case(
        """
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
""",
        "default-or-current-device", "high", "cause", ["by another thread"],
        'batches.append(torch.ones(2, 4).to("cuda:1", non_blocking=True))',
    ),
    "a replica calls the original": case(
        """
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
""",
        "data-parallel", "high", "cause", ["is bound to _near"], "return self._near(x)",
    ),
    "a closure remembers": case(
        """
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
""",
        "cached-state-elsewhere", "medium", "line", ["positions keeps tensors on cuda:0 (results"],
        "return positions(x).to(x.device) + x.square()",
    ),
    "a value of a parameter group": case(
        """
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
""",
        "optimizer-state", "high", "cause", ['param_groups[0]["total"]', "load_state_dict"],
    ),
    "kept from before it was moved": case(
        """
model = nn.Linear(4, 4)
kept = [weight.detach() for weight in model.parameters()]
model.to("cuda:0")
change = model.weight - kept[0]
""",
        "cached-state-elsewhere", "high", "line", ["is what model.weight was until that was moved to cuda:0"],
        "change = model.weight - kept[0].to(model.weight.device)",
    ),
    "an argument of the CPU": case(
        """
from torch.nn.utils.rnn import pack_padded_sequence
def pack(x, lengths):
    return pack_padded_sequence(x, lengths, batch_first=True)
pack(torch.ones(2, 3, 4, device="cuda:0"), torch.tensor([3, 2], device="cuda:0"))
""",
        "input-wanted-on-cpu", "high", "cause", ["on the CPU only"],
        "return pack_padded_sequence(x, lengths.cpu(), batch_first=True)",
    ),
    "two models of one object": case(
        """
class Converter:
    def __init__(self):
        self.model, self.encoder = nn.Linear(4, 4).to("cuda:1"), nn.LSTM(4, 4).to("cuda:0")
    def convert(self, x):
        x = x.to(self.model.weight.device)
        return self.encoder(x)
Converter().convert(torch.ones(3, 2, 4))
""",
        "module-split-or-hook-missing", "medium", "line", ["Converter is no module"], "self.encoder.to(x.device)\nreturn self.encoder(x)",
    ),
    "a device in a dict of a module": case(
        """
class Scale(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.factory_kwargs = {"device": device, "dtype": torch.float32}
        self.mean = nn.Parameter(torch.zeros(3, **self.factory_kwargs))
    def update(self, x):
        x = x.to(**self.factory_kwargs)
        return self.mean + x.mean(0) * 0.5
Scale().to("cuda:0").update(torch.ones(2, 3, device="cuda:0"))
""",
        "state-not-registered", "medium", "line", ['self.factory_kwargs["device"] says'],
    ),
    "slow weights around an optimizer": case(
        """
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
""",
        "optimizer-state", "medium", "line", ["is kept by optimizer (Lookahead)"],
    ),
    "a device that names no number": case(
        """
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
""",
        "default-or-current-device", "medium", "line", ["the device that was current"],
    ),
    "taken away to the current device": case(
        """
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
""",
        "default-or-current-device", "medium", "line", ["was on cuda:1, where the model and direction are"],
    ),
    "drawn inside a model": case(
        """
class Blend(nn.Module):
    def chances(self, x):
        draws = torch.rand(len(x))
        return {"apply": draws < 0.5}
    def forward(self, x):
        apply = self.chances(x)["apply"]
        return torch.where(apply, x, -x)
Blend()(torch.ones(4, device="cuda:0"))
""",
        "created-without-device", "medium", "line", ["says no device"],
    ),
    "made in the failing line": case(
        """
def means(x):
    low, high = x.aminmax()
    return torch.rand(4) * (high - low)
means(torch.ones(3, device="cuda:0"))
""",
        "created-without-device", "medium", "cause", ["says no device"],
    ),
    "a model that its owner put on the CPU": case(
        """
class Embedder:
    def __init__(self, device):
        self.model = nn.Embedding(8, 4)
        self.model.to(device)
    def embed(self, ids):
        ids = ids.to("cuda:0")
        return self.model(ids)
Embedder("cpu").embed(torch.tensor([1, 2]))
""",
        "input-not-moved", "medium", "cause", ["put on the CPU as a whole"],
    ),
    "nobody knows": case(
        """
def joined(left, right):
    return torch.cat([left, right])
a, b = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
joined(a, b)
""",
        "unknown", "low", "line", ["not why", "left was made at", "and never moved"], "return torch.cat([left.to(right.device), right])",
    ),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return start_snippets({name: each["source"] for name, each in CASES.items()}, tmp_path_factory.mktemp("causes"))[0]


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(ran, name):
    (finding,) = findings_of(ran, name)
    cause, expect = finding["cause"], CASES[name]
    assert {key: cause.get(key) for key in ("category", "confidence", "repairs")} == {
        key: expect[key] for key in ("category", "confidence", "repairs")}, cause
    for words in expect["says"]:
        assert words in cause["because"]
    if expect["fix"]:
        assert cause["fix"] == expect["fix"]


def test_the_fixes_make_them_run(ran, tmp_path):
    repaired = {}
    for name, each in CASES.items():
        (finding,) = findings_of(ran, name)
        cause = finding["cause"]
        lines = each["source"].split("\n")
        old = lines[cause["line"] - 1]
        indent = old[: len(old) - len(old.lstrip())]
        lines[cause["line"] - 1 : cause["line"]] = [indent + line for line in cause["fix"].split("\n")]
        repaired[name] = "\n".join(lines)
    outcome, printed = start_snippets(repaired, tmp_path)
    assert outcome.findings == [], outcome.err[-3000:]
    assert {name: text for name, text in printed.items() if "Error" in text} == {}


def test_a_generator_is_an_operand(rehearse):
    outcome = rehearse(HEAD + 'draw = torch.Generator()\nx = torch.rand(3, generator=draw, device="cuda:1")\n')
    finding = outcome.finding
    (generator,) = [one for one in finding["operands"] if one.get("generator")]
    assert (generator["name"], generator["device"]) == ("draw", "cpu")
    assert finding["devices"] == ["cpu", "cuda:1"]
    assert "was given a random generator of cpu for cuda:1" in outcome.err
    assert finding["cause"]["category"] == "generator"


def test_what_the_running_module_has_is_named_so(rehearse):
    outcome = rehearse(
        HEAD + """
class Biased(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.ones(3)
    def forward(self, x):
        bias = self.table
        return x + bias
Biased()(torch.ones(3, device="cuda:1"))
""")
    (bias,) = [one for one in outcome.finding["operands"] if one["device"] == "cpu"]
    assert {"frame": 0, "name": "self.table"} in bias["names"]


SPLIT = HEAD + """
from accelerate import dispatch_model
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        up = self.up(x)
        down = self.down(x)
        return up + down
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(4, 4), Block()
    def forward(self, x):
        return self.block(self.first(x))
model = dispatch_model(Net(), {"first": 0, "block.up": 0, "block.down": 1})
print(model(torch.ones(2, 4, device="cuda:0")).shape)
"""


def test_a_block_that_a_device_map_splits(rehearse):
    finding = rehearse(SPLIT).finding
    block = next(module for module in finding["modules"] if module["class"] == "Block")
    assert block["devices"] == ["cuda:0", "cuda:1"]
    assert block["parts"] == [{"name": "up", "devices": ["cuda:0"]}, {"name": "down", "devices": ["cuda:1"]}]
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("module-split-or-hook-missing", "high", "line")
    assert cause["because"].startswith("Block itself is split: ")
    assert "return up" in cause["fix"] and ".to(" in cause["fix"]
