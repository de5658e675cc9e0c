"""Preloaded into a program that has nothing to do with CUDA, devtrace is not there: no file, no output, the same exit code."""

import sys

import pytest

PROGRAMS = {
    "true": ["true"],
    "false": ["false"],
    "bash": ["bash", "-c", "echo out; echo err >&2; (exit 3) | cat; exit 7"],
    "git": ["git", "--version"],
    "python": [sys.executable, "-c", "import json, threading, subprocess; print(subprocess.run(['true']).returncode); raise SystemExit(5)"],
    "python that forks": [sys.executable, "-c", "import os; pid = os.fork(); pid or os._exit(4); print(os.waitpid(pid, 0)[1])"],
    "python killed": ["bash", "-c", f"{sys.executable} -c 'import os; os.abort()'; echo $?"],
    "torch on the CPU": [sys.executable, "-c", "import torch; a = torch.ones(9); print((a @ a).item(), torch.cuda.is_available())"],
}


@pytest.mark.parametrize("options", [None, "nonsense=1:html=perhaps"], ids=["default", "bad options"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_trace_of_devtrace(preload, name, options):
    if name == "torch on the CPU" and options:
        pytest.skip("PyTorch is there: bad options are told (test_options.py)")
    bare = preload(PROGRAMS[name], library=None)
    traced = preload(PROGRAMS[name], options)
    assert (traced.code, traced.out) == (bare.code, bare.out)
    # bash names the process it lost in its message
    assert traced.err == bare.err or name == "python killed"
    assert traced.files == []


def test_simulated_cuda_without_a_finding_says_nothing(rehearse):
    source = """
        import torch
        a = torch.ones(4, 4, device="cuda:1")
        b = (a @ a).to("cuda:0")
        print(b.device)
    """
    traced = rehearse(source)
    plain = rehearse(source, trace=False)
    assert traced.findings == []
    assert (traced.code, traced.out, traced.err) == (plain.code, plain.out, plain.err)
    assert traced.pages == []
