"""devtrace doctor: what works here, said a line each, and what to do where it does not. `--version --json`."""

import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD, DEVTRACE, environment


def doctor(folder, *arguments, **variables):
    env = {key: value for key, value in environment(None).items() if key != "VIRTUAL_ENV"}
    done = subprocess.run([DEVTRACE, "doctor", *arguments], cwd=folder, env={**env, **variables}, capture_output=True, text=True, timeout=150)
    return done, {line[5:16].strip(): (line[:4].strip(), line[16:]) for line in done.stdout.splitlines() if not line.startswith(" ")}


def test_everything_that_works_here(tmp_path):
    done, said = doctor(tmp_path, "--python", sys.executable)
    assert done.returncode == 0, done.stdout
    assert [each for each, (state, _) in said.items() if state != "ok"] == ["GPUs"], done.stdout
    assert said["rehearse"] == ("ok", "a mistake is found, with its line")
    assert said["devtrace"][1].endswith(str(BUILD / "libdevtrace.so")) and said["PyTorch"][1].startswith("2.")
    assert "devtrace rehearse --gpus 2" in done.stdout
    assert os.listdir(tmp_path) == []


def fake(folder, *lines):
    """An interpreter that answers like this."""
    file = folder / "fake"
    file.write_text("\n".join(["#!/bin/sh", *(f"echo '{line}'" for line in lines)]))
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("lines, code, expected", [
    (["devtrace:version 3.11.7"], 0, {"Python": "ok", "PyTorch": "-", "rehearse": "-", "notebooks": "-"}),
    (["devtrace:version 3.11.7", "devtrace:torch 2.9.0+cpu", "devtrace:cuda "], 0, {"PyTorch": "-", "rehearse": "-"}),
    (["devtrace:version 3.11.7", "devtrace:torch_problem libcublas.so.12: cannot open"], 1, {"PyTorch": "BAD"}),
    (["devtrace:version 3.11.7", "devtrace:torch 2.9.0", "devtrace:cuda 13.0"], 1, {"PyTorch": "ok", "rehearse": "BAD"}),
    (["nonsense"], 1, {"Python": "BAD", "PyTorch": "-"}),
])
def test_pythons_that_lack_something(tmp_path, lines, code, expected):
    done, said = doctor(tmp_path, "--python", fake(tmp_path, *lines))
    assert done.returncode == code and {each: said[each][0] for each in expected} == expected, done.stdout


def test_without_a_python(tmp_path):
    done, said = doctor(tmp_path, PATH="/nowhere")
    assert done.returncode == 0 and said["Python"] == ("-", "no python3 on PATH"), done.stdout
    done, _ = doctor(tmp_path, "--python", "no-such")
    assert (done.returncode, done.stderr) == (2, "devtrace doctor: there is no no-such\n")


def test_a_library_that_cannot_be_preloaded(tmp_path):
    (tmp_path / "libdevtrace.so").write_text("no library")
    done, said = doctor(tmp_path, PATH="/nowhere", DEVTRACE_LIBRARY=str(tmp_path / "libdevtrace.so"))
    assert done.returncode == 1 and said["preload"][0] == "BAD" and "mounted without exec" in done.stdout, done.stdout


def test_a_folder_that_takes_no_log(tmp_path):
    done, said = doctor("/proc", PATH="/nowhere")
    assert said["logs"] == ("-", "nothing can be written into this folder") and "--log-path" in done.stdout


def test_the_version_for_programs(tmp_path):
    said = json.loads(subprocess.run([DEVTRACE, "--version", "--json"], capture_output=True, text=True, check=True).stdout)
    assert said["log_schema"] == 1 and said["library"] == str(BUILD / "libdevtrace.so") and said["devtrace"] in subprocess.run(
        [DEVTRACE, "--version"], capture_output=True, text=True, check=True).stdout
