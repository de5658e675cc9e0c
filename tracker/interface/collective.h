// What a rank asks of the others of its communicator, as far as they have to ask for the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace devtrace {

enum class CollectiveKind : uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  receive,  // of one sender, which asks for something else
  group,    // several at once
  count
};
inline constexpr std::array<std::string_view, static_cast<size_t>(CollectiveKind::count)> kCollectiveNames = {
    "AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter", "Recv", "group"};
constexpr std::string_view name_of(CollectiveKind kind) {
  return kCollectiveNames[static_cast<size_t>(kind)];
}
constexpr bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce || kind == CollectiveKind::reduce_scatter;
}
constexpr bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::reduce || kind == CollectiveKind::broadcast || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter;
}

// NCCL's element types, by its numbers, and what a reduction does.
struct ElementType {
  std::string_view name;
  unsigned bytes;
};
inline constexpr ElementType kElementTypes[] = {
    {"int8", 1},    {"uint8", 1},   {"int32", 4},   {"uint32", 4},   {"int64", 8},         {"uint64", 8},
    {"float16", 2}, {"float32", 4}, {"float64", 8}, {"bfloat16", 2}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};
inline constexpr std::array<std::string_view, 6> kReductions = {"sum",     "product", "maximum",
                                                                "minimum", "average", "scaled sum"};

struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  uint64_t count = 0;  // of elements; of a group, of its calls
  unsigned type = 0, op = 0;
  int root = 0;
  uint64_t digest = 0;  // of a group: the same for the same calls in whatever order
};

constexpr uint64_t bytes_of(const Collective& it) {
  return it.count * (it.type < std::size(kElementTypes) ? kElementTypes[it.type].bytes : 1);
}

// Bytes that this rank of so many gets from the others: no algorithm moves fewer.
constexpr uint64_t received_at_least(const Collective& it, int rank, int size) {
  if (size < 2) return 0;
  const uint64_t bytes = bytes_of(it), others = static_cast<uint64_t>(size) - 1;
  const bool root = rank == it.root;
  switch (it.kind) {
    case CollectiveKind::all_reduce:  // a part is summed here, the other sums are got
      return 2 * others * bytes / static_cast<uint64_t>(size);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return others * bytes;
    case CollectiveKind::reduce:
      return root ? bytes : 0;
    case CollectiveKind::gather:
      return root ? others * bytes : 0;
    case CollectiveKind::broadcast:
    case CollectiveKind::scatter:
      return root ? 0 : bytes;
    case CollectiveKind::receive:
      return bytes;
    default:
      return 0;
  }
}

// Whether two ranks ask for the same. What only moves bytes cares for these alone.
constexpr bool agree(const Collective& one, const Collective& other) {
  if (one.kind != other.kind) return false;
  if (one.kind == CollectiveKind::group) return one.count == other.count && one.digest == other.digest;
  if (has_root(one.kind) && one.root != other.root) return false;
  if (!reduces(one.kind)) return bytes_of(one) == bytes_of(other);
  return one.count == other.count && one.type == other.type && one.op == other.op;
}

}  // namespace devtrace
