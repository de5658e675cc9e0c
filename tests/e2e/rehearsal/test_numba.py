"""numba-cuda on simulated devices: it uses the driver alone, so that it runs as it is."""

import importlib.util

import pytest
from conftest import line_of, only, operand

pytestmark = pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import numpy
from numba import cuda

@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]

first = cuda.to_device(numpy.ones(32, dtype=numpy.float32))
with cuda.gpus[{device}]:
    second = cuda.to_device(numpy.ones(32, dtype=numpy.float32))
total = cuda.device_array(32, dtype=numpy.float32)
add[1, 32](first, second, total)
stream = cuda.stream()
pinned = cuda.pinned_array(32, dtype=numpy.float32)
pinned[:] = 3
again = cuda.to_device(pinned, stream=stream)
stream.synchronize()
print(len(cuda.gpus), again.copy_to_host()[:2].tolist())
"""


def test_it_runs_and_nothing_is_found(rehearse):
    outcome = rehearse(PROGRAM.format(device=0))
    assert outcome.out == "2 [3.0, 3.0]\n" and outcome.findings == [], outcome.err


def test_memory_of_another_device_is_found(rehearse):
    outcome = rehearse(PROGRAM.format(device=1))
    finding = only(outcome, "remote-access")
    assert "add" in finding["launch"]["kernel"] and finding["devices"] == ["cuda:0", "cuda:1"]
    assert operand(finding, "cuda:1")["created"]["python"][-1]["line"] == line_of(outcome, "second = ")
