"""CuPy on simulated devices: its wheel has a CUDA runtime inside, in five of its modules. Everything runs, with a finding where memory of
another device is given to a kernel and none elsewhere."""

import importlib.util

import pytest
from conftest import line_of, only, operand

pytestmark = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed (cupy-cuda13x)")

# Each prints something of its own; {there}: on device 1, for what should be on device 0.
USES = {
    "elementwise": "print((here * 2 + there).shape)",
    "RawKernel": """
        kernel = cupy.RawKernel('extern "C" __global__ void mine(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }', "mine")
        kernel((1,), (64,), (there, here)); print("launched")""",
    "cub": "print(cupy.sum(there).shape)",
    "thrust": "there.sort(); print(there.shape)",
    "matmul": "print((here.reshape(8, 8) @ here.reshape(8, 8)).shape)",
    "fft": "print(cupy.fft.fft(here).shape)",
    "random": "print(cupy.random.rand(8).shape, cupy.random.default_rng(1).standard_normal(8).shape)",
    "graph": """
        stream = cupy.cuda.Stream(non_blocking=True)
        result = cupy.empty_like(here)
        with stream:
            stream.begin_capture()
            cupy.multiply(there, here, out=result)
            graph = stream.end_capture()
            graph.launch()
        stream.synchronize(); print("replayed")""",
}
PROGRAM = """
import cupy
with cupy.cuda.Device({device}):
    there = cupy.ones(64, dtype=cupy.float32)
here = cupy.ones(64, dtype=cupy.float32)
print(cupy.cuda.runtime.getDeviceCount(), here.device.id, there.device.id)
"""


def program(use, device):
    lines = USES[use].strip().splitlines()
    return PROGRAM.format(device=device) + "\n".join(line.removeprefix("        ") for line in lines) + "\n"


@pytest.mark.parametrize("use", USES)
def test_it_runs_and_nothing_is_found(rehearse, use):
    outcome = rehearse(program(use, 0))
    assert outcome.code == 0 and outcome.out.splitlines()[0] == "2 0 0" and len(outcome.out.splitlines()) == 2, outcome.out + outcome.err
    assert outcome.findings == [] and "not simulated" not in outcome.err, outcome.err


@pytest.mark.parametrize("use", ["elementwise", "RawKernel", "cub", "thrust", "graph"])
def test_memory_of_another_device_is_found(rehearse, use):
    outcome = rehearse(program(use, 1))
    kinds = {finding["kind"] for finding in outcome.findings}
    assert kinds and kinds <= {"remote-access", "wrong-current-device"}, outcome.err
    first = outcome.findings[0]
    assert operand(first, "cuda:1")["created"]["python"][-1]["line"] == line_of(outcome, "there = ")


def test_random_numbers_are_true(rehearse):
    """CuPy hands what cuRAND drew to kernels of its own, which are not computed: so here cuRAND is asked directly."""
    outcome = rehearse("""
        import cupy
        from cupy.cuda import curand
        def draw(seed, kind, generate, dtype, *more):
            generator = curand.createGenerator(kind)
            curand.setPseudoRandomGeneratorSeed(generator, seed)
            numbers = cupy.empty(20000, dtype=dtype)
            generate(generator, numbers.data.ptr, numbers.size, *more)
            curand.destroyGenerator(generator)
            return numbers.get()
        for kind in (curand.CURAND_RNG_PSEUDO_XORWOW, curand.CURAND_RNG_PSEUDO_PHILOX4_32_10, curand.CURAND_RNG_PSEUDO_MT19937):
            uniform = draw(1, kind, curand.generateUniform, "f")
            assert 0 < uniform.min() < 0.01 and 0.99 < uniform.max() <= 1 and abs(uniform.mean() - 0.5) < 0.01, uniform
            assert (uniform == draw(1, kind, curand.generateUniform, "f")).all() and (uniform != draw(2, kind, curand.generateUniform, "f")).any()
            normal = draw(1, kind, curand.generateNormalDouble, "d", 5.0, 3.0)
            assert abs(normal.mean() - 5) < 0.1 and abs(normal.std() - 3) < 0.1, normal
            poisson = draw(1, kind, curand.generatePoisson, "u4", 4.0)
            assert abs(poisson.mean() - 4) < 0.1 and abs(poisson.var() - 4) < 0.2, poisson
        print("true")
        """)
    assert outcome.out == "true\n" and outcome.findings == [], outcome.err
    assert "not computed" not in outcome.err


def test_random_numbers_come_anew_at_each_replay_of_a_graph(rehearse):
    """CuPy refuses to capture cuRAND, so the library itself is called."""
    outcome = rehearse("""
        import ctypes, cupy
        curand = ctypes.CDLL("libcurand.so.10")
        stream = cupy.cuda.Stream(non_blocking=True)
        generator = ctypes.c_void_p()
        numbers = cupy.zeros(4, dtype="f")
        assert curand.curandCreateGenerator(ctypes.byref(generator), 161) == 0
        assert curand.curandSetStream(generator, ctypes.c_void_p(stream.ptr)) == 0
        with stream:
            stream.begin_capture()
            assert curand.curandGenerateUniform(generator, ctypes.c_void_p(numbers.data.ptr), ctypes.c_size_t(numbers.size)) == 0
            graph = stream.end_capture()
        print(numbers.get().tolist())
        seen = []
        for _ in range(2):
            graph.launch(stream)
            stream.synchronize()
            seen.append(tuple(numbers.get().tolist()))
        print(len(set(seen)), all(0 < number <= 1 for numbers in seen for number in numbers))
        """)
    assert outcome.out == "[0.0, 0.0, 0.0, 0.0]\n2 True\n", outcome.out + outcome.err


def test_random_numbers_for_another_devices_memory_fault(rehearse):
    outcome = rehearse("""
        import cupy
        from cupy.cuda import curand
        with cupy.cuda.Device(1):
            there = cupy.zeros(4, dtype="f")
        generator = curand.createGenerator(curand.CURAND_RNG_PSEUDO_XORWOW)
        curand.generateUniform(generator, there.data.ptr, there.size)
        try:
            cupy.cuda.Device(0).synchronize()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            print(error)
        """)
    assert outcome.out == "cudaErrorIllegalAddress: an illegal memory access was encountered\n", outcome.err


def test_arrays_have_their_variables_names(rehearse):
    outcome = rehearse(program("RawKernel", 1))
    finding = only(outcome, "remote-access")
    there, here = operand(finding, "cuda:1"), operand(finding, "cuda:0")
    assert (there["name"], there["dtype"], there["shape"], there["bytes"]) == ("there", "float32", [64], 256), finding
    assert (here["name"], here["dtype"], here["shape"], here["array_of"]) == ("here", "float32", [64], "cupy")
    # An edit in PyTorch's words would be none of CuPy's.
    assert finding["cause"]["category"] == "unguarded-kernel" and "fix" not in finding["cause"]


POOLED = """
import cupy
kernel = cupy.RawKernel('extern "C" __global__ void mine(float* x) { x[0] = 1; }', "mine")
if {pooled}:
    pass
else:
    cupy.cuda.set_allocator(None)
with cupy.cuda.Device(1):
    first = cupy.zeros(64, dtype=cupy.float32)
    address = first.data.ptr
    del first
    there = cupy.ones(64, dtype=cupy.float32)
print(there.data.ptr == address)
kernel((1,), (1,), (there,))
kernel((1,), (1,), (there.data,))
"""


def test_an_array_in_memory_that_a_pool_gives_out_again_has_its_own_statement(rehearse):
    outcome = rehearse(POOLED.replace("{pooled}", "True"), "dedupe=0", env={"DEVTRACE_SIM_NO_FAULTS": "1"})
    assert outcome.out == "True\n" and len(outcome.findings) == 2, outcome.err
    for finding in outcome.findings:
        there = operand(finding, "cuda:1")
        assert "pool" not in there and there["created"]["python"][-1]["line"] == line_of(outcome, "there = ")
    assert "there created on cuda:1" in outcome.err and "pool took" not in outcome.err


SEVERAL = """
import threading, cupy
kernel = cupy.RawKernel('extern "C" __global__ void mine(float* x) { x[0] = 1; }', "mine")
with cupy.cuda.Device(1):
    whole = cupy.zeros(1024, dtype=cupy.float32)
    del whole
    small = cupy.zeros(64, dtype=cupy.float32)
    behind = cupy.zeros(64, dtype=cupy.float32)
view = behind[8:16]
def work():
    with cupy.cuda.Device(1):
        made["theirs"] = cupy.zeros(64, dtype=cupy.float32)
made = {}
thread = threading.Thread(target=work)
thread.start()
thread.join()
theirs = made["theirs"]
for argument in (small, view, theirs):
    kernel((1,), (1,), (argument,))
with cupy.cuda.Device(1):
    for argument in (small, view, theirs):
        kernel((1,), (1,), (argument,))
"""


def test_parts_of_one_allocation_of_a_pool_have_a_statement_each(rehearse):
    """Of an array, of a view of another one and of one of another thread; where they are used on their own device nothing is found."""
    outcome = rehearse(SEVERAL, "dedupe=0", env={"DEVTRACE_SIM_NO_FAULTS": "1"})
    created = [operand(one, "cuda:1")["created"]["python"] for one in outcome.findings]
    assert len(created) == 3, outcome.err
    for stack, line in zip(created, ("small = ", "behind = ", 'made["theirs"] = '), strict=True):
        assert line_of(outcome, line) in [frame["line"] for frame in stack if frame["file"].endswith("program.py")], (line, stack)


def test_memory_of_no_pool_has_its_own_statement(rehearse):
    outcome = rehearse(POOLED.replace("{pooled}", "False"), "dedupe=0", env={"DEVTRACE_SIM_NO_FAULTS": "1"})
    for finding in outcome.findings:
        there = operand(finding, "cuda:1")
        assert "pool" not in there and there["created"]["python"][-1]["line"] == line_of(outcome, "there = ")
    assert len(outcome.findings) == 2 and "there created on cuda:1" in outcome.err


SHAPES = """
import cupy
kernel = cupy.RawKernel('extern "C" __global__ void mine(const double* x) { }'.replace("{ }", "{ *(double*)x = 1; }"), "mine")
class Holder:
    pass
holder, lists = Holder(), {"one": []}
with cupy.cuda.Device(1):
    holder.matrix = cupy.zeros((3, 5), dtype=cupy.float64)
    lists["one"].append(cupy.zeros((2, 3, 4), dtype=cupy.complex64))
    whole = cupy.zeros(100, dtype=cupy.int16)
    number = cupy.zeros((), dtype=cupy.float16)
    pointer = cupy.cuda.alloc(4096)
    several = cupy.zeros((4, 6), dtype=cupy.uint8)
    part = several[1:3, ::2]
    del several
for argument in (holder.matrix, lists["one"][0], whole, number, pointer, part):
    kernel((1,), (1,), (argument,))
"""


def test_arrays_of_every_form_are_named(rehearse):
    outcome = rehearse(SHAPES, "dedupe=0", env={"DEVTRACE_SIM_NO_FAULTS": "1"})
    said = [
        (one["operands"][0].get("names", [{}])[0].get("name"), one["operands"][0].get("dtype"), one["operands"][0].get("shape")) for one in outcome.findings
    ]
    assert said == [
        ("holder.matrix", "float64", [3, 5]),
        ('lists["one"][0]', "complex64", [2, 3, 4]),
        ("whole", "int16", [100]),
        ("number", "float16", []),
        ("pointer", None, None),
        ("part", "uint8", [2, 3]),
    ], outcome.err


NEWER = """
import ctypes, os, cupy
from cupy_backends.cuda.api import runtime
# Of the runtime inside CuPy's module, which was built with a newer CUDA than the stand-in's headers: by its own symbol table.
import subprocess
path = runtime.__file__
symbols = {line.split()[2]: int(line.split()[0], 16) for line in subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines() if len(line.split()) == 3}
base = next(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if line.rstrip().endswith(os.path.realpath(path)))
def call(name, *arguments):
    return ctypes.CFUNCTYPE(ctypes.c_int, *(type(argument) for argument in arguments))(base + symbols[name])(*arguments)
P, U, I = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int
context, number, device, event = P(), ctypes.c_ulonglong(), I(-1), cupy.cuda.Event()
print(call("cudaDeviceGetExecutionCtx", P(ctypes.addressof(context)), I(1)), call("cudaExecutionCtxGetDevice", P(ctypes.addressof(device)), context), device.value)
stream = P()
print(call("cudaExecutionCtxStreamCreate", P(ctypes.addressof(stream)), context, U(1), I(0)), call("cudaExecutionCtxRecordEvent", context, P(cupy.cuda.Event().ptr)), call("cudaExecutionCtxSynchronize", context))
host, there = (I * 4)(1, 2, 3, 4), cupy.zeros(4, dtype="i4")
print(call("cudaMemcpyWithAttributesAsync", P(there.data.ptr), P(ctypes.addressof(host)), ctypes.c_size_t(16), P(), P()), there.get().tolist())
seen = []
function = ctypes.CFUNCTYPE(None, P)(lambda data: seen.append(data))
print(call("cudaLaunchHostFunc_v2", P(), function, P(7), U(0)), cupy.cuda.runtime.deviceSynchronize(), seen)
print(call("cudaGreenCtxCreate", P(), P(), I(0), U(0)))
"""


def test_functions_that_are_newer_than_the_stand_ins_headers(rehearse):
    outcome = rehearse(NEWER)
    # A context's event is another device's: 400, as CUDA has it.
    assert outcome.out == "0 0 1\n0 400 0\n0 [1, 2, 3, 4]\n0 None [7]\n801\n", outcome.out + outcome.err
    assert "devtrace: not simulated: cudaGreenCtxCreate\n" in outcome.err
