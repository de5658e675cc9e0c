"""A CPU operand against the device's: PyTorch's own refusal, explained before it is raised, also with torch.profiler in the same process."""

import json

import pytest
from conftest import operand
from gpu_machine import EMBEDDINGS, machine  # noqa: F401

IDS = 'embed(torch.tensor([[101, 7592, 102]]))\n'


def test_ids_that_stayed_on_the_cpu(machine):
    outcome = machine.command(EMBEDDINGS + IDS)
    assert outcome.code == 1 and "RuntimeError" in outcome.err
    finding = outcome.finding
    assert finding["kind"] == "refused-op" and set(finding["devices"]) == {"cpu", "cuda:0"}
    assert finding["operation"] == "aten::index_select" or finding["operation"] == "aten::embedding"
    weight, ids = operand(finding, "cuda:0"), operand(finding, "cpu")
    assert weight["name"] == "word_embeddings.weight" and weight["shape"] == [30522, 64]
    assert ids["dtype"] == "int64" and ids["shape"] == [1, 3]
    assert weight["moved"]["from"] == "cpu" and "MOVED" in weight["moved"]["python"][-1]["source"]
    report = outcome.err.index("devtrace: refused-op")
    assert report < outcome.err.index("Traceback")
    assert len(outcome.pages) == 1


def test_every_operator_that_checks(machine):
    """Each refusal is one finding, and what is allowed (a number, a scalar tensor) is none."""
    outcome = machine.run("""
import torch
left, right = torch.ones(4, 4, device="cuda:0"), torch.ones(4, 4)
ways = [lambda: left + right, lambda: torch.cat([left, right]), lambda: left @ right, lambda: torch.where(left > 0, left, right),
        lambda: torch.nn.functional.linear(left, right), lambda: torch.nn.functional.layer_norm(left, [4], right[0]),
        lambda: left.index_copy(0, torch.tensor([0]), left[:1])]
refused = 0
for way in ways:
    try:
        way()
    except RuntimeError:
        refused += 1
left + 1, left + torch.tensor(1.0), left[torch.tensor([0])]
print(len(ways), refused)
""", "dedupe=0")  # fmt: skip
    assert outcome.code == 0, outcome.err
    ways, refused = map(int, outcome.out.split())
    assert refused == ways == len(outcome.findings)
    assert {frozenset(finding["devices"]) for finding in outcome.findings} == {frozenset({"cpu", "cuda:0"})}


def test_without_a_fault_nothing_is_said(machine):
    program = EMBEDDINGS + 'print(tuple(embed(torch.tensor([[101, 7592, 102]]).to("cuda:0")).shape))\n'
    traced, bare = machine.run(program), machine.run(program, trace=False)
    assert (traced.code, traced.out, traced.err) == (bare.code, bare.out, bare.err) == (0, "(1, 3, 64)\n", bare.err)
    assert traced.findings == [] and traced.pages == []


PROFILED = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile
a, b = torch.randn(256, 256, device="cuda:0"), torch.randn(256, 256)
a @ a
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as run:
    for _ in range(5):
        (a * 2).relu()
    torch.cuda.synchronize()
try:
    a + b
except RuntimeError:
    pass
events = run.events()
print(json.dumps({"kernels": sum(str(event.device_type).endswith("CUDA") for event in events), "operations": sorted({event.name for event in events if event.name.startswith("aten::")})}))
"""


def test_beside_the_profiler(machine):
    bare = machine.run(PROFILED, trace=False)
    told = json.loads(bare.out.splitlines()[-1])
    assert "aten::relu" in told["operations"] and told["kernels"] >= 10, bare.err
    traced = machine.run(PROFILED)
    assert traced.code == bare.code == 0 and json.loads(traced.out.splitlines()[-1]) == told, traced.err
    assert [finding["kind"] for finding in traced.findings] == ["refused-op"]


@pytest.mark.parametrize("how", ["backend=cupti", "backend=auto"])
def test_one_of_them_has_cuptis_only_seat(machine, how):
    """Or one line says which. Whoever came first; the program runs on, and refusals are found either way."""
    outcome = machine.run(PROFILED, how)
    assert outcome.code == 0, outcome.err
    assert [finding["kind"] for finding in outcome.findings] == ["refused-op"]
    told = [line for line in outcome.err.splitlines() if line.startswith("devtrace:") and "CUPTI" in line]
    assert len(told) <= 1 and (how == "backend=cupti" or told == []), outcome.err
    if how == "backend=auto":
        assert json.loads(outcome.out.splitlines()[-1])["kernels"] >= 10
