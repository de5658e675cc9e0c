"""True values: ways to the operators (checks.py, attention_checks.py, type_checks.py), a sample of PyTorch's operator database (run.py), and what is said of what is not computed."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, TOP, environment, execute, start

HERE = Path(__file__).resolve().parent
NAMES = [
    node.name
    for file in ("checks.py", "attention_checks.py", "type_checks.py")
    for node in ast.parse((HERE / file).read_text()).body
    if isinstance(node, ast.FunctionDef) and any(getattr(d, "id", "") == "check" for d in node.decorator_list)
]


# Where the kernels of simulate/values/torch fit this PyTorch, those in Python are tried alone, too.
@pytest.fixture(scope="module", params=["", "python"], ids=["all", "python"])
def checks(request, tmp_path_factory):
    env = {"DEVTRACE_SIM_VALUES": request.param} if request.param else None
    outcome = start([HERE / "checks.py"], tmp_path_factory.mktemp("checks"), options="text=0:html=0", env=env, timeout=250)
    faults = {r["check"]: r["fault"] for r in map(json.loads, outcome.out.splitlines())}
    return outcome, faults


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_cpu(checks, name):
    outcome, faults = checks
    assert name in faults, f"the program ended before it: {outcome.code}\n{outcome.err[-2000:]}"
    assert faults[name] is None, faults[name]


def test_nothing_was_left_out_and_only_refusals_were_found(checks):
    outcome, _ = checks
    assert "not computed" not in outcome.err
    assert {(f["operation"], *f["devices"]) for f in outcome.findings} == {
        ("aten::add", "cuda:0", "cuda:1"), ("aten::_linalg_solve_ex", "cpu", "cuda:0"), ("aten::_linalg_solve_ex", "cuda:0", "cpu"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    out = tmp_path_factory.mktemp("values") / "verdicts.json"
    command = [sys.executable, HERE / "run.py", "--build", BUILD, "--every", "5", "--samples", "2", "--json", out]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=280)
    assert out.exists(), done.stdout + done.stderr
    return json.loads(out.read_text())


def test_a_sample_of_the_database_is_worth_the_name(database):
    assert len(database["operators"]) >= 100
    assert sum(m["samples"] for modes in database["operators"].values() for m in modes.values()) >= 500


def test_a_sample_of_the_database_equals_the_cpu(database):
    assert database["crashed"] == []
    modes = [m for of_one in database["operators"].values() for m in of_one.values()]
    samples, equal = sum(m["samples"] for m in modes), sum(m["equal"] for m in modes)
    assert equal >= 0.99 * samples, [(op, m["faults"]) for op, of_one in database["operators"].items() for m in of_one.values() if m["faults"]]


def test_the_page_is_what_its_template_says():
    """What is changed in docs/guide/rehearsal.md alone is lost when the page is written anew."""
    template, page = (path.read_text(encoding="utf-8").partition("## Values on") for path in (HERE / "page.md", TOP / "docs/guide/rehearsal.md"))
    assert template[1] and template[0] == page[0]


KERNEL = r"""
import ctypes, sys, torch
source = r'''extern "C" __global__ void my_own_kernel(float* x) { x[threadIdx.x] = 1.0f; }'''
kernel = torch.cuda._compile_kernel(source, "my_own_kernel")
x = torch.zeros(4, device="cuda")
kernel((1, 1, 1), (4, 1, 1), (x,))
"""


def test_a_kernel_of_the_programs_own_is_named_at_exit(rehearse):
    outcome = rehearse(KERNEL)
    assert outcome.code == 0, outcome.err
    lines = [line for line in outcome.err.splitlines() if line.startswith("devtrace:")]
    assert lines[0] == "devtrace: not computed in this rehearsal, results are as they lay in memory:"
    assert lines[1:] == ["devtrace:   kernel my_own_kernel (launches: 1)"]


def test_no_values(rehearse):
    outcome = rehearse("import torch\nx = torch.ones(1000, device='cuda') + 1\nprint(x.sum().item())", env={"DEVTRACE_SIM_VALUES": "0"})
    assert outcome.code == 0, outcome.err
    assert float(outcome.out) != 2000.0
    assert "not computed" not in outcome.err


def test_children_are_covered_and_the_environment_is_the_programs(rehearse):
    outcome = rehearse(
        """
        import os, subprocess, sys
        import torch
        import torch.multiprocessing as mp
        def work(rank):
            print(rank, float((torch.ones(3, device="cuda") * 2).sum()), flush=True)
        if __name__ == "__main__":
            assert not any("values" in module and "devtrace" in module for module in sys.modules), "before CUDA is used"
            assert "PYTHONPATH" not in os.environ or "devtrace" not in os.environ["PYTHONPATH"]
            mp.spawn(work, nprocs=1)
            code = "import torch; print('child', float((torch.ones(3, device='cuda') * 2).sum()))"
            print(subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True).stdout, end="")
        """,
        fresh=True,  # the tests' server has the values before it forks
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out == "0 6.0\nchild 6.0\n"


def test_where_a_result_of_unknown_size_came_from(rehearse):
    """Its block is allocated after the operator; the report still names the program's line, and no frame of ours."""
    outcome = rehearse(
        """
        import torch
        mask = torch.tensor([True, False, True], device="cuda:0")
        places = mask.nonzero()
        places + torch.ones(1, device="cuda:1")
        """
    )
    created = next(operand["created"] for operand in outcome.finding["operands"] if operand["name"] == "places")
    assert created["python"][0]["line"] == 4 or created["python"][0]["line"] == 5
    assert not any("devtrace" in frame["file"] for frame in created["python"])
    assert not any("devtrace_values" in frame["file"] for frame in outcome.finding["python"])


def test_installed(tmp_path):
    """`make install` takes the Python side along."""
    prefix = tmp_path / "prefix"
    done = subprocess.run(["make", "-s", f"BUILD={BUILD}", f"PREFIX={prefix}", "install"], cwd=TOP, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    command = [prefix / "bin/devtrace", "rehearse", "--no-trace", "--", sys.executable, "-c", "import torch; print(torch.ones(3).cuda().sum().item())"]
    assert execute(command, tmp_path, environment(None)).out == "3.0\n"
