// Conditional nodes: graphs that run by a value which kernels set while the graph runs (CUDA Programming Guide,
// "Conditional Graph Nodes").
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "simulate/model/operation.h"

namespace devtrace::simulate {

// What a handle stands for. It lives as long as a graph or an executable names it.
struct Condition {
  std::atomic<unsigned> value{0};
  unsigned initial = 0;
  bool assigned = false;  // `initial`, at each launch
};

// `graph` holds it, for a node yet to be made.
CUgraphConditionalHandle create_condition(CUgraph graph, unsigned initial, bool assigned);
// Null: no such handle.
std::shared_ptr<Condition> condition_of(CUgraphConditionalHandle handle);
// What kernels call; a handle that is none is passed over, as on hardware.
void set_condition(CUgraphConditionalHandle handle, unsigned value);

// Of a node: which graphs, by which condition. It owns them, and the array of them that the program was given.
struct ConditionalGraphs {
  ConditionalGraphs() = default;
  ~ConditionalGraphs();
  ConditionalGraphs(const ConditionalGraphs&) = delete;
  ConditionalGraphs& operator=(const ConditionalGraphs&) = delete;

  std::shared_ptr<Condition> condition;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<CUgraph> graphs;
};

// With as many new graphs as the parameters ask for, which are told of them.
CUresult make_conditional(CUDA_CONDITIONAL_NODE_PARAMS& p, std::shared_ptr<ConditionalGraphs>* made);
// The same node in another graph: its graphs are copied.
std::shared_ptr<ConditionalGraphs> clone_conditional(const ConditionalGraphs& from);

// What a launch does at such a node, each graph's work in order; or where it begins, at no node.
struct ConditionalWork {
  std::vector<std::shared_ptr<Condition>> assigned;  // these get their first values
  std::shared_ptr<Condition> condition;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::vector<Operation>> bodies;
};

// Runs what the condition asks for. False: a kernel in it was not computed. Then nobody knows what it would have set,
// so a loop is left after one turn. One that goes on for longer than a kernel may is ended as such a kernel is.
bool run_conditional(const Operation& operation);

}  // namespace devtrace::simulate
