"""Kernels that are given the host's pageable memory, which their device cannot reach."""

import textwrap

import pytest
from conftest import line_of, only
from kernel_programs import DRIVER, TRITON, told_before_error_700

# count, first, both.number, both.first, both.second: the code follows first, both.first and both.second.
HOST = DRIVER + """
libc = ctypes.CDLL(None)
libc.malloc.restype = P
libc.malloc.argtypes = [S]
large, small = libc.malloc(8 << 20), libc.malloc(1024)
"""


@pytest.mark.parametrize(
    "arguments, parameter, offset",
    [("large, here, here", 1, 0), ("small, here, here", 1, 0), ("here, large + 4096, here", 2, 8), ("here, here, small + 8", 2, 16)],
)
def test_memory_of_malloc(rehearse, arguments, parameter, offset):
    outcome = rehearse(HOST + f"launch({arguments})  # HERE")
    finding = only(outcome, "host-access")
    assert finding["current_device"] == "cuda:0" and finding["devices"] == ["cuda:0", "cpu"]
    assert (finding["launch"]["kernel"], finding["launch"]["parameter"], finding["launch"]["offset"]) == ("touch", parameter, offset)
    assert [one["device"] for one in finding["operands"] if one.get("odd")] == ["cpu"]
    assert [frame["line"] for frame in finding["python"] if frame.get("project")][-1] == line_of(outcome, "HERE")
    assert finding["cause"]["category"] == "host-memory"


def test_without_any_memory_of_a_device(rehearse):
    outcome = rehearse(HOST.replace("here, there = memory(0), memory(1)", "") + "launch(large, large, large)")
    assert len(only(outcome, "host-access")["operands"]) == 3


NOT_TOLD = {
    "null": "launch(None, here, None)",
    "pinned": "address = P(); call('cuMemHostAlloc', ctypes.byref(address), S(4096), 0); launch(address.value, address.value + 8, here)",
    "registered": "call('cuMemHostRegister_v2', P(large & ~4095), S(8 << 20), 0); launch(large + 16, here, here)",
    "managed": "address = P(); call('cuMemAllocManaged', ctypes.byref(address), S(4096), 1); launch(here, address.value, here)",
    "numbers": "\n".join(f"launch(here, here, {hex(value)})" for value in (1, 4096, 0x7FFF, 2**32 + 5, 0x3F800000_3F800000, 2**64 - 1)),
    "addresses where nothing is": "launch(0x123400000000, 0x10000000, here)",
    "an address that is not followed": """
call("cuModuleLoadData", ctypes.byref(module), PTX.replace(b"cvta.to.global.u64 %rd6, %rd3;", b"").replace(b"st.global.u32 [%rd6], %r1", b"st.global.u64 [%rd5], %rd3"))
call("cuModuleGetFunction", ctypes.byref(touch), module, b"touch")
for _ in range(3): launch(here, here, large)
""",
    "a whole parameter that is not followed": """
call("cuModuleLoadData", ctypes.byref(module), PTX.replace(b"cvta.to.global.u64 %rd4, %rd1;", b"").replace(b"ld.global.u32 %r1, [%rd4]", b"st.global.u64 [%rd5], %rd1"))
call("cuModuleGetFunction", ctypes.byref(touch), module, b"touch")
for _ in range(3): launch(large, here, here)
""",
}


@pytest.mark.parametrize("what", NOT_TOLD)
def test_what_is_within_reach_or_no_address(rehearse, what):
    outcome = rehearse(HOST + NOT_TOLD[what] + "\nprint('launched')")
    nobodys = what in ("null", "addresses where nothing is")  # the kernel goes there all the same
    assert {finding["kind"] for finding in outcome.findings} == ({"invalid-access"} if nobodys else set()) and "launched" in outcome.out, outcome.err


def test_devices_that_reach_all_of_the_hosts_memory(rehearse):
    outcome = rehearse(HOST + "launch(large, small, here)\nprint('synchronised:', cuda.cuCtxSynchronize())", env={"DEVTRACE_SIM_PAGEABLE": "1"})
    assert outcome.findings == [] and "synchronised: 0" in outcome.out, outcome.err


def test_memory_that_was_registered_and_is_no_longer(rehearse):
    outcome = rehearse(
        HOST
        + textwrap.dedent("""
        page = (large + 4095) & ~4095
        call("cuMemHostRegister_v2", P(page), S(4096), 0)
        launch(page, here, here)
        call("cuMemHostUnregister", P(page))
        launch(page, here, here)
        """)
    )
    assert max([record["count"] for record in outcome.records if record["record"] == "count"], default=1) == 1
    only(outcome, "host-access")


def test_the_report_is_on_disk_before_the_launch(rehearse):
    told_before_error_700(rehearse, HOST + "launch(large, here, here)\n")


def test_a_cpu_tensor_given_to_a_kernel_of_tritons(rehearse):
    """Triton's own launcher refuses it; whoever launches what Triton compiled does not."""
    outcome = rehearse(
        TRITON
        + textwrap.dedent("""
        import ctypes
        compiled = add[(1,)](here, here, torch.empty_like(here), 64)
        on_cpu = torch.ones(1 << 20)  # MADE
        result = torch.empty_like(here)
        values = [ctypes.c_void_p(v) for v in (here.data_ptr(), on_cpu.data_ptr(), result.data_ptr(), 0, 0)]
        pointers = (ctypes.c_void_p * 5)(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
        cuda = ctypes.CDLL("libcuda.so.1")
        cuda.cuLaunchKernel(ctypes.c_void_p(compiled.function), 1, 1, 1, 128, 1, 1, 0, None, pointers, None)  # HERE
        """)
    )
    finding = only(outcome, "host-access")
    assert finding["launch"]["kernel"] == "add" and finding["launch"]["parameter"] == 1
    odd = [one for one in finding["operands"] if one.get("odd")]
    assert len(odd) == 1 and odd[0]["device"] == "cpu"
    assert next(frame["line"] for frame in odd[0]["created"]["python"] if frame.get("project")) == line_of(outcome, "MADE")
    assert next(frame["line"] for frame in finding["python"] if frame.get("project")) == line_of(outcome, "HERE")
    assert finding["cause"]["category"] == "cpu-tensor"
