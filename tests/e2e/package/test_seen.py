"""What is seen by `devtrace.start()` beside the preload: the table of docs/guide/notebook.md, measured."""

import json
import re
import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute
from kernel_programs import TOUCH, TRITON
from notebooks import PACKAGE

START = "import devtrace\ndevtrace.start(text=False)\n"
# In this order: what a program does before the fault, and the fault itself.
EARLIER = "old = torch.ones(4, device='cuda:1')\ntorch.cuda.set_device(1)\ntorch.cuda.set_device(0)\n"
TOUCHED = TOUCH + "own, other = memory(0), memory(1)\nuse(0)\n"
LEGITIMATE = "add[(1,)](here, here, here, 64)\nlaunch(own, own, own)\n"
FAULTS = """
import os
def attempt(what):
    try:
        what()
    except Exception as error:
        pass

new = torch.ones(4, device="cuda:0")
attempt(lambda: new + old)
attempt(lambda: add[(1,)](here, there, here, 64))
launch(other, own, own)
os._exit(0)  # by now both devices are lost
"""


def seen(folder, program, words):
    (folder / "program.py").write_text(program)
    outcome = execute([*words, sys.executable, "program.py"], folder, environment(None, PACKAGE))
    assert outcome.code == 0, outcome.err
    found = {}
    for finding in outcome.findings:
        found[finding["kind"], finding["operation"].split("(")[0]] = finding
    refusal = found.get(("refused-op", "aten::add"), {})
    old = next((each for each in refusal.get("operands", []) if each.get("name") == "old"), {})
    return {
        "an operation that PyTorch refuses": bool(refusal),
        "where a tensor was made": "created" in old,
        "a kernel of Triton's": any(kind == "remote-access" and "add" in name for kind, name in found),
        "a launch by a function that somebody had fetched": any("touch" in name for _, name in found),
    }


def table():
    """{way: {what: whether it is seen}} of the page."""
    text = (TOP / "docs/guide/notebook.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.search(r"\| what \|.*?\n\n", text, re.DOTALL)[0].strip().split("\n")]
    return {way: {row[0]: row[number].startswith("yes") for row in rows[2:]} for number, way in enumerate(rows[0]) if number}


@pytest.mark.parametrize("way, program", [
    ("with the preload", TRITON + EARLIER + TOUCHED + FAULTS),
    ("`start()` before PyTorch", START + TRITON + EARLIER + TOUCHED + FAULTS),
    ("`start()` in the midst", TRITON + EARLIER + TOUCHED + LEGITIMATE + START + FAULTS),
])
def test_what_is_seen(tmp_path, way, program):
    words = [DEVTRACE, "rehearse", "--gpus", "2", "--no-text", *(["--no-trace"] if START in program else []), "--"]
    assert seen(tmp_path, program, words) == table()[way], json.dumps(table()[way])
