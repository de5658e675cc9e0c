"""Started in every CPython: what a finding reads of frames' variables under the GIL, against what the program knows of them."""

import ctypes
import sys

probe = ctypes.PyDLL(sys.argv[1])
probe.probe_live_variables.restype = ctypes.py_object
probe.probe_live_variables.argtypes = [ctypes.c_size_t]
read = probe.probe_live_variables


def function(first, second=2, *rest, only=4, **named):
    third = [first]
    if first is None:
        never = third  # noqa: F841
    return read(0)


def closes():
    outer = "outer"

    def inner(argument):
        return read(0), outer, argument

    return inner("given")[0]


def owns_cell():
    shared = ["shared"]
    later = lambda: shared  # noqa: E731
    return read(0), later


def generator():
    kept = "kept"
    yield read(0)
    del kept


def callers(mine):
    def called():
        return read(1)

    return called()


class Namespace(dict):
    def __getitem__(self, name):
        print("ran", name) if name == "secret" else None
        return dict.__getitem__(self, name)


class Body:
    inside = "inside"
    seen = dict(read(0))


assert function(1, 3, 5, only=6, more=7) == {"first": 1, "second": 3, "rest": (5,), "only": 6, "named": {"more": 7}, "third": [1]}
assert closes() == {"argument": "given", "outer": "outer"}, closes()
variables, later = owns_cell()
assert sorted(variables) == ["later", "shared"] and variables["shared"] == ["shared"], variables
assert next(generator()) == {"kept": "kept"}
seen = callers("mine")
assert seen["mine"] == "mine" and callable(seen["called"])
assert Body.seen["inside"] == "inside" and "seen" not in Body.seen
element = [read(0) for one in ["one"]][0]
assert element["one"] == "one", element
namespace = Namespace(read=read, left="left", secret="secret")
exec("seen = dict(read(0))", namespace)
assert namespace["seen"]["left"] == "left" and namespace["seen"]["secret"] == "secret"


def leaves_nothing():
    big = type("Big", (), {})()
    import weakref

    gone = weakref.ref(big)
    assert read(0)["big"] is big
    del big
    return gone() is None


assert leaves_nothing()
print("end")
