"""Programs and libraries with a CUDA runtime of their own inside (nvcc's default) run on the simulated devices as if they were linked
to the shared one. Same output, same findings. What cannot is told before it starts."""

import subprocess

import pytest
from conftest import BUILD, DEVTRACE, TOP, environment, execute, only
from nvcc_programs import CUDA12, WHEELS, needs_cuda12, needs_nvcc, nvcc

SOURCES = TOP / "tests/programs/static_runtime"
RUNTIMES = [13, pytest.param(12, marks=[needs_cuda12, pytest.mark.skipif(not (BUILD / "simulate/cuda12/preload.list").exists(), reason="make simulate-cuda12 was not run")])]
pytestmark = needs_nvcc


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """built(cuda, runtime) → the folder of a program, a library and programs that open it; each is compiled once."""
    known = {}

    def of(cuda=13, runtime="static"):
        if (cuda, runtime) not in known:
            folder = known[cuda, runtime] = tmp_path_factory.mktemp(f"{runtime}{cuda}")
            # The shared runtime's file is called by its version only: no link with the plain name is in the wheels.
            library = CUDA12 / "lib/libcudart.so.12" if cuda == 12 else WHEELS / "cu13/lib/libcudart.so.13"
            flags = ["-cudart", "static"] if runtime == "static" else ["-cudart", "none", "-Xlinker", library]
            nvcc(folder / "program", SOURCES / "program.cu", flags=flags, cuda=cuda)
            nvcc(folder / "library.so", SOURCES / "library.cu", flags=flags, cuda=cuda)
            for name, libraries in (("opener", []), ("linked", ["-Wl,--no-as-needed,--allow-shlib-undefined", folder / "library.so"])):
                subprocess.run(["g++", SOURCES / "opener.cpp", "-o", folder / name, *libraries, "-ldl", f"-Wl,-rpath,{folder}"], check=True)
        return known[cuda, runtime]

    return of


def rehearsed(folder, *program, flags=(), gpus=2):
    return execute([DEVTRACE, "rehearse", "--gpus", gpus, *flags, "--", *program], folder, environment(None))


@pytest.mark.parametrize("cuda", RUNTIMES)
def test_it_runs_as_with_the_shared_runtime(built, tmp_path, cuda):
    outcomes = [rehearsed(tmp_path, built(cuda, runtime) / "program") for runtime in ("static", "shared")]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes[0].err
    assert outcomes[0].out == outcomes[1].out
    lines = outcomes[0].out.splitlines()
    assert f"2 devices, runtime {cuda}" in lines and "NVIDIA H100 80GB HBM3 (simulated) 9.0" in lines and "5050505 5050505" in lines
    # Variables of the device begin with their values.
    assert {"7 1 2.5 3 4 0", "7 11"} <= set(lines)
    assert [line for line in lines if ": cuda" in line and not line.endswith("cudaSuccess")] == ["cudaMalloc(&huge, size_t{1} << 50): cudaErrorMemoryAllocation", "cudaGetLastError(): cudaErrorMemoryAllocation"]
    assert outcomes[0].findings == [] and "not simulated" not in outcomes[0].err


@pytest.mark.parametrize("cuda", RUNTIMES)
def test_findings_are_those_of_the_shared_runtime(built, tmp_path, cuda):
    found = []
    for runtime in ("static", "shared"):
        (folder := tmp_path / runtime).mkdir()
        outcome = rehearsed(folder, built(cuda, runtime) / "program", "other")
        assert "cudaDeviceSynchronize(): cudaErrorIllegalAddress" in outcome.out, outcome.err
        finding = only(outcome, "wrong-current-device")
        found.append((finding["launch"]["kernel"], finding["launch"]["parameter"], finding["devices"], [operand["device"] for operand in finding["operands"]]))
    assert found[0] == found[1] and found[0][0] == "touch(int*, int)" and found[0][2] == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize("cuda", RUNTIMES)
@pytest.mark.parametrize("how", ["opened later", "linked"])
def test_a_library_uses_it_in_its_constructor(built, tmp_path, how, cuda):
    folder = built(cuda)
    program = [folder / "opener", folder / "library.so"] if how == "opened later" else [folder / "linked", "-"]
    clean = rehearsed(tmp_path, *program, "0", flags=["--cuda", cuda])
    assert (clean.code, clean.out, clean.findings) == (0, "2 devices at load\nlaunch: 0\n", []), clean.err
    (other := tmp_path / "other").mkdir()
    finding = only(rehearsed(other, *program, "1", flags=["--cuda", cuda]), "wrong-current-device")
    assert finding["launch"]["kernel"] == "in_library(int*)"


def test_no_names_are_told_where_the_runtime_starts(built, tmp_path):
    subprocess.run(["strip", "-o", tmp_path / "stripped", built() / "program"], check=True)
    outcome = rehearsed(tmp_path, tmp_path / "stripped")
    told = f"devtrace: {tmp_path}/stripped: its CUDA runtime is inside it and has no names, so that it cannot be simulated, and its calls fail: link with `-cudart shared`, or do not strip it\n"
    assert outcome.err.startswith(told) and outcome.err.count("-cudart shared") == 1
    assert (outcome.code, outcome.out) == (3, "cudaGetDeviceCount(&devices): cudaErrorNotSupported\n")


def test_no_names_in_a_library_are_told_once(built, tmp_path):
    subprocess.run(["strip", "-o", tmp_path / "library.so", built() / "library.so"], check=True)
    outcome = rehearsed(tmp_path, built() / "opener", tmp_path / "library.so", "0")
    assert outcome.err.count(f"devtrace: {tmp_path}/library.so: its CUDA runtime is inside it and has no names") == 1


@needs_cuda12
def test_a_mix_of_versions_is_told(built, tmp_path):
    outcome = rehearsed(tmp_path, built(12) / "program", flags=["--cuda", "13"])
    assert "program: the CUDA runtime inside it is that of CUDA 12, another one is simulated, and its calls will fail: rehearse with --cuda 12\n" in outcome.err
    assert (outcome.code, outcome.out) == (3, "cudaGetDeviceCount(&devices): cudaErrorNotSupported\n")


def test_a_library_that_is_opened_by_its_path_is_the_stand_in(rehearse):
    """Beside the stand-ins NVIDIA's file would know nothing of what they made."""
    outcome = rehearse("""
        import ctypes, pathlib
        import torch
        wheels = pathlib.Path(torch.__file__).parents[1] / "nvidia"
        for name, version in (("cu13/lib/libcublas.so", ".13"), ("nccl/lib/libnccl.so", ".2")):
            real = (wheels / (name + version)).resolve()
            opened = [ctypes.CDLL(each)._handle for each in (str(real), real.name, real.name.removesuffix(version))]
            print(len(set(opened)), str(real) in open("/proc/self/maps").read())
        driver = ctypes.CDLL("libcuda.so")
        print(driver.cuInit(0), ctypes.CDLL("libcuda.so.1")._handle == driver._handle, torch.ones(2, device="cuda").tolist())
        try:
            ctypes.CDLL("libnowhere.so.13")
        except OSError as error:
            print(error)
        """)
    assert outcome.out.splitlines() == [
        "1 False", "1 False", "0 True [1.0, 1.0]", "libnowhere.so.13: cannot open shared object file: No such file or directory"
    ]  # fmt: skip
    assert "devtrace: " not in outcome.err and outcome.findings == [], outcome.err


@needs_cuda12
@pytest.mark.skipif(not (BUILD / "simulate/cuda12/preload.list").exists(), reason="make simulate-cuda12 was not run")
def test_a_library_of_the_other_version_that_is_opened_by_its_path_is_that_versions_stand_in(rehearse):
    """As faiss for CUDA 12 opens it beside a PyTorch for CUDA 13. Both work on the same devices."""
    outcome = rehearse("""
        import ctypes, pathlib
        import torch
        real = pathlib.Path(torch.__file__).parents[1] / "nvidia/cuda_runtime/lib/libcudart.so.12"
        x = torch.arange(4, dtype=torch.int32, device="cuda:1")
        older, version, at, host = ctypes.CDLL(str(real)), ctypes.c_int(), ctypes.c_void_p(), (ctypes.c_int * 4)()
        print(older.cudaRuntimeGetVersion(ctypes.byref(version)), version.value // 1000, str(real) in open("/proc/self/maps").read())
        print(older.cudaMemcpy(host, ctypes.c_void_p(x.data_ptr()), 16, 2), list(host))
        print(older.cudaSetDevice(1), older.cudaMalloc(ctypes.byref(at), 64), (x + 1).tolist())
        for name in (str(real.parent / "libcublas.so.12"), "libcublas.so.12"):
            try:
                ctypes.CDLL(name)
            except OSError:
                print("not installed")
        """)
    assert outcome.out.splitlines() == ["0 12 False", "0 [0, 1, 2, 3]", "0 0 [1, 2, 3, 4]", "not installed", "not installed"], outcome.err
    assert outcome.findings == [], outcome.err


def test_a_wheel_with_a_stripped_runtime_is_told_where_it_is_used(rehearse):
    outcome = rehearse("""
        from cuda.bindings import driver
        print(int(driver.cuInit(0)[0]))
        from cuda.bindings import runtime
        print(int(runtime.cudaGetDeviceCount()[0]))
        """)
    assert outcome.out == "0\n801\n", outcome.err
    assert outcome.err.count("its CUDA runtime is inside it and has no names") == 1 and "cuda/bindings" in outcome.err
