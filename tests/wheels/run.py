"""Wheels of others in a rehearsal, unmodified; writes docs/evidence/wheels.md. Needs PyPI for those that .venv has not.

    python tests/wheels/run.py --build build --markdown docs/evidence/wheels.md
    make wheels ONLY='jax trl'
"""

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import programs
from wheels import WHEELS, Wheel
from wheels_page import markdown

TOP = Path(__file__).resolve().parent.parent.parent

# At the end of a process, or where the host reads it; a program may put something before its children's lines.
NOT_COMPUTED = re.compile(r"devtrace: (?:  |.*the host reads what )(.*?)(?: should have written.*)?$")


def packages_of(folder: Path) -> Path:
    """Of the environment in there."""
    return folder / "environment" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def fetch(wheel: Wheel, folder: Path) -> str:
    """What went wrong; empty: it is there."""
    if not (wheel.fetched or wheel.environment) or (folder / "fetched").exists():
        return ""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *wheel.fetched]
    if wheel.environment:
        venv.create(folder / "environment", symlinks=True)
        # What it has is taken as installed, pip among it; another version goes in front.
        (packages_of(folder) / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
        command = [folder / "environment/bin/python", "-m", "pip", "install", "--quiet", *wheel.environment]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        (folder / "fetched").touch()
    return (done.stderr.strip().splitlines() or ["pip failed"])[-1] if done.returncode else ""


def version(wheel: Wheel, folder: Path) -> str:
    found = [one.version for one in importlib.metadata.distributions(name=wheel.name, path=[str(folder), str(packages_of(folder)), *sys.path])]
    return found[0] if found else ""


def execute(command: list, folder: Path, environment: dict, limit: int) -> tuple[int | None, str, str]:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit, env={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(), (late.stderr or b"").decode()


def what_a_preload_changes(build: Path, folder: Path, python: str | Path, program: Path, limit: int) -> list[str]:
    """By LD_PRELOAD alone, where there is no GPU: the exit status, what is printed, or how it ends. Empty: nothing."""
    without, beside = (seen(execute([python, program], folder, more, limit)) for more in ({}, {"LD_PRELOAD": str(build / "libdevtrace.so")}))
    return [what for what in without if without[what] != beside[what]]


def not_computed(lines: list[str]) -> list[str]:
    return [found[1] for line in lines if (found := NOT_COMPUTED.search(line))]


def seen(outcome: tuple[int | None, str, str]) -> dict:
    """Without the numbers: times, processes, ports."""
    code, out, err = outcome
    printed, last = (re.sub(r"\d+", "#", text) for text in (out, (err.strip().splitlines() or [""])[-1]))
    return {"exit status": code, "output": printed, "last line": last}


def run(wheel: Wheel, build: Path, folder: Path) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    missing = fetch(wheel, folder)
    if missing:
        return {"version": "", "missing": missing}
    program = folder / "program.py"
    where = "insert(0, " if wheel.first else "append("
    program.write_text(f"import sys\nsys.path.{where}{str(folder)!r})\n" + programs.HEAD + wheel.program)
    for old in folder.glob("devtrace-*"):
        old.unlink()
    python = folder / "environment/bin/python" if wheel.environment else sys.executable
    command = [build / "devtrace", "rehearse", "--gpus", "2", *wheel.flags, "--", python, program]
    began = time.monotonic()
    code, out, err = execute(command, folder, {"DEVTRACE_OPTIONS": "html=0"}, wheel.limit)
    seconds = round(time.monotonic() - began)
    records = [json.loads(line) for log in folder.glob("devtrace-*.jsonl") for line in log.read_text().splitlines()]
    lines = err.splitlines()
    return {
        "version": version(wheel, folder), "code": code, "seconds": seconds,
        "equal": [line[6:] for line in out.splitlines() if line.startswith("equal ")],
        "apart": [line[6:] for line in out.splitlines() if line.startswith("apart ")],
        "uncomputed": not_computed(lines),
        "findings": sum(record.get("record") == "finding" for record in records),
        "last": lines[-1] if code and lines else "",
        "preload": what_a_preload_changes(build, folder, python, program, wheel.limit),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these; the page keeps the others")
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    options = parser.parse_args()
    build = (TOP / options.build).resolve()
    rows = {}
    for wheel in WHEELS:
        if options.names and wheel.name not in options.names:
            continue
        rows[wheel.name] = run(wheel, build, build / "wheels" / (wheel.beside or wheel.name))
        print(wheel.name, rows[wheel.name], flush=True)
        if options.markdown:
            page = options.markdown.read_text(encoding="utf-8") if options.names else ""
            options.markdown.write_text(markdown(rows, f"PyTorch {importlib.metadata.version('torch')}", page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
