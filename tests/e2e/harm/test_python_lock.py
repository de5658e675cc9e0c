"""Nothing waits for Python's GIL without a limit: whoever holds it may be waiting for the refusing thread."""

import subprocess
import sysconfig
from pathlib import Path

import pytest
from conftest import only

TORCH = Path(sysconfig.get_path("purelib")) / "torch/lib"

# A check that fails in a thread without Python, as PyTorch's own do.
THREADS = r"""
#include <atomic>
#include <thread>
#include <vector>
namespace c10::detail {
[[noreturn]] void torchCheckFail(const char*, const char*, unsigned, const char*);
}
static void refuse() {
  try {
    c10::detail::torchCheckFail("add", "add.cpp", 1, "Expected all tensors to be on the same device, but found at least "
                                                     "two devices, cuda:0 and cuda:1!");
  } catch (...) {
  }
}
extern "C" void refuse_and_join() { std::thread(refuse).join(); }
static std::atomic<bool> going{true};
extern "C" void refuse_for_ever(int count) {
  for (int i = 0; i < count; ++i)
    std::thread([] {
      while (going) refuse();
    }).detach();
}
"""


@pytest.fixture(scope="module")
def threads(tmp_path_factory):
    library = tmp_path_factory.mktemp("threads") / "libthreads.so"
    subprocess.run(
        ["g++", "-x", "c++", "-std=c++17", "-shared", "-fPIC", "-O1", "-o", library, "-", "-x", "none", f"-L{TORCH}", "-lc10", "-pthread"],
        input=THREADS, text=True, check=True,
    )
    return library


def test_a_holder_that_waits_for_the_refusing_thread(rehearse, threads):
    """pybind11's default: the GIL is not let go of while a thread is joined."""
    outcome = rehearse(f"""
import ctypes, torch
torch.cuda.init()
def joins():
    ctypes.PyDLL({str(threads)!r}).refuse_and_join()  # PyDLL keeps the GIL
joins()
print("end")
""", timeout=60)  # fmt: skip
    assert (outcome.code, outcome.out) == (0, "end\n"), outcome.err
    finding = only(outcome, "refused-op")
    assert "GIL" in finding["incomplete"] and finding["native"]
    assert "operands were not read" in outcome.err


def test_a_busy_holder_is_waited_for(rehearse, threads):
    """One that runs Python code gives the GIL away when it is asked to."""
    outcome = rehearse(f"""
import ctypes, threading, torch
torch.cuda.init()
stop = False
def busy():
    while not stop:
        pass
thread = threading.Thread(target=busy)
thread.start()
ctypes.CDLL({str(threads)!r}).refuse_and_join()
stop = True
thread.join()
print("end")
""", timeout=60)  # fmt: skip
    assert (outcome.code, outcome.out) == (0, "end\n"), outcome.err
    assert "incomplete" not in only(outcome, "refused-op")


@pytest.mark.parametrize("attempt", range(3))
def test_the_end_of_python_while_threads_are_refused(rehearse, threads, attempt):
    """Python ends a thread that waits for the GIL by unwinding its stack: that is none of the program's."""
    outcome = rehearse(f"""
import ctypes, time, torch
torch.cuda.init()
ctypes.CDLL({str(threads)!r}).refuse_for_ever(4)
time.sleep(0.2)
print("end")
""", "dedupe=0:max_findings=0:text=0:html=0:log_path=/dev/null", timeout=60)  # fmt: skip
    assert (outcome.code, outcome.out) == (0, "end\n"), outcome.err[-2000:]
