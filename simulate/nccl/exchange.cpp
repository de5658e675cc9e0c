#include "simulate/nccl/exchange.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "simulate/common/library.h"

namespace devtrace::simulate::nccl {
namespace {

struct Row {
  const char* name;
  bool reduces;
  bool to_all;                   // what is sent has a part for each rank
  bool from_all;                 // what is received has a part of each rank
  bool one_sends, one_receives;  // the root alone
};
constexpr char kOfRank[] = " of rank ";

// By OperationKind.
constexpr Row kRows[] = {
    {"AllReduce", true, false, false, false, false},    {"Reduce", true, false, false, false, true},
    {"Broadcast", false, false, false, true, false},    {"AllGather", false, false, true, false, false},
    {"ReduceScatter", true, true, false, false, false}, {"AlltoAll", false, true, true, false, false},
    {"Gather", false, false, true, false, true},        {"Scatter", false, true, false, true, false},
    {"Send", false, false, false, false, false},        {"Recv", false, false, false, false, false},
    {"PutSignal", false, false, false, false, false},   {"WaitSignal", false, false, false, false, false},
};
const Row& row_of(const Call& call) {
  return kRows[static_cast<size_t>(call.kind)];
}

bool is_message(const Call& call) {
  return call.kind == OperationKind::kSend || call.kind == OperationKind::kReceive;
}

bool is_one_sided(const Call& call) {
  return call.kind == OperationKind::kPutSignal || call.kind == OperationKind::kWaitSignal;
}

size_t bytes_of(const Call& call) {
  return call.count * size_of(call.type);
}

size_t sent_bytes(const Place& place, const Call& call) {
  const Row& row = row_of(call);
  if (call.kind == OperationKind::kReceive || (row.one_sends && place.rank != call.other)) return 0;
  return bytes_of(call) * (row.to_all ? static_cast<size_t>(place.size) : 1);
}

bool is_same(const Call& a, const Call& b) {
  return a.kind == b.kind && a.type == b.type && a.op == b.op && a.other == b.other && a.count == b.count;
}

void fail(Place& place, ncclResult_t error, const std::string& why) {
  const std::lock_guard lock(place.mutex);
  if (place.error != ncclSuccess) return;
  place.why = why;
  place.error = error;
  std::fprintf(stderr, "devtrace: NCCL: %s\n", why.c_str());
}

// All that a rank receives.
size_t received_bytes(const Place& place, const Call& call) {
  return bytes_of(call) * (row_of(call).from_all ? static_cast<size_t>(place.size) : 1);
}

// Whether --values small computes nothing of what the rank sends: by its size, or by what it depends on.
bool is_left(const Place& place, const Exchange& exchange) {
  const size_t sent = sent_bytes(place, exchange.call);
  if (sent == 0 || !exchange.send) return false;
  return devtrace_sim_is_left(exchange.send, sent, std::max(sent, received_bytes(place, exchange.call)),
                              is_floating(exchange.call.type));
}

// Copies what the rank sends. Without the lock: nobody else looks at the part before it is posted.
void fill(Region& region, Part& part, const Exchange& exchange) {
  if (part.bytes == 0 || part.left || !exchange.send) return;
  devtrace_sim_uncomputed_part(exchange.send, part.bytes, &part.uncomputed);
  std::memcpy(region.at(part), exchange.send, part.bytes);
  scale(region.at(part), part.bytes / size_of(exchange.call.type), exchange.call.type, exchange.scale);
}

Collective* find(Shared& shared, const Exchange& exchange) {
  for (Collective& each : shared.collectives)
    if (each.number == exchange.number && each.channel == exchange.channel) return &each;
  return nullptr;
}

Message* find_message(Shared& shared, int from, int to, uint64_t number) {
  for (Message& each : shared.messages)
    if (each.number == number && each.from == from && each.to == to) return &each;
  return nullptr;
}

// The sum over all parts, in the order of the ranks, in the first one's place.
void reduce_parts(Region& region, const Place& place, Collective& collective) {
  std::vector<const void*> parts;
  size_t bytes = SIZE_MAX;
  for (int rank = 0; rank < place.size; ++rank) {
    if (collective.parts[rank].left) return;
    parts.push_back(region.at(collective.parts[rank]));
    bytes = std::min<size_t>(bytes, collective.parts[rank].bytes);  // equal, unless the program is wrong
  }
  const Call& call = collective.call;
  reduce(parts, region.at(collective.parts[0]), bytes / size_of(call.type), call.type, call.op);
}

bool post_collective(Place& place, Exchange& exchange) {
  Region& region = *place.region;
  Shared& shared = region.shared();
  Part part;
  Collective* collective;
  uint64_t number;
  const bool left = is_left(place, exchange);
  {
    RegionLock lock(region);
    number = shared.members[place.rank].next[exchange.channel];
    Exchange looked_for = exchange;
    looked_for.number = number;
    collective = find(shared, looked_for);
    if (!collective) {
      collective = std::find_if(std::begin(shared.collectives), std::end(shared.collectives),
                                [](const Collective& each) { return each.number == 0; });
      if (collective == std::end(shared.collectives)) {
        shared.wants_room = true;
        return false;
      }
    }
    if (!region.take(sent_bytes(place, exchange.call), left, &part)) {
      shared.wants_room = true;
      return false;
    }
    ++shared.members[place.rank].next[exchange.channel];
    if (collective->number == 0) {
      *collective = {};
      collective->number = number;
      collective->channel = exchange.channel;
      collective->first = place.rank;
      collective->call = exchange.call;
    }
  }
  exchange.number = number;
  fill(region, part, exchange);
  RegionLock lock(region);
  if (!is_same(collective->call, exchange.call))
    fail(place, ncclInvalidUsage,
         "rank " + std::to_string(place.rank) + " calls " + in_words(exchange.call) + " where rank " +
             std::to_string(collective->first) + " calls " + in_words(collective->call));
  collective->parts[place.rank] = part;
  if (++collective->posted < place.size) return true;
  lock.unlock();
  if (row_of(collective->call).reduces && place.size > 0) reduce_parts(region, place, *collective);
  const RegionLock again(region);
  collective->complete = true;
  region.wake_all();
  return true;
}

bool post_message(Place& place, Exchange& exchange) {
  Region& region = *place.region;
  Shared& shared = region.shared();
  const int other = exchange.call.other;
  if (exchange.call.kind == OperationKind::kReceive) {
    const RegionLock lock(region);
    exchange.number = ++shared.received[other][place.rank];
    return true;
  }
  Part part;
  Message* message;
  const bool left = is_left(place, exchange);
  {
    const RegionLock lock(region);
    message = std::find_if(std::begin(shared.messages), std::end(shared.messages),
                           [](const Message& each) { return each.number == 0; });
    if (message == std::end(shared.messages) || !region.take(sent_bytes(place, exchange.call), left, &part)) {
      shared.wants_room = true;
      return false;
    }
    exchange.number = ++shared.sent[place.rank][other];
    message->number = exchange.number;
    message->from = place.rank;
    message->to = other;
    message->call = exchange.call;
    message->part = {};
  }
  fill(region, part, exchange);
  const RegionLock lock(region);
  message->part = part;
  region.wake(other);
  return true;
}

void copy(void* to, const void* from, size_t bytes) {
  if (to && bytes) std::memcpy(to, from, bytes);
}

// Adds what a rank has sent uncomputed. Whoever has received it from another one goes on to say whose it was.
void add(UncomputedPart* all, const UncomputedPart& one, const std::string& whose) {
  if (one.begin == one.end) return;
  const bool first = all->begin == all->end;
  all->begin = first ? one.begin : std::min(all->begin, one.begin);
  all->end = first ? one.end : std::max(all->end, one.end);
  if (!first) return;
  const bool known = whose.empty() || std::strstr(one.source, kOfRank);
  std::snprintf(all->source, sizeof all->source, "%s%s", one.source, known ? "" : whose.c_str());
}

// What was received is as computed as it was where it came from, of which `skipped` bytes went to others.
void follow(const void* received, size_t skipped, size_t bytes, UncomputedPart part) {
  if (!received || !bytes) return;
  part.begin = std::max<uint64_t>(part.begin, skipped) - skipped;
  part.end = std::min<uint64_t>(std::max<uint64_t>(part.end, skipped) - skipped, bytes);
  devtrace_sim_received(received, bytes, &part);
}

std::string whose(const Place& place, int rank) {
  return rank == place.rank ? "" : kOfRank + std::to_string(rank);
}

bool any_left(const Place& place, const Collective& collective) {
  return std::any_of(collective.parts, collective.parts + place.size, [](const Part& each) { return each.left; });
}

// What the rank receives of a complete collective.
void copy_out(Place& place, const Collective& collective, const Exchange& exchange) {
  const Row& row = row_of(exchange.call);
  if (row.one_receives && exchange.call.other != place.rank) return;
  const size_t bytes = bytes_of(exchange.call);
  const int first = row.one_sends ? exchange.call.other : 0;
  const int last = row.from_all ? place.size - 1 : first;
  for (int from = first; from <= last; ++from) {
    const Part& part = collective.parts[from];
    const size_t skipped = row.to_all ? static_cast<size_t>(place.rank) * bytes : 0;
    if (skipped + bytes > part.bytes) continue;  // the other rank has called something else
    auto* to = static_cast<uint8_t*>(exchange.receive);
    if (to) to += static_cast<size_t>(from - first) * bytes;
    if (part.left || (row.reduces && any_left(place, collective))) {
      devtrace_sim_received_nothing(to, bytes);
      continue;
    }
    copy(to, place.region->at(part) + skipped, bytes);
    UncomputedPart uncomputed = {};
    for (int rank = row.reduces ? 0 : from; rank <= (row.reduces ? place.size - 1 : from); ++rank)
      add(&uncomputed, collective.parts[rank].uncomputed, whose(place, rank));
    follow(to, skipped, bytes, uncomputed);
  }
}

void made_room(Region& region) {
  if (!region.shared().wants_room) return;
  region.shared().wants_room = false;
  region.wake_all();
}

bool take_collective(Place& place, Exchange& exchange) {
  Region& region = *place.region;
  RegionLock lock(region);
  Collective* const collective = find(region.shared(), exchange);
  if (!collective || !collective->complete) return false;
  lock.unlock();
  copy_out(place, *collective, exchange);
  const RegionLock again(region);
  if (++collective->taken < place.size) return true;
  for (int rank = 0; rank < place.size; ++rank) region.give(collective->parts[rank]);
  collective->number = 0;
  made_room(region);
  return true;
}

bool take_message(Place& place, Exchange& exchange) {
  if (exchange.call.kind == OperationKind::kSend) return true;
  Region& region = *place.region;
  RegionLock lock(region);
  Message* const message = find_message(region.shared(), exchange.call.other, place.rank, exchange.number);
  if (!message || !message->part.posted) return false;
  const Part part = message->part;
  lock.unlock();
  if (bytes_of(message->call) != bytes_of(exchange.call))
    fail(place, ncclInvalidUsage,
         "rank " + std::to_string(place.rank) + " calls " + in_words(exchange.call) + " where rank " +
             std::to_string(message->from) + " calls " + in_words(message->call));
  const size_t bytes = std::min<size_t>(part.bytes, bytes_of(exchange.call));
  if (part.left) {
    devtrace_sim_received_nothing(exchange.receive, bytes);
  } else {
    copy(exchange.receive, region.at(part), bytes);
    UncomputedPart uncomputed = {};
    add(&uncomputed, part.uncomputed, whose(place, message->from));
    follow(exchange.receive, 0, bytes, uncomputed);
  }
  const RegionLock again(region);
  region.give(part);
  message->number = 0;
  made_room(region);
  return true;
}

// The other rank does nothing for it.
bool post_one_sided(Place& place, Exchange& exchange) {
  exchange.number = 1;
  if (exchange.call.kind == OperationKind::kWaitSignal) return true;
  copy(exchange.receive, exchange.send, bytes_of(exchange.call));
  Region& region = *place.region;
  const RegionLock lock(region);
  ++region.shared().signals[exchange.call.other][place.rank];
  region.wake(exchange.call.other);
  return true;
}

// A rank whose signals have not all come; -1: none. Under the lock.
int unsignalled(Place& place, const Exchange& exchange) {
  const uint64_t* const signals = place.region->shared().signals[place.rank];
  for (const Signals& each : exchange.awaited)
    if (signals[each.rank] < each.count) return each.rank;
  return -1;
}

bool take_one_sided(Place& place, const Exchange& exchange) {
  if (exchange.call.kind == OperationKind::kPutSignal) return true;
  const RegionLock lock(*place.region);
  if (unsignalled(place, exchange) >= 0) return false;
  for (const Signals& each : exchange.awaited) place.region->shared().signals[place.rank][each.rank] -= each.count;
  return true;
}

std::string gone(Place& place, int rank) {
  const RunningProcess& process = place.region->shared().members[rank].process;
  return "rank " + std::to_string(rank) + " (process " + std::to_string(process.pid) + ") has " +
         (is_running(process) ? "left the communicator" : "ended");
}

// A rank that has to come yet and never will; -1: none.
int missing(Place& place, const Exchange& exchange) {
  Region& region = *place.region;
  Shared& shared = region.shared();
  const RegionLock lock(region);
  const auto is_dead = [&](int rank) { return !is_running(shared.members[rank].process); };
  const auto is_gone = [&](int rank) {
    const Member& member = shared.members[rank];
    return member.left || (member.revoked && exchange.channel == kOfStreams) || is_dead(rank);
  };
  if (is_one_sided(exchange.call)) {
    const int rank = unsignalled(place, exchange);
    return rank >= 0 && is_gone(rank) ? rank : -1;
  }
  if (is_message(exchange.call))
    return exchange.call.kind == OperationKind::kReceive && is_gone(exchange.call.other) ? exchange.call.other : -1;
  const Collective* const collective = find(shared, exchange);
  if (!collective || collective->complete) return -1;
  const bool computes = collective->posted == place.size;  // one of them
  for (int rank = 0; rank < place.size; ++rank)
    if (computes ? is_dead(rank) : !collective->parts[rank].posted && is_gone(rank)) return rank;
  return -1;
}

void look_for_missing(Place& place, const Exchange& exchange) {
  if (place.error != ncclSuccess) return;
  const int rank = missing(place, exchange);
  if (rank >= 0)
    fail(
        place, ncclRemoteError,
        gone(place, rank) + ", and rank " + std::to_string(place.rank) + " waits for it in " + in_words(exchange.call));
  else if (place.region->shared().broken)
    fail(place, ncclRemoteError,
         "a rank has ended while it wrote to what rank " + std::to_string(place.rank) + " reads");
}

}  // namespace

bool post(Place& place, Exchange& exchange) {
  if (exchange.number) return true;
  if (is_one_sided(exchange.call)) return post_one_sided(place, exchange);
  return is_message(exchange.call) ? post_message(place, exchange) : post_collective(place, exchange);
}

bool is_dropped(const Place& place, const Exchange& exchange) {
  return place.aborted || (place.revoked && exchange.channel == kOfStreams);
}

bool take(Place& place, Exchange& exchange) {
  if (exchange.taken) return true;
  if (!exchange.number) return false;
  exchange.taken = is_one_sided(exchange.call) ? take_one_sided(place, exchange)
                   : is_message(exchange.call) ? take_message(place, exchange)
                                               : take_collective(place, exchange);
  return exchange.taken;
}

void finish(const std::vector<Waiting>& all) {
  const auto post_all = [&] {
    for (const Waiting& each : all)
      if (!is_dropped(*each.place, *each.exchange)) post(*each.place, *each.exchange);
  };
  for (const Waiting& each : all) {
    Place& place = *each.place;
    for (;;) {
      const uint32_t changes = place.region->changes(place.rank);
      post_all();
      if (is_dropped(place, *each.exchange) || take(place, *each.exchange)) break;
      place.region->sleep(place.rank, changes);
      if (place.region->changes(place.rank) == changes) look_for_missing(place, *each.exchange);
    }
  }
}

std::string enter(Place& place, const Identity& identity) {
  Shared& shared = place.region->shared();
  const RegionLock lock(*place.region);
  if (shared.size == 0) shared.size = place.size;
  Member& member = shared.members[place.rank];
  if (shared.size != place.size)
    return "rank " + std::to_string(place.rank) + " says that there are " + std::to_string(place.size) +
           " ranks, another one said " + std::to_string(shared.size);
  if (member.here) return "there is a rank " + std::to_string(place.rank) + " already";
  member.process = this_process();
  member.here = true;
  std::memcpy(member.device, identity.device, sizeof member.device);
  member.bus = identity.bus;
  ++shared.arrived;
  place.region->wake_all();
  return "";
}

std::string first_gone(Place& place, const std::vector<int>& ranks) {
  const Member* const members = place.region->shared().members;
  for (const int rank : ranks)
    if (members[rank].left || !is_running(members[rank].process)) return gone(place, rank);
  return "";
}

std::string meet(Place& place, Place* parent, const std::vector<int>& ranks) {
  Shared& shared = place.region->shared();
  for (;;) {
    const uint32_t changes = place.region->changes(place.rank);
    {
      const RegionLock lock(*place.region);
      if (shared.arrived == shared.size) return "";
      for (int rank = 0; rank < shared.size; ++rank)
        if (shared.members[rank].here && !is_running(shared.members[rank].process))
          return gone(place, rank) + " before all ranks had come";
    }
    const std::string why = parent ? first_gone(*parent, ranks) : "";
    if (!why.empty()) return why + " before all ranks had come";
    if (place.aborted) return "aborted";
    place.region->sleep(place.rank, changes);
  }
}

void leave(Place& place) {
  const RegionLock lock(*place.region);
  place.region->shared().members[place.rank].left = true;
  place.region->wake_all();
}

void revoke(Place& place) {
  place.revoked = true;
  const RegionLock lock(*place.region);
  place.region->shared().members[place.rank].revoked = true;
  place.region->wake_all();
}

namespace {

// Until `done`, which is asked under the lock; or as long as all of `ranks` can still come.
template <class Done>
std::string wait_for_ranks(Place& place, const std::vector<int>& ranks, Done done) {
  for (;;) {
    const uint32_t changes = place.region->changes(place.rank);
    {
      const RegionLock lock(*place.region);
      if (done()) return "";
    }
    const std::string why = first_gone(place, ranks);
    if (!why.empty()) return why + " before all ranks had come";
    if (place.aborted) return "aborted";
    place.region->sleep(place.rank, changes);
  }
}

}  // namespace

std::string invite(Place& place, const std::vector<int>& ranks, const ncclUniqueId& id) {
  for (const int rank : ranks) {
    if (rank == place.rank) continue;
    Invitation& invitation = place.region->shared().invitations[rank][place.rank];
    const std::string why = wait_for_ranks(place, ranks, [&] {
      if (invitation.open) return false;
      invitation = {true, id};
      place.region->wake(rank);
      return true;
    });
    if (!why.empty()) return why;
  }
  return "";
}

std::string await_invitation(Place& place, const std::vector<int>& ranks, const std::vector<int>& from,
                             ncclUniqueId* id) {
  Invitation* const invitations = place.region->shared().invitations[place.rank];
  return wait_for_ranks(place, ranks, [&] {
    const auto rank = std::find_if(from.begin(), from.end(), [&](int each) { return invitations[each].open; });
    if (rank == from.end()) return false;
    invitations[*rank].open = false;
    *id = invitations[*rank].id;
    place.region->wake(*rank);
    return true;
  });
}

std::string in_words(const Call& call) {
  std::string text = row_of(call).name;
  if (call.kind != OperationKind::kWaitSignal) text += " of " + std::to_string(call.count) + " " + name_of(call.type);
  if (call.kind == OperationKind::kSend || call.kind == OperationKind::kPutSignal)
    text += " to rank " + std::to_string(call.other);
  if (call.kind == OperationKind::kReceive || call.kind == OperationKind::kWaitSignal)
    text += " from rank " + std::to_string(call.other);
  if (row_of(call).one_sends || row_of(call).one_receives) text += ", root " + std::to_string(call.other);
  return text;
}

}  // namespace devtrace::simulate::nccl
