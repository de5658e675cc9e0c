#include "simulate/model/graph/conditional.h"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "simulate/model/device.h"
#include "simulate/model/graph/graph.h"
#include "simulate/model/kernels/computed.h"
#include "simulate/model/kernels/module.h"
#include "simulate/settings/settings.h"

namespace devtrace::simulate {
namespace {

std::mutex g_mutex;

std::unordered_map<CUgraphConditionalHandle, std::weak_ptr<Condition>>& conditions() {
  static auto* const all = new std::unordered_map<CUgraphConditionalHandle, std::weak_ptr<Condition>>;
  return *all;
}

CUgraph new_body() {
  CUgraph const graph = create_graph();
  graph->child = true;
  return graph;
}

// Once it has run.
bool was_computed(const Operation& op) {
  if (op.type != CU_GRAPH_NODE_TYPE_KERNEL) return true;
  const Function* const f = op.kernel.func ? function_of(op.kernel.func) : nullptr;
  return f ? may_compute(op, *f) && why_not_computed(*f).empty() : op.compute != nullptr;
}

bool run_body(const std::vector<Operation>& body, const Operation& node) {
  bool all = true;
  for (Operation operation : body) {
    if (!operation.context) operation.context = node.context;
    if (operation.context->sticky) return all;
    operation.correlation = node.correlation;
    operation.stream = node.stream;
    if (operation.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      all = run_conditional(operation) && all;
    } else {
      if (const CUresult e = execute(operation)) operation.context->sticky = e;
      all = was_computed(operation) && all;
    }
  }
  return all;
}

}  // namespace

ConditionalGraphs::~ConditionalGraphs() {
  for (CUgraph const graph : graphs) destroy_graph(graph);
}

CUgraphConditionalHandle create_condition(CUgraph graph, unsigned initial, bool assigned) {
  static CUgraphConditionalHandle next = 0x5200000001;
  auto made = std::make_shared<Condition>();
  made->value = initial;
  made->initial = initial;
  made->assigned = assigned;
  const std::lock_guard lock(g_mutex);
  graph->conditions.push_back(made);
  conditions()[next] = std::move(made);
  return next++;
}

std::shared_ptr<Condition> condition_of(CUgraphConditionalHandle handle) {
  const std::lock_guard lock(g_mutex);
  const auto found = conditions().find(handle);
  return found == conditions().end() ? nullptr : found->second.lock();
}

void set_condition(CUgraphConditionalHandle handle, unsigned value) {
  if (const std::shared_ptr<Condition> condition = condition_of(handle)) condition->value = value;
}

CUresult make_conditional(CUDA_CONDITIONAL_NODE_PARAMS& p, std::shared_ptr<ConditionalGraphs>* made) {
  const unsigned most = p.type == CU_GRAPH_COND_TYPE_IF ? 2 : p.type == CU_GRAPH_COND_TYPE_WHILE ? 1 : UINT32_MAX;
  if (p.type > CU_GRAPH_COND_TYPE_SWITCH || !p.size || p.size > most) return CUDA_ERROR_INVALID_VALUE;
  auto graphs = std::make_shared<ConditionalGraphs>();
  graphs->condition = condition_of(p.handle);
  if (!graphs->condition) return CUDA_ERROR_INVALID_VALUE;
  graphs->type = p.type;
  for (unsigned i = 0; i < p.size; ++i) graphs->graphs.push_back(new_body());
  p.phGraph_out = graphs->graphs.data();
  *made = std::move(graphs);
  return CUDA_SUCCESS;
}

std::shared_ptr<ConditionalGraphs> clone_conditional(const ConditionalGraphs& from) {
  auto made = std::make_shared<ConditionalGraphs>();
  made->condition = from.condition;
  made->type = from.type;
  for (CUgraph const graph : from.graphs) {
    made->graphs.push_back(clone_graph(graph));
    made->graphs.back()->child = true;
  }
  return made;
}

bool run_conditional(const Operation& node) {
  const ConditionalWork& work = *node.branches;
  for (const std::shared_ptr<Condition>& one : work.assigned) one->value = one->initial;
  if (!work.condition) return true;
  const auto value = [&] { return work.condition->value.load(); };
  if (work.type == CU_GRAPH_COND_TYPE_WHILE) {
    const auto begin = std::chrono::steady_clock::now();
    while (value() && !node.context->sticky) {
      if (!run_body(work.bodies[0], node)) return false;
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      if (spent.count() < settings().kernel_seconds) continue;
      std::fprintf(stderr, "devtrace: a graph's while node on device %d did not end within %.0f s\n",
                   node.context->device, settings().kernel_seconds);
      node.context->sticky = CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    return true;
  }
  const size_t which = work.type == CU_GRAPH_COND_TYPE_SWITCH ? value() : value() ? 0 : 1;
  return which >= work.bodies.size() || run_body(work.bodies[which], node);
}

}  // namespace devtrace::simulate
