"""What findings cost, in a process of its own: prints milliseconds of processor time as JSON. `python findings.py FOLDER`, rehearsed."""

import gc
import json
import sys
import time
from pathlib import Path

MANY = 900


def took(work) -> float:
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


def refused(work) -> None:
    try:
        work()
    except RuntimeError:
        return
    raise AssertionError("nothing was refused")


def main(folder: Path) -> None:
    import torch
    import transformers  # noqa: F401

    gc.collect()  # what the imports have left due: without a GIL that is everything, 35 ms
    here, there = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
    first = took(lambda: refused(lambda: here + there))
    again = [took(lambda: refused(lambda: here * there)) for _ in range(300)][1:]
    lines = folder / "lines.py"
    lines.write_text("".join(f"def line_{number}(a, b):\n    return a - b\n" for number in range(MANY)), encoding="utf-8")
    names: dict = {}
    exec(compile(lines.read_text(encoding="utf-8"), str(lines), "exec"), names)
    distinct = [took(lambda number=number: refused(lambda: names[f"line_{number}"](here, there))) for number in range(MANY)]
    print(json.dumps({"lines": MANY, "first": first, "again": sorted(again)[len(again) // 2], "distinct": sorted(distinct)[len(distinct) // 2]}))


main(Path(sys.argv[1]))
