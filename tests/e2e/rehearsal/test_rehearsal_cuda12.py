"""Programs whose PyTorch is for CUDA 12: which stubs they get, and that a real one runs on them.

No wheel that scripts/setup installs is for CUDA 12, so the last tests need `make simulate-cuda12`, and DEVTRACE_CUDA12_PYTHON: a Python
with such a PyTorch.
"""

import json
import os
import shutil
import subprocess

import pytest
from conftest import BUILD, DEVTRACE, TOP, environment, execute


def make_python(folder, cuda):
    """A virtual environment's layout, with a program and a torch/version.py like those of PyTorch's wheels."""
    packages = folder / "lib" / "python3.11" / "site-packages" / "torch"
    packages.mkdir(parents=True)
    (packages / "version.py").write_text(f"from typing import Optional\n\n__version__ = '2.8.0'\ndebug = False\ncuda: Optional[str] = {cuda!r}\nhip: Optional[str] = None\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(shutil.which("env"))
    return folder / "bin" / "python"


@pytest.fixture
def rehearsed(tmp_path):
    """rehearsed(program, …): LD_PRELOAD as the program gets it, by a command beside which both sets of stubs lie (empty files)."""
    for name in ("simulate/libcudart.so.13", "simulate/cuda12/libcudart.so.12", "simulate/libcuda.so.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "simulate/preload.list").write_text("libcuda.so.1\nlibcudart.so.13\n")
    (tmp_path / "simulate/cuda12/preload.list").write_text("../libcuda.so.1\nlibcudart.so.12\n")
    shutil.copy(DEVTRACE, tmp_path / "devtrace")

    def run(*words, path=None, cwd=tmp_path, **variables):
        env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT")}
        env |= {"PATH": f"{path}:{env['PATH']}" if path else env["PATH"], **variables}
        done = subprocess.run([tmp_path / "devtrace", "rehearse", "--no-trace", *map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        line = next(line for line in done.stdout.splitlines() if line.startswith("LD_PRELOAD="))
        return [os.path.relpath(part, tmp_path / "simulate") for part in line.removeprefix("LD_PRELOAD=").split(":")]

    return run


CUDA12 = ["libcuda.so.1", "cuda12/libcudart.so.12"]
CUDA13 = ["libcuda.so.1", "libcudart.so.13"]


def test_the_programs_pytorch_decides(rehearsed, tmp_path):
    assert rehearsed("--", make_python(tmp_path / "twelve", "12.8")) == CUDA12
    assert rehearsed("--", make_python(tmp_path / "thirteen", "13.0")) == CUDA13
    assert rehearsed("--", make_python(tmp_path / "none", None)) == CUDA13
    assert rehearsed("--", "env") == CUDA13
    assert rehearsed("--", "python", path=tmp_path / "twelve" / "bin") == CUDA12


def test_a_pytorch_from_elsewhere_decides_where_python_would_find_it(rehearsed, tmp_path):
    """Before the interpreter's own, or where that has none."""
    packages = make_python(tmp_path / "twelve", "12.8").parent.parent / "lib/python3.11/site-packages"
    thirteen, none = make_python(tmp_path / "thirteen", "13.0"), make_python(tmp_path / "none", None)
    assert rehearsed("--", thirteen, PYTHONPATH=f"{tmp_path}:{packages}") == CUDA12
    make_python(tmp_path / "home/.local", "12.8")
    assert rehearsed("--", thirteen, HOME=str(tmp_path / "home")) == CUDA12
    assert rehearsed("--", thirteen, HOME=str(tmp_path / "home"), PYTHONNOUSERSITE="1") == CUDA13
    assert rehearsed("--", none, PYTHONUSERBASE=str(tmp_path / "twelve")) == CUDA12
    (none.parent.parent / "lib/python3.11/site-packages/of-another.pth").write_text(f"# not this one\nimport sys\n{packages}\n")
    assert rehearsed("--", none) == CUDA12


def test_of_a_virtual_environments_base_it_decides_where_that_is_taken_in(rehearsed, tmp_path):
    base = make_python(tmp_path / "base", "12.8")
    venv = make_python(tmp_path / "venv", None)
    settings = f"home = {base.parent}\ninclude-system-site-packages = {{}}\nversion = 3.11.7\n"
    (venv.parent.parent / "pyvenv.cfg").write_text(settings.format("true"))
    assert rehearsed("--", venv) == CUDA12
    (venv.parent.parent / "pyvenv.cfg").write_text(settings.format("false"))
    assert rehearsed("--", venv) == CUDA13
    assert rehearsed("--", venv, PYTHONUSERBASE=str(base.parent.parent)) == CUDA13, "nor are the user's"


def test_without_pytorch_its_cupy_decides(rehearsed, tmp_path):
    python = make_python(tmp_path / "twelve", None)
    (python.parent.parent / "lib/python3.11/site-packages/cupy_cuda12x-14.2.0.dist-info").mkdir()
    assert rehearsed("--", python) == CUDA12
    both = make_python(tmp_path / "both", "13.0")
    (both.parent.parent / "lib/python3.11/site-packages/cupy_cuda12x-14.2.0.dist-info").mkdir()
    assert rehearsed("--", both) == CUDA13


def test_what_a_launcher_starts_decides(rehearsed, tmp_path):
    twelve, thirteen = (make_python(tmp_path / name, version) for name, version in (("twelve", "12.8"), ("thirteen", "13.0")))
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\nenv\n")
    script.chmod(0o755)
    assert rehearsed("--", "nice", "-n", "5", twelve) == CUDA12
    assert rehearsed("--", script, path=twelve.parent) == CUDA12
    assert rehearsed("--", script, VIRTUAL_ENV=str(twelve.parent.parent), path=thirteen.parent) == CUDA12
    assert rehearsed("--", script, CONDA_PREFIX=str(twelve.parent.parent)) == CUDA12


def test_uv_run_takes_the_projects_environment(rehearsed, tmp_path):
    """Whatever is active, from a folder of the project too; with another launcher what is active comes first."""
    make_python(tmp_path / "project" / ".venv", "12.8")
    inside = tmp_path / "project" / "scripts"
    inside.mkdir()
    active = str(make_python(tmp_path / "thirteen", "13.0").parent.parent)
    for name in ("uv", "pdm"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        shutil.copy(shutil.which("env"), tmp_path / "bin" / name)
    uv = {"cwd": inside, "path": tmp_path / "bin", "VIRTUAL_ENV": active}
    assert rehearsed("--", "uv", **uv) == CUDA12
    assert rehearsed("--", "pdm", **uv) == CUDA13
    assert rehearsed("--", "uv", **uv, UV_PROJECT_ENVIRONMENT=active) == CUDA13


def test_a_programs_own_runtime_decides(rehearsed, tmp_path):
    """The one that it is linked to. Of one inside: test_static_runtime.py."""
    for major in (12, 13):
        library = tmp_path / f"libcudart.so.{major}"
        subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", library, f"-Wl,-soname,{library.name}"], check=True)
        program = tmp_path / f"program{major}"
        source = 'extern char** environ; int puts(const char*); int main() { for (char** one = environ; *one; ++one) puts(*one); }'
        subprocess.run(["gcc", "-x", "c", "-", "-x", "none", "-o", program, "-Wl,--no-as-needed", library, f"-Wl,--disable-new-dtags,-rpath,{tmp_path}"], input=source, text=True, check=True)
        assert rehearsed("--", program) == (CUDA12 if major == 12 else CUDA13)


def test_an_option_decides_otherwise(rehearsed, tmp_path):
    assert rehearsed("--cuda", "13", "--", make_python(tmp_path / "twelve", "12.8")) == CUDA13
    assert rehearsed("--cuda", "12", "--", "env") == CUDA12


def test_what_is_not_built_is_said(rehearsed, tmp_path):
    shutil.rmtree(tmp_path / "simulate" / "cuda12")
    done = subprocess.run([tmp_path / "devtrace", "rehearse", "--no-trace", make_python(tmp_path / "twelve", "12.8")], capture_output=True, text=True)
    assert done.returncode == 2
    assert "the program is for CUDA 12" in done.stderr and "make simulate-cuda12" in done.stderr


PROGRAM = """
import torch
print(torch.version.cuda.split(".")[0], torch.cuda.device_count(), torch.cuda.get_device_name(1))
print(torch.cuda.get_device_properties(0).multi_processor_count, torch.cuda.get_device_properties(0).total_memory >> 20)
values = torch.arange(6.).pin_memory().to("cuda:1", non_blocking=True)
print(values.to("cuda:0").cpu().tolist())
for function in (torch.linalg.inv, torch.linalg.qr, torch.fft.fft):
    function(torch.eye(4, device="cuda:1"))
torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    torch.ones(4, device="cuda") + 1
graph.replay()
torch.cuda.synchronize()
left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
try:
    left + right
except RuntimeError as error:
    print(error)
try:
    torch.empty(1 << 30, device="cuda")
except torch.OutOfMemoryError:
    print("out of memory")
"""


A_REAL_ONE = pytest.mark.skipif("DEVTRACE_CUDA12_PYTHON" not in os.environ, reason="DEVTRACE_CUDA12_PYTHON names no Python with a CUDA 12 PyTorch")


@A_REAL_ONE
def test_a_real_one_computes(tmp_path):
    """Also before 2.9, where kernels are kept under another key (simulate/values/older_pytorch.cpp)."""
    command = [DEVTRACE, "rehearse", "--gpus", "2", "--", os.environ["DEVTRACE_CUDA12_PYTHON"], TOP / "tests/rehearsal/checks.py"]
    outcome = execute(command, tmp_path, environment("text=0:html=0"), 250)
    faults = {row["check"]: row["fault"] for row in map(json.loads, outcome.out.splitlines())}
    wrong = {name for name, fault in faults.items() if fault}
    # Up to 2.6 PyTorch's own allocator and generator are of no more use once a capture was given up, as an earlier check does.
    assert outcome.code == 0 and len(faults) > 40 and wrong <= {"graph_of_a_training_step", "memory_is_what_the_program_uses"}, wrong


@A_REAL_ONE
def test_a_real_one_runs(tmp_path):
    assert (BUILD / "simulate" / "cuda12" / "preload.list").exists(), "make simulate-cuda12 was not run"
    (tmp_path / "program.py").write_text(PROGRAM)
    outcome = execute([DEVTRACE, "rehearse", "--part", "a100", "--memory", "800MiB", "--", os.environ["DEVTRACE_CUDA12_PYTHON"], "program.py"],
                      tmp_path, environment(None))
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[:3] == ["12 2 NVIDIA A100-SXM4-80GB (simulated)", "108 800", str([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])]
    assert "two devices, cuda:0 and cuda:1!" in outcome.out and outcome.out.endswith("out of memory\n")
    assert outcome.finding["operation"] == "aten::add" and outcome.finding["devices"] == ["cuda:0", "cuda:1"]
