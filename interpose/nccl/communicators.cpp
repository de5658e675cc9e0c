// Communicators of NCCL: which rank of which comes on which device. A rank says so before it waits for the others, so
// that all are known when the library refuses two on one device.

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "interpose/cuda/current_device.h"
#include "interpose/linking/lazy_symbol.h"
#include "interpose/linking/original.h"
#include "tracker/events.h"

namespace events = devtrace::events;
using devtrace::interpose::exact_current_device;

namespace {

// The same in every rank, whichever process it is in. FNV-1a.
uint64_t number_of(const ncclUniqueId* ids, int count) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (int i = 0; ids && i < count; ++i)
    for (const char byte : ids[i].internal) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  return hash;
}

struct Joining {
  events::Rank rank;
  const ncclComm_t* handle;
};

constinit devtrace::interpose::LazySymbol<decltype(&::ncclGetLastError)> last_error("libnccl.so", "ncclGetLastError");

// NCCL up to 2.29 names two of the ranks, from 2.30 on none.
events::Twice says_twice(int rank) {
  const auto ask = last_error.get();
  const char* const text = ask ? ask(nullptr) : nullptr;
  if (!text) return events::Twice::no;
  if (std::strstr(text, "Multiple Ranks are using the same GPU")) return events::Twice::some_rank;
  int first = -1, second = -1;
  const char* const named = std::strstr(text, "Duplicate GPU detected : rank ");
  if (!named || std::sscanf(named, "Duplicate GPU detected : rank %d and rank %d", &first, &second) != 2)
    return events::Twice::no;
  return first == rank || second == rank ? events::Twice::this_rank : events::Twice::no;
}

events::LibraryHandle number_of(ncclComm_t comm) {
  return reinterpret_cast<uintptr_t>(comm);
}

void on_joined(const events::Rank& rank, ncclComm_t comm) noexcept {
  events::library_handle_made(number_of(comm), rank.function);
  events::rank_joined(rank, comm);
}

void on_left(ncclComm_t comm) noexcept {
  events::library_handle_gone(number_of(comm));
  events::rank_left(comm);
}

void on_result(const Joining& joining, ncclResult_t result) noexcept {
  if (result == ncclInvalidUsage) return events::ranks_refused(&joining.rank, 1, says_twice(joining.rank.rank));
  if ((result == ncclSuccess || result == ncclInProgress) && *joining.handle) on_joined(joining.rank, *joining.handle);
}

Joining begin(const char* function, const ncclComm_t* handle, int ranks, const ncclUniqueId* ids, int count,
              int rank) noexcept {
  const Joining joining = {{function, number_of(ids, count), rank, ranks, exact_current_device()}, handle};
  events::rank_joins(joining.rank);
  return joining;
}

// Ranks that one thread has, each on a device.
ncclResult_t on_all(ncclResult_t result, const ncclComm_t* handles, int count, const int* devices) noexcept try {
  if (result != ncclInvalidUsage && result != ncclSuccess) return result;
  std::vector<events::Rank> ranks;
  const uint64_t number = static_cast<uint64_t>(::getpid()) << 48 ^ reinterpret_cast<uintptr_t>(handles[0]);
  for (int i = 0; i < count; ++i) ranks.push_back({"ncclCommInitAll", number, i, count, devices ? devices[i] : i});
  if (result == ncclInvalidUsage)
    events::ranks_refused(ranks.data(), ranks.size(), events::Twice::no);
  else
    for (int i = 0; i < count; ++i) events::rank_joined(ranks[static_cast<size_t>(i)], handles[i]);
  return result;
} catch (...) {
  return result;
}

constinit devtrace::interpose::LazySymbol<decltype(&::ncclCommUserRank)> user_rank("libnccl.so", "ncclCommUserRank");
constinit devtrace::interpose::LazySymbol<decltype(&::ncclCommCount)> count_of("libnccl.so", "ncclCommCount");
constinit devtrace::interpose::LazySymbol<decltype(&::ncclCommCuDevice)> device_of("libnccl.so", "ncclCommCuDevice");

// One that does not wait for the others has no rank yet, and is not told of.
void on_split(ncclComm_t parent, int color, const ncclComm_t* made, ncclResult_t result) noexcept {
  if (result != ncclSuccess && result != ncclInProgress) return;
  events::Rank rank = {"ncclCommSplit", 0, -1, 0, -1};
  const auto ask_rank = user_rank.get();
  const auto ask_count = count_of.get();
  const auto ask_device = device_of.get();
  const bool known = result == ncclSuccess && made && *made && ask_rank && ask_count && ask_device &&
                     ask_rank(*made, &rank.rank) == ncclSuccess && ask_count(*made, &rank.size) == ncclSuccess &&
                     ask_device(*made, &rank.device) == ncclSuccess;
  if (known) events::library_handle_made(number_of(*made), rank.function);
  events::rank_split(parent, color, rank, known ? *made : nullptr);
}

}  // namespace

extern "C" {

DEVTRACE_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  const auto original = ORIGINAL(ncclCommInitRank);
  if (!original) return ncclSystemError;
  const Joining joining = begin("ncclCommInitRank", comm, ranks, &id, 1, rank);
  const ncclResult_t result = original(comm, ranks, id, rank);
  on_result(joining, result);
  return result;
}

DEVTRACE_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                    ncclConfig_t* config) {
  const auto original = ORIGINAL(ncclCommInitRankConfig);
  if (!original) return ncclSystemError;
  const Joining joining = begin("ncclCommInitRankConfig", comm, ranks, &id, 1, rank);
  const ncclResult_t result = original(comm, ranks, id, rank, config);
  on_result(joining, result);
  return result;
}

DEVTRACE_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int count,
                                                      ncclUniqueId* ids, ncclConfig_t* config) {
  const auto original = ORIGINAL(ncclCommInitRankScalable);
  if (!original) return ncclSystemError;
  const Joining joining = begin("ncclCommInitRankScalable", comm, ranks, ids, count, rank);
  const ncclResult_t result = original(comm, ranks, rank, count, ids, config);
  on_result(joining, result);
  return result;
}

DEVTRACE_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  const auto original = ORIGINAL(ncclCommInitAll);
  return original ? on_all(original(comms, count, devices), comms, count, devices) : ncclSystemError;
}

DEVTRACE_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                                           ncclConfig_t* config) {
  const auto original = ORIGINAL(ncclCommSplit);
  if (!original) return ncclSystemError;
  const ncclResult_t result = original(comm, color, key, made, config);
  on_split(comm, color, made, result);
  return result;
}

DEVTRACE_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const auto original = ORIGINAL(ncclCommDestroy);
  on_left(comm);
  return original ? original(comm) : ncclSystemError;
}

DEVTRACE_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto original = ORIGINAL(ncclCommAbort);
  on_left(comm);
  return original ? original(comm) : ncclSystemError;
}
}
