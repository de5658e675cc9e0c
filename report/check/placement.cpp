#include "report/check/placement.h"

#include <algorithm>
#include <tuple>

#include "common/format.h"
#include "report/placement/name_groups.h"

namespace devtrace::report::check {
namespace {

using Devices = std::set<std::string>;
using Names = std::map<std::string, Devices>;
constexpr const char* kOwn = "cuda:LOCAL_RANK";

bool has_number(const std::string& device) {
  return device.starts_with("cuda:");
}

// Tonight's device → the baseline's.
std::map<std::string, std::string> alignment(const Places& before, const Places& now) {
  std::map<std::pair<std::string, std::string>, size_t> shared;  // tonight's, the baseline's
  std::set<std::string> all;
  for (const auto& [root, names] : now)
    for (const auto& [name, devices] : names)
      for (const std::string& device : devices)
        if (has_number(device)) all.insert(device);
  std::set<std::string> known;
  for (const auto& [root, names] : before) {
    const auto same = now.find(root);
    for (const auto& [name, devices] : names) {
      for (const std::string& device : devices)
        if (has_number(device)) known.insert(device);
      if (same == now.end()) continue;
      const auto tonight = same->second.find(name);
      if (tonight == same->second.end()) continue;
      for (const std::string& mine : tonight->second)
        for (const std::string& theirs : devices)
          if (has_number(mine) && has_number(theirs)) ++shared[{mine, theirs}];
    }
  }
  std::vector<std::tuple<size_t, bool, std::string, std::string>> pairs;
  pairs.reserve(shared.size());
  for (const auto& [pair, count] : shared)
    pairs.emplace_back(count, pair.first == pair.second, pair.first, pair.second);
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(a), std::get<3>(a)) <
           std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(b), std::get<3>(b));
  });
  std::map<std::string, std::string> out;
  std::set<std::string> taken;
  for (const auto& [count, same, mine, theirs] : pairs)
    if (!out.contains(mine) && !taken.contains(theirs)) {
      out[mine] = theirs;
      taken.insert(theirs);
    }
  // The others keep their names where nobody in the baseline has them.
  for (const std::string& mine : all) {
    if (out.contains(mine)) continue;
    std::string name = mine;
    for (int number = 0; taken.contains(name) || (known.contains(name) && name != mine); ++number)
      name = fmt::format("cuda:{}", number);
    out[mine] = name;
    taken.insert(name);
  }
  return out;
}

Devices renamed(const Devices& devices, const std::map<std::string, std::string>& names) {
  Devices out;
  for (const std::string& device : devices) {
    const auto name = names.find(device);
    out.insert(name == names.end() ? device : name->second);
  }
  return out;
}

// Tensors with the same fate, as few lines.
class Fates {
 public:
  void add(const std::string& name, const Devices* before, const Devices* now) {
    names_.push_back(name);
    if (before && now && *before == *now) return colours_.push_back(-1);
    const std::pair fate(before ? *before : Devices(), now ? *now : Devices());
    const auto [known, first] = numbers_.try_emplace(fate, static_cast<int>(fates_.size()));
    if (first) fates_.push_back(fate);
    colours_.push_back(known->second);
  }

  void emit(const std::string& root, PlacementChanges& out) const {
    for (const NameGroup& group : grouped_names({names_.begin(), names_.end()}, colours_)) {
      const auto& [before, now] = fates_[static_cast<size_t>(group.colour)];
      Displaced one{root, group.name, group.members.size(), before, now};
      if (!before.empty() && !now.empty()) out.moved_tensors += one.tensors;
      (before.empty() ? out.added : now.empty() ? out.gone : out.moved).push_back(std::move(one));
    }
  }

 private:
  std::vector<std::string> names_;
  std::vector<int> colours_;
  std::vector<std::pair<Devices, Devices>> fates_;
  std::map<std::pair<Devices, Devices>, int> numbers_;
};

}  // namespace

std::string device_of_rank(const Json& process, const std::string& device) {
  if (!has_number(device)) return device;
  const std::string_view rank = string(object(process, "environment"), "LOCAL_RANK");
  if (rank.empty()) return device;
  const std::string_view visible = string(process, "visible_devices");
  const bool one = !visible.empty() && visible.find(',') == visible.npos;
  return one || device == fmt::format("cuda:{}", rank) ? kOwn : device;
}

PlacementChanges changes(const Places& before, const Places& now) {
  PlacementChanges out;
  const auto names = alignment(before, now);
  for (const auto& [mine, theirs] : names)
    if (mine != theirs) out.numbers[mine] = theirs;
  std::set<std::string> roots;
  for (const auto* side : {&before, &now})
    for (const auto& [root, tensors] : *side) roots.insert(root);
  static const Names nothing;
  for (const std::string& root : roots) {
    const auto of = [&](const Places& side) -> const Names& {
      const auto found = side.find(root);
      return found == side.end() ? nothing : found->second;
    };
    const Names &old = of(before), &fresh = of(now);
    Fates fates;
    for (const auto& [name, devices] : old) {
      const auto tonight = fresh.find(name);
      const Devices here = tonight == fresh.end() ? Devices() : renamed(tonight->second, names);
      fates.add(name, &devices, tonight == fresh.end() ? nullptr : &here);
    }
    for (const auto& [name, devices] : fresh) {
      if (old.contains(name)) continue;
      const Devices here = renamed(devices, names);
      fates.add(name, nullptr, &here);
    }
    fates.emit(root, out);
  }
  return out;
}

Places renumbered(const Places& before, const Places& now) {
  const auto names = alignment(before, now);
  Places out;
  for (const auto& [root, tensors] : now)
    for (const auto& [name, devices] : tensors) out[root][name] = renamed(devices, names);
  return out;
}

}  // namespace devtrace::report::check
