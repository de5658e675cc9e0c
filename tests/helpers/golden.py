"""Findings as they were recorded before: what of them is the same in every run, each a line of tests/data/golden/findings.jsonl.

A change of the code's structure changes none of them. A change of what devtrace says is looked at, then recorded anew:
without the file, DEVTRACE_GOLDEN=write and pytest -n 0, three times, on the tests that import this."""

import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path

from conftest import TOP

FILE = TOP / "tests/data/golden/findings.jsonl"
# Differ from run to run, or from machine to machine. How sure a cause is may hang on times that a clock tells apart in one run alone.
UNSTEADY = {"time", "thread", "thread_name", "pid", "address", "offset", "stream", "incomplete", "confidence"}
ADDRESSES = re.compile(r"0x[0-9a-f]+")
# A set as Python writes it: the order of its texts is another one for each seed of their hash.
SETS = re.compile(r"\{('[^{}]*'(?:, '[^{}]*')+)\}")
# Whose frames lie below the program's own: how its process began.
OF_THE_START = re.compile(r"/(python3[\d.]*|libpython[^/]*|libc\.so\.6)$")


def without_the_start(frames: list) -> list:
    """A native stack without the outermost frames, which tell a process of its own from a fork of the test's server."""
    while frames and OF_THE_START.search(frames[-1].get("module", "")) and not frames[-1].get("project"):
        frames = frames[:-1]
    return frames


def steady(value, folder: Path):
    """Without what differs from run to run; of libraries' frames their lines and texts, too. The order of fields stays."""
    if isinstance(value, list):
        return [steady(each, folder) for each in value]
    if isinstance(value, str):
        text = ADDRESSES.sub("0x…", value.replace(str(folder), "FOLDER").replace(str(TOP), "TOP"))
        text = SETS.sub(lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)
        return re.sub(r"python3\.\d+", "python3", text)
    if not isinstance(value, dict):
        return value
    if "module" in value and "function" in value and not value.get("project"):  # a native frame of a library
        return {"module": value["module"].rsplit("/", 1)[-1]}
    library = "file" in value and "function" in value and not value.get("project")
    left_out = UNSTEADY | ({"line", "source", "around"} if library else set())
    kept = {key: each for key, each in value.items() if key not in left_out}
    if isinstance(kept.get("native"), list):
        kept["native"] = without_the_start(kept["native"])
    return {key: steady(each, folder) for key, each in kept.items()}


def own_line(frames: list) -> str:
    own = next((frame for frame in frames if frame.get("project")), None)
    return f"{Path(own['file']).name}:{own['line']} in {own['function']}" if own else ""


def entry(program: str, finding: dict, folder: Path) -> dict:
    """What tells a person that something has changed, and a hash of all the rest."""
    whole = steady(finding, folder)
    whole.pop("count", None)
    whole.pop("id", None)
    cause = whole.get("cause", {})
    return {
        "program": program,
        "fingerprint": finding["fingerprint"],
        "kind": whole["kind"],
        "severity": whole["severity"],
        "operation": whole.get("operation"),
        "devices": whole["devices"],
        "at": own_line(whole.get("python", [])) or own_line(whole.get("native", [])),
        "operands": [f"{one.get('name') or one.get('expression')} {one.get('device')} {one.get('role')}" for one in whole.get("operands", [])],
        "cause": {key: cause[key] for key in ("category", "fix", "file", "line") if key in cause},
        "fields": hashlib.sha256(json.dumps(whole, ensure_ascii=False).encode()).hexdigest()[:16],
    }


def text(one: dict) -> str:
    return json.dumps(one, ensure_ascii=False)


def recorded() -> list[dict]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []


def compare(program: str, findings: list[dict], folder: Path):
    """`program`'s findings are those that were recorded; where two recordings differed in the hash alone, it is null and says nothing."""
    before = recorded()
    hashes = {text({**one, "fields": None}): one["fields"] for one in before if one["program"] == program}
    found = [entry(program, finding, folder) for finding in findings]
    if os.environ.get("DEVTRACE_GOLDEN") == "write":
        for one in found:
            if hashes.get(text({**one, "fields": None}), one["fields"]) != one["fields"]:
                one["fields"] = None
        lines = sorted(text(one) for one in [one for one in before if one["program"] != program] + found)
        FILE.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return
    assert hashes, f"{program} was never recorded"
    for one in found:
        if hashes.get(text({**one, "fields": None}), "") is None:
            one["fields"] = None
    known = Counter(text(one) for one in before if one["program"] == program)
    new = Counter(text(one) for one in found)
    assert known == new, "\n".join([*(f"- {one}" for one in known - new), *(f"+ {one}" for one in new - known)])
