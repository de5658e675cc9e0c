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
    said = [(one.get("name"), one.get("dtype"), one.get("shape")) for one in finding["operands"]]
    assert said == [("first", "float32", [32]), ("second", "float32", [32]), ("total", "float32", [32])], finding["operands"]


CUDA_PYTHON = """
import ctypes
from cuda.bindings import driver
def check(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) > 1 else None
PTX = b".version 7.0\\n.target sm_75\\n.address_size 64\\n.visible .entry touch(.param .u64 data) { .reg .b64 %rd<3>; ld.param.u64 %rd1, [data]; cvta.to.global.u64 %rd2, %rd1; st.global.u32 [%rd2], 1; ret; }\\0"
check(driver.cuInit(0))
contexts = [check(driver.cuDevicePrimaryCtxRetain(device)) for device in (0, 1)]
check(driver.cuCtxSetCurrent(contexts[1]))
there = check(driver.cuMemAlloc(4096))
check(driver.cuCtxSetCurrent(contexts[0]))
kernel = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(PTX)), b"touch"))
check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ((there,), (None,)), 0))
print(check(driver.cuDeviceGetCount()))
"""


@pytest.mark.skipif(importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None, reason="cuda-python is not installed")
def test_an_address_of_cuda_python_has_its_variables_name(rehearse):
    outcome = rehearse(CUDA_PYTHON)
    finding = only(outcome, "wrong-current-device")
    assert outcome.out == "2\n" and finding["launch"]["kernel"] == "touch"
    there = operand(finding, "cuda:1")
    assert there["name"] == "there" and "shape" not in there and there["created"]["python"][-1]["line"] == line_of(outcome, "there = ")
