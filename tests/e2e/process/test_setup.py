"""On a fresh machine: scripts/setup is quick when nothing is missing, and one command to run for whoever is not root. The tests of hardware are
skipped with the reason where there is none."""

import ctypes
import os
import shutil
import subprocess
import sys
import time

import pytest
from conftest import TOP


def setup(path: str = "") -> subprocess.CompletedProcess:
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run([TOP / "scripts/setup"], env=env, capture_output=True, text=True, timeout=120)


def test_nothing_to_do():
    setup()
    began = time.monotonic()
    done = setup()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - began < 10  # installing anything takes longer


@pytest.fixture
def bare_machine(tmp_path):
    """A PATH on which no Debian package is installed and the user is not root."""
    for name, body in {"dpkg-query": "exit 1", "id": "echo 1000", "apt-get": "echo apt-get was run >&2; exit 9"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    return str(tmp_path)


def test_without_root_it_prints_the_one_command(bare_machine):
    done = setup(bare_machine)
    assert done.returncode == 1
    command = done.stderr.splitlines()[-1]
    assert command.startswith("apt-get update && apt-get install -y --no-install-recommends ")
    listed = [line for line in (TOP / "scripts/packages/debian.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert command.split("--no-install-recommends ")[1].split() == listed
    assert "apt-get was run" not in done.stderr


def test_a_full_disk_is_said_before_gigabytes_are_fetched(tmp_path):
    """A work tree of its own, on a disk that `df` says has 3 GB left."""
    shutil.copytree(TOP / "scripts", tmp_path / "tree/scripts")
    df = tmp_path / "bin/df"
    df.parent.mkdir()
    df.write_text("#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted on\necho disk 9999999 1 3999999 99% /\n")
    df.chmod(0o755)
    env = {**os.environ, "PATH": f"{df.parent}:{os.environ['PATH']}"}
    done = subprocess.run([tmp_path / "tree/scripts/setup", "python"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "about 9 GB are needed for .venv, and 3 GB are free" in done.stderr
    assert "installing Python packages" not in done.stdout


def test_without_a_gpu_they_say_why():
    try:
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("there is an NVIDIA driver")
    except OSError:
        pass
    env = {key: value for key, value in os.environ.items() if key != "DEVTRACE_TEST_GPU"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "tests/gpu"], cwd=TOP, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, summary = done.stdout.strip().splitlines()
    reasons = {line.split(": ", 1)[1] for line in lines if line.startswith("SKIPPED")}
    assert reasons <= {"no NVIDIA driver: libcuda.so.1 cannot be opened", "of the stubs: DEVTRACE_TEST_GPU=simulated runs it"}, reasons
    assert " skipped in " in summary and "passed" not in summary
