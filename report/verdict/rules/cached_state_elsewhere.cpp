// Keys and values of earlier steps, kept on the device of the layer (or of the server) that filled them.
#include <algorithm>

#include "common/cache_names.h"
#include "report/base/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::causes::rules {
namespace {

bool is_cache(const Operand& operand) {
  return names_a_cache(operand.name) || std::any_of(operand.names.begin(), operand.names.end(),
                                                    [](const Operand::Name& each) { return names_a_cache(each.name); });
}

bool older(const Operand& it, const Operand& other) {
  return it.created.time && other.created.time && *it.created.time < *other.created.time;
}

// Says no more than the stacks and the times do.
std::string sentence(const Operand& kept, const Operand& fresh, bool before) {
  if (before)
    return fmt::format("{} was kept from before this call and meets {}, which is on another device.", with_place(kept),
                       with_place(fresh));
  if (older(kept, fresh))
    return fmt::format("{} is older than {}, which is on another device.", with_place(kept), with_place(fresh));
  return fmt::format("{}, by its name a state that is kept, meets {}, which is on another device.", with_place(kept),
                     with_place(fresh));
}

}  // namespace

std::optional<Cause> cached_state_elsewhere(const Evidence& evidence) {
  const auto not_state = [](const Operand& operand) { return !operand.is_state(); };
  auto pair = evidence.pair([](const Operand& it) { return is_cache(it) && !it.is_state(); }, not_state);
  if (!pair) return std::nullopt;

  // With a cache on both sides the older one is what was kept. What stays on the CPU is moved to the GPU, never the
  // other way.
  const bool both = is_cache(*pair.other);
  if (both && (older(*pair.other, *pair.it) || (pair.other->on_cpu() && !pair.it->on_cpu())))
    std::swap(pair.it, pair.other);
  const Operand& kept = *pair.it;
  const Operand& fresh = *pair.other;

  // A name alone is a hint. That it was there before the call says that it is a state; that it is the older one of two
  // caches, that caches of several steps or layers meet; of a plain variable it says little.
  const bool before = evidence.made_before_call(kept);
  const bool seen = older(kept, fresh) || (kept.on_cpu() && !fresh.on_cpu());
  Cause cause{"cached-state-elsewhere", seen && (before || both) ? Confidence::high : Confidence::medium,
              sentence(kept, fresh, before), std::nullopt};
  const bool to_cpu = fresh.on_cpu();
  cause.fix = to_cpu ? move_where_named(evidence, fresh, kept) : move_where_named(evidence, kept, fresh);
  return cause;
}

}  // namespace devtrace::report::causes::rules
