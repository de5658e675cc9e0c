"""`devtrace fix` on the systems that people had this trouble with (privateGPT: test_fix.py): the patch that it leaves makes each run."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DEVTRACE, TOP, environment, execute, start
from same_numbers import same

WORKLOADS = TOP / "tests/workloads"
spec = importlib.util.spec_from_file_location("five_systems", TOP / "tests/e2e/findings/test_five_systems.py")
five_systems = importlib.util.module_from_spec(spec)
spec.loader.exec_module(five_systems)


@pytest.mark.parametrize("system", five_systems.SYSTEMS, ids=lambda system: system.folder)
def test_a_verified_patch(system, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(WORKLOADS / system.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    out = tmp_path / "out"
    found = execute([DEVTRACE, "fix", "--output", out, "--", sys.executable, system.program], folder, environment(None), 600)
    assert found.code == 0, found.out + found.err
    assert "verified: with this change the program ran to its end in rehearsal" in found.out
    assert {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} == before
    applied = subprocess.run(["git", "apply", out / "devtrace.patch"], cwd=folder, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
    repaired = start([system.program], folder)
    assert not repaired.findings
    cpu = execute([sys.executable, WORKLOADS / system.folder / system.program, "--cpu"], tmp_path, environment(None))
    same(five_systems.numbers(repaired), five_systems.numbers(cpu))
    assert not list(Path(folder).rglob("__pycache__"))
