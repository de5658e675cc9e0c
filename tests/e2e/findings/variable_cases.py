"""Run by test_variables.py in each interpreter: what frames hold as the tracker reads it, and as Python says."""

import ctypes
import json
import sys

probe, released = ctypes.PyDLL(sys.argv[1]), ctypes.CDLL(sys.argv[1])
MODULE_VARIABLE = [1.5]


def read(library) -> list:
    """[frame, name, kind, address] of what the calling frame and its callers hold; frame 1 is the caller."""
    out = ctypes.create_string_buffer(1 << 20)
    size = library.probe_variables(ctypes.c_size_t(8), out, ctypes.c_size_t(len(out)))
    parts = out.raw[:size].decode().split("\0")[:-1]
    return [[int(parts[i]), parts[i + 1], parts[i + 2], int(parts[i + 3])] for i in range(0, len(parts), 4)]


class Plain:
    def __init__(self):
        self.first = object()
        self.second = [object()]


class Base:
    pass


class Slots(Base):
    __slots__ = ("slot",)


def said_by_python(variables: dict, arguments: set, also: dict) -> dict:
    """name → [kind, address], with what containers and instances hold."""
    out = {}
    for name, value in variables.items():
        out[name] = ["argument" if name in arguments else "variable", id(value)]
        if isinstance(value, (list, tuple)):
            out.update({f"{name}[{i}]": ["item", id(one)] for i, one in enumerate(value)})
            integers = {i: one for i, one in enumerate(value) if isinstance(one, int) and -(2**63) <= one < 2**64}
            out.update({f"{name}[{i}].value": ["integer", one % 2**64] for i, one in integers.items()})
        if isinstance(value, dict):
            out.update({f"{name}[{key}]": ["entry", id(one)] for key, one in value.items() if isinstance(key, str)})
        if not isinstance(value, type) and hasattr(value, "__dict__"):
            out.update({f"{name}.{key}": ["attribute", id(one)] for key, one in also.get(name, {}).items()})
    return out


def function(library, plain, materialised, *rest, keyword, **more):
    local = {"a": object(), 3: object(), "ä€😀": object(), "gone": object()}
    del local["gone"]
    large = {f"key{i}": i for i in range(300)}
    items, pair, empty = [object(), None], (object(), object()), []
    numbers = [0, 1, -1, 2**29, 2**30, -(2**30), 2**31 - 1, 2**40 + 3, -(2**59), 2**60 + 1, 2**62, 2**63 - 1, -(2**63), 2**64, 2**70, True, False, 1.0]
    enclosed = object()
    slots = Slots()
    slots.other = object()
    deleted = object()
    del deleted

    def inner():
        return enclosed, plain

    got = read(library)
    # What vars() would make a dict of stays as it is until everything has been read.
    attributes = {"plain": {"first": plain.first, "second": plain.second}, "materialised": dict(materialised.__dict__), "slots": {"other": slots.other}}
    names = {"library", "plain", "materialised", "rest", "keyword", "more"}
    variables = {name: value for name, value in locals().items() if name not in ("got", "attributes", "names")}
    return got, said_by_python(variables, names, attributes), inner


def main() -> None:
    results = []
    for library in (probe, released):
        materialised = Plain()
        vars(materialised)["third"] = object()
        changed = Plain()
        changed.third = object()
        del changed.first
        for instance in (materialised, changed):
            got, want, _ = function(library, Plain(), instance, object(), object(), keyword=object(), other=object())
            mine = {name: [kind, address] for frame, name, kind, address in got if frame == 1 and kind != "global"}
            skip = ("library",)  # ctypes' own instances change while they are called
            results.append({
                "got": {name: value for name, value in mine.items() if not name.startswith(skip)},
                "want": {name: value for name, value in want.items() if not name.startswith(skip)},
                "global": [address for frame, name, kind, address in got if name == "MODULE_VARIABLE" and kind == "global"] == [id(MODULE_VARIABLE)],
                "body": [address for frame, name, kind, address in got if name == "MODULE_VARIABLE" and kind == "variable"] == [id(MODULE_VARIABLE)],
                "caller": ["variable", id(results)] in [[kind, address] for frame, name, kind, address in got if frame == 2 and name == "results"],
            })
    with open(sys.argv[2], "w") as out:
        json.dump(results, out)


main()
