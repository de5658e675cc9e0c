"""devtrace attach to a program that has imported CuPy already: what its pool gives out from then on has its own statement."""

import importlib.util

import pytest
from conftest import environment, operand
from running import command, python_server, running  # noqa: F401

pytestmark = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed (cupy-cuda13x)")

# The pool has taken all of its memory before devtrace comes.
SOURCE = """
import os, sys, cupy
kernel = cupy.RawKernel('extern "C" __global__ void mine(float* x) { x[0] = 1; }', "mine")
def made():
    with cupy.cuda.Device(1):
        return cupy.zeros(1 << 20, dtype=cupy.float32)
def made_again():
    with cupy.cuda.Device(1):
        return cupy.zeros(1 << 20, dtype=cupy.float32)
old = made()
new = made()
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    order = line.split()[0]
    if order == "end":
        break
    if order == "old":
        kernel((1,), (1,), (old,))
    elif order == "kept":
        kernel((1,), (1,), (new,))
    else:
        address = new.data.ptr
        new = None
        new = made() if order == "new" else made_again()
        assert new.data.ptr == address
        kernel((1,), (1,), (new,))
    print("answer", flush=True)
print("ended", flush=True)
"""


def test_an_array_from_after_the_attaching_has_its_statement(tmp_path, running, monkeypatch):  # noqa: F811
    monkeypatch.setenv("DEVTRACE_SIM_NO_FAULTS", "1")
    running.append(python_server(tmp_path, SOURCE))
    server = running[0]
    for _ in range(2):
        done = command("attach", "--no-wait", server.pid, env=environment("dedupe=0"))
        assert done.returncode == 0, done.stderr
        for order in ("old", "kept", "new", "again"):
            server.ask(order)
        done = command("detach", server.pid)
        assert done.returncode == 0, done.stderr
        server.ask("new")  # nobody sees this one
    assert server.end() == 0, server.err
    operands = [operand(finding, "cuda:1") for finding in server.findings]
    assert len(operands) == 8, server.err
    # These two are older than the attaching.
    for one in operands[0::4] + operands[1::4]:
        assert one["pool"] == "cupy" and one["before_attach"] and "created" not in one, one
    for one in operands[2::4] + operands[3::4]:
        assert "pool" not in one and "before_attach" not in one, one
    functions = [[frame["function"] for frame in one["created"]["python"] if frame["file"].endswith("program.py")] for one in operands if "created" in one]
    assert functions == [["made", "<module>"], ["made_again", "<module>"]] * 2
