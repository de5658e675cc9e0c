"""Logs as tables: devtrace report --format parquet."""

import json
import os
import shutil
import subprocess
import sys

import pyarrow.parquet as parquet
import pytest
from conftest import DEVTRACE, TOP

DATA = TOP / "tests" / "data"
TABLES = ("findings", "traffic", "processes", "memory", "outgrown")


def report(*words, python=sys.prefix):
    env = {**os.environ, "VIRTUAL_ENV": str(python)}
    return subprocess.run([DEVTRACE, "report", *map(str, words)], env=env, capture_output=True, text=True, timeout=60)


def tables(folder, *logs, redact=False):
    done = report(*logs, "--format", "parquet", "-o", folder, *(["--redact"] if redact else []))
    assert done.returncode == 0, done.stderr
    return done.stderr


def rows(folder, table):
    return parquet.read_table(folder / table).to_pylist() if (folder / table).exists() else []


def content(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def log(folder, name, *records, pid=7, host="gpu-7"):
    """A log of the samples' first process and these records."""
    process = json.loads((DATA / "private_gpt.jsonl").read_text().splitlines()[0]) | {"pid": pid, "host": host}
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text("".join(json.dumps(each) + "\n" for each in (process, *records)))
    return folder / name


def test_rows_say_what_the_records_say(tmp_path):
    """Of every sample, against the records as JSON, which are read another way."""
    samples = [path for path in sorted(DATA.glob("*.jsonl")) if report(path, "--format", "json").returncode == 0]
    assert len(samples) >= 3
    for sample in samples:
        folder = tmp_path / sample.stem
        tables(folder, sample)
        records = [json.loads(line) for line in report(sample, "--format", "json").stdout.split("\n")[:-1]]
        order = lambda each: (each.get("id") or 0, each["fingerprint"], each.get("time") or 0)
        found, expected = sorted(rows(folder, "findings"), key=order), sorted((each for each in records if each["record"] == "finding"), key=order)
        assert len(found) == len(expected), sample
        if sample.stem == "hostile":  # of other types than a column has
            continue
        for row, each in zip(found, expected, strict=True):
            frames = each.get("python", [])
            frame = next((frame for frame in frames if frame.get("project")), frames[0] if frames else None)
            cause = each["cause"]
            assert (row["fingerprint"], row["kind"], row["operation"], row["devices"]) == tuple(each.get(key) for key in ("fingerprint", "kind", "operation", "devices"))
            assert (row["category"], row["because"], row["fix"], row["fix_line"]) == tuple(cause.get(key) for key in ("category", "because", "fix", "line"))
            assert [operand["name"] for operand in row["operands"] or []] == [operand.get("name") for operand in each.get("operands", [])]
            assert not frame or (row["file"], row["line"], row["source"]) == (frame["file"], frame["line"], frame.get("source"))
        assert len(rows(folder, "processes")) == sum(each["record"] == "process" for each in records)


def test_the_same_logs_give_the_same_files_once(tmp_path):
    logs = [log(tmp_path / "logs", f"devtrace-{pid}.jsonl", pid=pid, host=f"gpu-{pid % 2}") for pid in range(1, 5)]
    assert "4 logs into" in tables(tmp_path / "one", tmp_path / "logs")
    first = content(tmp_path / "one")
    assert sorted(name.split("/")[2] for name in first if name.startswith("processes/date=2")) == ["host=gpu-0", "host=gpu-1"]
    assert "0 logs into" in (said := tables(tmp_path / "one", *logs)) and "4 there already" in said
    assert content(tmp_path / "one") == first
    (tmp_path / "elsewhere").mkdir()
    for each in logs:
        shutil.copy(each, tmp_path / "elsewhere")
    tables(tmp_path / "two", tmp_path / "elsewhere")
    parquets = lambda files: {name: bytes_ for name, bytes_ in files.items() if name.endswith(".parquet") and not name.startswith("processes/")}
    assert parquets(content(tmp_path / "two")) == parquets(first)

    log(tmp_path / "logs", "devtrace-9.jsonl", pid=9)
    tables(tmp_path / "one", tmp_path / "logs")
    now = content(tmp_path / "one")
    assert {name: now[name] for name in first} == first, "nothing that was written is changed"
    assert len(rows(tmp_path / "one", "processes")) == 5


def test_a_log_that_grows_is_written_once_more(tmp_path):
    finding = json.loads((DATA / "private_gpt.jsonl").read_text().splitlines()[1])
    log(tmp_path, "devtrace-7.jsonl", finding)
    tables(tmp_path / "db", tmp_path / "devtrace-7.jsonl")
    log(tmp_path, "devtrace-7.jsonl", finding, {"record": "count", "id": finding["id"], "count": 64}, {"record": "end", "time": 1.5, "exit": 1})
    tables(tmp_path / "db", tmp_path / "devtrace-7.jsonl")
    old, new = sorted(rows(tmp_path / "db", "findings"), key=lambda row: row["log_bytes"])
    assert (old["log"], old["count"], new["count"]) == (new["log"], finding["count"], 64)
    assert [(row["log"], row["log_bytes"]) for row in rows(tmp_path / "db", "outgrown")] == [(old["log"], old["log_bytes"])]
    assert {(row["exit"], row["ended"] is None) for row in rows(tmp_path / "db", "processes")} == {(None, True), (1, False)}


def test_broken_logs_end_nothing(tmp_path):
    hostile = {"record": "finding", "id": 1, "fingerprint": "00000000000000aa", "cause": {"category": ["x"]}, "time": 1e300, "devices": ["cuda:0", 5],
               "operands": [5, {"name": "x", "shape": "y"}], "count": "many", "message": "a\u0000c", "python": [1, {"file": 2, "line": "3", "project": True}]}
    good = log(tmp_path / "logs", "devtrace-1.jsonl", hostile, {"record": "traffic", "id": "a", "bytes": -1, "first": 3})
    with good.open("ab") as out:
        out.write(b'{"record":"finding","id":2,"fingerprint":"00000000000000ab","cause":{"category":"\xff"}}\n{"record":"finding","id":3,\n{"record":"fin')
    (tmp_path / "logs" / "foreign.jsonl").write_text('{"a":1}\n')
    (tmp_path / "logs" / "empty.jsonl").write_text("")
    done = report(tmp_path / "logs", "--format", "parquet", "-o", tmp_path / "db")
    assert done.returncode == 2 and "1 log into" in done.stderr
    for said in ("foreign.jsonl", "empty.jsonl", "not a JSON object", "the last line is cut off"):
        assert said in done.stderr
    assert len(rows(tmp_path / "db", "processes")) == 1
    first, second = sorted(rows(tmp_path / "db", "findings"), key=lambda row: row["id"])
    assert (first["message"], first["time"], first["devices"], first["file"], first["category"]) == ("a\0c", None, None, None, None)
    assert second["category"] == "\ufffd"


def test_redacted_tables_name_nothing(tmp_path):
    secret = (DATA / "private_gpt.jsonl").read_text().replace("private_gpt", "acme").replace("gpu-07", "acme-7").replace("EmbeddingComponent", "AcmeComponent")
    assert secret.count("acme") > 5
    (tmp_path / "acme.jsonl").write_text(secret)
    tables(tmp_path / "plain", tmp_path / "acme.jsonl")
    tables(tmp_path / "redacted", tmp_path / "acme.jsonl", redact=True)
    said = {name: repr([rows(tmp_path / name, table) for table in TABLES]) + "".join(content(tmp_path / name)) for name in ("plain", "redacted")}
    assert "acme" in said["plain"] and "acme" not in said["redacted"].lower()
    assert b"acme" not in b"".join(content(tmp_path / "redacted").values()).lower()
    (finding,) = rows(tmp_path / "redacted", "findings")
    assert finding["kind"] == "refused-op" and finding["torch"] and finding["host"].startswith("machine")
    assert "0 logs into" in tables(tmp_path / "redacted", tmp_path / "acme.jsonl", redact=True)


def test_says_what_is_missing(tmp_path):
    bare = tmp_path / "bare"
    (bare / "bin").mkdir(parents=True)
    (bare / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without what pip has installed
    (bare / "bin/python").chmod(0o755)
    done = report(DATA / "private_gpt.jsonl", "--format", "parquet", "-o", tmp_path / "db", python=bare)
    assert done.returncode == 2 and "pip install 'devtrace[fleet]'" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "db").exists()
    done = report(DATA / "private_gpt.jsonl", "--format", "parquet", "-o", tmp_path / "db", python=tmp_path / "none")
    assert done.returncode == 2 and "pip install 'devtrace[fleet]'" in done.stderr
    done = report(DATA / "private_gpt.jsonl", "--format", "parquet")
    assert done.returncode == 2 and "-o FOLDER" in done.stderr


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_those_of_the_page(tmp_path, table):
    page = (TOP / "docs/reference/tables.md").read_text().partition(f"<!-- columns of {table}: begin -->")[2].partition("<!--")[0]
    documented = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    sample = log(tmp_path, "devtrace-7.jsonl", {"record": "finding", "id": 1}, {"record": "traffic", "id": 1}, {"record": "memory", "device": "cuda:0"})
    tables(tmp_path / "db", sample)
    files = list((tmp_path / "db" / table).rglob("*.parquet"))
    assert len(files) == (1 if table == "outgrown" else 2) and {file.name for file in files} >= {"empty.parquet"}
    assert all(parquet.read_schema(file).names == documented for file in files)
