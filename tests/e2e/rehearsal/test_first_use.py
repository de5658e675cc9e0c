"""A process's first use of CUDA, from whichever thread it comes."""

import pytest
from conftest import DEVTRACE, environment, execute
from interpreters import PARAMETERS

TOGETHER = """
import sys, threading, torch

sys.setswitchinterval(1e-6)
both = threading.Barrier(2)
def ask():
    both.wait()
    return torch.cuda.is_available()

other = threading.Thread(target=ask)
other.start()
assert ask()
other.join()
print((torch.ones(3, device="cuda") * 2).tolist())
"""


def test_two_threads_at_once(rehearse):
    """The one that is first holds a lock of PyTorch's, and the other one waits for it with the GIL."""
    outcome = rehearse(TOGETHER, fresh=True, timeout=60)
    assert (outcome.code, outcome.out) == (0, "[2.0, 2.0, 2.0]\n"), outcome.err


ELSEWHERE = """
import threading

def work():
    import torch
    both.wait()
    print((torch.arange(3.0, device="cuda") + 1).tolist())

both = threading.Barrier(2)
threads = [threading.Thread(target=work) for _ in range(2)]
for each in threads: each.start()
for each in threads: each.join()
"""


def test_pytorch_that_other_threads_import(rehearse):
    outcome = rehearse(ELSEWHERE, fresh=True, timeout=60)
    assert (outcome.code, outcome.out) == (0, "[1.0, 2.0, 3.0]\n" * 2), outcome.err


# What registers kernels while it is imported, as PyTorch does. There is nothing to compute with in it, which is told.
LIKE_PYTORCH = """
import ctypes
from torch import library
runtime = ctypes.CDLL("libcudart.so.13")
runtime.__cudaRegisterFatBinary.restype = ctypes.c_void_p
runtime.__cudaRegisterFatBinary((ctypes.c_void_p * 4)())
def compile(): pass
"""
USE = """
import sys
import torch
print("_devtrace_values" in sys.modules, flush=True)
print("use", file=sys.stderr, flush=True)
torch.ctypes.CDLL("libcuda.so.1").cuInit(0)
print("used")
"""


@pytest.mark.parametrize("python", PARAMETERS)
@pytest.mark.parametrize("options", [[], ["--strict"]], ids=["", "strict"])
def test_values_come_when_pytorch_was_imported(python, options, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(LIKE_PYTORCH)
    (tmp_path / "torch" / "library.py").touch()
    (tmp_path / "use.py").write_text(USE)
    outcome = execute([DEVTRACE, "rehearse", "--no-trace", *options, "--", python, "use.py"], tmp_path, environment(None))
    before, _, after = outcome.err.partition("use\n")
    assert before == "" and after.startswith("devtrace: values are not computed: "), outcome.err
    assert (outcome.code, outcome.out) == ((65, "True\n") if options else (0, "True\nused\n")), outcome.err
