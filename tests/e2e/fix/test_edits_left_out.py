"""What of an edit is left out in turn, when it is known to do."""

from pathlib import Path

import pytest
from asked_edits import candidates, program


def left_out(tmp_path: Path, before: str, after: str) -> list[str]:
    """The texts that an edit's text is tried as at the end, when each of its changes is left out."""
    path = program(tmp_path, before)
    question = {"finding": None, "texts": {str(path): after}, "before": {str(path): before}, "folder": str(tmp_path)}
    return [each["texts"][str(path)] for each in candidates(tmp_path, question)]


def test_each_move_of_a_line_is_left_out_in_turn(tmp_path):
    before, after = "y = f(a, b.to(w))\n", "y = f(a.to(x.device), b.to(w).to(x.device))\n"
    halves = ["y = f(a, b.to(w).to(x.device))\n", "y = f(a.to(x.device), b.to(w))\n"]
    assert left_out(tmp_path, before, after) == [before, *halves], "the program's own move stays"
    assert left_out(tmp_path, "y = a + b\n", "y = a.to(b.device) + b\n") == ["y = a + b\n"], "nothing is tried twice"


@pytest.mark.parametrize("move", ['.to("cpu")', ".cpu()"])
def test_a_move_that_goes_elsewhere_is_not_left_out(tmp_path, move):
    before = f"blocks[0]{move}\n"
    assert left_out(tmp_path, before, "blocks[0].to(x.device)\n") == [before], "the line would do nothing"


def test_each_line_of_a_place_is_left_out_in_turn(tmp_path):
    before, after = "a = f()\nb = f()\ny = 1\n", "a = f(1)\nb = f(2)\ny = 1\n"
    assert left_out(tmp_path, before, after) == [before, "a = f()\nb = f(2)\ny = 1\n", "a = f(1)\nb = f()\ny = 1\n"]
    assert left_out(tmp_path, "y = 1\n", "a = 2\nb = 3\ny = 1\n") == ["y = 1\n", "b = 3\ny = 1\n", "a = 2\ny = 1\n"]
