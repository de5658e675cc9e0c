"""Where a tensor lies and how it came there; and a test of where a model's parts lie."""

from __future__ import annotations

import ctypes
import fnmatch
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import library
from .finding import Frame, innermost
from .installation import DevtraceError

_ROOM = 1 << 16


@dataclass(frozen=True)
class Location:
    """Of a tensor's memory. What was not seen, as it was before `start`, is None."""

    device: str
    created: Frame | None  # the user's line that made it, or the tensor that it was moved from
    moved: Frame | None  # the line that moved it last to another device
    moved_from: str  # the device it then came from; "" when it was not moved
    record: dict[str, Any]  # as an operand in the log: stacks, times, who chose the device

    def __str__(self) -> str:
        def line(frame: Frame | None) -> str:
            return f"{frame.file}:{frame.line} in {frame.function}: {frame.source.strip()}" if frame else "nobody saw where"

        moved = f"\n  moved from {self.moved_from} at {line(self.moved)}" if self.moved_from else ""
        return f"{self.device}\n  made at {line(self.created)}{moved}"


def where(tensor: Any) -> Location:
    """Where a tensor's memory lies, which line made it, and which one moved it to another device.

    tensor: a torch.Tensor, of any shape. Raises TypeError for anything else, and DevtraceError where this process is not watched.
    """
    if not hasattr(tensor, "untyped_storage"):
        raise TypeError(f"devtrace.where takes a torch.Tensor, not {type(tensor).__name__}")
    process = library.loaded()
    if process is None:
        raise DevtraceError("devtrace: this process is not watched; devtrace.start() first")
    room = ctypes.create_string_buffer(_ROOM)
    device = str(tensor.device)
    needed = process.devtrace_where(tensor.untyped_storage().data_ptr(), device.encode(), room, _ROOM)
    if needed >= _ROOM:
        room = ctypes.create_string_buffer(needed + 1)
        process.devtrace_where(tensor.untyped_storage().data_ptr(), device.encode(), room, needed + 1)
    record = json.loads(room.value.decode(errors="replace") or "{}")
    moved = record.get("moved", {})
    return Location(device, innermost(record.get("created", {}).get("python", [])),
                    innermost(moved.get("python", [])), moved.get("from", ""), record)  # fmt: skip


def assert_placement(model: Any, expected: Mapping[str, Any]) -> None:
    """Raises AssertionError, with a line for each, if parameters or buffers of a model do not lie where they should.

    model: a torch.nn.Module.
    expected: devices by names as in `named_parameters()`, `*` for any part: `{"encoder.*": "cuda:0", "head.weight": "cpu"}`. "cuda" is any of CUDA's.
    The first pattern that fits counts, and each has to fit something. What no pattern names may lie anywhere.
    """
    wrong, unused = [], dict.fromkeys(expected)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        pattern = next((each for each in expected if fnmatch.fnmatchcase(name, each)), None)
        if pattern is None:
            continue
        unused.pop(pattern, None)
        wanted = str(expected[pattern])
        if wanted not in (str(tensor.device), tensor.device.type):
            wrong.append(f"  {name} lies on {tensor.device}, not on {wanted}")
    wrong += [f"  {pattern}: no parameter or buffer has such a name" for pattern in unused]
    if wrong:
        raise AssertionError("\n".join([f"{type(model).__name__} does not lie where it should:", *wrong]))
