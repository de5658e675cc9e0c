"""Exceptions are made as without devtrace, also where CPython looks at how their classes make them."""


from running import Running, command, python_server, running  # noqa: F401

CODECS = """
import codecs, torch


class Own(ValueError):
    pass


def refuse(*_):
    raise Own("not here")


codecs.register(lambda name: codecs.CodecInfo(refuse, refuse, name="own") if name == "own" else None)
for what, name in ((b"x", "base64"), (b"x", "own"), (b"no zlib", "zlib"), (b"x", "hex")):
    try:
        codecs.decode(what, name)
    except Exception as error:
        print(type(error).__name__, error, repr(error.__cause__), getattr(error, "__notes__", None))
try:
    codecs.encode("x", "rot13") + codecs.encode("x", "own")
except Exception as error:
    print(type(error).__name__, error, repr(error.__cause__))
"""


def test_errors_of_codecs_keep_their_words_and_cause(rehearse):
    traced, bare = (rehearse(CODECS, trace=trace) for trace in (True, False))
    assert bare.code == traced.code == 0, traced.err
    assert "codec failed" in bare.out or "__notes__" in bare.out
    assert traced.out == bare.out


# What CPython compares when somebody calls a __new__, and what says how an exception is made.
MAKERS = """
import ctypes, torch

NEW, INIT = 312, 296  # of a type
for error in (BaseException, RuntimeError, torch.OutOfMemoryError, KeyError, type("Late", (ValueError,), {})):
    slots = [ctypes.c_void_p.from_address(id(error) + offset).value for offset in (NEW, INIT)]
    plain = [ctypes.c_void_p.from_address(id(base) + offset).value for base, offset in ((BaseException, NEW), (BaseException, INIT))]
    print(error.__name__, [one == other for one, other in zip(slots, plain)])
with open("/proc/self/maps") as maps:
    new = ctypes.c_void_p.from_address(id(BaseException) + NEW).value
    print(next("devtrace" in line for line in maps if int(line.split("-")[0], 16) <= new < int(line.split("-")[1].split()[0], 16)))
"""


def test_how_exceptions_are_made_is_no_slot_that_cpython_compares(rehearse):
    traced, bare = (rehearse(MAKERS, trace=trace) for trace in (True, False))
    assert bare.code == traced.code == 0, traced.err
    assert traced.out == bare.out and traced.out.endswith("False\n")


# The GIL is held for as long as the order says.
HOLDS = """
import ctypes, os, sys, torch
weight = torch.ones(4, device="cuda:0")
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    if line.startswith("hold"):
        print("answer holds", flush=True)
        ctypes.PyDLL(None).usleep(2500000)
    elif line.startswith("end"):
        break
    else:
        try:
            weight + torch.ones(4, device="cuda:1")
        except RuntimeError as error:
            print("answer", str(error)[:8], flush=True)
print("ended", flush=True)
"""


def test_detached_while_the_gil_was_held_and_attached_again(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, HOLDS))
    server: Running = running[0]
    for _ in range(2):
        assert command("attach", "--no-wait", server.pid).returncode == 0
        assert server.ask("wrong") == ["Expected"]
        server.ask("hold")
        done = command("detach", server.pid)
        assert done.returncode == 0, done.stderr
        assert server.ask("wrong") == ["Expected"]  # by now nobody holds it
    assert command("attach", "--no-wait", server.pid).returncode == 0
    assert server.ask("wrong") == ["Expected"]
    assert server.end() == 0, server.err
    assert {one["kind"] for one in server.findings} == {"refused-op"}


# Before CPython 3.12 such an error becomes an exception when the call has given up what it was given: a list that nobody has any more.
ERROR_THAT_IS_SET = """
import ctypes, torch
a = torch.ones(3, device="cuda:0")
refuse = ctypes.pythonapi.PyErr_SetString
refuse.argtypes, refuse.restype = [ctypes.py_object, ctypes.c_char_p, ctypes.py_object], None
try:
    refuse(RuntimeError, b"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", [a, torch.ones(3)])
except RuntimeError as error:
    print(error)
rows = [[number] for number in range(200)]
print(len({id(row) for row in rows}), all(row == [number] for number, row in enumerate(rows)))
"""


def test_an_error_that_c_code_sets_for_arguments_that_are_gone(rehearse):
    outcome = rehearse(ERROR_THAT_IS_SET)
    assert outcome.code == 0 and outcome.out.endswith("200 True\n"), outcome.err
    assert outcome.finding["devices"] == ["cuda:0", "cpu"]
