"""`make soak`, for seconds: that it runs the whole mix, and that it would notice what grows."""

import csv
import random
import subprocess
import sys

import pytest
from conftest import BUILD, TOP
from slope import Allowed, growth

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


@pytest.mark.slow
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


# The decision on series of which it is known whether they grow.
MEMORY = Allowed(wander=4 << 20, per_hour=4 << 20)


def series(seconds, value, noise=1 << 20, step=2.0):
    chance = random.Random(7)
    return [(at * step, value(at * step) + chance.uniform(-noise, noise)) for at in range(int(seconds / step))]


def test_flat_with_noise():
    assert not growth(series(3600, lambda at: 1e9)).over(MEMORY)


def test_a_leak_of_16_mib_an_hour():
    found = growth(series(3600, lambda at: 1e9 + at / 3600 * (16 << 20)))
    assert found.over(MEMORY) and found.per_hour == pytest.approx(16 << 20, rel=0.1) and found.hours == pytest.approx(0.5, rel=0.01)


def test_what_a_program_takes_at_its_start_is_no_growth():
    assert not growth(series(600, lambda at: min(at, 200) * 1e7)).over(MEMORY)


def test_peaks_are_no_growth():
    """A tenth of the samples fell into a step that holds a gigabyte, all of them late."""
    samples = series(600, lambda at: 1e9 + (1 << 30) * (at > 500 and at % 20 < 10))
    assert not growth(samples).over(MEMORY)


def test_growth_that_begins_late():
    assert growth(series(3600, lambda at: 1e9 + max(0, at - 2000) * 1e6)).over(MEMORY)


def test_one_descriptor_a_minute():
    assert growth(series(3600, lambda at: 40 + at // 60, noise=0)).over(Allowed(wander=4, per_hour=4))
    assert not growth(series(3600, lambda at: 40 + (at // 60) % 2, noise=0)).over(Allowed(wander=4, per_hour=4))


def test_more_samples_than_are_compared():
    found = growth(series(7200, lambda at: at * 1e4, step=0.5))
    assert found.over(MEMORY) and found.per_hour == pytest.approx(3.6e7, rel=0.1)


def test_too_few_samples_are_no_verdict():
    with pytest.raises(ValueError, match="too few"):
        growth([(0, 1), (1, 1), (2, 1)])
    with pytest.raises(ValueError, match="too few"):
        growth([])
