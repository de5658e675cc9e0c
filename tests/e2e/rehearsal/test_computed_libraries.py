"""CUDA's mathematics libraries in a rehearsal: their functions are computed, by what they mean, in the order of their streams.

The programs call the libraries by ctypes and set each result against numpy's.
"""

import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute

FOLDER = TOP / "tests/e2e/rehearsal"
HELPERS = {"PYTHONPATH": str(TOP / "tests/helpers")}


def rehearsed(folder, program, *options, **more):
    return execute([DEVTRACE, "rehearse", "--gpus", 2, *options, "--", sys.executable, program], folder, environment(None, {**HELPERS, **more}))


@pytest.mark.parametrize("options", [(), ("--async", 3)], ids=["at once", "behind the host"])
@pytest.mark.parametrize("library", ["blas", "fft", "random", "solver"])
def test_every_function_gives_what_numpy_gives(tmp_path, library, options):
    outcome = rehearsed(tmp_path, FOLDER / f"{library}_program.py", *options)
    assert (outcome.code, outcome.out) == (0, "done\n"), outcome.out + outcome.err
    assert "not computed" not in outcome.err and outcome.findings == [], outcome.err


PRELUDE = """
import ctypes
import numpy as np
from device_arrays import Array, Library, runtime
blas = Library("libcublas.so.13")
handle = blas.handle("cublasCreate_v2")
x, y = Array(np.ones(8, np.float32)), Array(np.ones(8, np.float32))
"""


def outcome_of(tmp_path, program, *options):
    (tmp_path / "program.py").write_text(PRELUDE + program)
    return rehearsed(tmp_path, tmp_path / "program.py", *options)


def test_a_vector_that_goes_over_its_block_is_error_700(tmp_path):
    outcome = outcome_of(tmp_path, """
print(blas.status("cublasSscal_v2", handle, 9, np.float32(2), x, 1), runtime.status("cudaDeviceSynchronize"))
""")
    assert outcome.out == "0 700\n", outcome.err
    assert "devtrace: cublasSscal_v2 on device 0: illegal address: reads 36 bytes up to" in outcome.err and "behind a block of 32" in outcome.err


def test_work_is_done_in_the_streams_order(tmp_path):
    """What is enqueued behind it sees it, and a graph does it again at each replay."""
    outcome = outcome_of(tmp_path, """
stream, graph, runnable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
runtime.cudaStreamCreate(ctypes.byref(stream))
blas.cublasSetStream_v2(handle, stream)
runtime.cudaStreamBeginCapture(stream, 0)
blas.cublasSscal_v2(handle, 8, np.float32(3), x, 1)
blas.cublasSaxpy_v2(handle, 8, np.float32(1), x, 1, y, 1)
runtime.cudaStreamEndCapture(stream, ctypes.byref(graph))
print(x.get()[0])
runtime.cudaGraphInstantiate(ctypes.byref(runnable), graph, ctypes.c_ulonglong(0))
for _ in range(3):
    runtime.cudaGraphLaunch(runnable, stream)
runtime.cudaStreamSynchronize(stream)
print(x.get()[0], y.get()[0])
""", "--async", 1)
    assert outcome.out.split() == ["1.0", "27.0", "40.0"], outcome.out + outcome.err


def test_what_is_not_there_says_so(tmp_path):
    """Sparse solvers answer that they are not supported; a transform with a callback, which is code for a device, is not computed."""
    outcome = outcome_of(tmp_path, """
solver, fft = Library("libcusolver.so.12"), Library("libcufft.so.12")
sparse, refactor, plan, numbers = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(), Array(np.ones(16, np.float32))
solver.cusolverSpCreate(ctypes.byref(sparse))
singular = ctypes.c_int()
arrays = [numbers.address] * 3
print(solver.status("cusolverSpScsrlsvqr", sparse, 4, 4, None, *arrays, x, np.float32(0), 0, y, ctypes.byref(singular)))
print(solver.status("cusolverRfCreate", ctypes.byref(refactor)))
fft.cufftPlan1d(ctypes.byref(plan), 8, 0x29, 1)
code = ctypes.c_void_p(1)
fft.cufftXtSetCallback(plan, ctypes.byref(code), 0, None)
fft.cufftExecC2C(plan, numbers, numbers, -1)
numbers.get()
print(fft.status("cufftXtSetJITCallback", plan, b"load", code, ctypes.c_size_t(1), 0, None))
""")
    assert (outcome.code, outcome.out.split()) == (0, ["9", "9", "16"]), outcome.out + outcome.err
    for name in "cusolverSpScsrlsvqr", "cusolverRfCreate", "cufftXtSetJITCallback":
        assert f"devtrace: not simulated: {name}\n" in outcome.err, outcome.err
    assert "the host reads what kernel cufftExecC2C should have written" in outcome.err and "kernel cufftExecC2C (launches: 1)" in outcome.err, outcome.err


def test_what_nobody_computed_is_not_computed_behind_it_either(tmp_path):
    """cublasRotmEx is recorded, and what axpy makes of it is told where the host reads it."""
    outcome = outcome_of(tmp_path, """
blas.cublasRotmEx(handle, 8, x, 0, 1, y, 0, 1, np.zeros(5, np.float32), 0, 0)
z = Array(np.ones(8, np.float32))
blas.cublasSaxpy_v2(handle, 8, np.float32(1), x, 1, z, 1)
z.get()
""")
    assert outcome.code == 0 and "the host reads what kernel cublasRotmEx should have written" in outcome.err, outcome.err
    assert "kernel cublasRotmEx (launches: 1)" in outcome.err and "kernel cublasSaxpy" not in outcome.err


def test_without_values_nothing_is_computed(tmp_path):
    outcome = outcome_of(tmp_path, "blas.cublasSscal_v2(handle, 8, np.float32(3), x, 1)\nprint(x.get()[0])\n", "--no-values")
    assert outcome.out == "1.0\n", outcome.out + outcome.err


def test_addresses_in_a_table_are_looked_at(tmp_path):
    outcome = outcome_of(tmp_path, """
from device_arrays import table
runtime.cudaSetDevice(1)
there = Array(np.ones((2, 2), np.float32))
runtime.cudaSetDevice(0)
here = Array(np.ones((2, 2), np.float32))
one = np.float32(1)
blas.cublasSgemmBatched(handle, 0, 0, 2, 2, 2, one, table([here, there]), 2, table([here, here]), 2, one, table([here, here]), 2, 2)
print(runtime.status("cudaDeviceSynchronize"))
""")
    assert outcome.out == "700\n", outcome.out + outcome.err
    assert "cublasSgemmBatched on device 0: illegal address: reads 16 bytes up to" in outcome.err and "memory of device 1, which device 0 has no access to" in outcome.err


def test_a_result_for_the_host_is_there_when_the_call_returns(tmp_path):
    """Though streams run behind the host."""
    outcome = outcome_of(tmp_path, """
stream, found = ctypes.c_void_p(), np.zeros(1, np.float32)
runtime.cudaStreamCreateWithFlags(ctypes.byref(stream), 1)
blas.cublasSetStream_v2(handle, stream)
blas.cublasSscal_v2(handle, 8, np.float32(3), x, 1)
blas.cublasSdot_v2(handle, 8, x, 1, y, 1, found)
print(found[0])
""", "--async", 2)
    assert outcome.out == "24.0\n", outcome.out + outcome.err
