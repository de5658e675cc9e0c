"""Handles of CUDA's libraries that belong to another device than what they are called with, in C++ programs and under PyTorch."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TOP, only
from cpp_programs import CUDA, TORCH, build, line_of, own, repaired, run
from golden import compare

sys.path.insert(0, str(TOP / "simulate/tools"))

BLAS = """
#include <cstdio>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

static float* field(int n) {{
  float* memory = nullptr;
  cudaMalloc((void**)&memory, n * sizeof(float));
  return memory;
}}

static int product(cublasHandle_t blas, const float* a, const float* b, float* c, int n) {{
  const float one = 1, zero = 0;
  return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);  // CALL
}}

int main() {{
  int status = -1;
  {program}
  int here = cudaDeviceSynchronize();
  cudaSetDevice(0);
  std::printf("status %d, current %d, first %d\\n", status, here, cudaDeviceSynchronize());
}}
"""
# One handle, made before any device was chosen.
MADE_TOO_EARLY = """
  cublasHandle_t blas;
  cublasCreate(&blas);  // MADE
  cudaSetDevice(1);
  float* a = field(1024);
  float* c = field(1024);  // LAST
  status = product(blas, a, a, c, 32);
"""
# A handle for each device, and the wrong one is taken.
WRONG_OF_TWO = """
  const float one = 1, zero = 0;
  cublasHandle_t first, second;
  cudaSetDevice(0);
  cublasCreate(&first);
  float* x = field(1024);
  cublasSscal(first, 1024, &one, x, 1);
  cudaSetDevice(1);
  cublasCreate(&second);
  float* a = field(1024);
  status = cublasSgemv(first, CUBLAS_OP_N, 32, 32, &one, a, 32, a, 1, &zero, a, 1);  // WRONG
"""
MIXED = """
  cublasHandle_t blas;
  cudaSetDevice(0);
  cublasCreate(&blas);
  float* a = field(1024);
  cudaSetDevice(1);
  float* b = field(1024);  // B
  cudaSetDevice(0);
  status = product(blas, a, b, a, 32);
"""
# The device of a handle need not be current: cuBLAS works by the handle.
RIGHT = """
  cublasHandle_t blas;
  cudaSetDevice(1);
  cublasCreate(&blas);
  float* a = field(1024);
  cudaSetDevice(0);
  status = product(blas, a, a, a, 32);
  cublasDestroy(blas);
"""


def blas(folder: Path, source: str, *flags: str) -> Path:
    return build(folder, source, *flags, libraries=["libcublas.so.13"])


def test_a_handle_that_was_made_on_another_device(tmp_path):
    source = BLAS.format(program=MADE_TOO_EARLY)
    outcome = run(blas(tmp_path, source, "-g"), folder=tmp_path)
    assert "status 0, current 0, first 700" in outcome.out, "it runs on the handle's device, which cannot reach the memory"
    finding = only(outcome, "handle-mismatch")
    compare("handle, made too early", outcome.findings, tmp_path)
    assert (finding["operation"], finding["argument"], finding["devices"]) == ("cublasSgemm", "handle", ["cuda:0", "cuda:1"])
    assert finding["current_device"] == "cuda:1" and finding["library_call"] == {"function": "cublasSgemm", "device": "cuda:0", "stream": "0x0"}
    handle, a, c = finding["operands"]
    assert (handle["name"], handle["role"], handle["device"], handle["odd"]) == ("blas", "handle", "cuda:0", True)
    assert handle["created"]["call"] == "cublasCreate" and own(handle["created"])[0]["line"] == line_of(source, "// MADE")
    assert [(one["name"], one["device"], one["position"], one["bytes"]) for one in (a, c)] == [("a", "cuda:1", 7, 4096), ("c", "cuda:1", 12, 4096)]
    assert own(c["created"])[1]["line"] == line_of(source, "// LAST") and own(finding)[0]["line"] == line_of(source, "// CALL")
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("handle-of-another-device", "high", "cause")
    assert cause["line"] == line_of(source, "// MADE") and cause["fix"] == "cudaSetDevice(1);\ncublasCreate(&blas);  // MADE"
    for part in ("cublasSgemm was given a handle of cuda:0 and memory of cuda:1", "blas created on cuda:0 by cublasCreate in main"):
        assert part in outcome.err
    after = run(blas(tmp_path, repaired(source, finding), "-g"), folder=tmp_path)
    assert after.findings == [] and "status 0, current 0, first 0" in after.out


WRAPPED_HANDLE = """
  struct Context {{
    cublasHandle_t blas;
    Context() {{
      cublasCreate(&blas);
    }}
  }};
  Context context;  // MADE
  cudaSetDevice(1);
  float* a = field(1024);
  status = product(context.blas, a, a, a, 32);
""".format()


def test_a_handle_that_a_class_makes(tmp_path):
    """Its constructor is right for every device: whoever makes the object chooses."""
    source = BLAS.format(program=WRAPPED_HANDLE)
    finding = only(run(blas(tmp_path, source, "-g"), folder=tmp_path), "handle-mismatch")
    cause = finding["cause"]
    assert cause["line"] == line_of(source, "// MADE") and cause["fix"] == "cudaSetDevice(1);\nContext context;  // MADE"
    assert f"made on cuda:0 at program.cpp:{cause['line']}" in cause["because"]
    assert run(blas(tmp_path, repaired(source, finding), "-g"), folder=tmp_path).findings == []


def test_the_wrong_one_of_two_handles(tmp_path):
    source = BLAS.format(program=WRONG_OF_TWO)
    finding = only(run(blas(tmp_path, source, "-g"), folder=tmp_path), "handle-mismatch")
    compare("handle, wrong of two", [finding], tmp_path)
    assert finding["library_call"]["used"] and len(finding["library_call"]["other_handles"]) == 1
    cause = finding["cause"]
    assert (cause["category"], cause["repairs"], cause["line"]) == ("handle-of-another-device", "cause", line_of(source, "// WRONG"))
    assert cause["fix"].startswith("status = cublasSgemv(second, ")
    assert run(blas(tmp_path, repaired(source, finding), "-g"), folder=tmp_path).findings == []


def test_one_operand_elsewhere(tmp_path):
    source = BLAS.format(program=MIXED)
    outcome = run(blas(tmp_path, source, "-g"), folder=tmp_path)
    assert "first 700" in outcome.out
    finding = only(outcome, "handle-mismatch")
    compare("handle, mixed", outcome.findings, tmp_path)
    assert [(one["name"], one["device"], one.get("odd", False)) for one in finding["operands"]] == [
        ("blas", "cuda:0", False), ("a", "cuda:0", False), ("b", "cuda:1", True)]
    assert finding["argument"] == "argument 9" and finding["cause"]["category"] == "memory-of-another-device"
    assert f"program.cpp:{line_of(source, '// B')}" not in finding["cause"]["because"], "the innermost line of the program's own is field's"
    # With access to its peer it reads silently: a note.
    outcome = run(blas(tmp_path, repaired(source, finding), "-g"), folder=tmp_path)
    assert [one["severity"] for one in outcome.findings] == ["note"] and "first 0" in outcome.out


def test_a_handle_whose_device_is_not_current(tmp_path):
    outcome = run(blas(tmp_path, BLAS.format(program=RIGHT), "-g"), folder=tmp_path)
    assert outcome.findings == [] and "status 0, current 0, first 0" in outcome.out


def test_a_handle_that_is_gone_says_nothing_of_the_next(tmp_path):
    """Addresses of handles are given out again."""
    again = """
  for (int device = 0; device < 2; ++device) {
    cublasHandle_t blas;
    cudaSetDevice(device);
    cublasCreate(&blas);
    float* a = field(1024);
    status = product(blas, a, a, a, 32);
    cublasDestroy(blas);
  }
"""
    assert run(blas(tmp_path, BLAS.format(program=again), "-g"), folder=tmp_path).findings == []


def test_a_stream_of_another_device(tmp_path):
    elsewhere = """
  cublasHandle_t blas;
  cudaStream_t stream;
  cudaSetDevice(1);
  cudaStreamCreate(&stream);
  cudaSetDevice(0);
  cublasCreate(&blas);
  cublasSetStream(blas, stream);
  float* a = field(1024);
  status = product(blas, a, a, a, 32);
"""
    outcome = run(blas(tmp_path, BLAS.format(program=elsewhere), "-g"), folder=tmp_path)
    assert "status 13" in outcome.out, "CUBLAS_STATUS_EXECUTION_FAILED"


PLAN = """
#include <cstdio>
#include <cuda_runtime_api.h>
#include <cufft.h>

int main() {{
  cufftHandle plan;
  cufftComplex* signal;
  cudaSetDevice(1);
  cufftPlan1d(&plan, 64, CUFFT_C2C, 1);  // PLAN
  {program}
  int status = cufftExecC2C(plan, signal, signal, CUFFT_FORWARD);
  std::printf("status %d\\n", status);
}}
"""


@pytest.mark.parametrize(
    "program, category, fix",
    [
        ("cudaMalloc((void**)&signal, 64 * sizeof *signal);\n  cudaSetDevice(0);", "missing-set-device", "cudaSetDevice(1);\nint status = "),
        ("cudaSetDevice(0);\n  cudaMalloc((void**)&signal, 64 * sizeof *signal);", "handle-of-another-device", "cudaSetDevice(0);\ncufftPlan1d("),
    ],
)
def test_a_plan_of_another_device(tmp_path, program, category, fix):
    source = PLAN.format(program=program)

    def ran(source):
        return run(build(tmp_path, source, "-g", libraries=["libcufft.so.12"]), folder=tmp_path)

    outcome = ran(source)
    finding = only(outcome, "handle-mismatch")
    assert finding["operation"] == "cufftExecC2C" and finding["operands"][0]["role"] == "plan"
    assert own(finding["operands"][0]["created"])[0]["line"] == line_of(source, "// PLAN")
    assert finding["cause"]["category"] == category and finding["cause"]["fix"].startswith(fix)
    assert ("status 11" in outcome.out) and ran(repaired(source, finding)).findings == []


# Library, header, type and maker of a handle, and a call by it.
OTHERS = {
    "cublasLt": ("libcublasLt.so.13", "cublasLt.h", "cublasLtHandle_t", "cublasLtCreate(&handle)", """
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t square;
  cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&square, CUDA_R_32F, 16, 16, 16);
  const float one = 1, zero = 0;
  status = cublasLtMatmul(handle, product, &one, memory, square, memory, square, &zero, memory, square, memory, square, nullptr, nullptr, 0, 0);"""),
    "curand": ("libcurand.so.10", "curand.h", "curandGenerator_t", "curandCreateGenerator(&handle, CURAND_RNG_PSEUDO_DEFAULT)", """
  status = curandGenerateUniform(handle, memory, 256);"""),
    "cusolver": ("libcusolver.so.12", "cusolverDn.h", "cusolverDnHandle_t", "cusolverDnCreate(&handle)", """
  int* info;
  cudaMalloc((void**)&info, sizeof *info);
  status = cusolverDnSpotrf(handle, CUBLAS_FILL_MODE_LOWER, 8, memory, 8, memory + 64, 64, info);"""),
    "cusparse": ("libcusparse.so.12", "cusparse.h", "cusparseHandle_t", "cusparseCreate(&handle)", """
  status = cusparseXcsr2coo(handle, (int*)memory, 8, 4, (int*)memory + 64, CUSPARSE_INDEX_BASE_ZERO);"""),
    "cudnn": (None, "cudnn.h", "cudnnHandle_t", "cudnnCreate(&handle)", """
  const float one = 1, zero = 0;
  status = cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_FAST, CUDNN_SOFTMAX_MODE_CHANNEL, &one, nullptr, memory, &zero, nullptr, memory);"""),
}
OTHER = """
#include <cstdio>
#include <cuda_runtime_api.h>
#include <{header}>

int main() {{
  int status = -1;
  float* memory;
  {type} handle;
  {program}
  std::printf("status %d\\n", (int)status);
}}
"""
# cuDNN is not simulated. This one works as others do: by cuBLAS, with a handle of its own.
CUDNN = """
#include <cublas_v2.h>
#include <cudnn.h>

struct cudnnContext { cublasHandle_t blas; };
extern "C" cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  cublasCreate(&(*handle)->blas);
  return CUDNN_STATUS_SUCCESS;
}
extern "C" cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, const void* alpha,
                                             const cudnnTensorDescriptor_t, const void*, const void*, const cudnnTensorDescriptor_t, void* y) {
  return cublasSscal(handle->blas, 256, (const float*)alpha, (float*)y, 1) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}
"""


def other(folder: Path, library: str, program: str) -> tuple[Path, str]:
    """A program that calls one of OTHERS: with what lies in braces of its lines."""
    file, header, kind, make, call = OTHERS[library]
    source = OTHER.format(header=header, type=kind, program=program.format(
        make=make + ";  // MADE", memory="cudaMalloc((void**)&memory, 4096);  // MEMORY", call=call.strip()))
    if file:
        return build(folder, source, "-g", libraries=[file]), source
    include = ("-isystem", TORCH.parent / "nvidia/cudnn/include")
    (folder / "cudnn.cpp").write_text(CUDNN)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", folder / "libcudnn.so.8", "-Wl,-soname,libcudnn.so.8", folder / "cudnn.cpp", *include,
                    "-isystem", CUDA / "include", TOP / "build/simulate/libcublas.so.13", "-Wl,--allow-shlib-undefined"], check=True)
    return build(folder, source, "-g", *include, f"-Wl,-rpath,{folder}", libraries=[folder / "libcudnn.so.8"]), source


@pytest.mark.parametrize("library", OTHERS)
def test_a_handle_of_another_library(tmp_path, library):
    """It was made before the device was chosen."""
    program, source = other(tmp_path, library, "{make}\n  cudaSetDevice(1);\n  {memory}\n  {call}")
    finding = only(run(program, folder=tmp_path), "handle-mismatch")
    assert finding["operation"].startswith(library) and finding["devices"] == ["cuda:0", "cuda:1"]
    handle, memory = finding["operands"][:2]
    assert (handle["name"], handle["role"], handle["device"]) == ("handle", "generator" if library == "curand" else "handle", "cuda:0")
    assert own(handle["created"])[0]["line"] == line_of(source, "// MADE") and "memory" in memory["name"]
    assert own(memory["created"])[0]["line"] == line_of(source, "// MEMORY")
    cause = finding["cause"]
    assert (cause["category"], cause["line"]) == ("handle-of-another-device", line_of(source, "// MADE"))
    assert cause["fix"].startswith("cudaSetDevice(1);\n" + finding["operands"][0]["created"]["call"])
    assert "each device needs one of its own" in cause["because"], "what the library does with it then is not known"
    program, _ = other(tmp_path, library, "cudaSetDevice(1);\n  {make}\n  {memory}\n  {call}")
    after = run(program, folder=tmp_path)
    assert after.findings == [] and "status 0" in after.out


DNN = TORCH.parent / "nvidia/cudnn/include"
HEADERS = {
    "cublasLt": ("cublasLtHandle_t", [CUDA / "include/cublasLt.h"]),
    "curand": ("curandGenerator_t", [CUDA / "include/curand.h"]),
    "cusolver": ("cusolver(Dn|Sp)Handle_t", [CUDA / "include/cusolverDn.h", CUDA / "include/cusolverSp.h"]),
    "cusparse": ("cusparseHandle_t", [CUDA / "include/cusparse.h"]),
    "cudnn": ("cudnnHandle_t", [DNN / f"cudnn_{part}.h" for part in ("ops", "cnn", "adv", "graph")]),
}
# What computes nothing on a device, and what is declared and in no library. And what had other parameters in an older version: a call of it cannot be handed on.
ASKS = re.compile("bufferSize|BufferInfo|[a-z]Get[A-Z]|[a-z]Set(?!Tensor)[A-Z]|Destroy|Create(?!Identity)|createPlan|MakeFused|Host$|Query"
                  "|AlgoInit|AlgoCheck|GenerateSeeds|cusparseSpS[VM]_solve|curandGenerateBinomial|curandGenerateBinomialMethod|cusparseXgebsr2csr")


def test_the_table_has_what_the_headers_declare():
    """Whatever computes by a handle is in the table; what only asks, sets or copies is not."""
    from library import COMPUTE, LIBRARIES, declarations

    text = (TOP / "interpose/linking/library_hooks.inc").read_text()
    rows = re.findall(r'^LIBRARY_(\w+)\("(\w+)\.so", (\w+)\)$', text, re.M)
    assert len(rows) == len({name for _, _, name in rows}) == sum(line.startswith("LIBRARY_") for line in text.splitlines())
    include = TOP / ".cache/cuda/include"
    computes = set()
    for name, parameters in declarations((include / "cublas_api.h").read_text(), "cublasStatus_t"):
        rule = next((rule for pattern, rule in LIBRARIES["cublas"]["rules"] if re.fullmatch(pattern, name)), None)
        if rule == COMPUTE and parameters[0].startswith("cublasHandle_t"):
            computes.add(name)
    assert {name for sort, library, name in rows if (sort, library) == ("CALL", "libcublas")} == computes
    transforms = {name for header in ("cufft.h", "cufftXt.h") for name, _ in declarations((include / header).read_text(), "cufftResult")}
    transforms = {name for name in transforms if re.fullmatch(r"cufft(Exec|Plan|MakePlan|Create|Destroy|XtMakePlan)\w*|cufftXtExec", name)}
    assert {name for _, library, name in rows if library == "libcufft"} == transforms
    for library, (handle, headers) in HEADERS.items():
        declared = {name for header in headers for name, parameters in declarations(header.read_text(), rf"{library.split('L')[0]}[sS]tatus_t")
                    if parameters and re.match(rf"{handle}\b(?!\s*\*)", parameters[0])}
        assert {name for sort, file, name in rows if (sort, file) == ("CALL", f"lib{library}")} == {name for name in declared if not ASKS.search(name)}


def test_pytorch_calls_by_its_handles(rehearse):
    outcome = rehearse(
        """
        import torch
        for device in ("cuda:0", "cuda:1"):
            a = torch.ones(8, 8, device=device)
            torch.fft.fft(a @ a + torch.baddbmm(a[None], a[None], a[None])[0])
        """,
        gpus=2,
    )
    assert outcome.code == 0 and outcome.findings == []
