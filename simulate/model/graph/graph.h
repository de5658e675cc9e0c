// Graphs: nodes are operations with dependencies; an executable graph is a copy of them in an order that respects
// these.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulate/common/cuda_headers.h"
#include "simulate/model/graph/conditional.h"
#include "simulate/model/operation.h"

struct CUgraphNode_st {
  CUgraph graph = nullptr;
  CUgraphNode original = nullptr;  // the node this one was cloned from
  devtrace::simulate::Operation operation;
  std::vector<CUgraphNode> dependencies;
  unsigned long long id = 0;
};

struct CUuserObject_st {
  void* data = nullptr;
  CUhostFn destroy = nullptr;
  int references = 0;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  std::unordered_map<CUuserObject, int> objects;
  std::vector<std::shared_ptr<devtrace::simulate::Condition>> conditions;  // made for it
  bool child = false;                                                      // belongs to a node; freed with it
};

struct CUgraphExec_st {
  struct Step {
    CUgraphNode node;  // of the graph it was made from: how later calls name it
    devtrace::simulate::Operation operation;
    bool enabled = true;
    CUgraphExec child = nullptr;
    std::vector<CUgraphExec> bodies = {};   // of a conditional node
    std::vector<size_t> dependencies = {};  // by their places among the steps
  };
  std::vector<Step> steps;
  unsigned flags = 0;
  std::unordered_map<CUuserObject, int> objects;
};

namespace devtrace::simulate {

CUgraph create_graph();
void destroy_graph(CUgraph graph);
// Copies nodes, edges and child graphs.
CUgraph clone_graph(CUgraph graph);
// A new node behind `dependencies`, which must be nodes of this graph.
CUresult add_node(CUgraph graph, const CUgraphNode* dependencies, size_t count, Operation operation, CUgraphNode* node);
void destroy_node(CUgraphNode node);
bool alive(CUgraphNode node);

// An order in which every node follows its dependencies; empty when there is a cycle.
std::vector<CUgraphNode> order(CUgraph graph);
CUresult instantiate(CUgraph graph, unsigned flags, CUgraphExec* exec);
void destroy_exec(CUgraphExec exec);
// Takes over the parameters of a graph of the same shape. Nodes keep the names that they were instantiated with.
CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* result);
// False: memory that an earlier launch allocated was not freed, which only
// CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH forgives.
bool launchable(CUgraphExec exec);
CUresult launch(CUgraphExec exec, CUstream stream);
// What the executable does, as a graph that belongs to a node of another one.
CUgraph graph_of(CUgraphExec exec);
CUgraphExec_st::Step* step_of(CUgraphExec exec, CUgraphNode node);

void retain(CUuserObject object, int count);
// Runs its destructor when the last reference goes.
void release(CUuserObject object, int count);

}  // namespace devtrace::simulate
