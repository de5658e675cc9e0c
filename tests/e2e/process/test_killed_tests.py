"""The tests' own helpers: tests that are killed leave no program behind, and what several tests share runs once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DEVTRACE, TOP, environment, execute
from running import wait_for

TEST = """
import subprocess
import sys
import time
from pathlib import Path

LOOP = "import os, time; open(str(os.getpid()), 'w').close()\\nwhile True: time.sleep(0.01)"


def test_that_starts_programs():
    for command in ([], [{devtrace!r}, "rehearse", "--gpus", "1", "--"]):
        subprocess.Popen([*command, sys.executable, "-c", LOOP], start_new_session=True)
    time.sleep(250)
"""


def programs(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [["-n", "0"], ["-n", "1"]], ids=["alone", "worker"])
def test_what_they_started_ends_with_them(tmp_path, how):
    (tmp_path / "test_program.py").write_text(TEST.format(devtrace=str(DEVTRACE)))
    tests = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "watcher", "-p", "no:cacheprovider", *how, "test_program.py"], cwd=tmp_path,
        env=environment(None, {"PYTHONPATH": str(TOP / "tests/helpers")}), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: len(programs(tmp_path)) == 2 or tests.poll() is not None, 60)
        assert tests.poll() is None and all(map(runs, programs(tmp_path)))
    finally:
        os.kill(tests.pid, signal.SIGKILL)
        tests.wait()
    wait_for(lambda: not any(map(runs, programs(tmp_path))), 30)


def test_what_lasts_too_long_ends_with_its_children_in_other_sessions(tmp_path):
    """As torchrun's workers are, which have its output."""
    loop = "import os, time; open(str(os.getpid()), 'w').close()\ntime.sleep(250)"
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {loop!r}], start_new_session=True).wait()"
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with pytest.raises(pytest.fail.Exception, match="still running after 5 s"):
        execute([sys.executable, "-c", program], tmp_path, environment(None), 5)
    assert len(programs(tmp_path)) == 1
    wait_for(lambda: not any(map(runs, programs(tmp_path))), 30)
    other.communicate(b"\n", 60)
    assert other.returncode == 0, "another program of this test ended as well"


SHARING = """
import os

import pytest


@pytest.fixture(scope="module")
def shared():
    print("made", file=open(f"made-{os.getpid()}", "a"))


@pytest.mark.parametrize("number", range(20))
def test_that_shares(shared, number):
    pass


def test_that_shares_nothing():
    pass
"""


def test_what_tests_share_is_made_by_one_worker(tmp_path):
    (tmp_path / "test_program.py").write_text(SHARING)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "schedule", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", "test_program.py"], cwd=tmp_path,
        env=environment(None, {"PYTHONPATH": str(TOP / "tests/helpers")}), capture_output=True, text=True,
    )  # fmt: skip
    assert "21 passed" in done.stdout, done.stdout + done.stderr
    assert [path.read_text() for path in tmp_path.glob("made-*")] == ["made\n"]
