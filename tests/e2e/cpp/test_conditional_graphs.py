"""Conditional nodes of graphs: kernels set the value by which their graphs run (`cudaGraphSetConditional`)."""

import pytest
from conftest import DEVTRACE, environment, execute
from cpp_programs import build_nvcc

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
// Counts down, and goes on until it is there.
__global__ void down(cudaGraphConditionalHandle handle, int* left, int* turns) {
  ++*turns;
  if (--*left == 0) cudaGraphSetConditional(handle, 0);
}
__global__ void choose(cudaGraphConditionalHandle handle, const int* value) { cudaGraphSetConditional(handle, *value); }
__global__ void add(int* to, int value) { *to += value; }
__global__ void nothing() {}
#define OK(call) do { if (int e = (call)) { std::printf("%s: %d\n", #call, e); std::exit(1); } } while (0)

int* numbers;
cudaGraph_t new_graph() {
  cudaGraph_t graph;
  OK(cudaGraphCreate(&graph, 0));
  return graph;
}
template <class... P>
cudaGraphNode_t node(cudaGraph_t graph, cudaGraphNode_t behind, void (*kernel)(P...), P... values) {
  void* arguments[] = {&values..., nullptr};
  cudaKernelNodeParams params = {};
  params.func = (void*)kernel;
  params.gridDim = params.blockDim = dim3(1);
  params.kernelParams = arguments;
  cudaGraphNode_t made;
  OK(cudaGraphAddKernelNode(&made, graph, &behind, behind ? 1 : 0, &params));
  return made;
}
cudaGraph_t* conditional(cudaGraph_t graph, cudaGraphNode_t behind, cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type,
                         unsigned size, cudaGraphNode_t* made) {
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  OK(cudaGraphAddNode(made, graph, &behind, nullptr, behind ? 1 : 0, &params));
  return params.conditional.phGraph_out;
}
void run(cudaGraph_t graph, int times) {
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  for (int i = 0; i < times; ++i) OK(cudaGraphLaunch(exec, 0));
  OK(cudaDeviceSynchronize());
  OK(cudaGraphExecDestroy(exec));
}
int main(int argc, char** argv) {
  OK(cudaMallocManaged(&numbers, 64));
  cudaGraphConditionalHandle handle, inner;
  cudaGraphNode_t made, nested;
  if (argc > 1) {  // nobody ends it
    cudaGraph_t graph = new_graph();
    OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    node(conditional(graph, nullptr, handle, cudaGraphCondTypeWhile, 1, &made)[0], nullptr, nothing);
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, 0));
    std::printf("%d\n", cudaDeviceSynchronize());
    return 0;
  }
  // A loop, each of whose turns has a branch: numbers[0] counts down, numbers[1] up, numbers[2] where numbers[3] says so.
  cudaGraph_t graph = new_graph();
  OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  OK(cudaGraphConditionalHandleCreate(&inner, graph, 0, 0));
  cudaGraph_t body = conditional(graph, nullptr, handle, cudaGraphCondTypeWhile, 1, &made)[0];
  cudaGraphNode_t first = node(body, nullptr, down, handle, &numbers[0], &numbers[1]);
  cudaGraphNode_t second = node(body, first, choose, inner, (const int*)&numbers[0]);
  cudaGraph_t* branches = conditional(body, second, inner, cudaGraphCondTypeIf, 2, &nested);
  node(branches[0], nullptr, add, &numbers[2], 10);
  node(branches[1], nullptr, add, &numbers[2], 1);
  cudaGraphNodeType type;
  OK(cudaGraphNodeGetType(made, &type));
  numbers[0] = 5;
  run(graph, 1);
  std::printf("%d %d %d %d\n", type == cudaGraphNodeTypeConditional, numbers[0], numbers[1], numbers[2]);
  // One of three, by the number that a kernel has set; a number that is none's runs none of them.
  for (int which : {0, 2, 3}) {
    graph = new_graph();
    OK(cudaGraphConditionalHandleCreate(&handle, graph));
    numbers[4] = which;
    numbers[5] = 0;
    cudaGraphNode_t set = node(graph, nullptr, choose, handle, (const int*)&numbers[4]);
    cudaGraph_t* cases = conditional(graph, set, handle, cudaGraphCondTypeSwitch, 3, &made);
    for (int i = 0; i < 3; ++i) node(cases[i], nullptr, add, &numbers[5], 1 << i);
    run(graph, 2);
    std::printf("%d ", numbers[5]);
  }
  // A body that is captured; the default value counts at each launch.
  graph = new_graph();
  OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  body = conditional(graph, nullptr, handle, cudaGraphCondTypeWhile, 1, &made)[0];
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  down<<<1, 1, 0, stream>>>(handle, &numbers[6], &numbers[7]);
  OK(cudaStreamEndCapture(stream, nullptr));
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int turns : {3, 4}) {
    numbers[6] = turns;
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
  }
  std::printf("%d\n", numbers[7]);
  // What is refused.
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional = {handle, cudaGraphCondTypeWhile, 2};
  std::printf("%d ", cudaGraphAddNode(&made, graph, nullptr, nullptr, 0, &params));
  params.conditional = {12345, cudaGraphCondTypeIf, 1};
  std::printf("%d\n", cudaGraphAddNode(&made, graph, nullptr, nullptr, 0, &params));
}
"""


def rehearsed(folder, *options, arguments=(), **more):
    program = build_nvcc(PROGRAM, "-rdc=true", architecture="compute_90")
    return execute([DEVTRACE, "rehearse", "--gpus", 1, *options, "--", program, *arguments], folder, environment(None, more))


@pytest.mark.parametrize("options", [(), ("--async", 3)], ids=["at once", "behind the host"])
def test_a_graph_runs_by_what_its_kernels_set(tmp_path, options):
    outcome = rehearsed(tmp_path, "--kernels", *options)
    assert outcome.code == 0 and "not computed" not in outcome.err, outcome.err
    assert outcome.out.splitlines() == ["1 0 5 41", "2 8 0 7", "1 1"], outcome.out


def test_a_loop_without_an_end_is_ended(tmp_path):
    outcome = rehearsed(tmp_path, "--kernels", arguments=["endless"], DEVTRACE_SIM_KERNEL_SECONDS="1")
    assert outcome.out == "702\n" and "a graph's while node on device 0 did not end within 1 s" in outcome.err, outcome.err


def test_a_loop_whose_kernels_nobody_computes_is_left(tmp_path):
    """Nobody knows what they would have set."""
    outcome = rehearsed(tmp_path)
    assert outcome.code == 0 and "kernel down (launches: 3)" in outcome.err and "it is computed with --kernels" in outcome.err, outcome.err
