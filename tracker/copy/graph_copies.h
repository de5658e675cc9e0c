// Copies that are nodes of a graph: made not when they are added or captured, but each time the graph is launched. Who
// made the node is who copies.
#pragma once

#include <cstddef>

#include "tracker/interface/event_types.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::copy::graph_copies {

// A node (a new one, or one whose parameters have changed) copies this, for whoever calls now.
void planned(const void* node, const events::Copy& copy, stacks::OnePythonStack& stack);
// A node that gets so many bytes from other ranks.
void planned_from_ranks(const void* node, Device to, uint64_t bytes, stacks::OnePythonStack& stack);
bool is_planned(const void* node);
void node_gone(const void* node);

// What an executable graph makes at each launch, from now on.
void ready(const void* executable, const events::GraphCopy* copies, size_t count, stacks::OnePythonStack& stack);
void changed(const void* executable, const void* node, const events::Copy& copy, stacks::OnePythonStack& stack);
void child_changed(const void* executable, const void* node, const events::GraphCopy* copies, size_t count,
                   stacks::OnePythonStack& stack);
void enabled(const void* executable, const void* node, bool whether);
void gone(const void* executable);

// Hot: no malloc; the lock is held while its sums go into the traffic counters, and by who changes a graph.
void launched(const void* executable);

void before_fork();
void after_fork();

}  // namespace devtrace::copy::graph_copies
