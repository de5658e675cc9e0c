"""Where models lie in a free-threaded Python, while other threads change them."""

import pytest
from changing_modules import CLASSES
from interpreters import WITH_PYTORCH_WITHOUT_GIL

PROGRAM = """
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
    outcome = rehearse(CLASSES + PROGRAM, python=python)
    assert outcome.code == 0 and outcome.out == "True False\n", outcome.err
    records = [record for record in outcome.records if record["record"] == "placement" and record["root"] == "Net"]
    assert len(records) >= 2, "while they change it, and at the end"
    first, last = ({entry["name"]: entry["device"] for entry in records[at]["entries"]} for at in (0, -1))
    assert first["inner.weight"] == first["scale"] == "cuda:0"
    assert last == dict.fromkeys(("inner.weight", "inner.bias", "scale"), "cuda:1")
