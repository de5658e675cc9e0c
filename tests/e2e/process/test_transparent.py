"""devtrace looks at tensors, frames and modules; nothing in the program may see it look, and nothing is left changed."""

import re
import textwrap

import pytest
from conftest import findings_of, start_snippets

# Each defines `left` and `right` (or what refuse() uses) and prints all that it observed.
OBSERVERS = {
    "torch function mode": """
        from torch.overrides import TorchFunctionMode
        class Watch(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                print("saw", getattr(function, "__qualname__", function))
                return function(*args, **(kwargs or {}))
        with Watch():
            refuse(lambda: left + right)
    """,
    "dispatch mode": """
        from torch.utils._python_dispatch import TorchDispatchMode
        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                print("saw", function)
                return function(*args, **(kwargs or {}))
        with Watch():
            refuse(lambda: left + right)
    """,
    "tensor subclass": """
        class Mine(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                print("saw", getattr(function, "__qualname__", None) or function)
                return super().__torch_function__(function, types, args, kwargs)
            def __repr__(self):
                print("saw repr")
                return "mine"
        held = [Mine(torch.ones(2, device="cuda:1"))]
        mine = left.as_subclass(Mine)
        refuse(lambda: mine + right)
    """,
    "wrapper subclass": """
        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, device=inner.device, dtype=inner.dtype)
            def __init__(self, inner):
                self.inner = inner
            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                print("saw", function)
                return function(*[a.inner if isinstance(a, Wrapper) else a for a in args], **(kwargs or {}))
        wrapped = Wrapper(left)
        refuse(lambda: wrapped + right)
    """,
    "settrace": """
        import sys, threading
        def watch(frame, event, argument):
            print("saw", event, frame.f_code.co_name)
            return watch
        def body():
            x = left + right
        sys.settrace(watch)
        try:
            body()
        except RuntimeError:
            sys.settrace(None)
            print("refused")
        sys.settrace(None)
    """,
    "setprofile": """
        import sys
        def body():
            x = left + right
        def watch(frame, event, argument):
            print("saw", event, frame.f_code.co_name, getattr(argument, "__name__", "") if event.startswith("c_") else "")
        sys.setprofile(watch)
        try:
            body()
        except RuntimeError:
            pass
        sys.setprofile(None)
    """,
    "default device": """
        torch.set_default_device("cuda:1")
        refuse(lambda: left + torch.ones(3))
        print(torch.empty(1).device, torch.get_default_device())
        torch.set_default_device(None)
    """,
    "attributes with side effects": """
        class Loud:
            def __getattr__(self, name):
                print("saw getattr", name)
                raise AttributeError(name)
            @property
            def tensor(self):
                print("saw property")
                return left
            def __len__(self):
                print("saw len")
                return 0
            def __iter__(self):
                print("saw iter")
                return iter([left])
            def __eq__(self, other):
                print("saw eq")
                return False
            def __hash__(self):
                print("saw hash")
                return 1
            def __bool__(self):
                print("saw bool")
                return True
            def __repr__(self):
                print("saw repr")
                return "loud"
            def __instancecheck__(self, other):
                print("saw instancecheck")
                return False
            def __class_getitem__(cls, key):
                print("saw class getitem")
            @property
            def __class__(self):
                print("saw __class__")
                return Loud
        class LoudDict(dict):
            def __iter__(self):
                print("saw dict iter")
                return super().__iter__()
            def items(self):
                print("saw items")
                return super().items()
            def __getitem__(self, key):
                print("saw dict getitem")
                return super().__getitem__(key)
        class LoudModule(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(3, device="cuda:1"))
            def named_parameters(self, *a, **k):
                print("saw named_parameters")
                return super().named_parameters(*a, **k)
            def __getattr__(self, name):
                print("saw module getattr", name)
                return super().__getattr__(name)
            def forward(self, x):
                loud, loudest = Loud(), LoudDict(x=x)
                return x + right
        refuse(LoudModule(), left)
    """,
    "weak references and collection": """
        import gc
        def watch(phase, info):
            if phase == "start" and info["generation"] == 2: print("saw collection")
        gc.collect()
        gc.callbacks.append(watch)
        refuse(lambda: left + right)
        gc.callbacks.clear()
        print(gc.isenabled(), gc.get_threshold())
    """,
    "state of the thread": """
        import sys, ctypes, locale, warnings, random
        def state():
            return (torch.cuda.current_device(), torch.is_grad_enabled(), torch.initial_seed(), torch.get_rng_state().sum().item(), random.getstate()[1][:3],
                    torch.is_inference_mode_enabled(), sys.exc_info()[0], sys.getrecursionlimit(), sys.getswitchinterval(), locale.setlocale(locale.LC_ALL),
                    len(warnings.filters), torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1), sys.gettrace(), sorted(map(str, sys.path)), __import__("os").getcwd())
        before = state()
        refuse(lambda: left + right)
        print(state() == before)
    """,
    "what the process holds": """
        import os, re, signal
        def holds():
            files = [(fd, os.readlink(f"/proc/self/fd/{fd}").split(":")[0]) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
            status = open("/proc/self/status").read()
            handlers = [signal.getsignal(number) for number in range(1, signal.NSIG) if number not in (32, 33)]
            umask = os.umask(0)
            os.umask(umask)
            return (files, len(os.listdir("/proc/self/task")), re.findall("^Sig(?:Blk|Ign|Cgt):.*$", status, re.M), handlers, umask, dict(os.environ) == environment)
        environment = dict(os.environ)
        before = holds()
        refuse(lambda: left + right)
        after = holds()
        print(before == after, len(after[0]), after[1:4])
    """,
    "exceptions in flight": """
        try:
            raise KeyError("first")
        except KeyError:
            try:
                left + right
            except RuntimeError as error:
                print(type(error.__context__), error.__cause__, error.__traceback__.tb_next)
        import traceback
        def raising():
            left + right
        try:
            raising()
        except RuntimeError:
            print([frame.name for frame in traceback.extract_tb(__import__("sys").exc_info()[2])])
    """,
    "reference counts": """
        import sys
        def body(x, y):
            z = [x, {"y": y}]
            x + y
        before = sys.getrefcount(left), sys.getrefcount(right)
        refuse(body, left, right)
        print((sys.getrefcount(left), sys.getrefcount(right)) == before)
    """,
    "locals of frames": """
        import sys
        def body():
            number = 1
            try:
                left + right
            except RuntimeError:
                pass
            print(number, sorted(locals()))
            number = 2
            locals()["number"] = 3
            def inner():
                nonlocal number
                number += 1
                try:
                    left + right
                except RuntimeError:
                    return number
            print(inner(), number)
        body()
    """,
    "random numbers on the device": """
        torch.manual_seed(3)
        refuse(lambda: left + right)
        print(torch.rand(2).tolist())
    """,
    "refusals that the program expects": """
        def on_one_device(a, b):
            try:
                return a + b
            except RuntimeError:
                return a + b.to(a.device)
        for _ in range(100):
            print(on_one_device(left, right).device)
    """,
}

START = """
import torch
left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
def refuse(function, *arguments):
    try:
        function(*arguments)
    except RuntimeError as error:
        print("refused:", str(error).splitlines()[0])
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Traced or not → (outcome, what each observer printed)."""
    snippets = {name: START + textwrap.dedent(source) for name, source in OBSERVERS.items()}
    return {trace: start_snippets(snippets, tmp_path_factory.mktemp(f"trace-{trace}"), trace=trace) for trace in (True, False)}


@pytest.mark.parametrize("name", OBSERVERS)
def test_seen_from_inside_nothing_differs(runs, name):
    traced, plain = (re.sub(r"0x[0-9a-f]+", "0x", printed[name]) for _, printed in (runs[True], runs[False]))
    assert "refused: " in plain or plain.strip()
    assert traced == plain
    assert len(findings_of(runs[True][0], name)) >= 1


def test_the_programs_end_alike(runs):
    assert runs[True][0].code == runs[False][0].code == 0
    assert not [name for name in runs[False][0].files if name.startswith("devtrace")]
