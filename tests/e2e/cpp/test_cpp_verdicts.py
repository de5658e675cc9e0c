"""What a C++ program's report says of the cause, and the line that repairs it: the fix is put into the program, which then has no finding."""

import shutil
from pathlib import Path

import pytest
from conftest import DEVTRACE, LIBRARY, environment, execute, only
from cpp_programs import build, build_nvcc, line_of, own, repaired, run

LAUNCH = """
#include <cuda_runtime.h>

__global__ void saxpy(float factor, const float* x, float* y, int n) {{
  int i = threadIdx.x;
  if (i < n) y[i] += factor * x[i];
}}

static float* field(int n) {{
  float* memory = nullptr;
  cudaMalloc(&memory, n * sizeof(float));
  return memory;
}}

static void step(const float* left, float* right, int n) {{
  saxpy<<<4, 256>>>(2.f, left, right, n);  // LAUNCH
}}

int main() {{
  const int second = 1;
  {program}
}}
"""
UNSET_AT_AN_ALLOCATION = """
  float* x = field(1024);  // X
  cudaSetDevice(second);
  float* y = field(1024);
  step(x, y, 1024);
"""
UNSET_AT_THE_LAUNCH = """
  cudaSetDevice(second);
  float* x = field(1024);
  float* y = field(1024);
  cudaSetDevice(0);
  step(x, y, 1024);
"""
NEVER_SET_AT_THE_LAUNCH = """
  cudaSetDevice(0);
  cudaSetDevice(second);
  float* x = field(1024);
  cudaSetDevice(0);
  saxpy<<<4, 256>>>(1.f, x, x, 1024);  // HERE
"""


def test_an_allocation_before_any_device_was_chosen(tmp_path):
    source = LAUNCH.format(program=UNSET_AT_AN_ALLOCATION)
    finding = only(run(build_nvcc(source, "-g"), folder=tmp_path), "remote-access")
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("missing-set-device", "high", "cause")
    assert cause["line"] == line_of(source, "// X"), "the line that the other operand's allocation does not share"
    assert cause["fix"] == "cudaSetDevice(second);\nfloat* x = field(1024);  // X"
    assert Path(cause["file"]).name == "program.cu"
    first, other = finding["operands"]
    assert (first["name"], first["type"], first["parameter_name"], first["parameter"]) == ("left", "float const*", "x", 1)
    assert (other["name"], other["type"], other["parameter_name"], other["parameter"]) == ("right", "float*", "y", 2)
    assert [own(one["created"])[0]["function"].split("(")[0] for one in (first, other)] == ["field", "field"]
    assert own(finding)[0]["line"] == line_of(source, "// LAUNCH")
    outcome = run(build_nvcc(repaired(source, finding), "-g"), folder=tmp_path)
    assert outcome.findings == []


def test_without_debug_information(tmp_path):
    source = LAUNCH.format(program=UNSET_AT_AN_ALLOCATION)
    outcome = run(build_nvcc(source), folder=tmp_path)
    finding = only(outcome, "remote-access")
    assert [one["type"] for one in finding["operands"]] == ["float const*", "float*"], "the signature is in the kernel's name"
    assert [frame["function"].split("(")[0] for frame in own(finding)] == ["step", "main"]
    assert [own(one["created"])[0]["function"] for one in finding["operands"]] == ["field(int)", "field(int)"]
    assert finding["cause"]["category"] == "missing-set-device" and "fix" not in finding["cause"]
    for part in ("parameter 1 (float const*)", "at step (program+0x", "created on cuda:0 by cudaMalloc in field (program+0x"):
        assert part in outcome.err
    assert "a tensor" not in outcome.err


@pytest.mark.parametrize("program", [UNSET_AT_THE_LAUNCH, NEVER_SET_AT_THE_LAUNCH])
def test_a_launch_where_another_device_is_current(tmp_path, program):
    source = LAUNCH.format(program=program)
    finding = only(run(build_nvcc(source, "-g"), folder=tmp_path), "wrong-current-device")
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("missing-set-device", "high", "cause")
    here = "// HERE" if program is NEVER_SET_AT_THE_LAUNCH else "// LAUNCH"
    assert cause["line"] == line_of(source, here)
    # `second` is main's own variable: elsewhere only the number is known, and another call may work on another device.
    assert cause["fix"].startswith("cudaSetDevice(second);\n" if here == "// HERE" else "cudaPointerAttributes owner;\ncudaPointerGetAttributes(&owner, left);\ncudaSetDevice(owner.device);\n")
    assert run(build_nvcc(repaired(source, finding), "-g"), folder=tmp_path).findings == []


def test_memory_that_was_put_on_another_device_on_purpose(tmp_path):
    chosen = UNSET_AT_AN_ALLOCATION.replace("  float* x", "  cudaSetDevice(0);\n  saxpy<<<1, 1>>>(0.f, nullptr, nullptr, 0);\n  float* x", 1)
    source = LAUNCH.format(program=chosen)
    finding = only(run(build_nvcc(source, "-g"), folder=tmp_path), "remote-access")
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("memory-of-another-device", "medium", "line")
    assert cause["fix"] == "cudaDeviceEnablePeerAccess(0, 0);\nsaxpy<<<4, 256>>>(2.f, left, right, n);  // LAUNCH"
    outcome = run(build_nvcc(repaired(source, finding), "-g"), folder=tmp_path)
    assert [one["severity"] for one in outcome.findings] == ["note"]


def test_a_device_that_was_chosen_and_never_computes(tmp_path):
    source = LAUNCH.format(program=UNSET_AT_AN_ALLOCATION.replace("  float* x", "  cudaSetDevice(0);\n  float* x", 1))
    finding = only(run(build_nvcc(source, "-g"), folder=tmp_path), "remote-access")
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"], cause["fix"]) == ("memory-of-another-device", "medium", "cause", "cudaSetDevice(second);")
    assert run(build_nvcc(repaired(source, finding), "-g"), folder=tmp_path).findings == []


@pytest.mark.parametrize("runtime", ["shared", "static"])
def test_a_process_that_is_not_preloaded(tmp_path, runtime):
    """CUDA opens the library; what nvcc makes of <<<…>>> is a callback of CUPTI's."""
    source = LAUNCH.format(program=UNSET_AT_THE_LAUNCH)
    program = build_nvcc(source, "-g")
    if runtime == "static":
        from nvcc_programs import NVCC, nvcc

        if not NVCC.exists():
            pytest.skip("nvcc is not among the installed wheels (nvidia-cuda-nvcc)")
        program = nvcc(tmp_path / "static", program.with_suffix(".cu"), flags=["-g"])
    assert (b"__cudaLaunchKernel" in program.read_bytes()) or runtime == "static"
    outcome = execute([DEVTRACE, "rehearse", "--gpus", 2, "--no-trace", "--", program], tmp_path, environment(None, {"CUDA_INJECTION64_PATH": str(LIBRARY)}), 100)
    finding = only(outcome, "wrong-current-device")
    assert own(finding)[0]["line"] == line_of(source, "// LAUNCH") and finding["cause"]["category"] == "missing-set-device"


COPY = """
#include <cuda_runtime_api.h>
static char host[4096];
int main() {{
  void *a, *b;
  cudaSetDevice(0);
  cudaMalloc(&a, 4096);
  cudaSetDevice(1);
  cudaMalloc(&b, 4096);
  {call}
}}
"""


@pytest.mark.parametrize(
    "call, fixed",
    [
        ("cudaMemcpy(b, host, 4096, cudaMemcpyDeviceToHost);", "cudaMemcpy(b, host, 4096, cudaMemcpyDefault);"),
        ("cudaMemcpyAsync(b, a, 4096, cudaMemcpyHostToDevice, nullptr);", "cudaMemcpyAsync(b, a, 4096, cudaMemcpyDeviceToDevice, nullptr);"),
        ("cudaMemcpyPeer(b, 1, a, 1, 4096);", "cudaMemcpyPeer(b, 1, a, 0, 4096);"),
        ("cudaMemcpyPeer(b, 0, a, 1, 4096);", "cudaMemcpyPeer(b, 1, a, 0, 4096);"),
        ("cudaMemcpy(b, a,\n             4096, cudaMemcpyDeviceToHost);", "cudaMemcpy(b, a,\n             4096, cudaMemcpyDeviceToDevice);"),
    ],
)
def test_a_copy_that_says_what_is_not_so(tmp_path, call, fixed):
    source = COPY.format(call=call)
    finding = only(run(build(tmp_path, source, "-g"), folder=tmp_path), "copy-mismatch")
    names = {one["role"]: one["name"] for one in finding["operands"]}
    assert names == {"source": "host" if "host" in call else "a", "destination": "b"}
    assert finding["cause"]["fix"].split() == fixed.split()
    outcome = run(build(tmp_path, source.replace(call, fixed), "-g"), folder=tmp_path)
    assert outcome.findings == []


STREAM = """
#include <cstdio>
#include <cuda_runtime.h>

__global__ void saxpy(float factor, const float* x, float* y, int n) {{
  int i = threadIdx.x;
  if (i < n) y[i] += factor * x[i];
}}

__global__ void nothing() {{}}

static void step(const float* left, float* right, int n, cudaStream_t stream) {{
  saxpy<<<4, 256, 0, stream>>>(2.f, left, right, n);  // LAUNCH
}}

int main() {{
  float* x = nullptr;
  float* y = nullptr;
  [[maybe_unused]] char host[64] = {{}};
  cudaStream_t first, second;
  cudaSetDevice(1);
  cudaStreamCreate(&second);  // SECOND
  cudaSetDevice(0);  // CHOICE
  cudaStreamCreate(&first);
  cudaMalloc(&x, 4096);
  cudaMalloc(&y, 4096);
  {program}
  std::printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
}}
"""


@pytest.mark.parametrize("backend", ["interpose", "cupti"])
def test_a_launch_on_a_stream_of_another_device(tmp_path, backend):
    source = STREAM.format(program="step(x, y, 1024, second);")
    outcome = run(build_nvcc(source, "-g"), folder=tmp_path, options=f"backend={backend}")
    assert outcome.out == "cudaErrorInvalidResourceHandle\n", "the program sees CUDA's error as ever"
    finding = only(outcome, "wrong-current-device")
    assert (finding["argument"], finding["current_device"], finding["devices"]) == ("stream", "cuda:0", ["cuda:0", "cuda:1"])
    assert (finding["operation"], finding["launch"]["stream_device"]) == ("saxpy", "cuda:1")
    assert [(one["name"], one["role"], one["device"], one.get("odd", False)) for one in finding["operands"]] == [
        ("stream", "stream", "cuda:1", True), ("left", "parameter", "cuda:0", False), ("right", "parameter", "cuda:0", False)]
    assert own(finding["device_choice"])[0]["line"] == line_of(source, "// CHOICE")
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["line"]) == ("stream-of-another-device", "high", line_of(source, "// LAUNCH"))
    assert cause["fix"] == "saxpy<<<4, 256, 0, 0>>>(2.f, left, right, n);  // LAUNCH"
    told = " ".join(outcome.err.split())
    assert "wrong-current-device: saxpy was launched on a stream of cuda:1 while cuda:0 was current, which CUDA refuses" in told
    made = line_of(source, "// SECOND")
    assert f"stream is a stream of cuda:1, made at program.cu:{made}, and cuda:0 is current, since program.cu:" in told and "a tensor" not in told
    stream = finding["operands"][0]["created"]
    assert (stream["call"], stream["device"], own(stream)[0]["line"]) == ("cudaStreamCreate", "cuda:1", made)
    assert "stream created on cuda:1 by cudaStreamCreate in main" in told
    outcome = run(build_nvcc(repaired(source, finding), "-g"), folder=tmp_path)
    assert (outcome.findings, outcome.out) == ([], "cudaSuccess\n")


@pytest.mark.parametrize(
    "program",
    ["nothing<<<1, 1, 0, second>>>();  // HERE", "cudaLaunchKernel((const void*)nothing, dim3(1), dim3(1), nullptr, 0, second);  // HERE"],
)
def test_a_stream_of_another_device_and_no_memory(tmp_path, program):
    source = STREAM.format(program=program)
    finding = only(run(build_nvcc(source, "-g"), folder=tmp_path), "wrong-current-device")
    assert [(one["name"], one["device"]) for one in finding["operands"]] == [("second", "cuda:1")]
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("missing-set-device", "high", "cause")
    assert cause["fix"] == f"int owner;\ncudaStreamGetDevice(second, &owner);\ncudaSetDevice(owner);\n{program}"
    assert cause["line"] == line_of(source, "// HERE")
    outcome = run(build_nvcc(repaired(source, finding), "-g"), folder=tmp_path)
    assert (outcome.findings, outcome.out) == ([], "cudaSuccess\n")


def test_memory_and_stream_of_the_same_other_device(tmp_path):
    """One launch is one finding, whatever else is wrong with it."""
    source = STREAM.format(program="cudaSetDevice(1);\n  cudaMalloc(&x, 4096);\n  cudaSetDevice(0);\n  saxpy<<<4, 256, 0, second>>>(2.f, x, x, 1024);  // HERE")
    finding = only(run(build_nvcc(source, "-g"), folder=tmp_path), "wrong-current-device")
    assert finding["argument"] == "parameter 1" and finding["cause"]["line"] == line_of(source, "// HERE")
    outcome = run(build_nvcc(repaired(source, finding), "-g"), folder=tmp_path)
    assert (outcome.findings, outcome.out) == ([], "cudaSuccess\n")


def test_a_foreign_stream_beside_memory_that_may_be_reached(tmp_path):
    """That the program may read its peer's memory does not make the stream the right one."""
    reached = "cudaDeviceEnablePeerAccess(1, 0);\n  cudaSetDevice(1);\n  cudaMalloc(&x, 4096);\n  cudaSetDevice(0);\n  step(x, y, 1024, second);"
    outcome = run(build_nvcc(STREAM.format(program=reached), "-g"), folder=tmp_path)
    assert [(one["severity"], one["argument"]) for one in outcome.findings] == [("note", "parameter 1"), ("error", "stream")]
    assert outcome.findings[1]["cause"]["category"] == "missing-set-device"


@pytest.mark.parametrize("backend", ["interpose", "cupti"])
def test_an_event_of_another_device(tmp_path, backend):
    source = STREAM.format(program="cudaEvent_t done;\n  cudaEventCreate(&done);  // EVENT\n  cudaEventRecord(done, second);  // RECORD")
    outcome = run(build_nvcc(source, "-g"), folder=tmp_path, options=f"backend={backend}")
    assert outcome.out == "cudaErrorInvalidResourceHandle\n", "the program sees CUDA's error as ever"
    finding = only(outcome, "handle-mismatch")
    assert (finding["operation"], finding["argument"], finding["devices"]) == ("cudaEventRecord", "event", ["cuda:0", "cuda:1"])
    assert finding["message"] == "cudaEventRecord was given an event of cuda:0 and a stream of cuda:1, which CUDA refuses"
    event, stream = finding["operands"]
    assert [(one["name"], one["role"], one["device"], one["created"]["call"]) for one in (event, stream)] == [
        ("done", "event", "cuda:0", "cudaEventCreate"), ("second", "stream", "cuda:1", "cudaStreamCreate")]
    assert [own(one)[0]["line"] for one in (event["created"], stream["created"], finding)] == [
        line_of(source, mark) for mark in ("// EVENT", "// SECOND", "// RECORD")]
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("event-device", "high", "cause")
    assert cause["fix"] == "cudaSetDevice(1);\ncudaEventCreate(&done);  // EVENT"
    after = run(build_nvcc(repaired(source, finding), "-g"), folder=tmp_path)
    assert (after.findings, after.out) == ([], "cudaSuccess\n")


def test_an_event_that_a_class_makes(tmp_path):
    """Its line makes the events of every device, so none is offered, least of all in front of a function's head; the place is told."""
    timer = "struct Timer {{\n  cudaEvent_t begin;\n  Timer() {{ cudaEventCreate(&begin); }}  // EVENT\n}};\n\nint main() {{"
    source = STREAM.replace("int main() {{", timer).format(program="Timer timer;\n  cudaEventRecord(timer.begin);\n  cudaEventRecord(timer.begin, second);")
    finding = only(run(build_nvcc(source, "-g"), folder=tmp_path), "handle-mismatch")
    assert own(finding["operands"][0]["created"])[0]["line"] == line_of(source, "// EVENT")
    assert finding["operands"][0]["name"] == "timer.begin" and "fix" not in finding["cause"]


LEGAL = """
  cudaEvent_t mine, theirs;
  cudaEventCreate(&mine);
  step(x, y, 1024, first);
  step(x, y, 1024, nullptr);
  step(x, y, 1024, cudaStreamLegacy);
  step(x, y, 1024, cudaStreamPerThread);
  cudaEventRecord(mine, first);
  cudaStreamWaitEvent(second, mine, 0);
  cudaMemcpyAsync(x, y, 4096, cudaMemcpyDeviceToDevice, second);
  cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, second);
  cudaStreamQuery(second);
  cudaStreamSynchronize(second);
  cudaSetDevice(1);
  cudaEventCreate(&theirs);
  nothing<<<1, 1, 0, second>>>();
  nothing<<<1, 1>>>();
  cudaEventRecord(theirs, second);
  cudaSetDevice(0);
  cudaStreamWaitEvent(first, theirs, 0);
  cudaEventSynchronize(theirs);
"""


def test_what_cuda_allows_on_streams_of_another_device(tmp_path):
    """Copies, waits and events (CUDA's programming guide, "Stream and Event Behavior"); and every stream of the device itself."""
    outcome = run(build_nvcc(STREAM.format(program=LEGAL), "-g"), folder=tmp_path)
    assert (outcome.findings, outcome.out) == ([], "cudaSuccess\n"), outcome.err


def test_another_error_400_is_none_of_ours(tmp_path):
    """A stream of the current device that the program has destroyed: CUDA refuses it as it refuses a foreign one."""
    outcome = run(build_nvcc(STREAM.format(program="cudaStreamDestroy(first);\n  step(x, y, 1024, first);"), "-g"), folder=tmp_path)
    assert (outcome.findings, outcome.out) == ([], "cudaErrorInvalidResourceHandle\n"), outcome.err


FIELDS = """
#include <cuda_runtime.h>
#include <thread>

template <class T>
struct Field {
  explicit Field(size_t n) : size(n) { cudaMalloc(&data, n * sizeof(T)); }  // ALLOCATED
  T* data = nullptr;
  size_t size;
};

template <class T, int block>
__global__ void add_kernel(T* __restrict__ out, const T* __restrict__ a, const T* __restrict__ b, size_t n) {
  const size_t i = blockIdx.x * size_t(block) + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

template <class T>
Field<T> operator+(const Field<T>& a, const Field<T>& b) {
  Field<T> sum(a.size);
  add_kernel<T, 256><<<4, 256>>>(sum.data, a.data, b.data, a.size);  // ADD
  return sum;
}

namespace {
template <class F>
__global__ void each(double* values, size_t n, F f) {
  if (threadIdx.x < n) values[threadIdx.x] = f(values[threadIdx.x]);
}
template <class F>
void for_each(const Field<double>& field, F f) {
  each<<<1, 128>>>(field.data, field.size, f);  // EACH
  cudaGetLastError();
}
}  // namespace

static Field<float> on(int device) {
  cudaSetDevice(device);
  return Field<float>(1024);  // ON
}

int main() {
  auto left = on(0);   // LEFT
  auto right = on(1);  // RIGHT
  cudaSetDevice(0);
  auto sum = left + right;  // PLUS
  cudaDeviceReset();
  cudaSetDevice(1);
  Field<double> field(128);
  const double by = sum.size;
  std::thread([&] { for_each(field, [by] __device__(double x) { return x * by; }); }).join();  // THREAD
}
"""


@pytest.mark.parametrize("flags", [("-g", "-O2"), pytest.param(("-g", "-O0"), marks=pytest.mark.slow), pytest.param(("-g", "-O2", "-ccbin", "clang++"), marks=pytest.mark.slow)], ids=" ".join)
def test_templates_lambdas_and_threads(tmp_path, flags):
    """What nvcc writes around a launch is inlined by -O2, and a lambda's type has another name on the host: the line is the launch's in each."""
    if "clang++" in flags and not shutil.which("clang++"):
        pytest.skip("no clang++")
    outcome = run(build_nvcc(FIELDS, "-std=c++17", "--extended-lambda", *flags), folder=tmp_path)
    added, applied = outcome.findings
    assert (added["kind"], applied["kind"]) == ("remote-access", "wrong-current-device")
    assert [frame["line"] for frame in own(added)][:2] == [line_of(FIELDS, "// ADD"), line_of(FIELDS, "// PLUS")]
    assert [(one["name"], one["parameter_name"], one["device"]) for one in added["operands"]] == [
        ("sum.data", "out", "cuda:0"), ("a.data", "a", "cuda:0"), ("b.data", "b", "cuda:1")]
    assert own(applied)[0]["line"] == line_of(FIELDS, "// EACH") and line_of(FIELDS, "// THREAD") in [frame["line"] for frame in own(applied)]
    assert (applied["operands"][0]["name"], applied["operands"][0]["parameter_name"]) == ("field.data", "values")
    cause = applied["cause"]
    assert (cause["category"], cause["line"]) == ("missing-set-device", line_of(FIELDS, "// EACH"))
    assert cause["fix"].startswith("cudaPointerAttributes owner;\ncudaPointerGetAttributes(&owner, field.data);")
    # Both were allocated by one line that is called by one line: told apart by who called that.
    for part in (f"program.cu:{line_of(FIELDS, '// LEFT')})", f"program.cu:{line_of(FIELDS, '// RIGHT')})"):
        assert "called by main" in outcome.err and part in outcome.err, outcome.err
    assert "__nv_dl" not in outcome.err.replace(next(line for line in outcome.err.splitlines() if "suppress: kind=wrong" in line), "")


TAIL_CALLS = """
#include <cuda_runtime.h>

__global__ void step_kernel(float* x, const float* y, int n) {
  if (threadIdx.x < n) x[threadIdx.x] += y[threadIdx.x];
}
__attribute__((noinline)) static void step(float* x, const float* y, int n) {
  step_kernel<<<1, 32>>>(x, y, n);  // LAUNCH
}
__attribute__((noinline)) static void upload(float* x, const float* host) {
  cudaMemcpy(x, host, 128, cudaMemcpyDeviceToHost);  // COPY
}
static int fields = 0;
__attribute__((noinline)) static cudaError_t reserve(float** x) {
  *x = nullptr;
  return cudaMalloc(x, 128);  // RESERVE
}
__attribute__((noinline)) static cudaError_t field(float** x) {
  ++fields;
  return reserve(x);  // FIELD
}

int main() {
  float *x, *y, host[32];
  field(&x);
  cudaSetDevice(1);
  field(&y);  // Y
  cudaSetDevice(0);
  upload(x, host);
  step(x, y, 32);
  cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_functions_that_end_in_a_call(tmp_path, compiler):
    """At -O2 they jump there, and their frames are gone: the stack has them nevertheless, with the lines of the calls."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    outcome = run(build_nvcc(TAIL_CALLS, "-g", "-O2", "-ccbin", compiler), folder=tmp_path)
    copied, launched = outcome.findings
    assert (copied["kind"], own(copied)[0]["line"]) == ("copy-mismatch", line_of(TAIL_CALLS, "// COPY"))
    assert (launched["kind"], own(launched)[0]["line"]) == ("remote-access", line_of(TAIL_CALLS, "// LAUNCH"))
    assert [one["name"] for one in launched["operands"]] == ["x", "y"]
    created = [frame["line"] for frame in own(launched["operands"][1]["created"])]
    assert created == [line_of(TAIL_CALLS, mark) for mark in ("// RESERVE", "// FIELD", "// Y")]
    assert copied["cause"]["fix"].startswith("cudaMemcpy(x, host, 128, cudaMemcpyDefault);")


WRAPPED = """
#include <cuda_runtime.h>

__global__ void saxpy(float factor, const float* x, float* y, int n) {{
  if (threadIdx.x < n) y[threadIdx.x] += factor * x[threadIdx.x];
}}

struct Buffer {{
  float* data = nullptr;
  explicit Buffer(int device) {{
    cudaSetDevice(device);  // CHOOSES
    cudaMalloc(&data, 4096);
  }}
}};
struct Fields {{
  Buffer x, y;
  Fields() : x(0), y(1) {{}}
}};

static float* pooled(int device) {{
  cudaMemPool_t pool;
  cudaDeviceGetDefaultMemPool(&pool, device);
  void* memory = nullptr;
  cudaMallocFromPoolAsync(&memory, 4096, pool, nullptr);  // POOL
  return static_cast<float*>(memory);
}}

int main() {{
  {program}
}}
"""


def test_memory_that_one_line_of_a_class_allocates(tmp_path):
    """No line is one block's alone, and still it is known which device was current for it."""
    source = WRAPPED.format(program="Fields fields;\n  saxpy<<<1, 32>>>(1.f, fields.x.data, fields.y.data, 32);")
    cause = only(run(build_nvcc(source, "-g"), folder=tmp_path), "remote-access")["cause"]
    assert cause["category"] == "memory-of-another-device"
    assert f"while cuda:0 was current, since program.cu:{line_of(source, '// CHOOSES')}" in cause["because"]


def test_memory_of_another_devices_pool(tmp_path):
    """Which device is current means nothing there, nor does cudaDeviceEnablePeerAccess."""
    program = "cudaSetDevice(1);\n  float* y = nullptr;\n  cudaMalloc(&y, 4096);\n  saxpy<<<1, 32>>>(1.f, pooled({device}), y, 32);"
    source = WRAPPED.format(program=program.format(device=0))
    cause = only(run(build_nvcc(source, "-g"), folder=tmp_path), "remote-access")["cause"]
    assert cause["category"] == "memory-of-another-device" and "fix" not in cause
    assert f"(cuda:0, allocated at program.cu:{line_of(source, '// POOL')}) is there because its pool says so" in cause["because"]
    assert "cudaMemPoolSetAccess" in cause["because"]
    assert run(build_nvcc(WRAPPED.format(program=program.format(device=1)), "-g"), folder=tmp_path).findings == []
