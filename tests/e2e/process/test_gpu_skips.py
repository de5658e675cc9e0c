"""The tests of hardware, where there is none: each is skipped with the reason, and nothing fails."""

import ctypes
import os
import subprocess
import sys

import pytest
from conftest import TOP


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
