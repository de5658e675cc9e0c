"""Logs of any size, made from the samples of tests/data: what a program with many defects, or one without de-duplication, leaves.

    python tests/helpers/synthetic_log.py FINDINGS > devtrace-1.jsonl
"""

import json
import random
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"

OPERATIONS = ["aten::index_select", "aten::add", "aten::mm", "aten::bmm", "aten::addmm", "aten::mul", "aten::where", "aten::scatter_"]


def sample(name="private_gpt"):
    """(process, finding, end) of a sample log."""
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


def user_frame(finding):
    return next(frame for frame in finding["python"] if frame.get("project"))


def synthetic_log(findings: int, occurrences: int = 1, seed: int = 1) -> str:
    """Each finding at a line of its own, every tenth an `aten::cat`; each told `occurrences` times, with the same fingerprint. Number 7 was
    seen 64 times. Devices change and copies begin on four threads."""
    draw = random.Random(seed)
    process, finding, end = sample()
    lines = [json.dumps(process)]
    copies = [json.loads(json.dumps(finding["operands"][0]["moved"]["python"])) for _ in range(12)]
    for number, python in enumerate(copies):
        python[0]["line"] += number
        record = {"record": "traffic", "id": number + 1, "from": "cpu", "to": f"cuda:{number % 4}", "bytes": 1 << draw.randrange(10, 34), "copies": draw.randrange(1, 500)}
        record["first"] = {"time": process["started"] + draw.random() * 7, "thread": 4242 + number % 4}
        lines.append(json.dumps({**record, "python": python}))
    for number in range(findings * occurrences):
        kind = number % findings + 1
        one = json.loads(json.dumps(finding))
        one |= {"id": number + 1, "operation": "aten::cat" if kind % 10 == 0 else OPERATIONS[kind % len(OPERATIONS)], "fingerprint": f"{kind:016x}"}
        one |= {"time": finding["time"] + number * 0.01, "thread": 4242 + number % 4}
        user_frame(one)["line"] = kind
        one["device_changes"] = [{"time": finding["time"] - 1, "device": "cuda:0", "python": one["operands"][1]["moved"]["python"]}]
        lines.append(json.dumps(one))
    lines.append(json.dumps({"record": "count", "id": 7, "fingerprint": f"{7:016x}", "count": 64}))
    lines.append(json.dumps(end | {"findings": findings * occurrences}))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(synthetic_log(int(sys.argv[1])))
