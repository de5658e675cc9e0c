"""`make soak`, for seconds: that it runs the whole mix, and that it would notice what grows."""

import csv
import subprocess
import sys

from conftest import BUILD, TOP

SOAK = TOP / "tests/soak/soak.py"
# Grows by something each fiftieth of a second; the same without devtrace.
GROWS = """
import os, sys, threading, time
kept = []
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    kept.append({})
    time.sleep(0.02)
"""
WAYS = {
    "anonymous": "bytearray(os.urandom(1 << 18))",
    "descriptors": "os.open('/dev/null', os.O_RDONLY)",
    "threads": "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
}


def soak(folder, seconds, *program):
    command = [sys.executable, SOAK, "--build", BUILD, "--hours", str(seconds / 3600), "--samples", folder / "samples.csv", *program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_mix(tmp_path):
    """Of so short a run the figures say little: 0 and 1 are both answers, and what it did is read from its output."""
    done = soak(tmp_path, 20)
    assert done.returncode in (0, 1) and done.stderr == "", done.stdout + done.stderr
    for side in ("devtrace", "without"):
        assert f"{side}: exit code 0" in done.stdout, done.stdout
    for step in ("train", "generate", "allocate", "refuse", "refuse_at_a_new_line", "fork", "in_threads", "graph"):
        assert done.stdout.count(f'"{step}": ') == 2 and f'"{step}": 0' not in done.stdout, done.stdout
    with open(tmp_path / "samples.csv", newline="") as file:
        samples = list(csv.DictReader(file))
    assert {sample["side"] for sample in samples} == {"devtrace", "without"}
    assert max(int(sample["resident"]) for sample in samples) > 200 << 20, "this is not the program with PyTorch in it"


def test_what_grows_is_noticed(tmp_path):
    for quantity, way in WAYS.items():
        program = tmp_path / "grows.py"
        program.write_text(GROWS.format(way))
        done = soak(tmp_path, 4, program)
        line = next(line for line in done.stdout.splitlines() if line.startswith(quantity))
        assert done.returncode == 1 and line.endswith("grows, without devtrace too"), done.stdout + done.stderr


def test_what_grows_with_devtrace_alone_is_noticed(tmp_path):
    program = tmp_path / "grows.py"
    program.write_text(GROWS.format("'libdevtrace.so' in os.environ.get('LD_PRELOAD', '') and os.open('/dev/null', os.O_RDONLY)"))
    done = soak(tmp_path, 4, program)
    line = next(line for line in done.stdout.splitlines() if line.startswith("descriptors"))
    assert done.returncode == 1 and line.endswith(" grows"), done.stdout + done.stderr


def test_a_program_that_fails(tmp_path):
    program = tmp_path / "fails.py"
    program.write_text("raise SystemExit(3)")
    done = soak(tmp_path, 4, program)
    assert done.returncode == 1 and "devtrace: exit code 3" in done.stdout, done.stdout
