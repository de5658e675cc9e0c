"""The machine that the tests of hardware run on, and their programs. DEVTRACE_TEST_GPU=simulated runs the same tests on two simulated devices, to try the
tests themselves; what only hardware has is skipped there."""

import ctypes
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from conftest import BUILD, DEVTRACE, LIBRARY, Outcome, environment, execute
from kernel_programs import TOUCH

SIMULATED = os.environ.get("DEVTRACE_TEST_GPU") == "simulated"
WHEELS = Path(sysconfig.get_path("purelib")) / "nvidia"
# Of the driver, asked in a process of its own: a driver that hangs or crashes is a reason, too.
ASK = """
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit("no NVIDIA driver: libcuda.so.1 cannot be opened")
code, count = cuda.cuInit(0), ctypes.c_int()
if code:
    raise SystemExit(f"the NVIDIA driver finds no device that it can use: cuInit says {code}")
cuda.cuDeviceGetCount(ctypes.byref(count))
print(count.value)
"""


@cache
def devices() -> tuple[int, str]:
    """How many there are, and why none."""
    if SIMULATED:
        return 2, ""
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=120)
    if done.returncode:
        return 0, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"asking libcuda.so.1 ended with {done.returncode}"
    return int(done.stdout), "" if int(done.stdout) else "the NVIDIA driver has no device"


@dataclass
class Machine:
    folder: Path

    def run(self, program, options=None, trace=True, injected=False, after=(), env=None, timeout=280, own_runtime=False) -> Outcome:
        """A program, as Python source or as a command, with devtrace preloaded (and the libraries `after` behind it), loaded through
        CUDA_INJECTION64_PATH instead (`injected`), or without it. Each run has a folder of its own. `own_runtime`: on simulated devices a static runtime's calls stay with it."""
        number = len(list(self.folder.glob("run-*")))
        folder = self.folder / f"run-{number}"
        folder.mkdir()
        if isinstance(program, str):
            (folder / "program.py").write_text(program)
            program = [sys.executable, "program.py"]
        preload = [LIBRARY] if trace and not injected else []
        preload += after
        variables = {"LD_LIBRARY_PATH": f"{WHEELS}/cu13/lib"}  # a program without PyTorch finds CUPTI by this
        if SIMULATED:
            names = (BUILD / "simulate/preload.list").read_text().split()
            preload += [BUILD / "simulate" / name for name in names if not (own_runtime and name == "static_runtime.so")]
            variables |= {"LD_LIBRARY_PATH": str(BUILD / "simulate"), "DEVTRACE_SIM_GPUS": "2"}
        if injected:
            variables["CUDA_INJECTION64_PATH"] = str(LIBRARY)
        if preload:
            variables["LD_PRELOAD"] = ":".join(map(str, preload))
        return execute(program, folder, environment(options, {**variables, **(env or {})}), timeout)

    def command(self, program: str, options=None) -> Outcome:
        """By the command, as a user does it."""
        (self.folder / "program.py").write_text(program)
        verb = ["rehearse", "--gpus", "2"] if SIMULATED else ["run"]
        return execute([DEVTRACE, *verb, "--", sys.executable, "program.py"], self.folder, environment(options), 280)


def wants(request) -> str:
    """Why a test cannot run here; empty: it can."""
    count, why = devices()
    wanted = request.node.get_closest_marker("devices")
    hardware = request.node.get_closest_marker("hardware")
    if not why and wanted and wanted.args[0] > count:
        return f"wants {wanted.args[0]} devices, and there is one"
    return why or (f"only on hardware: {hardware.args[0]}" if SIMULATED and hardware else "")


@pytest.fixture
def machine(request, tmp_path) -> Machine:
    if why := wants(request):
        pytest.skip(why)
    return Machine(tmp_path)


@cache
def reaches_host() -> bool:
    """Whether the first device reads all of the host's memory (HMM, or a shared address space): there a kernel may be given any pointer."""
    if SIMULATED:
        return False
    cuda, value = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    cuda.cuInit(0)
    cuda.cuDeviceGetAttribute(ctypes.byref(value), 88, 0)  # CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
    return bool(value.value)


# With memory on the first device; there need be no second.
DRIVER = TOUCH + """
def on_disk():
    return sum(open(log).read().count('"record":"finding"') for log in glob.glob("devtrace-*.jsonl"))
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = P, [S]
on_host = libc.malloc(8 << 20)
here = memory(0)
"""

# privateGPT's fault: a model on the device, token ids where the tokenizer has put them.
EMBEDDINGS = """
import torch
class Embeddings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = torch.nn.Embedding(30522, 64)
        self.layer = torch.nn.Linear(64, 64)
    def forward(self, input_ids):
        return self.layer(self.word_embeddings(input_ids))
model = Embeddings().to("cuda:0")  # MOVED
def embed(input_ids):
    return model(input_ids)  # ASKED
"""

# A launch-bound training step, times each way in turn.
TRAINING = """
import json, sys, time
import torch
torch.manual_seed(0)
sizes = dict(hidden=256, layers=int(sys.argv[1]), batch=8, steps=int(sys.argv[2]), rounds=int(sys.argv[3]))
layer = torch.nn.TransformerEncoderLayer(sizes["hidden"], 8, sizes["hidden"] * 4, batch_first=True)
model = torch.nn.TransformerEncoder(layer, sizes["layers"], enable_nested_tensor=False).to("cuda:0")
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
data = torch.randn(sizes["batch"], 64, sizes["hidden"], device="cuda:0")
def step():
    optimizer.zero_grad()
    loss = (model(data) - data).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss
best = None
for _ in range(sizes["rounds"] + 1):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(sizes["steps"]):
        step()
    torch.cuda.synchronize()
    took = (time.perf_counter() - start) / sizes["steps"]
    best = took if best is None else min(best, took)
print(json.dumps({"seconds": best, "device": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda}))
"""
