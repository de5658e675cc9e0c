"""The device that a thread works on, however it was changed, and the memory that ends with a context."""

import textwrap

import pytest
from conftest import only
from kernel_programs import DRIVER

# After these the thread works in a new context of cuda:1, with a module and a kernel `touch` of its own.
NEW_CONTEXT = """
launch(here, here, here)  # what the thread's device is, is now remembered
context = P()
{create}
module, touch = P(), P()
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(touch), module, b"touch")
"""
CREATIONS = {
    "cuCtxCreate": "call('cuCtxCreate', ctypes.byref(context), 0, 1)",
    "cuCtxCreate_v2": "call('cuCtxCreate_v2', ctypes.byref(context), 0, 1)",
    "cuCtxCreate_v3": "call('cuCtxCreate_v3', ctypes.byref(context), None, 0, 0, 1)",
    "cuCtxCreate_v4": "call('cuCtxCreate_v4', ctypes.byref(context), None, 0, 1)",
}


@pytest.mark.parametrize("how", CREATIONS)
def test_a_new_context_is_the_threads_device(rehearse, how):
    new = NEW_CONTEXT.format(create=CREATIONS[how])
    # The first launch is the one that a stale device would let pass: any suspicion has CUDA asked, and the device put right.
    finding = only(rehearse(DRIVER + new + "launch(here, here, here); launch(there, there, there)"), "wrong-current-device")
    assert finding["current_device"] == "cuda:1" and finding["devices"] == ["cuda:1", "cuda:0"]


CHANGES = {  # from cuda:0 to cuda:1
    "cuCtxSetCurrent": "call('cuCtxSetCurrent', contexts[1])",
    "cuCtxPushCurrent": "call('cuCtxPushCurrent_v2', contexts[1])",
    "cuCtxPopCurrent": "use(1); call('cuCtxPushCurrent_v2', contexts[0]); launch(here, here, here); call('cuCtxPopCurrent_v2', ctypes.byref(P()))",
    "cudaSetDevice": "assert ctypes.CDLL('libcudart.so.13').cudaSetDevice(1) == 0",
    "cuCtxDestroy": """
use(1)
context = P()
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
launch(here, here, here)
call("cuCtxDestroy_v2", context)
""",
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_change_of_device_is_seen(rehearse, how):
    """Where it was not, a kernel that works on cuda:0's memory from cuda:1 would go unnoticed."""
    outcome = rehearse(DRIVER + "launch(here, here, here)\n" + CHANGES[how] + "\nlaunch(here, here, here); launch(there, there, there)")
    assert only(outcome, "wrong-current-device")["current_device"] == "cuda:1"


def test_a_change_that_is_not_seen_makes_no_false_finding(rehearse):
    """What a thread is believed to work on may be stale; what is said is what CUDA answers."""
    outcome = rehearse(
        DRIVER
        + textwrap.dedent("""
        launch(here, here, here)
        cuda.devtrace_sim_cuCtxSetCurrent(contexts[1])  # the stub's own name for it: no hook has it
        launch(there, there, there)
        print("launched")
        """)
    )
    assert outcome.findings == [] and "launched" in outcome.out, outcome.err


def test_memory_is_where_cuda_says_not_where_the_thread_is_believed_to_be(rehearse):
    outcome = rehearse(
        DRIVER
        + textwrap.dedent("""
        launch(here, here, here)
        cuda.devtrace_sim_cuCtxSetCurrent(contexts[1])
        address = P()
        call("cuMemAlloc_v2", ctypes.byref(address), S(4096))
        launch(there, there, address.value)
        use(0)
        launch(here, here, address.value)
        """)
    )
    assert only(outcome, "remote-access")["devices"] == ["cuda:0", "cuda:1"]


ENDS = {
    "cuDevicePrimaryCtxReset": "call('cuDevicePrimaryCtxReset_v2', 1)",
    "cuDevicePrimaryCtxRelease": "call('cuDevicePrimaryCtxRelease_v2', 1)",
    "cudaDeviceReset": "runtime = ctypes.CDLL('libcudart.so.13'); runtime.cudaSetDevice(1); assert runtime.cudaDeviceReset() == 0",
}
# The other context's memory is still there, and the chunk's last owner is cuda:1 in either case.
OWN = """
context, kept = P(), P()
call("cuCtxCreate_v2", ctypes.byref(context), 0, 1)
call("cuMemAlloc_v2", ctypes.byref(kept), S(4096))
"""


@pytest.mark.parametrize("how", ENDS)
def test_memory_ends_with_its_context(rehearse, how):
    outcome = rehearse(DRIVER + OWN + ENDS[how] + "\nuse(0)\nlaunch(here, here, there)\nprint('launched')")
    assert only(outcome, "invalid-access")["current_device"] == "cuda:0" and "launched" in outcome.out, outcome.err


@pytest.mark.parametrize("how", ENDS)
def test_another_contexts_memory_stays(rehearse, how):
    outcome = rehearse(DRIVER + OWN + ENDS[how] + "\nuse(0)\nlaunch(here, here, kept.value)")
    assert only(outcome, "remote-access")["devices"] == ["cuda:0", "cuda:1"]


def test_a_destroyed_contexts_memory_ends_and_the_primarys_stays(rehearse):
    outcome = rehearse(DRIVER + OWN + "call('cuCtxDestroy_v2', context); use(0); launch(here, here, kept.value); print('launched')")
    assert only(outcome, "invalid-access") and "launched" in outcome.out, outcome.err
    outcome = rehearse(DRIVER + OWN + "call('cuCtxDestroy_v2', context); use(0); launch(here, here, there)")
    assert [finding["kind"] for finding in outcome.findings] == ["invalid-access", "remote-access"], outcome.err  # of both runs
