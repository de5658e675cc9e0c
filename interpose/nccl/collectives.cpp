// Collectives of NCCL: what a rank asks of the others, told before it is asked. What stands between ncclGroupStart and
// ncclGroupEnd is one request to each communicator.

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "interpose/cuda/graph_events.h"
#include "interpose/linking/original.h"
#include "tracker/events.h"

namespace events = devtrace::events;
namespace graph_events = devtrace::interpose::graph_events;
using devtrace::Collective;
using devtrace::CollectiveKind;

namespace {

// Those of one communicator in the calling thread's group.
struct Grouped {
  ncclComm_t comm = nullptr;
  const char* function = nullptr;
  Collective call;  // the first
  uint64_t calls = 0, digest = 0;
};
// What a group brings on a stream that is captured, by the kernel that its end adds to the graph.
struct Captured {
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
  uint64_t bytes = 0;
};
struct Group {
  size_t count = 0, captured = 0;
  Grouped of[64]{};
  Captured on[16]{};
};
// Of threads that have had a group, by turns. A thread's own memory is too small where this is attached.
constinit Group groups[64];
constinit std::atomic<size_t> threads{0};

struct State {
  int depth = 0;   // of ncclGroupStart
  int inside = 0;  // of NCCL's own functions, which may call each other
  Group* group = nullptr;
};
thread_local constinit State state;

// The same whatever stands before it, so that sums of them do not know an order.
uint64_t digest_of(const Collective& call) {
  uint64_t hash = 0xCBF29CE484222325u;
  const uint64_t bytes = devtrace::reduces(call.kind) ? call.count << 8 | call.type : devtrace::bytes_of(call);
  for (const uint64_t word : {static_cast<uint64_t>(call.kind), bytes, uint64_t{call.op},
                              devtrace::has_root(call.kind) ? static_cast<uint64_t>(call.root) : 0})
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

// Of a group's, which move when it ends.
bool keep_captured(const Captured& call) {
  if (state.depth == 0 || !state.group) return false;
  Group& group = *state.group;
  for (size_t i = 0; i < group.captured; ++i)
    if (group.on[i].stream == call.stream) {
      group.on[i].bytes += call.bytes;
      return true;
    }
  if (group.captured == std::size(group.on)) return false;
  group.on[group.captured++] = call;
  return true;
}

void plan(const Captured& call) {
  if (const void* const node = graph_events::captured_node(call.stream))
    events::collective_planned(node, call.comm, call.bytes);
  else
    events::collective_moves(call.comm, call.bytes);
}

void emit_called(const char* function, ncclComm_t comm, const Collective& call) noexcept {
  if (call.kind == CollectiveKind::receive) return;  // the sender does not ask for the same
  if (state.depth == 0) return events::collective_called(function, comm, call);
  if (!state.group) return;
  Group& group = *state.group;
  for (size_t i = 0; i < group.count; ++i)
    if (Grouped& each = group.of[i]; each.comm == comm) {
      ++each.calls;
      each.digest += digest_of(call);
      return;
    }
  if (group.count < std::size(group.of)) group.of[group.count++] = {comm, function, call, 1, digest_of(call)};
}

// What it brings when it has been made: nothing where that is told already, or its group's end tells it.
Captured on_collective(const char* function, ncclComm_t comm, cudaStream_t stream, const Collective& call) noexcept {
  if (call.count == 0 || !comm || state.inside > 0) return {};  // NCCL drops it, or has been asked for another
  Captured brings{stream, comm, events::collective_receives(comm, call)};
  emit_called(function, comm, call);
  if (brings.bytes == 0) return {};
  if (!graph_events::captures(stream))
    events::collective_moves(comm, brings.bytes);
  else if (!keep_captured(brings))
    return brings;
  return {};
}

void on_group_start() noexcept {
  ++state.depth;
  if (state.group) return;
  if (const size_t next = threads.fetch_add(1); next < std::size(groups)) state.group = &groups[next];
}

void on_group_end() noexcept {
  if (state.inside > 0 || state.depth == 0 || --state.depth > 0) return;
  if (!state.group) return;
  Group& group = *state.group;
  for (size_t i = 0; i < group.count; ++i) {
    const Grouped& each = group.of[i];
    if (each.calls == 1)
      events::collective_called(each.function, each.comm, each.call);
    else
      events::collective_called("ncclGroupEnd", each.comm,
                                {.kind = CollectiveKind::group, .count = each.calls, .digest = each.digest});
  }
  group.count = 0;
}

void plan_captured() noexcept {
  if (state.inside > 0 || state.depth > 0 || !state.group) return;
  Group& group = *state.group;
  for (size_t i = 0; i < group.captured; ++i) plan(group.on[i]);
  group.captured = 0;
}

class Inside {
 public:
  Inside() { ++state.inside; }
  ~Inside() { --state.inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

unsigned reduction(ncclRedOp_t op) {
  constexpr unsigned kOwn = 5;  // each rank's has a number of its own
  return op < kOwn ? static_cast<unsigned>(op) : kOwn;
}

}  // namespace

// A function of `parameters`, which hands on `arguments` and asks for the collective behind them.
#define COLLECTIVE(function, parameters, arguments, ...)                           \
  extern "C" DEVTRACE_EXPORT ncclResult_t function parameters {                    \
    const auto original = ORIGINAL(function);                                      \
    if (!original) return ncclSystemError;                                         \
    const Captured brings = on_collective(#function, comm, stream, {__VA_ARGS__}); \
    const Inside inside;                                                           \
    const ncclResult_t result = original arguments;                                \
    if (brings.bytes > 0) plan(brings);                                            \
    return result;                                                                 \
  }
#define ENDS const void *send, void *receive, size_t count, ncclDataType_t type
#define WHERE ncclComm_t comm, cudaStream_t stream

COLLECTIVE(ncclAllReduce, (ENDS, ncclRedOp_t op, WHERE), (send, receive, count, type, op, comm, stream),
           CollectiveKind::all_reduce, count, type, reduction(op))
COLLECTIVE(ncclReduce, (ENDS, ncclRedOp_t op, int root, WHERE), (send, receive, count, type, op, root, comm, stream),
           CollectiveKind::reduce, count, type, reduction(op), root)
COLLECTIVE(ncclBroadcast, (ENDS, int root, WHERE), (send, receive, count, type, root, comm, stream),
           CollectiveKind::broadcast, count, type, 0, root)
COLLECTIVE(ncclBcast, (void* buffer, size_t count, ncclDataType_t type, int root, WHERE),
           (buffer, count, type, root, comm, stream), CollectiveKind::broadcast, count, type, 0, root)
COLLECTIVE(ncclAllGather, (ENDS, WHERE), (send, receive, count, type, comm, stream), CollectiveKind::all_gather, count,
           type)
COLLECTIVE(ncclReduceScatter, (ENDS, ncclRedOp_t op, WHERE), (send, receive, count, type, op, comm, stream),
           CollectiveKind::reduce_scatter, count, type, reduction(op))
COLLECTIVE(ncclAlltoAll, (ENDS, WHERE), (send, receive, count, type, comm, stream), CollectiveKind::all_to_all, count,
           type)
COLLECTIVE(ncclGather, (ENDS, int root, WHERE), (send, receive, count, type, root, comm, stream),
           CollectiveKind::gather, count, type, 0, root)
COLLECTIVE(ncclScatter, (ENDS, int root, WHERE), (send, receive, count, type, root, comm, stream),
           CollectiveKind::scatter, count, type, 0, root)
COLLECTIVE(ncclRecv, (void* receive, size_t count, ncclDataType_t type, int peer, WHERE),
           (receive, count, type, peer, comm, stream), CollectiveKind::receive, count, type, 0, peer)

extern "C" {

DEVTRACE_EXPORT ncclResult_t ncclGroupStart() {
  const auto original = ORIGINAL(ncclGroupStart);
  if (!original) return ncclSystemError;
  if (state.inside == 0) on_group_start();
  return original();
}

DEVTRACE_EXPORT ncclResult_t ncclGroupEnd() {
  const auto original = ORIGINAL(ncclGroupEnd);
  if (!original) return ncclSystemError;
  on_group_end();
  ncclResult_t result;
  {
    const Inside inside;
    result = original();
  }
  plan_captured();
  return result;
}
}
