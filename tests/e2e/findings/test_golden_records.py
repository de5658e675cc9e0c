"""The records of all cases, the five systems, and one finding of each other kind are what they were: tests/helpers/golden.py."""

import shutil
import sys

import pytest
from conftest import TOP, start, start_snippets
from cpp_programs import build
from cpp_programs import run as run_cpp
from driver_program import DRIVER
from golden import compare
from test_copies import RUNTIME, WRONG
from test_math_libraries import BLAS, MADE_TOO_EARLY, MIXED, WRONG_OF_TWO
from triton_program import TRITON

sys.path.insert(0, str(TOP / "tests/workloads"))
from cases_page import CASES, SYSTEMS, WORKLOADS, run  # noqa: E402

LAUNCHES = {
    "triton, another device's": TRITON + "add[(1,)](here, there, torch.empty_like(here), 64)",
    "triton, another current device": TRITON + "add[(1,)](there, there_too, torch.empty_like(there), 64)",
    "the driver's launch": DRIVER + "launch(here, there, here)",
    "host memory": TRITON + "add[(1,)](here, torch.ones(64).numpy().ctypes.data, torch.empty_like(here), 64)",
}
COPIES = {f"copy {n}": f"{RUNTIME}{call}\n" for n, call in enumerate(WRONG)}
HANDLES = {"made too early": MADE_TOO_EARLY, "wrong of two": WRONG_OF_TWO, "mixed": MIXED}


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    return folder, run(folder)


@pytest.mark.parametrize("name", CASES)
def test_cases(cases, name):
    folder, ran = cases
    compare(f"case {name}", ran.of(name), folder)


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems(tmp_path, name):
    program = WORKLOADS / SYSTEMS[name][0]
    copy = shutil.copytree(program.parent, tmp_path / program.parent.name)  # fingerprints hold the paths of what lies elsewhere
    compare(f"system {name}", start([copy / program.name], tmp_path, fresh=True).findings, tmp_path)


@pytest.mark.parametrize("group, snippets", {"launches": LAUNCHES, "copies": COPIES}.items(), ids=["launches", "copies"])
def test_launches_and_copies(tmp_path, group, snippets):
    compare(group, start_snippets(snippets, tmp_path, gpus=3, fresh=True)[0].findings, tmp_path)


@pytest.mark.parametrize("name", HANDLES)
def test_handles(tmp_path, name):
    program = build(tmp_path, BLAS.format(program=HANDLES[name]), "-g", libraries=["libcublas.so.13"])
    compare(f"handle, {name}", run_cpp(program, folder=tmp_path).findings, tmp_path)
