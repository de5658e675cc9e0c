"""What a rehearsed process says of its work to tools: DEVTRACE_SIM_SUMMARY."""

import json

import pytest
from conftest import start
from kernel_programs import LAUNCH

BOTH = """
import torch
a, b = (torch.ones(4, 4, device=f"cuda:{n}") for n in (0, 1))
a @ a, a + 1, b @ b, b * 2
"""
ONE = """
import torch
a = torch.ones(4, 4, device="cuda:0")
a @ a, a + 1, a.to("cuda:1")
"""


def summaries(folder) -> list[dict]:
    found = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert list(found) == [f"{one['pid']}.json" for one in found.values()]
    return list(found.values())


@pytest.fixture
def summarize(tmp_path):
    """The outcome of a program, and the summaries of its processes. `trace` is on, as its hooks of the same functions stand in front."""
    def run(program, trace=True, **env):
        folder = tmp_path / "summary"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        return start(program, tmp_path, trace=trace, env={"DEVTRACE_SIM_SUMMARY": str(folder), **env}), summaries(folder)

    return run


def test_work_on_both_devices_counts(summarize):
    outcome, (one,) = summarize(BOTH)
    assert outcome.code == 0, outcome.err
    assert one["launches"].keys() == {"cuda:0", "cuda:1"} and min(one["launches"].values()) >= 3  # ones, matmul, elementwise
    assert one == {"pid": one["pid"], "launches": one["launches"], "values": True, "not_computed": {"kernels": {}, "operators": {}}}
    _, (again,) = summarize(BOTH)
    assert again | {"pid": one["pid"]} == one


def test_copies_are_no_work(summarize):
    _, (one,) = summarize(ONE)
    assert one["launches"]["cuda:0"] >= 3 and one["launches"]["cuda:1"] == 0


def test_the_libraries_work_counts(summarize):
    """Each operator that ends in one of CUDA's libraries adds to its own device's count and to no other's."""
    outcome, (one,) = summarize("""
import ctypes, torch
launches = ctypes.CDLL(None).devtrace_sim_launches
image, weight = torch.ones(1, 3, 8, 8), torch.ones(2, 3, 3, 3)
for own, other in ((0, 1), (1, 0)):
    a, v = torch.eye(4, device=f"cuda:{own}"), torch.ones(4, device=f"cuda:{own}")
    sparse = a.to_sparse_csr()
    image, weight, q = image.to(a.device), weight.to(a.device), torch.ones(1, 2, 4, 8, device=a.device)
    for name, operator in {
        "cuBLAS": lambda: a @ a, "cuBLASLt": lambda: torch.nn.functional.linear(a, a, v), "cuFFT": lambda: torch.fft.fft(a), "cuSOLVER": lambda: torch.linalg.cholesky(a),
        "cuSPARSE": lambda: sparse @ a, "for want of cuDNN": lambda: torch.nn.functional.conv2d(image, weight), "attention": lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q),
    }.items():
        before = launches(own), launches(other)
        operator()
        after = launches(own), launches(other)
        assert after[0] > before[0] and after[1] == before[1], (name, before, after)
""")
    assert outcome.code == 0, outcome.err
    assert one["launches"]["cuda:0"] == one["launches"]["cuda:1"]


@pytest.mark.parametrize("trace", [True, False], ids=["trace", "no trace"])
@pytest.mark.parametrize("end, code", [
    ("raise RuntimeError('over')", 1), ("import sys; sys.exit(3)", 3), ("import os; os._exit(4)", 4), ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15),
], ids=["exception", "sys.exit", "os._exit", "killed"])
def test_ends(summarize, end, code, trace):
    outcome, found = summarize(ONE + end, trace=trace)
    assert outcome.code == (code if code >= 0 else 128 - code), outcome.err
    assert [one["launches"]["cuda:1"] for one in found] == ([0] if code > 0 else [])


def test_each_process_for_itself(summarize):
    """Workers of multiprocessing, which end by os._exit where they were forked; what only starts others computes nothing."""
    outcome, found = summarize("""
import multiprocessing, subprocess
def work(device):
    import torch
    torch.ones(3, device=device)
if __name__ == "__main__":
    for way, device in (("fork", "cuda:0"), ("spawn", "cuda:1")):
        process = multiprocessing.get_context(way).Process(target=work, args=(device,))
        process.start()
        process.join()
        assert process.exitcode == 0
    import torch
    assert torch.cuda.device_count() == 2
    torch.cuda.init()
    subprocess.run(["true"], check=True)
""")
    assert outcome.code == 0, outcome.err
    assert sorted((one["launches"]["cuda:0"] > 0, one["launches"]["cuda:1"] > 0) for one in found) == [(False, True), (True, False)]


def test_a_fork_of_a_process_that_computes_leaves_none(summarize):
    outcome, found = summarize(ONE + "\nimport os\nif os.fork() == 0: os._exit(0)\nif os.fork() == 0: raise SystemExit\nos.wait(), os.wait(), print(os.getpid())\n")
    assert [one["pid"] for one in found] == [int(outcome.out)], outcome.err


def test_what_is_not_computed(summarize):
    program = "import torch\nhere = torch.ones(64, device='cuda:0')\nfor _ in range(2): launch('add', here.data_ptr(), here.data_ptr())\n"
    outcome, (one,) = summarize(LAUNCH + program)
    assert outcome.code == 0 and one["not_computed"] == {"kernels": {"add": 2}, "operators": {}}, outcome.err
    assert "kernel add (launches: 2)" in outcome.err


def test_without_values(summarize):
    outcome, (one,) = summarize(BOTH, DEVTRACE_SIM_VALUES="0")
    assert outcome.code == 0 and one["values"] is False and min(one["launches"].values()) >= 3
    assert one["not_computed"] == {"kernels": {}, "operators": {}}


def test_a_folder_that_is_not_there(tmp_path):
    outcome = start(ONE, tmp_path, env={"DEVTRACE_SIM_SUMMARY": str(tmp_path / "missing")})
    assert outcome.code == 0
    assert [line for line in outcome.err.splitlines() if "SUMMARY" in line] == [f"devtrace: DEVTRACE_SIM_SUMMARY={tmp_path}/missing: No such file or directory"]
