"""Tables of a fleet of any size, written beside those of one log, as many logs would have left them.

    python tests/helpers/fleet_tables.py FOLDER NIGHTS FAULTS      (FOLDER: of `devtrace report LOG --format parquet`)
"""

from __future__ import annotations

import datetime
import random
import sys
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as parquet

FIRST_NIGHT = datetime.date(2025, 8, 1)  # the sample is of November


def fleet_tables(folder: Path, nights: int, faults: int, seed: int = 1) -> None:
    """Like the finding and the process that are there. A process a night and host; a fault lives from one night to another, and every
    fifth is seen now and then. No process runs on every 17th night, and of program 1 none on every 10th."""
    draw = random.Random(seed)
    finding, process = (parquet.read_table(folder / table, partitioning=None).slice(0, 1) for table in ("findings", "processes"))
    lives = [sorted(draw.sample(range(nights), 2)) for _ in range(faults)]
    for night in range(nights):
        if night % 17 == 16:
            continue
        programs = [program for program in range(2) if program == 0 or night % 10]
        logs = {program: f"{night:08x}{program:08x}" for program in programs}
        seen = [fault for fault, (first, last) in enumerate(lives) if first <= night <= last and fault % 2 in programs and (fault % 5 or draw.random() < 0.3)]
        torch = f"2.{10 + night * 5 // nights}.0"
        _write(folder, "processes", night, process, {"log": [logs[program] for program in programs], "command": [["python", f"train{program}.py"] for program in programs],
                                                     "path": [f"logs/{night}/devtrace-{program}.jsonl" for program in programs], "torch": [torch] * len(programs)})
        _write(folder, "findings", night, finding, {"fingerprint": [f"{fault:016x}" for fault in seen], "log": [logs[fault % 2] for fault in seen], "line": [fault + 1 for fault in seen],
                                                    "operation": [("aten::cat", "aten::add", "aten::mm")[fault % 3] for fault in seen], "torch": [torch] * len(seen)})


def _write(folder: Path, table: str, night: int, like: arrow.Table, columns: dict[str, list]) -> None:
    count = len(columns["log"])
    rows = like.take(arrow.array([0] * count, arrow.int64()))
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, arrow.array(values, like.schema.field(name).type))
    place = folder / table / f"date={FIRST_NIGHT + datetime.timedelta(days=night)}" / "host=gpu-1"
    place.mkdir(parents=True, exist_ok=True)
    parquet.write_table(rows, place / "made.parquet", store_schema=False)


if __name__ == "__main__":
    fleet_tables(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
