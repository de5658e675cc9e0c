#!/usr/bin/env python3
"""A matrix of programs, versions and numbers of devices (matrix.toml), cell by cell under devtrace: on any engine that can count.

    matrix.py count matrix.toml                   how many cells there are
    matrix.py run matrix.toml N                   run cell N, from 0, and collect its logs
    matrix.py check matrix.toml [-- OPTIONS]      devtrace check over all of them: which version brought what, on which hosts

on_ray.py runs all of it on Ray; slurm.sbatch and kubernetes.yaml have a task a cell. It needs Python 3.11, uv and fsspec. DEVTRACE is the command [devtrace];
DEVTRACE_FLEET_CACHE the folder of the environments [~/.cache/devtrace-fleet], each of which a host makes once.

Exit of run: 0 the cell's logs were collected, however its program ended, 2 they could not be. Of check: 1 a version brought something
new, 2 not all could be judged, 0 neither."""

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import fsspec

DEVTRACE = os.environ.get("DEVTRACE", "devtrace")


def refuse(what):
    print(what, file=sys.stderr)
    sys.exit(2)


@dataclass(frozen=True)
class Cell:
    program: str
    version: str
    devices: int

    def __str__(self):
        return f"{self.program}, {self.version}, {self.devices} device{'s' * (self.devices > 1)}"

    @property
    def folder(self):
        return f"{self.program}/{self.version}/{self.devices}"


class Matrix:
    def __init__(self, file):
        self.folder = Path(file).resolve().parent
        self.settings = tomllib.loads(Path(file).read_text())
        self.programs, self.versions = self.settings["programs"], self.settings["versions"]
        for name in (*self.programs, *self.versions):
            if not re.fullmatch(r"\w[\w .+=-]*", name):
                refuse(f"{file}: {name!r} is to be a folder's name: letters, digits, blanks and . + = - _")
        self.cells = [Cell(*each) for each in product(self.programs, self.versions, self.settings["devices"])]
        logs = self.settings["logs"]
        self.logs = logs if "://" in logs else str(self.folder / logs)
        self.on_gpus = self.settings["devtrace"][0] == "run"

    def storage(self):
        """fsspec's file system of the logs, and their folder in it."""
        return fsspec.core.url_to_fs(self.logs)


def environment_of(matrix, version):
    """The variables of a version's environment, which is made where this host has none yet: by one process, the others wait."""
    wanted, python = matrix.versions[version], matrix.settings.get("python", sys.executable)
    options = matrix.settings.get("uv", [])
    variables = {**os.environ, **matrix.settings.get("environment", {})}
    if not wanted:
        return variables
    cache = Path(os.environ.get("DEVTRACE_FLEET_CACHE", "~/.cache/devtrace-fleet")).expanduser()
    folder = cache / hashlib.sha256(json.dumps([wanted, python, options]).encode()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for words in (["venv", "--python", python, folder], ["pip", "install", "--python", folder / "bin/python", *options, *wanted]):
                subprocess.run(["uv", "--quiet", *words], cwd=matrix.folder, check=True)
            (folder / "ready").touch()
    return {**variables, "VIRTUAL_ENV": str(folder), "PATH": f"{folder / 'bin'}:{variables['PATH']}"}


def devtrace_of(matrix, cell, log, variables):
    """The words that run the cell. Of the devices that this task was given it gets as many as it is to have."""
    words = [DEVTRACE, *matrix.settings["devtrace"]]
    if matrix.on_gpus:
        given = variables.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(cell.devices)))
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(given.split(",")[: cell.devices])
    else:
        words += ["--gpus", str(cell.devices)]
    program = shlex.split(matrix.programs[cell.program].replace("{devices}", str(cell.devices)))
    return [*words, "--no-html", "--no-text", "--log-path", log, "--", *program]


def run_program(words, folder, variables, output, seconds):
    """Its exit code; 124 where it took too long. Its process group ends with this process, however that ends."""
    with open(output, "w") as out:
        program = subprocess.Popen(words, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    # A worker that is lost may take devtrace with it, which leaves the program behind.
    waiting = f"while [ -e /proc/{os.getpid()}/exe ] && kill -0 -{program.pid}; do sleep 1; done; kill -KILL -{program.pid}"
    subprocess.run(["sh", "-c", f"({waiting}) > /dev/null 2>&1 &"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return program.wait(seconds)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        try:
            os.killpg(program.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        program.wait()


def hosts_of(logs):
    """On which the cell's processes ran, by their logs; this one where there is none."""
    lines = (line for log in logs.iterdir() for line in log.open(errors="replace"))
    records = (line for line in lines if line.startswith('{"record":"process"') and line.endswith("}\n"))
    return sorted({json.loads(line).get("host", "") for line in records}) or [socket.gethostname()]


def redact(logs):
    for index, log in enumerate(sorted(logs.iterdir())):
        clean = logs / f"devtrace-redacted-{index}.jsonl"
        command = [DEVTRACE, "report", "--redact", "--format", "json", "--output", clean, log]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        log.unlink()


def run(matrix, number, attempt=1):
    """Runs a cell and collects its logs; what is told of it. cell.json comes last: without it the cell was not collected whole."""
    cell, started = matrix.cells[number], time.time()
    variables = environment_of(matrix, cell.version)
    with tempfile.TemporaryDirectory(prefix="devtrace-cell-") as scratch:
        logs, output = Path(scratch) / "logs", Path(scratch) / "output.txt"
        logs.mkdir()
        words = devtrace_of(matrix, cell, f"{logs}/devtrace-%h-%p.jsonl", variables)
        code = run_program(words, matrix.folder, variables, output, matrix.settings.get("time_limit", 3600))
        hosts = hosts_of(logs)
        told = {"cell": str(cell), "hosts": hosts, "exit": code, "attempt": attempt, "logs": len(list(logs.iterdir()))}
        told["seconds"] = round(time.time() - started, 1)
        if matrix.settings.get("redact"):
            redact(logs)
            output.unlink()
            told["hosts"] = []
        files, root = matrix.storage()
        target = f"{root}/{cell.folder}"
        if files.exists(target):
            files.rm(target, recursive=True)
        files.makedirs(target, exist_ok=True)
        for file in (*sorted(logs.iterdir()), *([output] if output.exists() else [])):
            files.put_file(str(file), f"{target}/{file.name}")
        files.pipe_file(f"{target}/cell.json", json.dumps(told).encode())
    return f"{cell}: exit {code} after {told['seconds']} s on {', '.join(hosts)}"


def gate(known, *words):
    """devtrace check, quietly; its exit code."""
    return subprocess.run([DEVTRACE, "check", "--quiet", "--baseline", known, *words], stdout=subprocess.DEVNULL).returncode


def new_ones(known, scratch, words):
    """What is new, by fingerprint, and whether all could be judged."""
    whole = gate(known, "--sarif", scratch / "new.sarif", *words) != 2
    results = json.loads((scratch / "new.sarif").read_text())["runs"][0]["results"]
    new = [each for each in results if each["baselineState"] == "new" and each["level"] == "error" and "suppressions" not in each]
    return {each["partialFingerprints"]["devtrace/v1"]: each["message"]["text"] for each in new}, whole


def who_has(fingerprint, folders):
    """The cells in whose logs it stands."""
    text = f'"fingerprint":"{fingerprint}"'
    has = lambda folder: any(text in line for log in folder.glob("*.jsonl") for line in log.open(errors="replace"))
    return [cell for cell, folder in folders.items() if has(folder)]


def check(matrix, more=()):
    files, root = matrix.storage()
    with tempfile.TemporaryDirectory(prefix="devtrace-check-") as scratch:
        scratch, top = Path(scratch), Path(root)
        if "://" in matrix.logs:  # devtrace reads files
            top = scratch / "logs"
            files.get(f"{root}/", f"{top}/", recursive=True)
        told = {}
        for cell in matrix.cells:
            if (file := top / cell.folder / "cell.json").exists():
                told[cell] = json.loads(file.read_text())
        return judge(matrix, top, told, scratch, more)


def judge(matrix, top, told, scratch, more):
    unjudged = [f"{cell}: no logs were collected" for cell in matrix.cells if cell not in told]
    unjudged += [f"{cell}: the program left no log (exit {of['exit']})" for cell, of in told.items() if not of["logs"]]
    folders = {cell: top / cell.folder for cell, of in told.items() if of["logs"]}
    if not folders:
        print(*(f"not judged: {each}" for each in unjudged), sep="\n")
        if not told:
            print(f"nothing is at {matrix.logs}: is it a folder that all hosts share?")
        return 2
    options, known, versions = matrix.settings.get("check", []), scratch / "known.json", list(matrix.versions)
    of_version = {version: [folder for cell, folder in folders.items() if cell.version == version] for version in versions}
    if baseline := matrix.settings.get("baseline"):
        shutil.copy(matrix.folder / baseline, known)
        judged = versions
    else:  # the oldest version's findings are known
        known.write_text('{"devtrace_baseline": 1, "findings": []}')
        oldest, *judged = versions
        if not of_version[oldest] or gate(known, "--update-baseline", *options, *of_version[oldest]) != 0:
            unjudged.append(f"{oldest}, the oldest version: what it has is not known, and counts as new below")

    subprocess.run([DEVTRACE, "check", "--baseline", known, *options, *more, *folders.values()])
    first = {}  # the version that brought it, by fingerprint
    for version in judged:
        found, whole = new_ones(known, scratch, [*options, *of_version[version]]) if of_version[version] else ({}, False)
        if not whole:
            unjudged.append(f"{version}: not all of its logs could be judged")
        for fingerprint in [each for each in found if each not in first]:
            first[fingerprint] = version
            cells = who_has(fingerprint, folders)
            names = lambda all: ", ".join(sorted(map(str, all))) or "left out"
            before = versions[: versions.index(version)][-1:]
            print(f"\nnew in {version}" + (f", not yet in {before[0]}" if before else "") + f": {fingerprint}")
            print(f"  {found[fingerprint]}\n  programs: {names({cell.program for cell in cells})}; ", end="")
            print(f"devices: {names({cell.devices for cell in cells})}; hosts: {names({host for cell in cells for host in told[cell]['hosts']})}")
    for each in unjudged:
        print(f"not judged: {each}")
    return 1 if first else 2 if unjudged else 0


def main(words):
    if len(words) < 2 or words[0] not in ("count", "run", "check"):
        refuse(__doc__)
    matrix = Matrix(words[1])
    if words[0] == "count":
        print(len(matrix.cells))
    elif words[0] == "run":
        try:
            print(run(matrix, int(words[2])))
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"matrix: {matrix.cells[int(words[2])]}: {error}", file=sys.stderr)
            return 2
    else:
        return check(matrix, words[3:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
