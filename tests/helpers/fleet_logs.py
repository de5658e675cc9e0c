"""Logs of a fleet's nights, made of one log: each as another process of another host and night would have left it.

    python tests/helpers/fleet_logs.py FOLDER LOGS [--like LOG] [--nights 30] [--hosts 32] [--faults 200]
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import re
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
    lines = like.read_text(encoding="utf-8").splitlines()
    process = json.loads(lines[0])
    started = process["started"]
    lives = [sorted(draw.sample(range(nights), 2)) if nights > 1 else [0, 0] for _ in range(faults)]
    quiet = [re.sub(r'"pid":\d+', '"pid":@PID@', line) for line in lines[1:]]
    finding = next(line for line in quiet if line.startswith(('{"record":"finding"', '{"record": "finding"')))
    finding = re.sub(r'"fingerprint": ?"[0-9a-f]{16}"', '"fingerprint":"@FAULT@"', finding)
    rest = "".join(line + "\n" for line in quiet if '"finding"' not in line[:24])
    for number in range(logs):
        night = number * nights // logs
        host = number % hosts
        begun = (datetime.datetime.combine(FIRST_NIGHT, datetime.time(2), datetime.UTC).timestamp()) + night * DAY + number % 3000
        one = {**process, "pid": 1000 + number, "host": f"gpu-{host:02}", "boot": f"boot-{host}", "started": begun, "torch": VERSIONS[night * len(VERSIONS) // nights],
               "environment": {"RANK": str(number % 8), "WORLD_SIZE": "8", "SLURM_JOB_ID": str(number // 8)}}
        fault = draw.randrange(faults)
        first, last = lives[fault]
        seen = first <= night <= last and (fault % 5 or night % 2 == first % 2)
        body = (finding.replace("@FAULT@", f"{fault:016x}") + "\n" if seen and number % 3 else "") + rest
        body = body.replace("@PID@", str(1000 + number))
        if "time" in json.loads(lines[-1]):
            end = json.loads(lines[-1])
            body = body[: body.rindex("{")] + json.dumps({**end, "pid": 1000 + number, "time": begun + end["time"] - started + number % 7}, separators=(",", ":")) + "\n"
        yield f"devtrace-{number}.jsonl", (json.dumps(one, separators=(",", ":")) + "\n" + body).encode()


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
