"""recipes/queries.sql over a fleet's tables: what DuckDB answers is what the logs say, and Ray Data and Spark answer the same."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import duckdb
import pytest
from conftest import TOP
from fleet_logs import fleet_logs
from test_tables import report

QUERIES = (TOP / "recipes/queries.sql").read_text()
VIEWS = re.findall(r"VIEW (\w+) AS", QUERIES)
ANSWERS = [view for view in VIEWS if not view.startswith("all_")]
ENGINES = Path(os.environ.get("DEVTRACE_ENGINES", TOP / ".cache/engines")) / "bin/python"
PANDAS = sys.executable if importlib.util.find_spec("pandas") else ENGINES if ENGINES.exists() else None
MOVED = [{"record": "traffic", "id": 1, "from": "cuda:0", "to": "cuda:1", "bytes": size, "copies": size // 100,
          "python": [{"file": "/x/step.py", "line": 3, "function": "step", "project": True}]} for size in (100, 1000)]
PEAK = {"record": "memory", "device": "cuda:0", "peak": 5, "reserved": 8}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Its tables, and the records of each log."""
    folder = tmp_path_factory.mktemp("queries")
    (folder / "logs").mkdir()
    records = []
    for number, (name, text) in enumerate(fleet_logs(240, nights=12, hosts=4, faults=9)):
        one = [json.loads(line) for line in text.splitlines()]
        one[1:1] = [*MOVED, PEAK]
        for each in one:
            each["pid"] = one[0]["pid"]
        if number % 20 == 7:
            one.pop()  # killed
        records.append(one)
        lines = [json.dumps(each, separators=(",", ":")) + "\n" for each in one]
        (folder / "logs" / name).write_text("".join(lines))
    # One log is read as it is being written, and again.
    last = folder / "logs" / name
    last.write_text("".join(lines[:-1]))
    tables = ("--format", "parquet", "-o", folder / "tables")
    assert report(folder / "logs", *tables).returncode == 0
    last.write_text("".join(lines))
    assert "1 log into" in report(last, *tables).stderr
    return folder / "tables", records


@pytest.fixture(scope="module")
def answers(fleet):
    """Of each view, as dicts, in an order of their own."""
    connection = duckdb.connect()
    connection.execute("SET file_search_path = ?", [str(fleet[0])])
    connection.execute(QUERIES)
    found = {}
    for view in ANSWERS:
        cursor = connection.execute(f"SELECT * FROM {view}")
        names = [column[0] for column in cursor.description]
        found[view] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return found


def of_kind(log, kind):
    return [each for each in log if each["record"] == kind]


def test_duckdb_says_what_the_logs_say(fleet, answers):
    _, logs = fleet
    assert len(answers["processes"]) == 240 and len(answers["unfinished"]) == 12
    found = [(finding["fingerprint"], log[0]) for log in logs for finding in of_kind(log, "finding")]
    assert len(found) > 50
    hosts, nights = defaultdict(set), defaultdict(set)
    for fault, process in found:
        hosts[fault].add(process["host"])
        nights[fault, process["torch"]].add(int(process["started"]) // 86400)
    faults = {row["fingerprint"]: row for row in answers["faults"]}
    assert {fault: row["processes"] for fault, row in faults.items()} == Counter(fault for fault, _ in found)
    assert {fault: row["hosts"] for fault, row in faults.items()} == {fault: len(names) for fault, names in hosts.items()}
    first = {}
    for fault, process in found:
        first.setdefault(fault, process["torch"])
    assert {row["fingerprint"]: row["torch"] for row in answers["first_seen"]} == first
    versions = {(row["fingerprint"], row["torch"]) for row in answers["faults_by_version"]}
    assert versions == set(nights)
    gaps = {key for key, days in nights.items() if len(days) <= max(days) - min(days)}
    assert gaps and {(row["fingerprint"], row["torch"]) for row in answers["flaky"]} == gaps
    assert {(row["source"], row["target"], row["function"], row["bytes"], row["copies"]) for row in answers["traffic_by_site"]} == {("cuda:0", "cuda:1", "step", 20 * 1000, 200)}
    assert sum(row["processes"] for row in answers["peaks"]) == 240 and {row["peak"] for row in answers["peaks"]} == {5}
    slowest = max(answers["slow_ranks"], key=lambda row: row["behind"])
    assert slowest["behind"] == pytest.approx(6, abs=0.01) and len(answers["slow_ranks"]) == 240 - 12


def recipe(python, name, *words, **env):
    """Its lines."""
    env = {**os.environ, "RAY_DISABLE_IMPORT_WARNING": "1", "SPARK_LOCAL_IP": "127.0.0.1", **env}
    done = subprocess.run([python, TOP / "recipes" / name, *map(str, words)], env=env, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow  # two minutes: its workers import what they need one after the other
@pytest.mark.timeout(600)
@pytest.mark.skipif(not PANDAS, reason="Ray Data wants pandas: scripts/get/engines")
def test_ray_data_says_the_same(fleet, answers):
    said = recipe(PANDAS, "tables-ray.py", fleet[0])
    assert said == sorted(({key: row[key] for key in ("fingerprint", "processes", "occurrences")} for row in answers["faults"]), key=lambda row: row["fingerprint"])


def plain(value):
    """As JSON has it, whichever engine said it."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d[T ][\d:.]+Z?", value):
        return re.sub(r"(\.\d*?)0*$", r"\1", value.rstrip("Z").replace(" ", "T")).rstrip(".")
    return round(value, 6) if isinstance(value, float) else value


def canonical(rows):
    return sorted(json.dumps(plain(plain(row)), sort_keys=True) for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not ENGINES.exists(), reason="no Spark: scripts/get/engines brings it, and needs Java 17 or newer")
def test_spark_says_the_same(fleet, answers):
    """The same SQL on a cluster of two workers on this machine."""
    submit = "--master local-cluster[2,1,1024] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=4 pyspark-shell"
    said = recipe(ENGINES, "tables-spark.py", fleet[0], *ANSWERS, PYSPARK_SUBMIT_ARGS=submit, PYSPARK_PYTHON=str(ENGINES))
    for view in ANSWERS:
        assert canonical(row[view] for row in said if view in row) == canonical(answers[view]), view
