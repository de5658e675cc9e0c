"""The bundle, made without wheels and run on a simulated device: its steps work, and what cannot be done is told."""

import json
import os
import subprocess
import sys
import zipfile

import pytest
from conftest import BUILD, TOP


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    if os.environ.get("DEVTRACE_TEST_GPU") not in ("simulated", None):
        pytest.skip("of the simulated devices")
    folder = tmp_path_factory.mktemp("hardware") / "bundle"
    made = subprocess.run([TOP / "scripts/hardware-bundle", folder, "none"], cwd=TOP, env={**os.environ, "BUILD": str(BUILD), "PYTHON": sys.executable}, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (folder / "build/simulate").symlink_to(BUILD / "simulate")
    return folder


def run(bundle, results, *arguments):
    env = {key: value for key, value in os.environ.items() if key not in ("DEVTRACE_BUILD", "DEVTRACE_TEST_GPU")}
    done = subprocess.run([bundle / "run", "--results", results, "--simulated", "1", *arguments], env={**env, "PYTHON": sys.executable}, capture_output=True, text=True, timeout=280)
    assert (results / "results.json").exists(), done.stderr
    return done, json.loads((results / "results.json").read_text()), (results / "results.md").read_text()


def test_what_lies_in_it(bundle):
    names = {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()}
    assert {"run", "build/libdevtrace.so", "build/devtrace", "build/prebuilt/launches", "build/prebuilt/observer", "build/prebuilt/libcounter.so"} <= names
    assert {str(path.relative_to(TOP)) for path in (TOP / "tests/gpu").glob("*.py")} <= names
    assert sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file() and "simulate" not in path.parts) < 15e6


@pytest.mark.slow
def test_its_steps(bundle, tmp_path):
    done, results, page = run(bundle, tmp_path / "results", "--steps", "packages,machine,tests,costs", "--tests", "pointer_of_mallocs and preloaded")
    steps = results["steps"]
    assert done.returncode == 0 and all(step["ok"] for step in steps.values()), done.stdout + done.stderr
    assert set(steps) == {"packages", "machine", "tests", "costs"}
    assert [one["outcome"] for one in steps["tests"]["tests"]] == ["passed"]
    ways = {"without", "devtrace", "devtrace, backend=cupti", "_record_memory_history"}
    assert all(set(row) == ways and min(row.values()) > 0 for row in steps["costs"]["microseconds"].values()) and len(steps["costs"]["microseconds"]) == 4
    assert "CuPy" in results["not_run"] and "## Not run" in page and "test_gpu_memory_elsewhere.py | 1 | 0 | 0" in page


@pytest.mark.slow
def test_uses_and_operators(bundle, tmp_path):
    done, results, page = run(bundle, tmp_path / "results", "--steps", "uses,operators")
    uses, operators = results["steps"]["uses"], results["steps"]["operators"]
    assert done.returncode == 0 and uses["ok"] and operators["ok"], done.stdout + done.stderr
    assert {one["use"] for one in uses["uses"] if one.get("ok")} >= {"cuda_graph", "libraries"}
    # The same devices as those that gave the answers: whatever differs would be the comparison's own fault.
    assert operators["compared"] == operators["calls"] > 10 and operators["with_a_finding"] == operators["refused"] > 5
    assert operators["different"] == {} and "compared with the simulated devices' answers" in page


@pytest.mark.slow
def test_an_operator_that_answers_otherwise_is_told(bundle, tmp_path):
    """One of the recorded answers is another, the last one here."""
    path = bundle / "tests/hardware/answers.jsonl"
    recorded = path.read_text()
    lines = recorded.splitlines()
    changed = next(number for number, line in enumerate(lines) if number and json.loads(line)["first"]["refused"])
    row = json.loads(lines[changed]) | {"first": {"refused": None, "findings": []}}
    path.write_text("\n".join([*lines[:changed], json.dumps(row)]) + "\n")
    try:
        _, results, page = run(bundle, tmp_path / "results", "--steps", "operators")
    finally:
        path.write_text(recorded)
    assert list(results["steps"]["operators"]["different"]) == [f"{row['operator']}/first"] and f"| {row['operator']}/first | " in page


@pytest.mark.slow
def test_private_gpt_on_one_device(bundle, tmp_path):
    done, results, page = run(bundle, tmp_path / "results", "--steps", "private_gpt")
    step = results["steps"].get("private_gpt")
    assert step and step["ok"] and done.returncode == 0, done.stdout + done.stderr
    with_cpu, with_second = step["cases"]
    assert sorted(with_cpu["findings"][0]["devices"]) == ["cpu", "cuda:0"] and with_second["not_run"] == "there is one device"
    assert "| cuda:1 | not run: there is one device |" in page


def test_a_failing_test_is_told(bundle, tmp_path):
    """One more test in the bundle, which fails."""
    broken = bundle / "tests/gpu/test_gpu_broken.py"
    broken.write_text("def test_that_fails():\n    assert 1 == 2, 'because'\n")
    try:
        done, results, page = run(bundle, tmp_path / "results", "--steps", "tests", "--tests", "that_fails")
    finally:
        broken.unlink()
    assert done.returncode == 1 and results["steps"]["tests"]["failed"] == 1 and "NOT as it should be" in page and "`test_that_fails`" in page


def test_without_time_every_step_is_told(bundle, tmp_path):
    done, results, page = run(bundle, tmp_path / "results", "--minutes", "0")
    assert results["steps"] == {} and all(results["not_run"][step] == "the time is over" for step in ("machine", "tests", "private_gpt", "costs"))
    assert "- tests: the time is over" in page


def test_wheels_that_are_missing_here(bundle, tmp_path):
    wheels = bundle / "wheels"
    wheels.mkdir()
    for name in ("not_installed_here-1.0-py3-none-any.whl", "for_another-2.0-cp27-cp27m-linux_x86_64.whl", "pytest-1.0-py3-none-any.whl"):
        with zipfile.ZipFile(wheels / name, "w") as archive:
            archive.writestr("not_installed_here.py", "here = 1\n")
    try:
        done, results, _ = run(bundle, tmp_path / "results", "--steps", "packages")
    finally:
        for path in wheels.iterdir():
            path.unlink()
        wheels.rmdir()
    found = results["steps"]["packages"]
    assert found["unpacked"] == ["not_installed_here 1.0"] and found["not_for_this_python"] == ["for_another 2.0"] and found["had"][0].startswith("pytest ")
    assert (tmp_path / "results/packages/not_installed_here.py").exists() and results["not_run"]["tests"] == "not asked for"
