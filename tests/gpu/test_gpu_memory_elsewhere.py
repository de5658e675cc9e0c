"""What does not lie on the device at work. The host's pageable memory: told before the driver's error 700, which comes at some later call.
The other device's, with peer access and without, and what is copied from it."""

import pytest
from conftest import only
from gpu_machine import DRIVER, SIMULATED, machine, reaches_host  # noqa: F401
from kernel_programs import TRITON

two_devices = pytest.mark.devices(2)

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


@two_devices
def test_a_refusal_between_devices(machine):
    outcome = machine.run("import torch\ntorch.ones(3, device='cuda:0') + torch.ones(3, device='cuda:1')\n")
    assert only(outcome, "refused-op")["devices"] == ["cuda:0", "cuda:1"] and outcome.code == 1


@two_devices
@pytest.mark.parametrize("how", ["preloaded", "injected", "backend=cupti"])
def test_without_peer_access_it_is_told_before_error_700(machine, how):
    outcome = machine.run(
        DRIVER + "there = memory(1); use(0)\nlaunch(here, here, there)\nprint('on disk:', on_disk(), flush=True)\nprint('synchronised:', cuda.cuCtxSynchronize(), flush=True)\n",
        how if "=" in how else None, injected=how == "injected",
    )  # fmt: skip
    assert only(outcome, "remote-access")["devices"] == ["cuda:0", "cuda:1"]
    assert outcome.out == "on disk: 1\nsynchronised: 700\n", outcome.out


@two_devices
def test_with_peer_access_it_is_silent_but_for_us(machine):
    """PyTorch has enabled it for a copy; from then on a kernel reads the other device's memory without a word."""
    outcome = machine.run(TRITON + """
there.to("cuda:0")
reachable = torch.cuda.can_device_access_peer(0, 1)
out = torch.empty_like(here)
add[(1,)](here, there, out, 64)  # HERE
if reachable:
    torch.cuda.synchronize()
    print(out.sum().item())
""", env={"DEVTRACE_SIM_PEER": "all"})  # fmt: skip
    finding = only(outcome, "remote-access")
    assert finding["devices"] == ["cuda:0", "cuda:1"] and finding["launch"]["kernel"] == "add" and finding["launch"]["parameter"] == 1
    assert finding["cause"]["fix"] == "add[(1,)](here, there.to(here.device), out, 64)  # HERE"
    assert SIMULATED or outcome.out in ("128.0\n", "")


@two_devices
def test_a_kernel_without_a_guard(machine):
    outcome = machine.run(TRITON + "add[(1,)](there, there_too, torch.empty_like(there), 64)\n")
    assert only(outcome, "wrong-current-device")["cause"]["category"] == "unguarded-kernel"


@two_devices
def test_copies_are_counted_by_their_call_site(machine):
    outcome = machine.run("import torch\na = torch.ones(1 << 20, device='cuda:0')\nfor _ in range(5):\n    a.to('cuda:1')\ntorch.cuda.synchronize()\n", "backend=cupti")
    traffic = {record["id"]: record for record in outcome.records if record["record"] == "traffic"}
    between = [record for record in traffic.values() if (record["from"], record["to"]) == ("cuda:0", "cuda:1")]
    assert [(record["bytes"], record["copies"]) for record in between] == [(5 * 4 << 20, 5)], outcome.err
    assert SIMULATED or between[0]["timed"]["copies"] == 5
