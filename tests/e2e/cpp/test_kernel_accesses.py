"""What a kernel does with memory that its device may not use, in a rehearsal that computes kernels (--kernels): one finding with the access itself,
whichever way the address came. PTX ISA, "State Spaces"; CUDA's programming guide, "Device Memory Accesses"."""

import pytest
from conftest import only
from cpp_programs import build_nvcc, line_of, own, run
from nvcc_programs import needs_nvcc

pytestmark = [needs_nvcc, pytest.mark.xdist_group("kernel_accesses")]

PROGRAM = r"""
#include <cstdio>
#include <cstring>
__constant__ float factors[4];
__device__ float offset;
__device__ unsigned hits;
__device__ float* kept;
struct Batch { int count; const float* values; };
__global__ void scale(float* out, const float* in) { out[threadIdx.x] = 2 * in[threadIdx.x]; }  // SCALE
__global__ void of_batch(float* out, Batch batch) { out[threadIdx.x] = batch.values[threadIdx.x]; }  // BATCH
__global__ void link(float** rows, float* row) { rows[threadIdx.x] = row + threadIdx.x; }
__global__ void of_table(float* out, float** rows) {
  if (threadIdx.x == 3) out[0] = rows[1][0];  // TABLE
}
__global__ void fill_in(Batch* batch, const float* values) { batch->values = values; }
__global__ void of_member(float* out, const Batch* batch) { out[threadIdx.x] = batch->values[threadIdx.x]; }  // MEMBER
__global__ void of_variable(float* out) { *out = kept[0]; }  // VARIABLE
__global__ void of_constants(float* out) {
  out[threadIdx.x] = factors[threadIdx.x];  // CONSTANT
}
__global__ void of_offset(float* out) { *out = offset; }  // OFFSET
__global__ void nowhere(float* out) { *out = *reinterpret_cast<volatile float*>(0x4000); }  // NOWHERE
__global__ void set_offset() { offset = 3; }
__global__ void hit() { atomicAdd(&hits, 1); }
static float* on(int device, size_t count = 64) {
  float* memory = nullptr;
  cudaSetDevice(device);
  cudaMalloc(&memory, count * sizeof(float));
  cudaMemset(memory, 0, count * sizeof(float));
  return memory;
}
static void fill(float value) {
  const float values[4] = {value, value, value, value};
  cudaMemcpyToSymbol(factors, values, sizeof values);  // SET
}
static bool is(const char* word, const char* other) { return !std::strcmp(word, other); }
int main(int, char** words) {
  const char* const what = words[1];
  const bool right = words[2] != nullptr;
  float* const there = on(right ? 1 : 0);
  float* const here = on(1);
  if (is(what, "parameter")) scale<<<2, 32>>>(here, there);  // PARAMETER
  if (is(what, "structure")) {
    const Batch batch{32, there};
    of_batch<<<1, 32>>>(here, batch);
  }
  if (is(what, "member")) {
    Batch* const batches = reinterpret_cast<Batch*>(on(1));
    fill_in<<<1, 1>>>(batches, there);
    of_member<<<1, 32>>>(here, batches);
  }
  if (is(what, "table")) {
    float** rows = reinterpret_cast<float**>(on(1));
    link<<<1, 2>>>(rows, there);  // keeps the address, and reads nothing there
    of_table<<<1, 32>>>(here, rows);  // BY TABLE
  }
  if (is(what, "graph")) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    float** rows = reinterpret_cast<float**>(on(1));
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    link<<<1, 2, 0, stream>>>(rows, there);
    of_table<<<1, 32, 0, stream>>>(here, rows);  // CAPTURED
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphLaunch(executable, stream);
  }
  if (is(what, "variable")) {
    cudaMemcpyToSymbol(kept, &there, sizeof there);
    of_variable<<<1, 1>>>(here);
  }
  if (is(what, "end")) scale<<<1, 64>>>(here, here + (right ? 0 : 4096));
  if (is(what, "padding")) scale<<<1, 64>>>(here, here + (right ? 0 : 16));
  if (is(what, "freed")) {
    cudaFree(there);
    scale<<<1, 32>>>(here, right ? here : there);
  }
  if (is(what, "constant")) {
    for (int device = 0; device < 2; ++device) {
      float* const mine = on(device);
      if (right || device == 0) fill(5);  // FILL
      of_constants<<<1, 4>>>(mine);  // READ
      float value;
      cudaMemcpy(&value, mine, sizeof value, cudaMemcpyDeviceToHost);
      std::printf("%g\n", value);
    }
  }
  if (is(what, "offset")) {
    const float five = 5;
    cudaSetDevice(0);
    cudaMemcpyToSymbol(offset, &five, sizeof five);
    cudaSetDevice(1);
    if (right) set_offset<<<1, 1>>>();
    of_offset<<<1, 1>>>(here);
  }
  if (is(what, "counter")) {
    const unsigned zero = 0;
    cudaSetDevice(0);
    cudaMemcpyToSymbol(hits, &zero, sizeof zero);
    cudaSetDevice(1);
    hit<<<1, 1>>>();
  }
  if (is(what, "nowhere")) nowhere<<<1, 1>>>(here);
  if (is(what, "peer")) {
    cudaDeviceEnablePeerAccess(0, 0);
    scale<<<1, 32>>>(here, there);
  }
  return cudaDeviceSynchronize();
}
"""
ILLEGAL = 700 % 256


@pytest.fixture(scope="module")
def program():
    return build_nvcc(PROGRAM, "-g", "-lineinfo", "-std=c++17", "-w")


@pytest.fixture
def rehearsed(program, tmp_path):
    return lambda *words, flags=(): run(program, *words, folder=tmp_path, flags=["--kernels", *flags])


# What the kernel was given: the kind, the operand's name, the line in the kernel, and how it came to the address.
WAYS = {
    "parameter": ("remote-access", "there", "SCALE", {}),
    "structure": ("remote-access", "batch.values", "BATCH", {}),
    "table": ("remote-access", "rows[1]", "TABLE", {"in_memory": 8}),
    "member": ("remote-access", "batches->values", "MEMBER", {"in_memory": 8}),
    "variable": ("remote-access", "kept", "VARIABLE", {"variable": "kept"}),
    "freed": ("invalid-access", "right ? here : there", "SCALE", {}),
    "end": ("invalid-access", "here + (right ? 0 : 4096)", "SCALE", {}),
    "padding": ("invalid-access", "here + (right ? 0 : 16)", "SCALE", {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_access_is_told_whichever_way_the_address_came(rehearsed, way):
    kind, name, line, by = WAYS[way]
    outcome = rehearsed(way)
    finding = only(outcome, kind)
    # Up to the next multiple of 512 bytes hardware does not fault.
    assert outcome.code == (0 if way == "padding" else ILLEGAL) and finding["severity"] == "error"
    (odd,) = [operand for operand in finding["operands"] if operand.get("odd")]
    assert odd["name"] == name
    access = finding["launch"]["access"]
    assert access["line"]["line"] == line_of(PROGRAM, f"// {line}") and access["line"]["source"].strip().endswith(f"// {line}")
    assert access["instruction"].startswith("ld.global") and not access.get("writes") and access["bytes"] == 4
    assert {key: access[key] for key in ("in_memory", "variable") if key in access} == by
    assert "kernel reads 4 bytes of " in outcome.err and f"program.cu:{access['line']['line']}" in outcome.err


def test_an_address_that_came_from_nowhere(rehearsed):
    finding = only(rehearsed("nowhere"), "invalid-access")
    assert [operand["role"] for operand in finding["operands"] if operand.get("odd")] == ["address"]
    assert "parameter" not in finding["launch"] and finding["launch"]["access"]["line"]["line"] == line_of(PROGRAM, "// NOWHERE")


def test_a_memory_s_owner_and_the_line_that_made_it_are_told(rehearsed):
    outcome = rehearsed("table")
    finding = only(outcome, "remote-access")
    (odd,) = [operand for operand in finding["operands"] if operand.get("odd")]
    assert odd["device"] == "cuda:0" and finding["current_device"] == "cuda:1" and finding["devices"] == ["cuda:1", "cuda:0"]
    assert odd["created"]["call"] == "cudaMalloc" and own(finding)[0]["line"] == line_of(PROGRAM, "// BY TABLE")
    access = finding["launch"]["access"]
    assert (access["thread"], access["block"], access["whose"]) == ([3, 0, 0], [0, 0, 0], "memory of device 0, which device 1 has no access to")


@pytest.mark.parametrize("way", [*WAYS, "constant", "offset"])
def test_what_is_right_is_no_finding(rehearsed, way):
    outcome = rehearsed(way, "right")
    assert (outcome.code, outcome.findings) == (0, []), outcome.err


def test_a_launch_and_what_its_kernel_did_are_one_finding_without_kernels_computed_as_well(program, tmp_path):
    finding = only(run(program, "parameter", folder=tmp_path), "remote-access")
    assert "access" not in finding["launch"] and own(finding)[0]["line"] == line_of(PROGRAM, "// PARAMETER")


def test_streams_behind_the_host_tell_of_what_a_launch_does_not_show(rehearsed):
    (given,) = rehearsed("parameter", flags=["--async", "1"]).findings
    led_to = rehearsed("table", flags=["--async", "1"]).findings[-1]
    assert own(given)[0]["line"] == line_of(PROGRAM, "// PARAMETER") and own(led_to)[0]["line"] == line_of(PROGRAM, "// BY TABLE")
    assert "access" not in given["launch"] and led_to["launch"]["access"]["line"]["line"] == line_of(PROGRAM, "// TABLE")


def test_a_graph_tells_of_what_was_captured(rehearsed):
    finding = rehearsed("graph").findings[-1]
    assert finding["launch"]["access"]["line"]["line"] == line_of(PROGRAM, "// TABLE") and own(finding)[0]["line"] == line_of(PROGRAM, "// CAPTURED")


def test_memory_that_the_program_opened_stays_a_note(rehearsed):
    outcome = rehearsed("peer")
    assert outcome.code == 0 and [finding["severity"] for finding in outcome.findings] == ["note"], outcome.err


def test_a_constant_that_was_set_on_another_device_alone(rehearsed):
    outcome = rehearsed("constant")
    finding = only(outcome, "unset-variable")
    assert outcome.out.split() == ["5", "0"]
    (variable,) = finding["operands"]
    assert (variable["name"], variable["role"], variable["device"]) == ("factors", "variable", "cuda:0")
    assert own(variable["created"])[0]["line"] == line_of(PROGRAM, "// SET") and variable["created"]["call"] == "cudaMemcpyToSymbol"
    assert finding["launch"]["access"]["line"]["line"] == line_of(PROGRAM, "// CONSTANT")
    assert own(finding)[0]["line"] == line_of(PROGRAM, "// READ") and finding["current_device"] == "cuda:1"
    assert finding["cause"]["category"] == "set-on-one-device"


def test_a_variable_that_a_kernel_wrote_has_a_value(rehearsed):
    assert only(rehearsed("offset"), "unset-variable")["launch"]["access"]["variable"] == "offset"
    counted = rehearsed("counter")
    assert counted.code == 0 and counted.findings == [], counted.err
