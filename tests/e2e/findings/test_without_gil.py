"""A free-threaded Python whose threads change modules while devtrace looks at them: the evidence of refusals, and where models lie."""

import pytest
from interpreters import WITH_PYTORCH_WITHOUT_GIL

# Objects that count their beginning and their end.
CLASSES = """
import gc, linecache, sys, threading, time
from collections import deque
import torch

made, gone = deque(), deque()  # appending is atomic, in a `__del__` that the collector calls, too
class Noted:
    def __init__(self):
        self.kept = [torch.ones(2)]
        made.append(1)
    def __del__(self):
        gone.append(1)
class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.noted = torch.nn.Parameter(torch.ones(2)), Noted()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.listed, self.named = [], {}
net = Net().to("cuda:0")
"""
REFUSALS = 40
# Each of the functions has one thread that gives a variable of its new values.
FUNCTION = """
def refused_{0}(self, batch, objects, parts):
    kept = Noted()
    def put(one):
        nonlocal kept
        kept = one
    stop = threading.Event()
    changing = threading.Thread(target=lambda: [put(Noted()) for _ in iter(stop.is_set, True)])
    changing.start()
    try:
        return self.scale * batch["x"]
    finally:
        stop.set()
        changing.join()
        kept = None
"""
REFUSING = f"""
end, objects, parts = False, [], {{}}

def change(number):
    while not end:
        for i in range(40):
            setattr(net, f"noted_{{number}}_{{i}}", Noted())
            setattr(net, f"part_{{number}}_{{i}}", Part())
            net._buffers[f"buffer_{{number}}_{{i}}"] = torch.ones(2)
            net.listed.append(Noted())
            net.named[f"{{number}} {{i}}"] = [Noted(), torch.ones(2)]
            objects.append(Noted())
            parts[number, i] = Part()
            globals()[f"global_{{number}}_{{i}}"] = Noted()
        for i in range(40):
            delattr(net, f"noted_{{number}}_{{i}}")
            delattr(net, f"part_{{number}}_{{i}}")
            del net._buffers[f"buffer_{{number}}_{{i}}"]
            net.listed.pop()
            del net.named[f"{{number}} {{i}}"]
            objects.pop()
            del parts[number, i]
            del globals()[f"global_{{number}}_{{i}}"]

FUNCTION = '''{FUNCTION}'''
def refuse(number):
    name, text = f"<{{number}}>", FUNCTION.format(number)
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), globals())
    try:
        globals()[f"refused_{{number}}"](net, {{"x": torch.ones(4, device="cuda:1")}}, objects, parts)
    except RuntimeError:
        return
    raise SystemExit("nothing was refused")

threads = [threading.Thread(target=change, args=(number,)) for number in range(2)]
[thread.start() for thread in threads]
try:
    for number in range({REFUSALS}):
        refuse(number)
finally:
    end = True
    [thread.join() for thread in threads]
gc.collect()
print(len(made) == len(gone) > 0, sys._is_gil_enabled())
"""


@pytest.mark.parametrize("python", WITH_PYTORCH_WITHOUT_GIL)
def test_operands_that_other_threads_change_the_holders_of(python, rehearse):
    outcome = rehearse(CLASSES + REFUSING, python=python)
    assert outcome.code == 0 and outcome.out == "True False\n", outcome.err
    assert len(outcome.findings) == REFUSALS
    for finding in outcome.findings:
        assert finding["python"][0]["function"].startswith("refused_")
        assert [(one["name"], one["device"], one["role"]) for one in finding["operands"]] == [
            ("scale", "cuda:0", "buffer"),
            ('batch["x"]', "cuda:1", "element"),
        ]
        assert ".to(" in finding["cause"]["fix"]


MOVING = """
end = time.time() + 4

def change(number):
    while time.time() < end:
        for i in range(40):
            setattr(net, f"noted_{number}_{i}", Noted())
            setattr(net, f"part_{number}_{i}", Part())
            net._buffers[f"buffer_{number}_{i}"] = torch.ones(2)
            net.listed.append(Noted())
        for i in range(40):
            delattr(net, f"noted_{number}_{i}")
            delattr(net, f"part_{number}_{i}")
            del net._buffers[f"buffer_{number}_{i}"]
            net.listed.pop()

threads = [threading.Thread(target=change, args=(number,)) for number in range(3)]
[thread.start() for thread in threads]
while time.time() < end:
    torch.ones(8, device="cuda:0").add(1)
[thread.join() for thread in threads]
net.to("cuda:1")
torch.ones(8, device="cuda:0").add(1)
gc.collect()
print(len(made) == len(gone) > 0, sys._is_gil_enabled())
"""


@pytest.mark.parametrize("python", WITH_PYTORCH_WITHOUT_GIL)
def test_models_that_other_threads_change(python, rehearse):
    outcome = rehearse(CLASSES + MOVING, python=python)
    assert outcome.code == 0 and outcome.out == "True False\n", outcome.err
    records = [record for record in outcome.records if record["record"] == "placement" and record["root"] == "Net"]
    assert len(records) >= 2, "while they change it, and at the end"
    first, last = ({entry["name"]: entry["device"] for entry in records[at]["entries"]} for at in (0, -1))
    assert first["inner.weight"] == first["scale"] == "cuda:0"
    assert last == dict.fromkeys(("inner.weight", "inner.bias", "scale"), "cuda:1")
