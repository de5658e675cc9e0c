"""How fast logs become tables, how large these are, and how fast DuckDB answers over them: the figures of docs/guide/tables.md.

    .venv/bin/python tests/bench/tables_bench.py FOLDER LOGS [--like LOG] [--nights 30] [--hosts 32]

Writes the logs and the tables below FOLDER, and deletes them. `--like`: of what size and content the logs are; by default the sample of 10 KB."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/helpers"), str(TOP / "python")]

import duckdb  # noqa: E402
from fleet_logs import SAMPLE, write  # noqa: E402

DEVTRACE = TOP / os.environ.get("DEVTRACE_BUILD", "build") / "devtrace"
QUERIES = (TOP / "recipes/queries.sql").read_text()
ASKED = ("faults", "faults_by_version", "first_seen", "flaky", "traffic_by_site", "slow_ranks", "unfinished")


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and of processors, in this process and those it waited for."""
    used = lambda: sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    clock, before = time.monotonic(), used()
    action()
    return time.monotonic() - clock, used() - before


def run(*words: object) -> None:
    done = subprocess.run([DEVTRACE, *map(str, words)], env={**os.environ, "VIRTUAL_ENV": sys.prefix}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def answers(connection: duckdb.DuckDBPyConnection) -> str:
    parts = []
    for view in ASKED:
        rows = []
        tries = [timed(lambda: rows.append(len(connection.execute(f"SELECT * FROM {view}").fetchall()))) for _ in range(3)]
        parts.append(f"    {view}: first {tries[0][0]:.2f} s ({tries[0][1]:.2f} s of processors), then {min(each[0] for each in tries[1:]):.2f} s; {rows[0]} rows")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("logs", type=int)
    parser.add_argument("--like", type=Path, default=SAMPLE)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--hosts", type=int, default=32)
    given = parser.parse_args()
    logs, tables, database = given.folder / "logs", given.folder / "tables", given.folder / "fleet.duckdb"
    try:
        size = write(logs, given.logs, like=given.like, nights=given.nights, hosts=given.hosts)
        print(f"{given.logs} logs of {given.nights} nights and {given.hosts} hosts: {size / 1e6:.0f} MB", flush=True)
        clock, used = timed(lambda: run("report", logs, "--format", "parquet", "-o", tables))
        print(f"  to tables: {clock:.1f} s, {used:.1f} s of processors: {size / 1e6 / used:.0f} MB/s a core", flush=True)
        clock, used = timed(lambda: run("report", logs, "--format", "parquet", "-o", tables))
        print(f"  again, when all are there: {clock:.1f} s, {used:.1f} s of processors", flush=True)
        for table in ("findings", "traffic", "processes", "memory"):
            files = list((tables / table).rglob("*.parquet"))
            rows = duckdb.sql(f"SELECT count(*) FROM read_parquet('{tables}/{table}/*/*/*.parquet')").fetchall()[0][0]
            print(f"  {table}: {rows} rows, {len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB", flush=True)
        connection = duckdb.connect()
        connection.execute("SET file_search_path = ?", [str(tables.resolve())])
        connection.execute(QUERIES)
        print(f"  DuckDB over the files:\n{answers(connection)}", flush=True)
        connection = duckdb.connect(str(database))
        connection.execute("SET file_search_path = ?", [str(tables.resolve())])
        clock, used = timed(lambda: connection.execute(QUERIES.replace("VIEW all_", "TABLE all_")))
        print(f"  into a database: {clock:.1f} s, {used:.1f} s of processors, {database.stat().st_size / 1e6:.0f} MB\n{answers(connection)}", flush=True)
        clock, used = timed(lambda: run("fleet", database, "--html", given.folder / "fleet.html")) if connection.close() is None else (0, 0)
        print(f"  devtrace fleet: {clock:.1f} s, {used:.1f} s of processors, {(given.folder / 'fleet.html').stat().st_size / 1e6:.1f} MB", flush=True)
    finally:
        for folder in (logs, tables):
            shutil.rmtree(folder, ignore_errors=True)
        database.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
