"""Logs of a fleet's nights, made of one log: each as another process of another host and night would have left it.

    python tests/helpers/fleet_logs.py FOLDER LOGS [--like LOG] [--nights 30] [--hosts 32] [--faults 200]
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
from collections.abc import Iterator
from pathlib import Path

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "private_gpt.jsonl"
FIRST_NIGHT = datetime.date(2026, 1, 1)
VERSIONS = ("2.10.0", "2.11.0", "2.12.0")
DAY = 86400


def fleet_logs(logs: int, like: Path = SAMPLE, nights: int = 30, hosts: int = 32, faults: int = 200, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Name and text of each. A third of the processes meet no fault. A fault begins on one night and ends on another, and every fifth
    is seen on some nights only."""
    draw = random.Random(seed)
    records = [json.loads(line) for line in like.read_text(encoding="utf-8").splitlines()]
    process, end = records[0], records[-1] if records[-1]["record"] == "end" else None
    lives = [sorted(draw.sample(range(nights), 2)) if nights > 1 else [0, 0] for _ in range(faults)]
    dumped = lambda record: json.dumps({**record, "pid": -1}, separators=(",", ":")).replace('"pid":-1', '"pid":@PID@') + "\n"
    marked = {"host": "@HOST@", "boot": "@HOST@", "started": "@STARTED@", "torch": "@TORCH@", "environment": {"RANK": "@RANK@", "WORLD_SIZE": "8", "SLURM_JOB_ID": "@JOB@"}}
    first_line = dumped({**process, **marked}).replace('"@STARTED@"', "@STARTED@")
    finding = dumped({**next(each for each in records if each["record"] == "finding"), "fingerprint": "@FAULT@"})
    rest = "".join(dumped(each) for each in records[1:] if each["record"] not in ("finding", "end"))
    last_line = dumped({**end, "time": "@ENDED@"}).replace('"@ENDED@"', "@ENDED@") if end else ""
    took = end["time"] - process["started"] if end else 0
    begin = datetime.datetime.combine(FIRST_NIGHT, datetime.time(2), datetime.UTC).timestamp()
    for number in range(logs):
        night = number * nights // logs
        begun = begin + night * DAY + number % 3000
        fault = draw.randrange(faults)
        first, last = lives[fault]
        met = number % 3 and first <= night <= last and (fault % 5 or night % 2 == first % 2)
        head = first_line.replace("@HOST@", f"gpu-{number % hosts:02}").replace("@STARTED@", repr(begun)).replace("@TORCH@", VERSIONS[night * len(VERSIONS) // nights])
        text = head.replace("@RANK@", str(number % 8)).replace("@JOB@", str(number // 8)) + (finding.replace("@FAULT@", f"{fault:016x}") if met else "") + rest
        text += last_line.replace("@ENDED@", repr(begun + took + number % 7))
        yield f"devtrace-{number}.jsonl", text.replace("@PID@", str(1000 + number)).encode()


def write(folder: Path, logs: int, **how: object) -> int:
    """A thousand to a folder. Bytes in all."""
    size = 0
    for number, (name, text) in enumerate(fleet_logs(logs, **how)):
        if number % 1000 == 0:
            part = folder / f"{number // 1000:04}"
            part.mkdir(parents=True)
        (part / name).write_bytes(text)
        size += len(text)
    return size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("logs", type=int)
    parser.add_argument("--like", type=Path, default=SAMPLE)
    for name, default in (("nights", 30), ("hosts", 32), ("faults", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = vars(parser.parse_args())
    print(write(given.pop("folder"), given.pop("logs"), **given))
