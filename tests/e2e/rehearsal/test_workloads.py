"""Whole programs on simulated devices give what they give on the CPU, and devtrace, in all of them, has nothing to say."""

import json
import shutil
import sys

import pytest
from conftest import TOP, environment, execute, start
from same_numbers import CLOSE, same

WORKLOADS = TOP / "tests" / "workloads"
sys.path.insert(0, str(WORKLOADS))
from case_form import cases_in  # noqa: E402

CASES = cases_in(WORKLOADS / "rehearsed.py")
PROGRAMS = [name for name in CASES if name != "generation"]


def result(outcome):
    assert outcome.code == 0, outcome.err
    lines = [line for line in outcome.out.splitlines() if line.startswith("{")]
    assert len(lines) == 1, outcome.out
    return json.loads(lines[0])


def rehearsed(folder, words, gpus=2, env=None):
    outcome = start(words, folder, gpus=gpus, env=env, timeout=240)
    found = result(outcome)
    assert outcome.findings == [], outcome.err
    assert "not computed in this rehearsal" not in outcome.err and "not simulated" not in outcome.err, outcome.err
    assert any(record["record"] == "process" and record["rehearsal"] for record in outcome.records)
    return found


RUN_ALL = """
import contextlib, io, json, runpy, sys
found = {}
for path in sys.argv[2:]:
    text = io.StringIO()
    sys.argv[1:] = ["cpu"]
    with contextlib.redirect_stdout(text):
        runpy.run_path(path, run_name="__main__")
    found[path] = json.loads(text.getvalue())
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    """What each program gives on the CPU, in one process without devtrace."""
    folder = tmp_path_factory.mktemp("cpu")
    paths = [CASES[name].copy(folder) for name in PROGRAMS]
    found = result(execute([sys.executable, "-c", RUN_ALL, "", *paths], folder, environment(None), 240))
    return {name: found[str(path)] for name, path in zip(PROGRAMS, paths)}


# Twelve steps of AdamW divide rounding errors by gradients that nearly vanish.
@pytest.mark.parametrize("name, close", [
    ("training", dict(rel=2e-4, abs=1e-4)), ("data_parallel", dict(rel=2e-4, abs=2e-5)), ("offload", CLOSE), ("loader", CLOSE), ("cuda_graph", CLOSE),
])
def test_program(on_cpu, tmp_path, name, close):
    found = rehearsed(tmp_path, [CASES[name].copy(tmp_path)])
    same(found, on_cpu[name], close)


def test_distributed_data_parallel_over_gloo(on_cpu, tmp_path):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    same(rehearsed(tmp_path, [*torchrun, CASES["distributed"].copy(tmp_path)], env={"OMP_NUM_THREADS": "1"}), on_cpu["distributed"], dict(rel=2e-4, abs=2e-5))


@pytest.mark.parametrize("configuration, about", [
    ("", ["native", [False]]), ("expandable_segments:True", ["native", [True]]), ("backend:cudaMallocAsync", ["cudaMallocAsync", []]),
])
def test_allocator(on_cpu, tmp_path, configuration, about):
    found = rehearsed(tmp_path, [CASES["allocators"].copy(tmp_path)], env={"PYTORCH_CUDA_ALLOC_CONF": configuration, "PYTORCH_ALLOC_CONF": configuration})
    assert found.pop("about") == about
    same(found, {key: value for key, value in on_cpu["allocators"].items() if key != "about"})


def test_language_models_split_by_accelerate(tmp_path):
    generation = [CASES["generation"].copy(tmp_path), tmp_path / "models"]
    expected = result(execute([sys.executable, *generation, 0], tmp_path, environment(None), 240))
    found = rehearsed(tmp_path, [*generation, 2, 4, 8], gpus=8)
    shutil.rmtree(tmp_path / "models")
    for name in ("llama", "gpt2"):
        tokens = expected[f"{name} 0"]
        assert len({token for line in tokens["greedy"] for token in line}) > 3, "a model that repeats itself shows little"
        for devices in (2, 4, 8):
            split = found[f"{name} {devices}"]
            assert split["devices"] == [f"cuda:{i}" for i in range(devices)]
            assert split["greedy"] == tokens["greedy"] and split["beams"] == tokens["beams"], (name, devices)
