"""The stub libcupti tells a profiler what the real one would. Here are the programs of tests/programs/cupti, each test in a process of its own, and
the functions that have callbacks, set against CUPTI's headers."""

import json
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
from conftest import BUILD, TOP, environment, execute

SIMULATE = BUILD / "simulate"
TESTS = re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", "".join(p.read_text() for p in sorted((TOP / "tests/programs/cupti").glob("*.cpp"))), re.M)
CUDA12 = TOP / ".cache/cuda12/include"


def build_for_cuda12(folder: Path) -> Path:
    """The same sources against CUDA 12's headers and libraries."""
    if not (SIMULATE / "cuda12/libcupti.so.12").exists():
        pytest.skip("make simulate-cuda12 was not run")
    sources = [p for p in sorted((TOP / "tests/programs/cupti").glob("*.cpp")) if p.name != "injected.cpp"]
    libraries = [SIMULATE / "cuda12/libcupti.so.12", SIMULATE / "cuda12/libcudart.so.12", SIMULATE / "libcuda.so.1"]
    program = folder / "cupti-tests"
    includes = ["-I", TOP, "-isystem", CUDA12, "-isystem", TOP / ".cache/cuda/include"]
    subprocess.run(["g++", "-std=c++20", *includes, "-o", program, *sources, *libraries, "-lgtest", "-lpthread", "-ldl"], check=True)
    return program


@pytest.fixture(scope="module", params=["13", "12"])
def program(request, tmp_path_factory):
    return BUILD / "cupti-tests" if request.param == "13" else build_for_cuda12(tmp_path_factory.mktemp("cupti12"))


def run(program: Path, test: str, **more) -> subprocess.CompletedProcess:
    env = environment(None, {"LD_LIBRARY_PATH": f"{SIMULATE}:{SIMULATE}/cuda12"})
    return subprocess.run([program, f"--gtest_filter={test}"], capture_output=True, text=True, timeout=120, env=env, **more)


@pytest.mark.parametrize("test", [f"{suite}.{name}" for suite, name in TESTS if suite != "Every"])
def test_subscriber(program, test):
    done = run(program, test)
    if "0 tests from" in done.stdout:
        assert program != BUILD / "cupti-tests", f"{test} is not in the program"
        pytest.skip("not in this CUDA")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def identifiers(header: Path, prefix: str) -> dict[str, int]:
    found = re.findall(rf"{prefix}(\w+)\s*=\s*(\d+)", header.read_text())
    return {name: int(number) for name, number in found if name not in ("INVALID", "SIZE", "FORCE_INT")}


def functions(library: Path) -> set[str]:
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.split()[-2] in "TW"}


def implemented(library: str) -> set[str]:
    """What a stub exports without the functions that only say that they are missing."""
    missing = (BUILD / "obj/simulate/generated" / f"{library.split('.')[0].removeprefix('lib')}.missing").read_text().split()
    return functions(SIMULATE / library) - set(missing)


def test_every_function_with_an_id_has_its_callback():
    include = TOP / ".cache/cuda/include"
    driver = identifiers(include / "cupti_driver_cbid.h", "CUPTI_DRIVER_TRACE_CBID_")
    lines = [f"1 {driver[name]} {name}" for name in sorted(implemented("libcuda.so.1") & set(driver))]
    assert len(lines) > 400
    # Of several versions of a function a library exports the last: cudaMemAdvise_v8000, cudaMemAdvise_v12020.
    newest = {}
    for name, number in identifiers(include / "cupti_runtime_cbid.h", "CUPTI_RUNTIME_TRACE_CBID_").items():
        function, version = name.rsplit("_v", 1)
        newest[function] = max(newest.get(function, (0, 0)), (int(version), number))
    runtime = implemented("libcudart.so.13") & set(newest)
    assert len(runtime) > 300 and {"cudaMemcpyAsync_ptsz", "__cudaLaunchKernel"} <= runtime
    lines += [f"2 {newest[name][1]} {name}" for name in sorted(runtime)]
    done = run(BUILD / "cupti-tests", "Every.*", input="\n".join(lines))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_names_and_errors_are_the_real_library_s():
    """The real libcupti answers these two questions without a GPU."""
    real = Path(sysconfig.get_paths()["purelib"]) / "nvidia/cu13/lib/libcupti.so.13"
    program = """
import ctypes, json, sys
cupti = ctypes.CDLL(sys.argv[1])
def ask(function, *arguments):
    text = ctypes.c_char_p()
    return [getattr(cupti, function)(*arguments, ctypes.byref(text)), text.value.decode() if text.value else None]
names = [ask("cuptiGetCallbackName", domain, number) for domain in range(-1, 8) for number in range(0, 850)]
errors = [ask("cuptiGetResultString", number) for number in (*range(-1, 47), 999)]
print(json.dumps([names, errors]))
"""
    env = environment(None, {"LD_LIBRARY_PATH": str(SIMULATE)})
    answers = [json.loads(subprocess.run([sys.executable, "-c", program, library], check=True, capture_output=True, text=True, env=env).stdout)
               for library in (real, SIMULATE / "libcupti.so.13")]  # fmt: skip
    assert len([name for code, name in answers[0][0] if code == 0]) > 1300
    for theirs, ours in zip(*answers):
        assert [pair for pair in zip(theirs, ours) if pair[0] != pair[1]] == []


MAIN = """
import ctypes, os, sys
cudart = ctypes.CDLL("libcudart.so.13")
{body}
"""


@pytest.fixture
def injected(tmp_path):
    def start(body: str, library: object = BUILD / "cupti-injected.so"):
        env = environment(None, {"CUDA_INJECTION64_PATH": str(library), "LD_LIBRARY_PATH": str(SIMULATE), "DEVTRACE_SIM_GPUS": "2"})
        return execute([sys.executable, "-c", MAIN.format(body=body)], tmp_path, env)

    return start


def test_the_driver_loads_the_profiler_once_and_tells_it_of_the_call_that_did(injected):
    outcome = injected("""
assert cudart.cudaGetLastError() == 0
pointer = ctypes.c_void_p()
assert cudart.cudaMalloc(ctypes.byref(pointer), 100) == 0
assert cudart.cudaFree(pointer) == 0
assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
""")
    assert (outcome.code, outcome.err.splitlines()) == (0, ["initialized with 2 devices", "call cudaMalloc", "call cudaFree"])


def test_threads_that_come_at_once_find_it_loaded(injected):
    outcome = injected("""
import threading
threads = [threading.Thread(target=cudart.cudaFree, args=(None,)) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")
    assert outcome.code == 0
    assert Counter(outcome.err.splitlines()) == {"initialized with 2 devices": 1, "call cudaFree": 16}


def test_a_fork_inherits_the_profiler_and_an_unused_driver_loads_it_in_the_child(injected):
    body = """
{before}
child = os.fork()
code = cudart.cudaFree(None)
if child:
    os.waitpid(child, 0)
    assert code == 0
os._exit(0)
"""
    after = injected(body.format(before="cudart.cudaFree(None)"))
    assert after.err.splitlines().count("initialized with 2 devices") == 1
    before = injected(body.format(before=""))
    assert before.err.splitlines().count("initialized with 2 devices") == 2
    assert (after.code, before.code) == (0, 0)


@pytest.mark.parametrize("name, said", [
    ("absent.so", "cannot open shared object file"),
    ("empty.so", "has no InitializeInjection"),
])  # fmt: skip
def test_a_profiler_that_cannot_be_loaded_is_one_line(injected, tmp_path, name, said):
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", tmp_path / "empty.so"], check=True)
    outcome = injected("assert cudart.cudaFree(None) == 0\nassert cudart.cudaFree(None) == 0", tmp_path / name)
    assert outcome.code == 0
    (line,) = outcome.err.splitlines()
    assert line.startswith("devtrace: CUDA_INJECTION64_PATH: ") and name in line and said in line


def test_torch_profiler_sees_a_rehearsal(rehearse):
    outcome = rehearse(
        """
        import json, torch
        from torch.profiler import ProfilerActivity, profile
        a = torch.ones(64, 64).to("cuda:0")
        for _ in range(2):  # it subscribes and leaves again
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
                b = a.relu()
                c = b.cpu()
                torch.cuda.synchronize()
        assert torch.equal(c, torch.ones(64, 64))
        profiler.export_chrome_trace("trace.json")
        """
    )
    assert outcome.code == 0, outcome.err
    events = json.loads((outcome.folder / "trace.json").read_text())["traceEvents"]
    by_kind = {kind: [e for e in events if e.get("cat") == kind] for kind in ("cuda_runtime", "kernel", "gpu_memcpy")}
    assert "cudaMemcpyAsync" in {e["name"] for e in by_kind["cuda_runtime"]}
    (kernel,) = by_kind["kernel"]
    assert "elementwise" in kernel["name"] and kernel["args"]["device"] == 0
    (copy,) = by_kind["gpu_memcpy"]
    assert copy["name"] == "Memcpy DtoH (Device -> Pageable)" and copy["args"]["bytes"] == 64 * 64 * 4
    calls = {e["args"]["correlation"] for e in by_kind["cuda_runtime"]}
    assert {kernel["args"]["correlation"], copy["args"]["correlation"]} <= calls
