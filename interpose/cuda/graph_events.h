// Copies in graphs, as CUDA's own answers tell of them: which node a capture has made, which are in a graph.
#pragma once

#include <atomic>

#include "tracker/events.h"

namespace devtrace::interpose::graph_copies {

// Whether any stream is being captured: one load.
inline constinit std::atomic<int> captures_now{0};
inline bool any_capture() {
  return captures_now.load(std::memory_order_relaxed) != 0;
}
bool asked_to_capture(const void* stream);
// Whether this one is: then nothing is copied now.
inline bool captures(const void* stream) {
  return any_capture() && asked_to_capture(stream);
}
void capture_begun();
void capture_ended();

// The node that the last call on a captured stream has made; null when it made none, or several.
const void* captured_node(const void* stream);

// Tells what an executable graph has become: all of the graph's copies, those of its child graphs included.
void emit_graph_ready(const void* executable, const void* graph);
void emit_child_changed(const void* executable, const void* node, const void* child);

// A graph is about to be destroyed: its nodes' addresses may come back as others'.
void emit_graph_gone(const void* graph);

}  // namespace devtrace::interpose::graph_copies
