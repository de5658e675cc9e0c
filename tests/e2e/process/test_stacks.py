"""Python stacks as the tracker reads them, against what every CPython on this machine says itself; also those of a Python that was moved.

To try another version, put its interpreter on PATH as python3.N or into pyenv."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from conftest import BUILD, DEVTRACE, environment, execute
from interpreters import FOUND, OTHERS, PARAMETERS, READABLE, SUPPORTED, pyenv_root

PROBE = BUILD / "tests" / "stack_probe.so"
CASES = Path(__file__).with_name("stack_cases.py")


@pytest.fixture(scope="module", params=PARAMETERS)
def said(request, tmp_path_factory) -> dict:
    """What stack_cases.py found out in one interpreter."""
    output = tmp_path_factory.mktemp("stacks") / "said.json"
    done = subprocess.run(
        [request.param, "-I", "-W", "ignore", CASES, PROBE, output], capture_output=True, text=True, timeout=200
    )
    # Daemon threads were capturing while the interpreter ended: a crash there shows here.
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr}"
    assert done.stderr == ""
    return json.loads(output.read_text())


def test_frames_files_and_lines_are_pythons_own(said):
    assert len({result["case"] for result in said["results"]}) > 60
    assert {result["mode"] for result in said["results"]} == {"held", "released"}
    wrong = [result for result in said["results"] if result["got"] != result["want"]]
    assert wrong == []


def test_the_first_capture_is_kept(said):
    """Before Python's own word could be asked for, with the GIL released."""
    assert [frame[:2] for frame in said["first"]] == [frame[:2] for frame in said["first_want"]]
    assert said["first"][0][2] == said["first_want"][0][2] - 1


def test_status_says_that_python_agreed(said):
    assert said["status"].endswith("frames are read without the GIL, and agree with Python's own")


def test_code_objects_that_reuse_memory_are_told_apart(said):
    wrong = [r for r in said["results"] if r["case"].startswith("reused") and r["got"] != r["want"]]
    assert wrong == []
    # Without a GIL memory is given out again late: within this time it was not once.
    assert said["repeats"] > 0 or said["free_threaded"], "no code object got the address of an earlier one: nothing was tested"


def test_threads_see_their_own_stacks_while_code_comes_and_goes(said):
    assert said["hammer"]["wrong"] == []
    assert said["hammer"]["taken"] > 100


def test_a_stack_has_one_id(said):
    assert said["stable"] == {"same": 1, "remade": 1, "none": False, "depths": 10, "grown": False}


def test_children_of_a_fork_go_on(said):
    assert said["forked"] == [0] * 20


def test_lines_of_the_standard_library(said):
    assert said["lines"]["codes"] > 3000
    assert said["lines"]["different"] == []


def test_at_exit(said):
    got, want = said["at exit"]
    assert got == want


QUESTION = """
import ctypes, sys
probe = ctypes.CDLL(sys.argv[1])
out = ctypes.create_string_buffer(1000)
print([probe.probe_capture() for _ in range(100)] == [0] * 100)
probe.probe_status(out, 1000)
print(out.value.decode())
"""


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=f"3.{minor}-{index}") for index, (minor, path) in enumerate(OTHERS)]
    or [pytest.param(None, marks=pytest.mark.skip(reason="every CPython found here is supported"))],
)
def test_other_versions_are_left_alone_and_said(path):
    done = subprocess.run([path, "-I", "-c", QUESTION, PROBE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    captured_nothing, status = done.stdout.splitlines()
    assert captured_nothing == "True"
    assert status.startswith("CPython 3.") and status.endswith("; native frames only")


WRONG = """
import ctypes, sys
probe = ctypes.CDLL(sys.argv[1])
out = ctypes.create_string_buffer(1000)
def inner(): return probe.probe_capture()
def outer(): return inner()
for _ in range(200): outer()
print(outer())
probe.probe_status(out, 1000)
print(out.value.decode())
"""


@pytest.mark.parametrize(
    "field, old, new, why",  # the wrong value up to 3.10, and from 3.11 on
    [
        ("code_first_line", 36, 60, "a line differs"),
        ("code_name", 104, 112, "a function's name differs"),
        ("code_filename", 112, 128, "a file name differs"),
        ("frame_instruction", 100, 40, "a line differs|another function was read|does not look like frames"),
        ("frame_previous", 0, 16, "does not look like frames"),
        ("frame_code", 24, 24, "does not look like frames"),
        ("frame_code", 65528, 65528, "does not look like frames"),
        ("code_line_table", 112, 112, "does not look like frames"),
    ],
)
@pytest.mark.parametrize("minor", [minor for minor in SUPPORTED if minor < 13])  # 3.13 describes itself
def test_a_layout_that_does_not_hold_is_given_up_and_said(minor, field, old, new, why):
    path = next((path for found, path in READABLE if found == minor), None)
    if path is None:
        pytest.skip(f"no CPython 3.{minor} on PATH or in pyenv ({pyenv_root()})")
    done = subprocess.run(
        [path, "-I", "-c", WRONG, PROBE.with_name("stack_probe_wrong_layout.so")],
        capture_output=True,
        text=True,
        env={**os.environ, "DEVTRACE_TEST_LAYOUT": f"{field}:{old if minor < 11 else new}"},
    )
    assert done.returncode == 0, f"{done.returncode} {done.stderr}"
    stack, status = done.stdout.splitlines()
    assert re.search(why, status) and status.endswith("; native frames only")
    assert stack == "0"


def test_the_library_needs_nothing_of_python():
    needed = subprocess.run(["readelf", "-dW", PROBE], capture_output=True, text=True, check=True).stdout
    names = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line]
    assert set(names) <= {"libc.so.6", "ld-linux-x86-64.so.2"}


MIXED = """
import sys
import torch

def scaled(hidden, scale):
    return hidden * scale  # REFUSED

print(sys.base_prefix)
kept = [torch.ones(1 << 12) for _ in range(8)]  # stacks, before the log is opened, which says how they are read
scaled(torch.ones(3, device="cuda:0"), torch.arange(3.0, device="cuda:1"))
"""


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """The prefix of a Python of python-build-standalone's shape, which uv installs: no libpython, no symbols but the exported ones, moved to where
    it was not built for."""
    for path, version in FOUND.items():
        if version != (sys.version_info.minor, False):
            continue
        # Debian's has one beside a libpython that others may use: what counts is what the executable needs.
        needed = subprocess.run(["objdump", "-p", path], capture_output=True, text=True).stdout
        if "libpython" in needed or not needed:
            continue
        prefix, name = tmp_path_factory.mktemp("moved"), f"python3.{sys.version_info.minor}"
        standard = Path(subprocess.run([path, "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"], capture_output=True, text=True).stdout.strip())
        shutil.copytree(standard, prefix / "lib" / name, ignore=shutil.ignore_patterns("test", "dist-packages", "site-packages", "__pycache__", "config-*"))
        (prefix / "bin").mkdir()
        shutil.copy(path, prefix / "bin" / name)
        subprocess.run(["strip", prefix / "bin" / name], check=True)
        return prefix
    pytest.skip("no Python here without a libpython")


def test_a_moved_pythons_refusal_has_its_stack_and_names(moved, tmp_path):
    """With its virtual environment on another file system."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as elsewhere:
        venv = Path(elsewhere) / "venv"
        subprocess.run([next((moved / "bin").iterdir()), "-m", "venv", "--without-pip", venv], check=True)
        packages = next(venv.glob("lib/python3*/site-packages"))
        (packages / "tests.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        (tmp_path / "program.py").write_text(MIXED)
        outcome = execute([DEVTRACE, "rehearse", "--gpus", "2", "--", venv / "bin" / "python", "program.py"], tmp_path, environment(None))
    assert outcome.code == 1 and outcome.out == f"{moved}\n", outcome.err
    assert [frame["function"] for frame in outcome.finding["python"]] == ["scaled", "<module>"]
    assert [operand["name"] for operand in outcome.finding["operands"]] == ["hidden", "scale"]
    process = next(record for record in outcome.records if record["record"] == "process")
    assert process["stacks"].endswith("agree with Python's own")
