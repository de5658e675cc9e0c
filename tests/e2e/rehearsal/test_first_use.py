"""A process's first use of CUDA, from whichever thread it comes."""

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
