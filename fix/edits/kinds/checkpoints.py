"""map_location: where torch.load puts what it reads."""

import ast

import devices
from candidate import Candidate
from source import dotted, keyword

from kinds.at_use import directions


def candidates(failure):
    on_stack = {
        (frame["file"], frame.get("line"))
        for operand in failure.operands
        for event in ("created", "moved")
        for frame in operand.stack(event)
        if frame.get("project") and frame.get("file")
    } | {(frame.get("file"), frame.get("line")) for frame in failure.stack}
    wanted = [device for _, device, _ in directions(failure)] or ["cuda:0", "cpu"]
    for source in failure.files():
        for call in ast.walk(source.tree):
            if not isinstance(call, ast.Call) or dotted(call.func) not in ("torch.load", "load_file", "safetensors.torch.load_file"):
                continue
            likely = any((source.path, line) in on_stack for line in range(call.lineno, call.end_lineno + 1))
            for device in dict.fromkeys(wanted):
                statement = source.enclosing(call, ast.stmt)
                for rank, (way, names_device) in enumerate(devices.ways(failure, source, statement, device)):
                    prior = (1.2 if likely else 3.6) + 0.5 * rank + (1.5 if device == "cpu" else 0)
                    each = Candidate("map-location", f"{dotted(call.func)} to {way}", prior, names_device=names_device)
                    yield give(each, source, call, way)


def give(candidate, source, call, way):
    name = "map_location" if dotted(call.func) == "torch.load" else "device"
    given = keyword(call, name)
    if given is not None:
        return candidate.replace(source, given.value, way)
    if len(call.args) > 1:
        return candidate.replace(source, call.args[1], way)
    return candidate.insert(source, source.span(call)[1] - 1, f", {name}={way}")
