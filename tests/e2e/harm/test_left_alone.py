"""A finding reads the program and leaves it as it was: nothing lives longer, nothing is overwritten, none of its code runs. Preloaded into a
program that has nothing to do with CUDA, devtrace is not there: no file, no output, the same exit code."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, only
from interpreters import PARAMETERS

PROBE = BUILD / "tests" / "stack_probe.so"
CASES = Path(__file__).with_name("live_variable_cases.py")

REFUSED = """
import torch
a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
"""


def test_a_caught_refusal_keeps_no_tensor_alive(rehearse):
    """Up to Python 3.12 asking for a frame's variables leaves a dict of them on the frame."""
    outcome = rehearse(REFUSED + """
import weakref
class Loud(torch.nn.Module):
    def __del__(self):
        print("gone")

def step():
    big = torch.empty(1 << 20, device="cuda:0")
    module, inner = Loud(), torch.ones(2)
    seen = weakref.ref(big)
    def uses():
        return inner
    try:
        a + b
    except RuntimeError:
        pass
    before = torch.cuda.memory_allocated(0)
    del big, module
    print(seen() is None, before - torch.cuda.memory_allocated(0) >= 4 << 20)
    mine = locals()
    mine["note"] = "mine"
    try:
        b + a
    except RuntimeError:
        pass
    print(mine["note"], "mine" in mine)

step()
print("end")
""")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.out.split() == ["gone", "True", "True", "mine", "False", "end"]
    only(outcome, "refused-op")


def test_no_object_gets_a_dict(rehearse):
    """CPython 3.11 and 3.12 load attributes slowly, for ever, of an object whose dict somebody has asked for."""
    outcome = rehearse(REFUSED + """
import ctypes, sys
class SmallCache:
    def __init__(self):
        self.keys, self.length = a, 1
class Empty:
    pass
def words():  # before the object: its attributes' values, its dict
    return [ctypes.c_uint64.from_address(id(each) - back).value for each in (held, empty) for back in (32, 24)]
held, empty = SmallCache(), Empty()
before = words()
try:
    held.keys + b
except RuntimeError:
    pass
print(sys.version_info >= (3, 13) or words() == before)
held.length += 1
print(held.length, vars(held).keys())
""")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == ["True", "2 dict_keys(['keys', 'length'])"]
    operand = only(outcome, "refused-op")["operands"][0]
    assert operand["name"] == "held.keys"


def test_variables_of_every_sort_are_read(rehearse):
    """Arguments, cells, variables of a comprehension, of a class's body and of an exec() with a mapping of its own."""
    outcome = rehearse(REFUSED + """
def caught(call):
    try:
        call()
    except RuntimeError:
        pass

def cell(first):
    second = b
    def inner():
        return first + second
    caught(inner)

def comprehension(ones):
    caught(lambda: None)
    try:
        [one * b for one in ones]
    except RuntimeError:
        pass

cell(a)
comprehension([a])
try:
    class Body:
        mine = a
        mine - b
except RuntimeError:
    pass

class Namespace(dict):
    def __getitem__(self, name):
        print("ran __getitem__ of", name) if name == "secret" else None
        return dict.__getitem__(self, name)
try:
    exec("left / right", {"__builtins__": {}}, Namespace(left=a, right=b, secret=1))
except RuntimeError:
    pass
""")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.out == ""
    names = [{one.get("name") for one in finding["operands"]} for finding in outcome.findings]
    assert names == [{"first", "second"}, {"one", "b"}, {"mine", "b"}, {"left", "right"}]


def test_no_code_of_the_program_runs(rehearse):
    outcome = rehearse(REFUSED + """
class Loud(type):
    def __getattribute__(cls, name):
        print("metaclass", name)
        return super().__getattribute__(name)

class Descriptor:
    def __get__(self, instance, owner):
        print("__get__")
        return a
    def __set__(self, instance, value):
        print("__set__")

class Number:
    def __index__(self):
        print("__index__")
        return 1

class Flag:
    def __bool__(self):
        print("__bool__")
        return True

class Text(str):
    def __eq__(self, other):
        print("__eq__")
        return str.__eq__(self, other)
    __hash__ = str.__hash__

class device:
    def __str__(self):
        print("__str__")
        return "cuda:0"

class Holder(metaclass=Loud):
    tensor = Descriptor()
    @property
    def other(self):
        print("property")
        return b
    def __getattr__(self, name):
        print("__getattr__", name)
        return b
    def __getitem__(self, key):
        print("__getitem__")
        return b

class Hook:
    pass

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self._is_replica = Flag()
        self._hf_hook = Hook()
        self._hf_hook.execution_device = device()
    def __getattr__(self, name):
        if name not in ("weight",):
            print("module's __getattr__", name)
        return super().__getattr__(name)
    def forward(self, x):
        return x + self.weight.to("cuda:1")

holder, keys = Holder(), {Number(): a, Text("kept"): a}
holder.__dict__["kept"] = keys
net = Net()
print("start")
for attempt in (lambda: holder.tensor + b, lambda: a + holder.other, lambda: net(a), lambda: a - holder["x"], lambda: keys["kept"] * b):
    try:
        attempt()
    except RuntimeError:
        print("refused")
""")  # fmt: skip
    bare = rehearse(["program.py"], trace=False)
    assert outcome.code == 0, outcome.err
    assert outcome.out == bare.out
    assert len(outcome.findings) == 4  # two of them are one: the same operation on one line


def test_an_audit_hook_that_forbids_compile_does_no_harm(rehearse):
    """The failing line is parsed by Python's own parser, which tells audit hooks: see docs/evidence/guarantees.md."""
    outcome = rehearse(REFUSED + """
import sys
def forbid(event, arguments):
    if event == "compile" and armed:
        raise PermissionError(event)
armed = False
sys.addaudithook(forbid)
armed = True
try:
    a + b
except RuntimeError as error:
    print("Expected all tensors" in str(error))
print(sys.exc_info()[0])
""")  # fmt: skip
    assert (outcome.code, outcome.out.split()) == (0, ["True", "None"]), outcome.err
    assert only(outcome, "refused-op")["devices"] == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize("python", PARAMETERS)
def test_variables_of_every_python(python):
    """Read where each version keeps them."""
    done = subprocess.run([python, "-I", "-W", "ignore", CASES, PROBE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_a_block_from_a_pause_ends_without_a_word(rehearse):
    """PyTorch's CPU allocator complains of blocks whose beginning it was not told to report, unless it need not report their end either."""
    outcome = rehearse("""
import ctypes
import torch
devtrace = ctypes.CDLL(None)
kept = torch.ones(1 << 16)
devtrace.devtrace_pause()
made = torch.ones(1 << 16)
devtrace.devtrace_resume()
del made, kept
print(torch.ones(3, device="cuda").sum().item())
""", env={"DEVTRACE_SIM_VALUES": "python"})  # fmt: skip
    assert outcome.code == 0 and outcome.out == "3.0\n" and "Memory block" not in outcome.err


PROGRAMS = {
    "true": ["true"],
    "false": ["false"],
    "bash": ["bash", "-c", "echo out; echo err >&2; (exit 3) | cat; exit 7"],
    "git": ["git", "--version"],
    "python": [sys.executable, "-c", "import json, threading, subprocess; print(subprocess.run(['true']).returncode); raise SystemExit(5)"],
    "python that forks": [sys.executable, "-c", "import os; pid = os.fork(); pid or os._exit(4); print(os.waitpid(pid, 0)[1])"],
    "python killed": ["bash", "-c", f"{sys.executable} -c 'import os; os.abort()'; echo $?"],
    "torch on the CPU": [sys.executable, "-c", "import torch; a = torch.ones(9); print((a @ a).item(), torch.cuda.is_available())"],
}


@pytest.mark.parametrize("options", [None, "nonsense=1:html=perhaps"], ids=["default", "bad options"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_trace_of_devtrace(preload, name, options):
    if name == "torch on the CPU" and options:
        pytest.skip("PyTorch is there: bad options are told (test_options.py)")
    bare = preload(PROGRAMS[name], library=None)
    traced = preload(PROGRAMS[name], options)
    assert (traced.code, traced.out) == (bare.code, bare.out)
    # bash names the process it lost in its message
    assert traced.err == bare.err or name == "python killed"
    assert traced.files == []


def test_simulated_cuda_without_a_finding_says_nothing(rehearse):
    source = """
        import torch
        a = torch.ones(4, 4, device="cuda:1")
        b = (a @ a).to("cuda:0")
        print(b.device)
    """
    traced = rehearse(source, fresh=False)
    plain = rehearse(source, trace=False, fresh=False)
    assert traced.findings == []
    assert (traced.code, traced.out, traced.err) == (plain.code, plain.out, plain.err)
    assert traced.pages == []
