"""Where a tensor was created and moved: the kinds of memory that tensors come from."""

import pytest
from conftest import line_of, operand


def origin(outcome, device, event):
    python = operand(outcome.finding, device)[event]["python"]
    return next(frame["line"] for frame in python if frame.get("project"))


REFUSED = """
left = torch.ones(4, device="cuda:0")
torch.cat([left, {}])
"""

CREATED = {  # how `other`, which lies on the CPU, is made at the line CREATED
    "a tensor": "other = torch.ones(4)  # CREATED",
    "a view inside another tensor": """
base = torch.ones(100, 4)  # CREATED
other = base[7]
""",
    "a file of weights (safetensors)": """
import safetensors.torch
safetensors.torch.save_file({"first": torch.ones(1000), "other": torch.ones(4)}, "weights.safetensors")
other = safetensors.torch.load_file("weights.safetensors")["other"]  # CREATED
""",
    "a file of weights (torch.load, mapped)": """
torch.save({"first": torch.ones(1000), "other": torch.ones(4)}, "weights.pt")
other = torch.load("weights.pt", mmap=True)["other"]  # CREATED
""",
    "memory shared by another process": """
import torch.multiprocessing
def fill(queue):
    queue.put(torch.ones(4))
    queue.join()
context = torch.multiprocessing.get_context("fork")
queue = context.JoinableQueue()
worker = context.Process(target=fill, args=(queue,))
worker.start()
other = queue.get()  # CREATED
queue.task_done()
worker.join()
""",
}


@pytest.mark.parametrize("how", CREATED)
def test_created(rehearse, how):
    outcome = rehearse("import torch\n" + CREATED[how] + REFUSED.format("other"))
    assert origin(outcome, "cpu", "created") == line_of(outcome, "CREATED")


@pytest.mark.parametrize("how", CREATED)
def test_moved(rehearse, how):
    outcome = rehearse(
        "import torch\n" + CREATED[how] + "\nthere = other.to('cuda:1')  # MOVED" + REFUSED.format("there"))
    moved = operand(outcome.finding, "cuda:1")["moved"]
    assert (moved["from"], moved["to"]) == ("cpu", "cuda:1")
    assert origin(outcome, "cuda:1", "moved") == line_of(outcome, "MOVED")
    assert origin(outcome, "cuda:1", "created") == line_of(outcome, "CREATED")


def test_a_file_that_is_no_longer_mapped_is_forgotten(rehearse):
    """The next memory at the same place must not be called the file's."""
    outcome = rehearse(
        """
        import ctypes, mmap, numpy, torch
        torch.save(torch.ones(1 << 20), "weights.pt")
        weights = torch.load("weights.pt", mmap=True)
        start, size = weights.untyped_storage().data_ptr() & ~4095, 4 << 20
        del weights
        libc = ctypes.CDLL(None)
        libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        MAP_FIXED = 0x10
        assert libc.mmap(start, size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start
        memory = (ctypes.c_float * 16).from_address(start + 4096)
        other = torch.from_numpy(numpy.frombuffer(memory, dtype=numpy.float32))
        torch.cat([torch.ones(16, device="cuda:0"), other])
        """
    )
    assert "created" not in operand(outcome.finding, "cpu")
