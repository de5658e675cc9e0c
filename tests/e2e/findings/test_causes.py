"""Causes that only structure tells apart: what holds a tensor, which thread chose its device, whose method is called. The programs
are those of tests/workloads/causes.py; the fix, put into the line that it names, makes each run."""

import sys

import pytest
from conftest import TOP, findings_of, start_snippets

sys.path.insert(0, str(TOP / "tests/workloads"))
from case_form import cases_in  # noqa: E402

CASES = cases_in(TOP / "tests/workloads/causes.py")
SOURCES = {name: case.files[case.main] for name, case in CASES.items()}
HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return start_snippets(SOURCES, tmp_path_factory.mktemp("causes"))[0]


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(ran, name):
    (finding,) = findings_of(ran, name)
    cause, case = finding["cause"], CASES[name]
    assert [cause.get(key) for key in ("category", "confidence", "repairs")] == [case.first(key) for key in ("category", "confidence", "repairs")], cause
    for words in case.says.get("says", []):
        assert words in cause["because"]
    if "fix" in case.says:
        assert cause["fix"] == case.fix


def test_the_fixes_make_them_run(ran, tmp_path):
    repaired = {}
    for name, source in SOURCES.items():
        (finding,) = findings_of(ran, name)
        cause = finding["cause"]
        lines = source.split("\n")
        old = lines[cause["line"] - 1]
        indent = old[: len(old) - len(old.lstrip())]
        lines[cause["line"] - 1 : cause["line"]] = [indent + line for line in cause["fix"].split("\n")]
        repaired[name] = "\n".join(lines)
    outcome, printed = start_snippets(repaired, tmp_path)
    assert outcome.findings == [], outcome.err[-3000:]
    assert {name: text for name, text in printed.items() if "Error" in text} == {}


def test_an_optimizers_state_says_whose_it_is(rehearse):
    outcome = rehearse(
        HEAD + """
model = nn.Linear(4, 2).to("cuda:0")
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
def step(device):
    optimizer.zero_grad()
    model(torch.ones(3, 4, device=device)).sum().backward()
    optimizer.step()
step("cuda:0")
model.to("cuda:1")
step("cuda:1")
""")
    (state,) = [one for one in outcome.finding["operands"] if one["device"] == "cuda:0"]
    kept_for = state["kept_for"]
    assert (kept_for["name"], kept_for["device"]) == ("model.weight", "cuda:1")
    assert (kept_for["moved"]["from"], kept_for["moved"]["to"]) == ("cuda:0", "cuda:1")
    assert kept_for["moved"]["python"][-1]["source"] == 'model.to("cuda:1")'
    cause = outcome.finding["cause"]
    assert cause["fix"] == 'model.to("cuda:1")\noptimizer.load_state_dict(optimizer.state_dict())'
    assert cause["line"] == kept_for["moved"]["python"][-1]["line"]


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


# What accelerate's map of a model says of the tensors that met, and what the verdict makes of it.
MAPPED = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return self.second(self.first(x))
model = Net()
x = torch.ones(2, 4, device="cuda:0")
"""
MAPS = {
    # accelerate's own map and hooks; then somebody moves a part.
    "moved afterwards": MAPPED + """
from accelerate import dispatch_model
model = dispatch_model(model, {"first": 0, "second": 1})
model(x)
model.second.cuda(0)
model(x)
""",
    "not in the map": MAPPED + """
model.first.to("cuda:0")
model.hf_device_map = {"first": 0}
model(x)
""",
    "as the map says": MAPPED + """
model.first.to("cuda:0"), model.second.to("cuda:1")
model.hf_device_map = {"first": 0, "second": torch.device("cuda:1")}
model(x)
""",
    "no map at all": MAPPED + """
model.first.to("cuda:0"), model.second.to("cuda:1")
model.hf_device_map = ["first", "second"]
model(x)
""",
}
SAID = {
    "moved afterwards": ("second: cuda:1", "The model's hf_device_map has second on cuda:1: something moved second."),
    "not in the map": ("not in the map", "The model's hf_device_map does not name second."),
    "as the map says": ("second: cuda:1", None),
    "no map at all": (None, None),
}


def test_the_map_is_read_and_contradicted_where_it_is_wrong(tmp_path):
    outcome, _ = start_snippets(MAPS, tmp_path)
    for name, (entry, sentence) in SAID.items():
        (finding,) = findings_of(outcome, name)
        operand = next(one for one in finding["operands"] if one.get("module_path", "").startswith("second."))
        assert operand.get("device_map") == entry, name
        because = finding["cause"]["because"]
        assert finding["cause"]["category"] == "module-split-or-hook-missing", (name, because)
        assert (sentence in because) if sentence else "hf_device_map" not in because, (name, because)


NOT_READ_AGAIN = {
    "nowhere": "def f(x, y):\n    out = x * y\n    return out",
    "a keyword of that name": "def f(x, y):\n    out = x * y\n    return dict(y=out)",
    "another value first": "def f(x, y):\n    out = x * y\n    y = out + 1\n    return y",
    "the line gives it one": "def f(x, y):\n    y = x * y\n    return y",
    "an attribute of that name": "def f(x, y):\n    out = x * y\n    return torch.distributions.y if 0 else out",
    "a part of a statement": "def f(x, y):\n    out = max(\n        x.sum() * y,\n        x.sum())\n    return out * y",
    "as NumPy reads it": "def f(x, y):\n    out = x * y\n    print(y)\n    return out, y.numpy()",
    "returned": "def f(x, y):\n    if True:\n        return x * y\n    return y",
    "of the function outside": "def f(x, y):\n    def g():\n        out = x * y\n        return out + y\n    return g()",
}


def test_a_variable_that_is_not_read_again_is_moved_where_it_is_used(tmp_path):
    snippets = {name: f"import torch\n{source}\nf(torch.ones(3, device='cuda:0'), torch.ones(3))\n" for name, source in NOT_READ_AGAIN.items()}
    outcome, _ = start_snippets(snippets, tmp_path)
    fixes = {name: [finding["cause"].get("fix") for finding in findings_of(outcome, name)] for name in snippets}
    assert {name for name, fix in fixes.items() if len(fix) != 1 or "\n" in (fix[0] or "\n")} == set(), fixes
