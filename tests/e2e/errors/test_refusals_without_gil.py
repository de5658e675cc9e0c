"""Evidence of refusals in a free-threaded Python, while other threads change what the refusing code reaches."""

import pytest
from changing_modules import CLASSES
from interpreters import WITH_PYTORCH_WITHOUT_GIL

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
PROGRAM = f"""
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
    outcome = rehearse(CLASSES + PROGRAM, python=python)
    assert outcome.code == 0 and outcome.out == "True False\n", outcome.err
    assert len(outcome.findings) == REFUSALS
    for finding in outcome.findings:
        assert finding["python"][0]["function"].startswith("refused_")
        assert [(one["name"], one["device"], one["role"]) for one in finding["operands"]] == [
            ("scale", "cuda:0", "buffer"),
            ('batch["x"]', "cuda:1", "element"),
        ]
        assert ".to(" in finding["cause"]["fix"]
