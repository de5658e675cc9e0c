"""What fix/edits answers for a small program and a finding."""

import ast
import json
import subprocess
import sys
from pathlib import Path

from conftest import TOP

EDITS = TOP / "fix/edits"


def operand(name, device, frames=(0,), created=None, moved=None, **more):
    """One that has that name in each of the frames; `created`, `moved`: (file, line, function), innermost first."""
    out = {"name": name, "role": "variable", "device": device, "names": [{"frame": frame, "name": name} for frame in frames], **more}
    for event, stack in (("created", created), ("moved", moved)):
        if stack:
            out[event] = {"python": frames_of(stack)}
    return out


def frames_of(stack):
    return [{"file": str(file), "line": line, "function": function, "project": "site-packages" not in str(file)} for file, line, function in stack]


def candidates(tmp_path: Path, question: dict, python=sys.executable) -> list[dict]:
    asks, answer = tmp_path / "question", tmp_path / "answer"
    asks.write_text(json.dumps(question))
    ran = subprocess.run([python, "-I", "-S", "-B", EDITS, asks, answer], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(answer.read_text())["candidates"]


def asked(tmp_path: Path, stack, operands, texts=None, folder=None, python=sys.executable, **more) -> list[dict]:
    finding = {"kind": "refused-op", "operation": "aten::add", "operands": operands, "python": frames_of(stack), **more}
    before = {path: Path(path).read_text(encoding="utf-8") for path in texts or {}}
    found = candidates(tmp_path, {"finding": finding, "texts": texts or {}, "before": before, "folder": str(folder or tmp_path)}, python)
    for each in found:
        for text in each["texts"].values():
            ast.parse(text.encode("utf-8"))
    return found


def program(tmp_path: Path, text: str, name="program.py") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8"))
    return path


def line_with(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1) if text in line)


def codes(found: list[dict], kind: str) -> list[str]:
    return [each["code"] for each in found if each["kind"] == kind]
