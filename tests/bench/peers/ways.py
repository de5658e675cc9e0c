"""What a program is run with: nothing, devtrace with all or one of its parts, and what people would use instead. One table."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path

PARTS = ("provenance", "allocation_stacks", "launches", "copies", "placement", "native")


def only(*parts: str) -> str:
    return ":".join(f"{part}={int(part in parts)}" for part in PARTS)


@contextlib.contextmanager
def memory_history(stacks: str):
    import torch

    torch.cuda.memory._record_memory_history(stacks=stacks, max_entries=100_000)
    yield
    torch.cuda.memory._record_memory_history(enabled=None)


@contextlib.contextmanager
def memray(native: bool):
    import memray as tool

    with tempfile.TemporaryDirectory() as folder, tool.Tracker(Path(folder) / "memray.bin", native_traces=native):
        yield


@contextlib.contextmanager
def profiler():
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA], with_stack=True):
        yield


@contextlib.contextmanager
def sanitizer():
    from torch.cuda import _sanitizer

    _sanitizer.enable_cuda_sanitizer()
    yield


@dataclasses.dataclass(frozen=True)
class Way:
    about: str
    options: str | None = None  # of devtrace; None: it is not loaded
    around: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext  # the steps

    @property
    def peer(self) -> bool:
        return self.around is not contextlib.nullcontext


WAYS = {
    "nothing": Way("the program alone"),
    "devtrace": Way("devtrace as it comes", ""),
    "refusals": Way("devtrace, PyTorch's refusals and Python's exceptions alone", only()),
    "provenance": Way("… and where each tensor was made", only("provenance")),
    "native": Way("… and with native stacks where no Python runs", only("provenance", "native", "allocation_stacks")),
    "launches": Way("… every launch alone", only("launches")),
    "copies": Way("… every copy alone", only("copies")),
    "placement": Way("… placement alone", only("placement")),
    "history": Way("PyTorch's _record_memory_history, Python's stacks", around=lambda: memory_history("python")),
    "history-all": Way("PyTorch's _record_memory_history, all stacks", around=lambda: memory_history("all")),
    "memray": Way("memray", around=lambda: memray(False)),
    "memray-native": Way("memray --native", around=lambda: memray(True)),
    "profiler": Way("torch.profiler with stacks", around=profiler),
    "sanitizer": Way("PyTorch's CUDA sanitizer", around=sanitizer),
}
