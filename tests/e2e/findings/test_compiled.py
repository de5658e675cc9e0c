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
