// Ranks of one communicator that ask for different collectives at the same time, or do not come to one.
#include <algorithm>
#include <set>

#include "common/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

// What a rank calls, without its size and the rest: "calls AllReduce of 4 float32 (sum)".
std::string_view collective_of(const Operand& rank) {
  const std::string_view does = rank.created.call;
  return does.substr(0, does.find(" of "));
}

template <class Of>
bool differ(const std::vector<Operand>& ranks, const Of& of) {
  return std::ranges::any_of(ranks, [&](const Operand& each) { return of(each) != of(ranks.front()); });
}

// The user's innermost line, to change to what is not known.
std::optional<Fix> line_of(const Stack& stack) {
  const auto own = std::ranges::find_if(stack, [](const Frame& each) { return each.project; });
  return own == stack.end() ? std::nullopt : std::optional(repair_of(*own, {}));
}

// Where two ranks' ways part: from the outermost frame on the first that differs. Of two lines of one function the
// first one counts, which the other rank has left out or passed.
std::optional<Fix> line_of_parting(const Stack& one, const Stack& other) {
  size_t same = 0;
  const auto from_outside = [](const Stack& stack, size_t index) -> const Frame& {
    return stack[stack.size() - 1 - index];
  };
  while (same < one.size() && same < other.size() && from_outside(one, same).same_line(from_outside(other, same)))
    ++same;
  if (same == one.size() || same == other.size()) return line_of(one);
  const Frame &first = from_outside(one, same), &second = from_outside(other, same);
  if (!first.project || !second.project) return line_of(one);
  const bool passed = first.same_function(second) && second.line < first.line;
  return repair_of(passed ? second : first, {});
}

// By how what it does begins; the first that fits.
struct Missing {
  std::string_view does, category;
  Confidence confidence;
  std::string_view before, after;  // what it is and where
};
constexpr Missing kMissing[] = {
    {"waits in", "groups-in-another-order", Confidence::high,
     "Ranks wait for each other: ", "Ranks of several groups have to call their collectives in one order."},
    {"has ended", "rank-ended", Confidence::high, "",
     "Who waits for it waits until the group's timeout. What ended it (an exit, a return, the end of its data) has to "
     "come behind the collectives that all ranks call."},
    {"waits for", "rank-elsewhere", Confidence::medium, "",
     "Every rank of the group has to use it: the others have not come to it yet."},
    {"", "rank-elsewhere", Confidence::medium, "",
     "It may come late, or skip this collective, as where a branch is one rank's alone."},
};

}  // namespace

std::optional<Cause> different_collectives(const Evidence& evidence) {
  if (evidence.kind != "collective-mismatch" || evidence.operands.size() < 2) return std::nullopt;
  std::vector<std::string> lines;
  for (const Operand& each : evidence.operands) {
    const std::string line = at(each.created.line());
    if (!line.empty() && std::ranges::count(lines, line) == 0) lines.push_back(line);
  }
  const bool one_line = lines.size() == 1;
  const std::string where =
      one_line ? fmt::format("All of them are at {}", lines[0])
               : fmt::format(
                     "They are at different lines, as where a branch, a loop or an exception is one rank's "
                     "alone: a collective in one has to stand before or behind it");
  const auto line = line_of_parting(evidence.operands[0].created.stack, evidence.operands[1].created.stack);
  if (differ(evidence.operands, collective_of))
    return Cause{"different-collectives", Confidence::high,
                 fmt::format("Every rank has to call the same collectives in the same order. {}.", where), line};
  if (differ(evidence.operands, [](const Operand& each) { return each.shape.empty() ? 0 : each.shape[0]; }))
    return Cause{"different-sizes", Confidence::high,
                 fmt::format("NCCL does not compare sizes: it waits for the rest, or takes what lies behind. {}. What "
                             "is of a rank's own size has to be padded, or gathered as objects.",
                             where),
                 line};
  if (differ(evidence.operands, [](const Operand& each) { return each.dtype; }))
    return Cause{"different-types", Confidence::high,
                 fmt::format("NCCL does not compare types: it adds bytes up as what they are not. {}.", where), line};
  return Cause{"different-roots", Confidence::high,
               fmt::format("The ranks differ in what they do or in the rank that they do it with. {}.", where), line};
}

std::optional<Cause> rank_missing(const Evidence& evidence) {
  if (evidence.kind != "collective-stalled" || evidence.operands.empty()) return std::nullopt;
  const Operand& missing = evidence.operands.front();
  const std::string where = at(missing.created.line());
  const std::string& does = missing.created.call;
  const std::string is = where.empty() ? fmt::format("{} {}", missing.name, does.substr(0, does.find("; its last")))
                                       : fmt::format("{} {} at {}", missing.name, does, where);
  for (const auto& [begin, category, confidence, before, after] : kMissing)
    if (does.starts_with(begin))
      return Cause{category, confidence, fmt::format("{}{}. {}", before, is, after), line_of(missing.created.stack)};
  return std::nullopt;
}

}  // namespace devtrace::report::verdict::rules
