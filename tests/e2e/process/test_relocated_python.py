"""A Python of python-build-standalone's shape, which uv installs: no libpython, no symbols but the exported ones, moved to where it was not
built for. And its virtual environment on another file system."""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from conftest import DEVTRACE, environment, execute
from interpreters import FOUND

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
    """The moved interpreter's prefix."""
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


def test_a_refusal_has_its_stack_and_names(moved, tmp_path):
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
