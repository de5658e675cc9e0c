// What ranks give each other in the memory that they share: collectives, in their order, messages and signals. A rank
// that has posted its part is not needed any more: the last one computes, and each takes what is its own.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "simulate/nccl/reduction.h"
#include "simulate/nccl/region.h"

namespace devtrace::simulate::nccl {

// A rank's place in a communicator.
struct Place {
  std::shared_ptr<Region> region;
  int rank = 0, size = 1;
  std::atomic<bool> aborted{false}, revoked{false};
  std::atomic<ncclResult_t> error{ncclSuccess};  // what ncclCommGetAsyncError answers
  std::mutex mutex;
  std::string why;  // what ncclGetLastError says of it
};

// Signals of a rank's.
struct Signals {
  int rank;
  uint64_t count;
};

// One request of a rank's, from its being posted until it is complete.
struct Exchange {
  Call call;
  const void* send = nullptr;
  void* receive = nullptr;       // of kPutSignal: the other rank's memory, as this process reaches it
  std::vector<Signals> awaited;  // of kWaitSignal: each rank once
  Scale scale = {};
  Channel channel = kOfStreams;
  uint64_t number = 0;  // 0: not posted
  bool taken = false;
};

// Makes the rank's part known. False: there is no room for it yet. Never waits for another rank.
bool post(Place& place, Exchange& exchange);
// Whether nobody waits for it any more.
bool is_dropped(const Place& place, const Exchange& exchange);
// Takes what the rank receives of one that is posted. False: others have to post first.
bool take(Place& place, Exchange& exchange);

// Makes them all complete, which takes as long as the others take. What an aborted communicator has asked for is
// dropped. Where others have ended that is an error of the communicator's, and goes on until it is aborted, as on
// hardware.
struct Waiting {
  Place* place;
  Exchange* exchange;
};
void finish(const std::vector<Waiting>& all);

// Enters the region, and waits until all have. The text says why not, and names the rank.
struct Identity {
  char device[16] = {};
  unsigned long long bus = 0;
};
std::string enter(Place& place, const Identity& identity);
// `parent`: where those are known, as these `ranks`, that have not entered.
std::string meet(Place& place, Place* parent, const std::vector<int>& ranks);
// The text says which of these ranks will do nothing more.
std::string first_gone(Place& place, const std::vector<int>& ranks);
void leave(Place& place);
// What its streams wait for is dropped, the hosts may still agree on other communicators.
void revoke(Place& place);

// A communicator of some of another one's ranks, and perhaps of others: one who has its id invites the rest. The text
// says who of `ranks` will not come any more.
std::string invite(Place& place, const std::vector<int>& ranks, const ncclUniqueId& id);
std::string await_invitation(Place& place, const std::vector<int>& ranks, const std::vector<int>& from,
                             ncclUniqueId* id);

std::string in_words(const Call& call);

}  // namespace devtrace::simulate::nccl
