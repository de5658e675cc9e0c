"""docs/reference/versions.md is what docs/reference/versions.json says, and a sample of it holds for the PyTorch that is here."""

import importlib.util
import json
from pathlib import Path
from sys import executable

from conftest import BUILD, TOP

specification = importlib.util.spec_from_file_location("versions_run", Path(__file__).with_name("run.py"))
run = importlib.util.module_from_spec(specification)
specification.loader.exec_module(run)


def test_the_page_is_what_was_run():
    assert (TOP / "docs/reference/versions.md").read_text() == run.page(json.loads((TOP / "docs/reference/versions.json").read_text()))


def test_everything_works_here():
    told = run.Run(Path(executable), BUILD)
    assert [name for name, judge in run.CHECKS.items() if not judge(told)] == []


def test_what_was_not_said_is_no_yes():
    class Silent(run.Run):
        def __init__(self):
            self.records, self.said, self.errors, self.checked, self.plugin = [{"record": "process", "stacks": ""}], {}, "", 0, ""

    yes = []
    for name, judge in run.CHECKS.items():
        try:
            yes += [name] if judge(Silent()) else []
        except KeyError:
            pass
    assert yes == []
