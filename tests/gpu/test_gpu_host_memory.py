"""A kernel that is given the host's pageable memory: told before the driver's error 700, which comes at some later call."""

import pytest
from conftest import only
from gpu_machine import DRIVER, machine, reaches_host  # noqa: F401

LAUNCHED = """
launch(on_host + 4096, here, here)
print("on disk:", on_disk(), flush=True)
print("synchronised:", cuda.cuCtxSynchronize(), flush=True)
"""


@pytest.mark.parametrize("how", ["preloaded", "injected", "backend=cupti"])
def test_a_pointer_of_mallocs(machine, how):
    outcome = machine.run(DRIVER + LAUNCHED, how if "=" in how else None, injected=how == "injected")
    if reaches_host():
        assert outcome.findings == [] and "synchronised: 0" in outcome.out, outcome.err
        return
    assert outcome.out == "on disk: 1\nsynchronised: 700\n", outcome.out + outcome.err
    finding = only(outcome, "host-access")
    assert finding["devices"] == ["cuda:0", "cpu"] and finding["current_device"] == "cuda:0"
    launch = finding["launch"]
    assert (launch["kernel"], launch["parameter"], launch["offset"]) == ("touch", 1, 0)
    process = next(record for record in outcome.records if record["record"] == "process")
    assert process["backend"] == ("interpose" if how == "preloaded" else "cupti")
    if how == "injected":
        assert "loaded through CUDA_INJECTION64_PATH" in outcome.err


def test_pinned_and_managed_memory_is_no_fault(machine):
    outcome = machine.run(DRIVER + """
pinned, managed = P(), P()
call("cuMemHostAlloc", ctypes.byref(pinned), S(4096), 2)
call("cuMemAllocManaged", ctypes.byref(managed), S(4096), 1)
launch(here, pinned.value, managed.value)
print("synchronised:", cuda.cuCtxSynchronize())
""")  # fmt: skip
    assert outcome.out == "synchronised: 0\n" and outcome.findings == [], outcome.err
