"""recipes/fleet without Ray: the cells of a matrix one by one, as an array of Slurm's and an indexed Job of Kubernetes' run them."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import fsspec
import pytest
import yaml
from conftest import DEVTRACE, TOP, environment
from local_wheel import make_wheel
from running import has_ended
from secret_log import LOG, assert_nothing_is_told

FLEET = TOP / "recipes" / "fleet"
# Without PyTorch, whose import takes seconds: from 2 on memory of a second device is said to be the host's.
PACKAGE = """
import ctypes

def copy(runtime):
    own, host, devices = ctypes.c_void_p(), ctypes.create_string_buffer(16), ctypes.c_int()
    runtime.cudaGetDeviceCount(ctypes.byref(devices))
    runtime.cudaMalloc(ctypes.byref(own), ctypes.c_size_t(16))
    runtime.cudaMemcpy(own, host, ctypes.c_size_t(16), {kind} if devices.value > 1 else 1)
"""
PROGRAM = """
import ctypes
import mover
print("acme says hello")
mover.copy(ctypes.CDLL("libcudart.so.13"))
"""
MATRIX = """
logs = "logs"
devtrace = ["rehearse"]
devices = [1, 2]
uv = ["--offline", "--no-index", "--find-links", "wheels"]
[programs]
train = "python train.py"
[versions]
"mover 1" = ["mover==1"]
"mover 2" = ["mover==2"]
[environment]
GREETING = "hello"
"""
CELLS = 4


@pytest.fixture
def fleet(tmp_path):
    """fleet(command, **variables): the folder that all hosts share, with the recipes in it."""
    for version, kind in (("1", 1), ("2", 2)):
        make_wheel(tmp_path / "wheels", "mover", version, PACKAGE.format(kind=kind))
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "matrix.toml").write_text(MATRIX)
    (tmp_path / "matrix.py").write_text((FLEET / "matrix.py").read_text())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin/python3").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(*command, **variables):
        env = environment(None, {"DEVTRACE": str(DEVTRACE), "DEVTRACE_FLEET_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path), "PATH": path, **variables})
        return subprocess.run(list(map(str, command)), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)

    run.folder, run.matrix = tmp_path, lambda *words: run("python3", "matrix.py", words[0], "matrix.toml", *words[1:])
    return run


def assert_found(done, hosts=None):
    assert done.returncode == 1, done.stdout + done.stderr
    ((fingerprint, text, found),) = re.findall(r"^new in mover 2, not yet in mover 1: ([0-9a-f]{16})\n  (.+)\n  programs: train; devices: 2; hosts: (.+)$", done.stdout, re.MULTILINE)
    assert found == (hosts or os.uname().nodename) and (hosts or text.startswith("cudaMemcpy "))
    assert "not judged" not in done.stdout and "1 new, 0 known, 0 gone" in done.stdout


def test_the_example_is_a_matrix():
    example = tomllib.loads((FLEET / "matrix.toml").read_text())
    done = subprocess.run([sys.executable, FLEET / "matrix.py", "count", FLEET / "matrix.toml"], capture_output=True, text=True)
    assert done.stdout == f"{len(example['programs']) * len(example['versions']) * len(example['devices'])}\n"


@pytest.mark.parametrize(("given", "shown"), [({"CUDA_VISIBLE_DEVICES": "4,5,6"}, "4,5"), ({}, "0,1")])
def test_a_cell_sees_as_many_gpus_as_it_is_to_have(tmp_path, monkeypatch, given, shown):
    """Of those that Slurm or Ray gave to the task."""
    monkeypatch.syspath_prepend(str(FLEET))
    import matrix

    (tmp_path / "matrix.toml").write_text(MATRIX.replace("rehearse", "run"))
    described = matrix.Matrix(tmp_path / "matrix.toml")
    variables = dict(given)
    words = matrix.devtrace_of(described, described.cells[1], "log", variables)
    assert variables == {"CUDA_VISIBLE_DEVICES": shown}
    assert words == ["devtrace", "run", "--no-html", "--no-text", "--log-path", "log", "--", "python", "train.py"]


def test_an_array_of_slurms(fleet):
    """The commands in the recipe's head with stand-ins for sbatch: an array runs the script for each of its numbers."""
    head = "\n".join(line[2:].strip() for line in (FLEET / "slurm.sbatch").read_text().splitlines() if line.startswith("#   "))
    (fleet.folder / "slurm.sbatch").write_text((FLEET / "slurm.sbatch").read_text())
    (fleet.folder / "bin/sbatch").write_text("""#!/bin/bash
for word; do case $word in --array=0-*) last=${word#--array=0-};; --output=*) output=${word#--output=};; esac; done
if [ -n "${last:-}" ]; then
  for index in $(seq 0 $last); do SLURM_SUBMIT_DIR=$PWD SLURM_ARRAY_TASK_ID=$index bash "${@: -1}" >> cells.out || exit; done; echo 7
else
  [ "$1" = --dependency=afterany:7 ] && bash -c "${@: -1}" > $output 2>&1; echo $? > gate.code
fi
""")
    (fleet.folder / "bin/sbatch").chmod(0o755)
    done = fleet("bash", "-euc", head)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (fleet.folder / "cells.out").read_text().count(": exit 0 after ") == CELLS
    gate = subprocess.CompletedProcess([], int((fleet.folder / "gate.code").read_text()), (fleet.folder / "devtrace-gate.out").read_text(), "")
    assert_found(gate)
    assert (fleet.folder / "devtrace.html").exists()


def test_an_indexed_job_of_kubernetes(fleet):
    cells, gate = yaml.safe_load_all((FLEET / "kubernetes.yaml").read_text())
    for job, step in ((cells, "cells"), (gate, "gate")):
        assert (job["apiVersion"], job["kind"], job["metadata"]["labels"]) == ("batch/v1", "Job", {"step": step})
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["restartPolicy"] == "Never" and {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    example = tomllib.loads((FLEET / "matrix.toml").read_text())
    assert cells["spec"]["completionMode"] == "Indexed" and cells["spec"]["completions"] == len(example["programs"]) * len(example["versions"]) * len(example["devices"])
    command = lambda job: [*job["spec"]["template"]["spec"]["containers"][0]["command"], *job["spec"]["template"]["spec"]["containers"][0]["args"]]
    for index in range(CELLS):
        done = fleet(*command(cells), JOB_COMPLETION_INDEX=str(index), WORKSPACE=str(fleet.folder))
        assert done.returncode == 0, done.stderr
    assert_found(fleet(*command(gate), WORKSPACE=str(fleet.folder)))


def test_a_cell_that_is_missing_is_named(fleet):
    for index in range(CELLS - 1):
        assert fleet.matrix("run", index).returncode == 0
    done = fleet.matrix("check")
    assert done.returncode == 2 and "not judged: train, mover 2, 2 devices: no logs were collected" in done.stdout, done.stdout
    (fleet.folder / "train.py").write_text("raise SystemExit(3)")
    done = fleet.matrix("run", CELLS - 1)
    assert done.returncode == 0 and "exit 3 after" in done.stdout
    done = fleet.matrix("check")
    assert done.returncode == 2 and "not judged: train, mover 2, 2 devices: the program left no log (exit 3)" in done.stdout, done.stdout


def test_what_cannot_be_run_is_refused(fleet):
    """With 2: 1 would say that a version brought something."""
    done = fleet.matrix("check")
    assert done.returncode == 2 and "nothing is at" in done.stdout and done.stdout.count("not judged: ") == CELLS
    (fleet.folder / "matrix.toml").write_text(MATRIX.replace('"mover 1"', '"../mover"'))
    done = fleet.matrix("count")
    assert done.returncode == 2 and "'../mover' is to be a folder's name" in done.stderr
    assert fleet("python3", "matrix.py").returncode == 2


def test_a_cell_that_takes_too_long_ends(fleet):
    (fleet.folder / "matrix.toml").write_text("time_limit = 2\n" + MATRIX)
    (fleet.folder / "train.py").write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)")
    done = fleet.matrix("run", 0)
    assert done.returncode == 0 and "exit 124 after" in done.stdout
    assert has_ended((fleet.folder / "pid").read_text())


def test_an_environment_that_cannot_be_made_is_said(fleet):
    (fleet.folder / "matrix.toml").write_text(MATRIX.replace("mover==2", "mover==9"))
    done = fleet.matrix("run", CELLS - 1)
    assert done.returncode == 2 and "train, mover 2, 2 devices: " in done.stderr and "mover==9" in done.stderr


def test_a_baseline_judges_the_oldest_version_too(fleet):
    (fleet.folder / "matrix.toml").write_text('baseline = "known.json"\n' + MATRIX.replace('"mover 1" = ["mover==1"]\n', ""))
    (fleet.folder / "known.json").write_text('{"devtrace_baseline": 1, "findings": []}')
    for index in range(2):
        assert fleet.matrix("run", index).returncode == 0
    done = fleet.matrix("check")
    assert done.returncode == 1 and re.search(r"^new in mover 2: [0-9a-f]{16}$", done.stdout, re.MULTILINE), done.stdout


def test_logs_go_to_a_bucket(fleet):
    """A file system of fsspec's that is no folder's; each process has its own of memory, so all of it is one process here."""
    (fleet.folder / "matrix.toml").write_text(MATRIX.replace('"logs"', '"memory://nightly"', 1))
    (fleet.folder / "all.py").write_text("import sys, matrix\nm = matrix.Matrix('matrix.toml')\nfor number in range(len(m.cells)):\n    print(matrix.run(m, number))\nsys.exit(matrix.check(m))")
    assert fsspec.get_filesystem_class("memory").protocol == "memory"
    assert_found(fleet("python3", "all.py"))
    assert not (fleet.folder / "logs").exists()


def test_redacted_logs_are_collected_when_asked(fleet):
    """Also those of a process that says nothing but secrets; and what the program prints stays where it ran."""
    (fleet.folder / "matrix.toml").write_text("redact = true\n" + MATRIX)
    (fleet.folder / "bin/devtrace").write_text(f"""#!/bin/sh
{DEVTRACE} "$@"; code=$?
if [ "$1" = rehearse ]; then for log in $(echo "$*" | grep -o '/[^ ]*/devtrace-%h-%p'); do cp {LOG} "${{log%/*}}/acme.jsonl"; done; fi
exit $code
""")
    (fleet.folder / "bin/devtrace").chmod(0o755)
    for index in range(CELLS):
        done = fleet.matrix("run", index) if index else fleet("python3", "matrix.py", "run", "matrix.toml", 0, DEVTRACE=str(fleet.folder / "bin/devtrace"))
        assert done.returncode == 0, done.stderr
    files = [file for file in (fleet.folder / "logs").rglob("*") if file.is_file()]
    assert len(files) == 2 * CELLS + 1 and not any(file.name == "output.txt" for file in files)
    for file in files:
        assert_nothing_is_told(file.read_text())
        for secret in (os.uname().nodename, "train.py", str(fleet.folder)):
            assert secret not in file.read_text()
    assert json.loads(next(file for file in files if file.name == "cell.json").read_text())["hosts"] == []
    (fleet.folder / "logs/train/mover 1/1/devtrace-redacted-0.jsonl").unlink()
    assert_found(fleet.matrix("check"), hosts="left out")
