"""Causes that only structure tells apart: what holds a tensor, which thread chose its device, whose method is called. The programs
are those of tests/workloads/causes/; the fix, put into the line that it names, makes each run."""

import re
import sys

import pytest
from conftest import TOP, findings_of, line_of, start_snippets

sys.path[:0] = [str(TOP / "tests/workloads"), str(TOP / "python")]
from case_form import cases_in  # noqa: E402
from devtrace.edits import replaced, statement_end  # noqa: E402

CASES = cases_in(TOP / "tests/workloads/causes")
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
    assert [each["fix"] for each in cause.get("also", [])] == case.says.get("also", [])


def test_the_fixes_make_them_run(ran, tmp_path):
    repaired = {}
    for name, source in SOURCES.items():
        (finding,) = findings_of(ran, name)
        cause = finding["cause"]
        for edit in sorted([cause, *cause.get("also", [])], key=lambda each: -each["line"]):
            source = replaced(source, edit["line"], statement_end(source, edit["line"]), edit["fix"])
        repaired[name] = source
    outcome, printed = start_snippets(repaired, tmp_path)
    assert outcome.findings == [], outcome.err[-3000:]
    assert {name: text for name, text in printed.items() if "Error" in text} == {}


def test_a_default_device_hides_no_line(ran, tmp_path):
    """torch.set_default_device() puts a function of PyTorch's around each call: what a line gave is known all the same."""
    # Of attention PyTorch itself goes another way then, and as_tensor takes a tensor to the default device.
    names = [name for name, source in SOURCES.items() if HEAD in source and not re.search("default_device|MultiheadAttention|as_tensor", source)][::12]
    assert len(names) > 12
    around = {name: SOURCES[name].replace(HEAD, HEAD.replace("torch.manual", "torch.set_default_device('cpu'); torch.manual")) for name in names}
    outcome, _ = start_snippets(around, tmp_path)

    def said(run, name):
        (finding,) = findings_of(run, name)
        assert "__torch_function__" not in {frame["function"].rpartition(".")[2] for frame in finding["python"]}
        return {key: finding["cause"].get(key) for key in ("category", "confidence", "because", "line", "fix", "also")}

    for name in names:
        assert said(outcome, name) == said(ran, name), name


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


def test_of_two_loaders_the_default_type_is_told(rehearse):
    outcome = rehearse(
        HEAD + """
from torch.utils.data import DataLoader
torch.set_default_tensor_type("torch.cuda.FloatTensor")
def seen(some, others):
    for one, other in zip(some, others):
        return one + other
some = DataLoader(range(4), shuffle=True)
others = DataLoader(range(3), shuffle=True)
seen(some, others)
""")
    cause = outcome.finding["cause"]
    assert cause["category"] == "generator"
    assert cause["line"] == line_of(outcome, "set_default_tensor_type")


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


def causes_of(functions, others, folder):
    """The causes of the one finding of each: f is called with a tensor on a GPU, and with `others`."""
    snippets = {name: f"import torch\n{source}\nf(torch.ones(3, device='cuda:0'), {others})\n" for name, source in functions.items()}
    outcome, _ = start_snippets(snippets, folder)
    causes = {}
    for name in snippets:
        (finding,) = findings_of(outcome, name)
        causes[name] = finding["cause"]
    return causes


NOT_READ_AGAIN = {
    "nowhere": "def f(x, y):\n    out = x * y\n    return out",
    "a keyword of that name": "def f(x, y):\n    out = x * y\n    return dict(y=out)",
    "another value first": "def f(x, y):\n    out = x * y\n    y = out + 1\n    return y",
    "the line gives it one": "def f(x, y):\n    y = x * y\n    return y",
    "an attribute of that name": "def f(x, y):\n    out = x * y\n    return torch.distributions.y if 0 else out",
    "as NumPy reads it": "def f(x, y):\n    out = x * y\n    print(y)\n    return out, y.numpy()",
    "returned": "def f(x, y):\n    if True:\n        return x * y\n    return y",
    "of the function outside": "def f(x, y):\n    def g():\n        out = x * y\n        return out + y\n    return g()",
}


def test_a_variable_that_is_not_read_again_is_moved_where_it_is_used(tmp_path):
    causes = causes_of(NOT_READ_AGAIN, "torch.ones(3)", tmp_path)
    assert {name for name, cause in causes.items() if "\n" in (cause.get("fix") or "\n")} == set(), causes


NOT_DROPPED = {
    "moved to a type": "def f(x, y):\n    y.to(torch.float64)\n    return x * y",
    "has another value since": "def f(x, y):\n    y.to(x.device)\n    y = torch.ones(3)\n    return x * y",
    "used at once": "def f(x, y):\n    y.to(x.device).sum()\n    return x * y",
    "another one": "def f(x, y):\n    x.to(x.device)\n    return x * y",
    "in a text": "def f(x, y):\n    \"\"\"\n    y.to(x.device)\n    \"\"\"\n    return x * y",
}


def test_a_line_that_moves_it_nowhere_is_not_blamed(tmp_path):
    causes = causes_of(NOT_DROPPED, "torch.ones(3)", tmp_path)
    assert {name for name, cause in causes.items() if "drops" in cause["because"]} == set()


MADE = "def made():\n    return torch.ones(3), torch.ones(3)\n"
NO_SIBLINGS = {
    "asked for its shape": MADE + "def f(x, y, z):\n    out = x * y\n    return out.reshape(z.shape)",
    "as NumPy reads it": MADE + "def f(x, y, z):\n    out = x * y\n    return out, z.numpy()",
    "moved there": MADE + "def f(x, y, z):\n    out = x * y\n    return out + z.to(x.device)",
    "not read": MADE + "def f(x, y, z):\n    return x * y",
    "has another value first": MADE + "def f(x, y, z):\n    out = x * y\n    z = out + 1\n    return z",
    "made by another function": "def made():\n    return torch.ones(3), torch.tensor([1.0])\ndef f(x, y, z):\n    z = other()\n    out = x * y\n    return out + z.mean()\n"
    "def other():\n    return torch.ones(3)",
}


def test_what_need_not_move_stays(tmp_path):
    causes = causes_of(NO_SIBLINGS, "*made()", tmp_path)
    assert {name for name, cause in causes.items() if "\n" in cause["fix"] or "also" in cause} == set(), causes


def test_a_parameter_is_not_replaced(rehearse):
    outcome = rehearse(
        HEAD + """
class Scale:
    def __init__(self):
        self.scale, self.shift = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
    def __call__(self, x):
        x = x * self.scale
        return x + self.shift
Scale()(torch.ones(3, device="cuda:0"))
""")
    assert "self.shift = " not in outcome.findings[0]["cause"]["fix"]


def test_values_that_accelerates_hooks_keep_are_no_missing_memory(rehearse):
    outcome = rehearse(
        HEAD + """
from accelerate import cpu_offload
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(4))
    def forward(self, x):
        return x * self.factor
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.scale = nn.Linear(4, 4), Scale()
    def forward(self, x):
        x = self.body(x)
        factor = self.scale.factor.abs()
        return x * factor
with torch.no_grad():
    cpu_offload(nn.Sequential(Net()), execution_device=torch.device("cuda:0"))(torch.ones(1, 4))
"""
    )
    cause = outcome.findings[0]["cause"]
    assert (cause["category"], cause["confidence"]) == ("module-split-or-hook-missing", "medium")
    assert cause["fix"] == "self.scale._hf_hook.pre_forward(self.scale)\nfactor = self.scale.factor.abs()"
    assert "accelerate's hooks" in cause["because"]
    assert cause["line"] == 18, "where the factor is read"


def test_a_device_that_the_file_of_an_ended_function_keeps(rehearse, tmp_path):
    """No function of it runs any more: its names are those of what was imported."""
    (tmp_path / "reading.py").write_text('import torch\n\ndevice = torch.device("cuda:1")\n\ndef read(values):\n    return torch.tensor(values, device="cuda")\n')
    outcome = rehearse(HEAD + 'import reading\nmodel = nn.Linear(2, 1).to("cuda:1")\nmodel(reading.read([[1.0, 2.0]]))\n')
    cause = outcome.finding["cause"]
    assert (cause["file"], cause["fix"]) == (str(tmp_path / "reading.py"), "return torch.tensor(values, device=device)")


TRACED = HEAD + """
class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 3)
    def forward(self, x):
        return torch.cat([self.out(x), torch.zeros(x.shape, device=x.device)])
def serve(device):
    traced = torch.jit.trace(Padded(), torch.ones(2, 3), check_trace=False)
    return traced.to(device)(torch.ones(2, 3).to(device))
serve("cuda:0")
"""


def test_a_trace_keeps_the_device_that_it_was_recorded_on(rehearse):
    cause = rehearse(TRACED).finding["cause"]
    assert (cause["category"], cause["confidence"]) == ("created-without-device", "low")
    assert "the model has to be traced on cuda:0" in cause["because"] and "fix" not in cause


def test_a_line_that_does_not_show_what_is_wanted_on_the_cpu_is_told(rehearse):
    outcome = rehearse(HEAD + 'import numpy as np\nrows = [(torch.ones(2, device="cuda:0"), 1)]\nfirst, second = map(np.asarray, zip(*rows))\n')
    cause = outcome.finding["cause"]
    assert cause["category"] == "input-wanted-on-cpu" and cause["line"] == 6
