"""Refusals under torch.compile: Dynamo computes with fake tensors, and the line and the operands are the program's all the same."""

import pytest
from conftest import line_of, operand

START = """
import torch
a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
def refused(call, times=1):
    for _ in range(times):
        try:
            call()
        except Exception as error:
            print(type(error).__name__)
"""

FUNCTION = START + """
@torch.compile(backend="eager")
def step(x, y):
    scaled = x * 2
    return scaled + y  # here
"""

INLINED = START + """
def add(left, right):
    return left + right  # here
@torch.compile(backend="eager")
def step(x, y):
    scaled = x * 2
    return add(scaled, y)
"""

MODULE = START + """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.scale = torch.full((3,), 2.0, device="cuda:1")
    def forward(self, x):
        hidden = self.linear(x)
        return hidden * self.scale  # here
net = torch.compile(Net().to("cuda:0"))
"""


@pytest.mark.parametrize(
    "source, call, names, operation",
    [
        (FUNCTION, "lambda: step(a, b)", {"cuda:0": "scaled", "cuda:1": "y"}, "aten::add"),
        (INLINED, "lambda: step(a, b)", {"cuda:0": "left", "cuda:1": "right"}, "aten::add"),
        (MODULE, "lambda: net(torch.ones(2, 3, device='cuda:0'))", {"cuda:0": "hidden", "cuda:1": "self.scale"}, "aten::mul"),
    ],
)
def test_the_line_and_the_operands_are_the_programs(rehearse, source, call, names, operation):
    outcome = rehearse(source + f"refused({call}, 2)\n", options="text=0")
    assert outcome.code == 0 and outcome.out.count("Error") == 2, outcome.err
    finding = outcome.finding
    assert finding["operation"] == operation
    assert sorted(finding["devices"]) == ["cuda:0", "cuda:1"]
    own = next(frame for frame in finding["python"] if frame.get("project"))
    assert own["line"] == line_of(outcome, "# here")
    for device, name in names.items():
        assert operand(finding, device)["name"] == name
    assert "created" in operand(finding, "cuda:1")  # the program's own tensor, not the fake one


# As PyTorch 2.15 has it: a fake tensor keeps its device under another name, and the error is made of an operator and two devices.
AS_2_15 = """
import torch
import torch._subclasses.fake_tensor as fake
fake.FakeTensor.fake_device = property(lambda self: self._fake_device, lambda self, device: setattr(self, "_fake_device", device))
class FakeTensorDeviceMismatchError(RuntimeError):
    def __init__(self, func, common_device, device):
        self.func, self.common_device, self.device = func, common_device, device
        super().__init__(f"Expected all tensors to be on the same device, but found at least two devices, {common_device} and {device}!")
def in_other_words(text):
    operator, devices = text.split(" for ")[1].split(", found two different devices ")
    packet, overload = operator.removeprefix("aten.").split(".")
    return FakeTensorDeviceMismatchError(getattr(getattr(torch.ops.aten, packet), overload), *map(torch.device, devices.split(", ")))
fake.RuntimeError = lambda *text: in_other_words(*text) if text and "Device Propagation" in text[0] else RuntimeError(*text)
"""
FROM_2_15_ON = f"""
import torch._subclasses.fake_tensor
if not hasattr(torch._subclasses.fake_tensor, "FakeTensorDeviceMismatchError"):
    exec(compile({AS_2_15!r}, torch._subclasses.fake_tensor.__file__, "exec"))
"""


def test_an_error_that_is_made_of_devices(rehearse):
    outcome = rehearse(FROM_2_15_ON + FUNCTION + "refused(lambda: step(a, b))\n", options="text=0")
    assert outcome.code == 0 and "Error" in outcome.out, outcome.err
    finding = outcome.finding
    assert (finding["operation"], finding["overload"]) == ("aten::add", "Tensor")
    assert finding["message"] == "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!"
    assert [operand(finding, device)["name"] for device in ("cuda:0", "cuda:1")] == ["scaled", "y"]


def test_only_an_operator_and_devices_make_it(rehearse):
    """A class of the program's that is only called so."""
    outcome = rehearse(START + """
class FakeTensorDeviceMismatchError(RuntimeError):
    def __init__(self, one, two, three):
        super().__init__(f"{one} {two} {three}")
class Operator:
    _name = property(lambda self: print("code of the program's ran"))
def call(*arguments):
    raise FakeTensorDeviceMismatchError(*arguments)
for arguments in ((1, 2, 3), ("cuda:0", a.device, b.device), (Operator(), a.device, b.device), (torch.ops.aten.add.Tensor, "x", "y"), (None, None, None)):
    refused(lambda: call(*arguments))
""")  # fmt: skip
    assert (outcome.code, outcome.out) == (0, "FakeTensorDeviceMismatchError\n" * 5), outcome.err
    assert outcome.findings == []


def test_an_unnamed_operand_has_its_expression(rehearse):
    outcome = rehearse(START + "@torch.compile(backend='eager')\ndef step(x):\n    return x + x.to('cuda:1')\nrefused(lambda: step(a))\n", options="text=0")
    assert operand(outcome.finding, "cuda:1")["expression"] == "x.to('cuda:1')"
    assert operand(outcome.finding, "cuda:0")["name"] == "x"


def test_what_dynamo_swallows_and_runs_eagerly_is_one(rehearse):
    outcome = rehearse("import torch._dynamo\ntorch._dynamo.config.suppress_errors = True\n" + FUNCTION + "refused(lambda: step(a, b))\n", options="text=0")
    assert outcome.code == 0 and "Error" in outcome.out, outcome.err
    assert len(outcome.findings) == 1, [finding["message"] for finding in outcome.findings]


def test_compiling_what_is_right_makes_no_finding(rehearse):
    source = MODULE.replace('device="cuda:1")', 'device="cuda:0")').replace("torch.compile(Net()", 'torch.compile(backend="eager", model=Net()')
    outcome = rehearse(source + "print(net(torch.ones(2, 3, device='cuda:0')).shape[0])\n")
    assert (outcome.code, outcome.out) == (0, "2\n"), outcome.err
    assert outcome.findings == []


RESULT_AND_CONSTANT = START + """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.scale = torch.ones(3)
    def forward(self, x):
        return self.linear(x) * self.scale  # here
net = Net().to("cuda:0")
"""


def test_the_result_of_a_call_that_meets_a_constant(rehearse):
    source = RESULT_AND_CONSTANT + "refused(lambda: torch.compile(net, backend='eager', dynamic=True)(torch.ones(2, 3, device='cuda:0')))\n"
    finding = rehearse(source, options="text=0").finding
    assert operand(finding, "cuda:0")["expression"] == "self.linear(x)" and operand(finding, "cpu")["name"] == "self.scale"
    assert finding["cause"]["category"] == "state-not-registered"


def test_state_under_export_has_the_programs_path(rehearse):
    source = START + """
class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 4, device="cuda:1")
    def forward(self, ids):
        return self.table(ids)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
    def forward(self, ids):
        return self.inner(ids)
refused(lambda: torch.export.export(Net(), (torch.zeros(2, dtype=torch.long, device="cuda:0"),)))
"""
    finding = rehearse(source, options="text=0").finding
    weight = operand(finding, "cuda:1")
    assert (weight["role"], weight["root_class"]) == ("parameter", "Net")
    assert weight["name"] == "inner.table.weight" and operand(finding, "cuda:0")["name"] == "ids"
