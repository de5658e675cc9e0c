"""Who allowed a device to reach another's memory decides what is said of a kernel that does, and how a copy is told."""

import pytest
from conftest import line_of
from traffic_records import traffic
from triton_program import TRITON

OWN = """
import ctypes
cudart = ctypes.CDLL("libcudart.so.13")
torch.cuda.synchronize()
print("allowed", cudart.cudaDeviceEnablePeerAccess(1, 0) in (0, 704))
cudart.cudaGetLastError()
"""
LAUNCH = """
def launch():
    add[(1,)](here, there, torch.empty_like(here), 64)  # HERE
for _ in range(3):
    launch()
"""


def test_a_program_that_asked_for_it_gets_a_note(rehearse):
    outcome = rehearse(TRITON + OWN + LAUNCH, options="error_exitcode=23")
    finding = outcome.finding
    assert (finding["kind"], finding["severity"], finding["cause"]["category"]) == ("remote-access", "note", "declared-access")
    assert finding["note"] == "the program itself enabled peer access from cuda:0 to cuda:1"
    assert line_of(outcome, "# HERE") in [frame["line"] for frame in finding["python"]]
    assert outcome.code == 0, "a note fails no run"
    end = outcome.records[-1]
    assert (end["findings"], end["notes"]) == (3, 3)
    assert "devtrace: remote-access (note): " in outcome.err


@pytest.mark.parametrize("before", ["", 'here.to("cuda:1"); there.to("cuda:0")'], ids=["nobody", "PyTorch for its copies"])
def test_whoever_did_not_ask_gets_a_finding(rehearse, before):
    outcome = rehearse(TRITON + before + LAUNCH, options="error_exitcode=23")
    assert (outcome.finding["kind"], outcome.finding["severity"]) == ("remote-access", "error")
    assert outcome.code == (23 if before else 1), "without access the kernel faults"
    assert "notes" not in outcome.records[-1]


def test_halt_on_error_goes_on_after_a_note(rehearse):
    outcome = rehearse(TRITON + OWN + LAUNCH + "print('done')", options="halt_on_error=1")
    assert outcome.out.endswith("done\n") and outcome.finding["severity"] == "note"


def test_pytorchs_copies_between_peers_are_direct(rehearse):
    outcome = rehearse("""
        import torch
        a = torch.ones(1000, device="cuda:0")
        a.to("cuda:1")
    """)
    assert [record["staged"] for record in traffic(outcome)] == [False]
