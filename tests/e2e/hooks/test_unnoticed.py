"""Programs that a tool in the process is apt to disturb run as without devtrace: the same exit code, output and files."""

import re
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import BUILD, LIBRARY, environment, execute, start
from nightly import first

SITE = Path(sysconfig.get_path("purelib"))
# What the process holds when it is done: the libraries by name, threads, open files, children, signals' handlers.
HOLDS = r"""
def holds():
    import os, re, signal
    maps = {os.path.basename(line.split()[-1]) for line in open("/proc/self/maps") if ".so" in line and "/" in line}
    files = sorted(os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}"))
    print("libraries:", len(maps), sorted(maps - {"libdevtrace.so"}))
    print("threads:", len(os.listdir("/proc/self/task")), files)
    print(re.findall(r"^Sig(?:Blk|Ign|Cgt):.*$", open("/proc/self/status").read(), re.M))
"""


def compare(command, folder, env=None, timeout=100):
    """The outcome, which is the same bare and with devtrace preloaded."""
    outcomes = []
    for name, preload in (("bare", {}), ("traced", {"LD_PRELOAD": str(LIBRARY)})):
        (folder / name).mkdir()
        outcomes.append(execute(command, folder / name, environment(None, {**(env or {}), **preload}), timeout))
    bare, traced = outcomes
    # The one library more.
    out = re.sub(r"^libraries: (\d+)", lambda match: f"libraries: {int(match[1]) - 1}", traced.out, flags=re.M)
    errors = [re.sub(r"\d{4}-\d\d-\d\d [\d:]+ \d+:\d+", "TIME", one.err) for one in outcomes]  # a logger's time and process
    assert (traced.code, out.splitlines(), errors[1], traced.files) == (bare.code, bare.out.splitlines(), errors[0], bare.files)
    return bare


def python(source):
    return [sys.executable, "-c", HOLDS + source]


CUPTI = next(SITE.glob("nvidia/cu13/lib/libcupti.so.*"), None)
CUDNN = next(SITE.glob("nvidia/cudnn/lib/libcudnn.so.9"), None)


@pytest.mark.skipif(not CUPTI, reason="no libcupti in the wheels")
def test_import_torch_with_the_real_cupti(tmp_path):
    """It is there already: PyTorch needs it. The stub is not preloaded here."""
    outcome = compare(python("import torch; print(torch.cuda.is_available(), torch.cuda.device_count()); holds()"), tmp_path)
    assert outcome.code == 0 and CUPTI.name in outcome.out and "libcudart.so.13" in outcome.out


@pytest.mark.skipif(not CUPTI, reason="no libcupti in the wheels")
def test_the_profiler_with_the_real_cupti(tmp_path):
    outcome = compare(python("""
import torch
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    torch.ones(9).sum()
print(sorted({event.key for event in profile.key_averages()}))
holds()
"""), tmp_path)  # fmt: skip
    assert outcome.code == 0 and "aten::sum" in outcome.out


@pytest.mark.skipif(not CUDNN, reason="no libcudnn in the wheels")
def test_the_real_cudnn(tmp_path):
    """Its names begin with cu, it opens its parts by dlopen and dlsym, and without a device it refuses with its own code."""
    outcome = compare(
        python(f"""
import ctypes
cudnn = ctypes.CDLL({str(CUDNN)!r})
cudnn.cudnnGetVersion.restype = ctypes.c_size_t
cudnn.cudnnGetErrorString.restype = ctypes.c_char_p
handle = ctypes.c_void_p()
print(cudnn.cudnnGetVersion(), cudnn.cudnnGetCudartVersion() > 0)
code = cudnn.cudnnCreate(ctypes.byref(handle))
print(code, cudnn.cudnnGetErrorString(code))
for name in ("cudnnOpsVersionCheck", "cudnnCnnVersionCheck", "cudnnGraphVersionCheck", "cudnnAdvVersionCheck"):
    print(name, getattr(cudnn, name)())
descriptor = ctypes.c_void_p()
print(cudnn.cudnnCreateTensorDescriptor(ctypes.byref(descriptor)), cudnn.cudnnDestroyTensorDescriptor(descriptor))
holds()
"""),
        tmp_path,
        env={"LD_LIBRARY_PATH": f"{CUDNN.parent}:{SITE}/nvidia/cu13/lib"},
    )  # fmt: skip
    assert outcome.code == 0 and "libcudnn_graph.so.9" in outcome.out and "cudnnOpsVersionCheck 0" in outcome.out


@pytest.mark.slow
@pytest.mark.parametrize("cuda", [False, True], ids=["without CUDA", "with CUDA"])
def test_ten_million_look_ups(tmp_path, cuda):
    """With CUDA: the hooks are found millions of times."""
    env = {"LD_LIBRARY_PATH": str(BUILD / "simulate")} if cuda else {"LD_LIBRARY_PATH": "/nowhere"}
    outcome = compare([BUILD / "tests/lookups", "10000000"], tmp_path, env)
    assert (outcome.code, outcome.out) == (0, "memory grew: no\nopen files grew: no\n")


WORKERS = """
import ctypes, os, subprocess, sys, threading
stop = threading.Event()
def busy():  # the parent is never quiet when it forks
    while not stop.is_set():
        ctypes.CDLL(None).malloc_usable_size(None)
        try:
            ctypes.CDLL(None).cudnnCreate
        except AttributeError:
            pass
threads = [threading.Thread(target=busy) for _ in range(3)]
[thread.start() for thread in threads]
def work(number):
    kind = number % 5
    open(f"made-{number}", "w").write(str(number))
    if kind == 0:
        os._exit(number)
    if kind == 1:
        os.execv("/bin/sh", ["sh", "-c", f"exit {number}"])
    if kind == 2:
        os.kill(os.getpid(), 9)
    if kind == 3:
        os._exit(subprocess.run([sys.executable, "-S", "-c", f"raise SystemExit({number})"]).returncode)
    try:
        ctypes.CDLL(None).cudaMalloc
    except AttributeError as error:
        os._exit(number if "undefined symbol: cudaMalloc" in str(error) else 255)
children = {}
for number in range(100):
    pid = os.fork()
    if not pid:
        try:
            work(number)
        finally:
            os._exit(254)
    children[pid] = number
ends = {}
while children:
    pid, status = os.wait()
    ends[children.pop(pid)] = status
stop.set()
[thread.join() for thread in threads]
print([ends[number] for number in range(100)])
"""


def test_a_hundred_workers_without_cuda(tmp_path):
    outcome = compare([sys.executable, "-c", WORKERS], tmp_path)
    wanted = [9 if number % 5 == 2 else number << 8 for number in range(100)]
    assert outcome.out == f"{wanted}\n" and len(outcome.files) == 100, outcome.err


# Workers of a program that has used a device: every other one goes on using it, some are refused.
SIMULATED = """
import os, sys
import torch
left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
def work(number):
    kind = number % 4
    if kind == 0:
        return int((left * number).sum().item()) == 3 * number
    if kind == 1:
        try:
            left + right
        except RuntimeError as error:
            return "same device" in str(error)
    if kind == 2:
        os.execv("/bin/sh", ["sh", "-c", "exit 7"])
    return torch.ones(number, device="cuda:1").numel() == number
if __name__ == "__main__":
    children = {}
    for number in range(100):
        pid = os.fork()
        if not pid:
            code = 255
            try:
                code = 3 if work(number) else 4
            finally:
                sys.stdout.flush()
                os._exit(code)
        children[pid] = number
    ends = {}
    while children:
        pid, status = os.wait()
        ends[children.pop(pid)] = status >> 8
    print([ends[number] for number in range(100)])
"""
SPAWNED = """
import multiprocessing, torch
def work(number):
    left = torch.full((3,), float(number), device=f"cuda:{number % 2}")
    try:
        left + torch.ones(3, device=f"cuda:{1 - number % 2}")
    except RuntimeError as error:
        return left.sum().item(), str(error).splitlines()[0]
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    with multiprocessing.Pool(2) as pool:
        print(pool.map(work, range(4)))
"""


@pytest.mark.parametrize("program", first(1, [SIMULATED, SPAWNED]), ids=["forked", "spawned"])
def test_workers_that_use_devices(tmp_path, program):
    """A log for each process that used one, and no other difference."""
    outcomes = []
    for trace in (True, False):
        (tmp_path / str(trace)).mkdir()
        outcomes.append(start(program, tmp_path / str(trace), "text=0:html=0:dedupe=0", trace=trace, timeout=250))
    traced, plain = outcomes
    assert plain.code == 0 and len(plain.out) > 50, plain.err
    assert (traced.code, traced.out, traced.err) == (plain.code, plain.out, plain.err)
    assert plain.files == [] and all(re.fullmatch(r"devtrace-\d+\.jsonl", name) for name in traced.files)
    refused = 25 if program == SIMULATED else 4
    assert len(traced.findings) == refused
