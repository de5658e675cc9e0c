#include "simulate/model/graph/graph.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "simulate/model/handles.h"
#include "simulate/model/memory/pool.h"
#include "simulate/model/stream.h"

namespace devtrace::simulate {
namespace {

std::mutex g_objects_mutex;

// A graph's objects are shared with its clones and executables: each holds its own reference.
void share(const std::unordered_map<CUuserObject, int>& from, std::unordered_map<CUuserObject, int>& to) {
  for (auto [object, count] : from) {
    retain(object, 1);
    to[object] += 1;
  }
}

void drop(std::unordered_map<CUuserObject, int>& objects) {
  for (auto [object, count] : objects) release(object, count);
  objects.clear();
}

// The graphs that belong to a node.
CUresult instantiate_inner(CUgraphExec_st::Step& step) {
  if (step.operation.child) return instantiate(step.operation.child, 0, &step.child);
  if (!step.operation.conditional) return CUDA_SUCCESS;
  for (CUgraph const graph : step.operation.conditional->graphs) {
    CUgraphExec body = nullptr;
    if (CUresult e = instantiate(graph, 0, &body)) return e;
    step.bodies.push_back(body);
  }
  return CUDA_SUCCESS;
}

// What the executable does without its events, which a conditional node's graphs cannot have; a child's in its place.
void add_work(CUgraphExec exec, std::vector<Operation>* all);

Operation conditional_of(const CUgraphExec_st::Step& step) {
  auto work = std::make_shared<ConditionalWork>();
  work->condition = step.operation.conditional->condition;
  work->type = step.operation.conditional->type;
  for (CUgraphExec const body : step.bodies) add_work(body, &work->bodies.emplace_back());
  Operation operation = step.operation;
  operation.conditional = nullptr;
  operation.branches = std::move(work);
  return operation;
}

void add_work(CUgraphExec exec, std::vector<Operation>* all) {
  for (const CUgraphExec_st::Step& step : exec->steps) {
    if (!step.enabled) continue;
    if (step.child)
      add_work(step.child, all);
    else
      all->push_back(step.operation.conditional ? conditional_of(step) : step.operation);
  }
}

// Those that have a value at each launch, those inside of others too.
void add_assigned(CUgraphExec exec, std::vector<std::shared_ptr<Condition>>* all) {
  for (const CUgraphExec_st::Step& step : exec->steps) {
    if (step.child) add_assigned(step.child, all);
    for (CUgraphExec const body : step.bodies) add_assigned(body, all);
    if (step.operation.conditional && step.operation.conditional->condition->assigned)
      all->push_back(step.operation.conditional->condition);
  }
}

CUresult launch_steps(CUgraphExec exec, CUstream stream) {
  for (auto& step : exec->steps) {
    if (!step.enabled) continue;
    if (step.child) {
      if (CUresult e = launch_steps(step.child, stream)) return e;
      continue;
    }
    Operation operation = step.operation.conditional ? conditional_of(step) : step.operation;
    // A recording inside a graph is a new turn at each launch; a wait is for the turn that is due by then.
    if (operation.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
      operation.event_turn = operation.event->recorded.fetch_add(1) + 1;
    if (operation.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) operation.event_turn = operation.event->recorded;
    if (CUresult e = submit(stream, std::move(operation))) return e;
  }
  return CUDA_SUCCESS;
}

// Where a step's dependencies are among the steps, in one order whatever the order of the edges.
std::vector<size_t> places_of(const std::vector<CUgraphNode>& nodes,
                              const std::unordered_map<CUgraphNode, size_t>& all) {
  std::vector<size_t> places;
  for (CUgraphNode node : nodes) places.push_back(all.at(node));
  std::sort(places.begin(), places.end());
  return places;
}

}  // namespace

CUgraph create_graph() {
  auto* graph = new CUgraph_st;
  handles<CUgraph_st>().add(graph);
  return graph;
}

void destroy_graph(CUgraph graph) {
  if (!handles<CUgraph_st>().remove(graph)) return;
  while (!graph->nodes.empty()) destroy_node(graph->nodes.back().get());
  drop(graph->objects);
  delete graph;
}

CUgraph clone_graph(CUgraph graph) {
  CUgraph clone = create_graph();
  std::unordered_map<CUgraphNode, CUgraphNode> twin;
  for (auto& node : graph->nodes) {
    CUgraphNode copy;
    Operation operation = node->operation;
    if (operation.child) {
      operation.child = clone_graph(operation.child);
      operation.child->child = true;
    }
    if (operation.conditional) operation.conditional = clone_conditional(*operation.conditional);
    add_node(clone, nullptr, 0, std::move(operation), &copy);
    copy->original = node.get();
    twin[node.get()] = copy;
  }
  for (auto& node : graph->nodes)
    for (CUgraphNode d : node->dependencies) twin[node.get()]->dependencies.push_back(twin[d]);
  share(graph->objects, clone->objects);
  return clone;
}

CUresult add_node(CUgraph graph, const CUgraphNode* dependencies, size_t count, Operation operation,
                  CUgraphNode* node) {
  static std::atomic<unsigned long long> next{1};
  if (!handles<CUgraph_st>().has(graph) || !node || (count && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (!alive(dependencies[i]) || dependencies[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUgraphNode_st>();
  made->graph = graph;
  made->operation = std::move(operation);
  if (count) made->dependencies.assign(dependencies, dependencies + count);
  made->id = next.fetch_add(1);
  *node = made.get();
  handles<CUgraphNode_st>().add(made.get());
  graph->nodes.push_back(std::move(made));
  return CUDA_SUCCESS;
}

void destroy_node(CUgraphNode node) {
  handles<CUgraphNode_st>().remove(node);
  if (node->operation.child) destroy_graph(node->operation.child);
  auto& nodes = node->graph->nodes;
  for (auto& other : nodes) std::erase(other->dependencies, node);
  std::erase_if(nodes, [&](auto& n) { return n.get() == node; });
}

bool alive(CUgraphNode node) {
  return handles<CUgraphNode_st>().has(node);
}

std::vector<CUgraphNode> order(CUgraph graph) {
  std::unordered_map<CUgraphNode, size_t> missing;
  std::unordered_map<CUgraphNode, std::vector<CUgraphNode>> followers;
  std::vector<CUgraphNode> ordered;
  for (auto& node : graph->nodes) {
    missing[node.get()] = node->dependencies.size();
    for (CUgraphNode d : node->dependencies) followers[d].push_back(node.get());
    if (node->dependencies.empty()) ordered.push_back(node.get());
  }
  for (size_t i = 0; i < ordered.size(); ++i)
    for (CUgraphNode f : followers[ordered[i]])
      if (--missing[f] == 0) ordered.push_back(f);
  if (ordered.size() != graph->nodes.size()) ordered.clear();
  return ordered;
}

CUresult instantiate(CUgraph graph, unsigned flags, CUgraphExec* exec) {
  if (!handles<CUgraph_st>().has(graph) || !exec) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> ordered = order(graph);
  if (ordered.size() != graph->nodes.size()) return CUDA_ERROR_INVALID_VALUE;
  auto* made = new CUgraphExec_st;
  made->flags = flags;
  std::unordered_map<CUgraphNode, size_t> places;
  for (CUgraphNode node : ordered) {
    places[node] = places.size();
    made->steps.push_back({node, node->operation, true, nullptr, {}, places_of(node->dependencies, places)});
    if (CUresult e = instantiate_inner(made->steps.back())) {
      destroy_exec(made);
      return e;
    }
  }
  share(graph->objects, made->objects);
  handles<CUgraphExec_st>().add(made);
  *exec = made;
  return CUDA_SUCCESS;
}

void destroy_exec(CUgraphExec exec) {
  handles<CUgraphExec_st>().remove(exec);
  for (auto& step : exec->steps) {
    if (step.child) destroy_exec(step.child);
    for (CUgraphExec const body : step.bodies) destroy_exec(body);
  }
  drop(exec->objects);
  delete exec;
}

CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  std::vector<CUgraphNode> ordered = order(graph);
  auto refuse = [&](CUgraphExecUpdateResult why, CUgraphNode node) {
    if (result) {
      result->result = why;
      result->errorNode = node;
      result->errorFromNode = nullptr;
    }
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  };
  if (ordered.size() != exec->steps.size()) return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  for (size_t i = 0; i < ordered.size(); ++i)
    if (ordered[i]->operation.type != exec->steps[i].operation.type)
      return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, ordered[i]);
  std::unordered_map<CUgraphNode, size_t> places;
  for (size_t i = 0; i < ordered.size(); ++i) places[ordered[i]] = i;
  for (size_t i = 0; i < ordered.size(); ++i)
    if (places_of(ordered[i]->dependencies, places) != exec->steps[i].dependencies)
      return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, ordered[i]);
  // Children first: where one refuses nothing has changed.
  for (size_t i = 0; i < ordered.size(); ++i) {
    const CUgraphExec_st::Step& step = exec->steps[i];
    const Operation& with = ordered[i]->operation;
    if (step.child)
      if (CUresult e = update(step.child, with.child, result)) return e;
    if (!with.conditional) continue;
    if (with.conditional->type != step.operation.conditional->type ||
        with.conditional->graphs.size() != step.bodies.size())
      return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, ordered[i]);
    for (size_t body = 0; body < step.bodies.size(); ++body)
      if (CUresult e = update(step.bodies[body], with.conditional->graphs[body], result)) return e;
  }
  for (size_t i = 0; i < ordered.size(); ++i) exec->steps[i].operation = ordered[i]->operation;
  if (result) *result = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
  return CUDA_SUCCESS;
}

bool launchable(CUgraphExec exec) {
  if (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) return true;
  return std::none_of(exec->steps.begin(), exec->steps.end(), [](const CUgraphExec_st::Step& step) {
    return step.child ? !launchable(step.child) : step.operation.memory && step.operation.memory->in_use();
  });
}

CUresult launch(CUgraphExec exec, CUstream stream) {
  auto begin = std::make_shared<ConditionalWork>();
  add_assigned(exec, &begin->assigned);
  if (!begin->assigned.empty()) {
    Operation operation;
    operation.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    operation.branches = std::move(begin);
    if (CUresult e = submit(stream, std::move(operation))) return e;
  }
  return launch_steps(exec, stream);
}

CUgraph graph_of(CUgraphExec exec) {
  CUgraph graph = create_graph();
  graph->child = true;
  CUgraphNode last = nullptr;
  for (auto& step : exec->steps) {
    if (!step.enabled) continue;
    Operation operation = step.operation;
    if (step.child) operation.child = graph_of(step.child);
    CUgraphNode node;
    add_node(graph, &last, last ? 1 : 0, std::move(operation), &node);
    last = node;
  }
  share(exec->objects, graph->objects);
  return graph;
}

CUgraphExec_st::Step* step_of(CUgraphExec exec, CUgraphNode node) {
  for (auto& step : exec->steps)
    if (step.node == node) return &step;
  return nullptr;
}

void retain(CUuserObject object, int count) {
  std::lock_guard lock(g_objects_mutex);
  object->references += count;
}

void release(CUuserObject object, int count) {
  {
    std::lock_guard lock(g_objects_mutex);
    object->references -= count;
    if (object->references > 0) return;
  }
  handles<CUuserObject_st>().remove(object);
  if (object->destroy) object->destroy(object->data);
  delete object;
}

}  // namespace devtrace::simulate
