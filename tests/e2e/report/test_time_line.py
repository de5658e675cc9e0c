"""What the log carries for a time line: who chose the thread's device, when copies began, and the lines around the user's own."""

from conftest import line_of

PROGRAM = """
import threading, torch

def work():
    torch.cuda.set_device(1)  # FIRST
    left = torch.ones(3, device="cuda:0")
    right = torch.ones(3)
    for _ in range(20):
        there = right.to("cuda:1")  # COPY
    torch.cuda.set_device(0)  # SECOND
    with torch.cuda.device(1):  # BLOCK
        pass
    total = left + there  # HERE
    print(total)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_what_a_time_line_is_drawn_from(rehearse):
    outcome = rehearse(PROGRAM)
    finding = outcome.finding
    changes = finding["device_changes"]
    own = [next(frame for frame in change["python"] if frame.get("project")) for change in changes]
    marks = [("# FIRST", "cuda:1"), ("# SECOND", "cuda:0"), ("# BLOCK", "cuda:1"), ("# BLOCK", "cuda:0")]
    expected = [(line_of(outcome, mark), device) for mark, device in marks]
    assert [(frame["line"], change["device"]) for frame, change in zip(own, changes)] == expected, "PyTorch's own guards are no changes"
    assert [change["time"] for change in changes] == sorted(change["time"] for change in changes)

    copies = [record for record in outcome.records if record["record"] == "traffic" and record["to"] == "cuda:1"]
    assert [record["copies"] for record in copies] == [20]
    assert copies[0]["first"]["thread"] == finding["thread"]
    assert changes[0]["time"] - 1 < copies[0]["first"]["time"] <= finding["time"] + 0.1


def test_the_lines_around_the_users_own(rehearse):
    outcome = rehearse(PROGRAM)
    frame = next(frame for frame in outcome.finding["python"] if frame.get("project"))
    here = line_of(outcome, "# HERE")
    assert frame["around"]["line"] == here - 3
    lines = frame["around"]["text"].split("\n")
    assert lines[3:5] == ["    total = left + there  # HERE", "    print(total)"]
    assert lines[1] == "    with torch.cuda.device(1):  # BLOCK" and lines[6].startswith("thread = ")
    others = [frame for frame in outcome.finding["python"] if not frame.get("project")]
    assert others and all("around" not in frame for frame in others)
    moved = next(one for one in outcome.finding["operands"] if "moved" in one)["moved"]["python"]
    assert "# COPY" in moved[0]["around"]["text"]


def test_without_sources_there_is_nothing_around(rehearse):
    outcome = rehearse(PROGRAM, options="source=0")
    assert "around" not in str(outcome.finding["python"])


def test_a_guard_around_the_refused_operation_is_no_choice(rehearse):
    """PyTorch makes an operand's device current while it checks: the user chose nothing."""
    outcome = rehearse("import torch\ntorch.ones(3, device='cuda:1') + torch.ones(3, device='cuda:0')\n")
    assert "device_changes" not in outcome.finding
