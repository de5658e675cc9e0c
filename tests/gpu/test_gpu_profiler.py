"""torch.profiler in the same process: both do their work, or one line says which of the two has CUPTI's only seat."""

import json

import pytest
from gpu_machine import machine  # noqa: F401

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


def test_side_by_side(machine):
    bare = machine.run(PROFILED, trace=False)
    told = json.loads(bare.out.splitlines()[-1])
    assert "aten::relu" in told["operations"] and told["kernels"] >= 10, bare.err
    traced = machine.run(PROFILED)
    assert traced.code == bare.code == 0 and json.loads(traced.out.splitlines()[-1]) == told, traced.err
    assert [finding["kind"] for finding in traced.findings] == ["refused-op"]


@pytest.mark.parametrize("how", ["backend=cupti", "backend=auto"])
def test_one_of_them_has_the_seat(machine, how):
    """Whoever came first; the program runs on, and refusals are found either way."""
    outcome = machine.run(PROFILED, how)
    assert outcome.code == 0, outcome.err
    assert [finding["kind"] for finding in outcome.findings] == ["refused-op"]
    told = [line for line in outcome.err.splitlines() if line.startswith("devtrace:") and "CUPTI" in line]
    assert len(told) <= 1 and (how == "backend=cupti" or told == []), outcome.err
    if how == "backend=auto":
        assert json.loads(outcome.out.splitlines()[-1])["kernels"] >= 10
