#include "report/placement/name_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/format.h"

namespace devtrace::report {
namespace {

constexpr size_t kDeepest = 24;  // parts of a name; what follows is one part
constexpr int kMixed = -1, kNothing = -2;

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < kDeepest) {
    const size_t dot = name.find('.');
    if (dot == name.npos) break;
    parts.push_back(name.substr(0, dot));
    name.remove_prefix(dot + 1);
  }
  parts.push_back(name);
  return parts;
}

// The names as a tree of modules.
class Tree {
 public:
  Tree(const std::vector<std::string_view>& names, const std::vector<int>& colours) : names_(names), colours_(colours) {
    nodes_.emplace_back();
    for (size_t index = 0; index < names.size(); ++index) add(index);
    settle(0);
  }

  std::vector<NameGroup> groups() {
    std::vector<NameGroup> out;
    collect(0, "", out);
    return out;
  }

 private:
  struct Node {
    std::map<std::string_view, size_t> by_part;
    std::vector<std::pair<std::string_view, size_t>> children;  // in order of appearance
    std::vector<size_t> names;                                  // that end here
    int colour = kNothing;                                      // of all names below, kMixed: of several
    size_t all = 0;                                             // names below
  };

  void add(size_t index) {
    size_t at = 0;
    for (const std::string_view part : parts_of(names_[index])) {
      const auto [entry, fresh] = nodes_[at].by_part.try_emplace(part, nodes_.size());
      const size_t next = entry->second;
      if (fresh) {
        nodes_[at].children.emplace_back(part, next);
        nodes_.emplace_back();
      }
      at = next;
    }
    nodes_[at].names.push_back(index);
  }

  void settle(size_t at) {
    int colour = kNothing;
    size_t all = nodes_[at].names.size();
    const auto mix = [&](int other) {
      if (other < 0) other = kMixed;
      colour = colour == kNothing || colour == other ? other : kMixed;
    };
    for (const size_t index : nodes_[at].names) mix(colours_[index]);
    for (const auto& [part, child] : nodes_[at].children) {
      settle(child);
      mix(nodes_[child].colour);
      all += nodes_[child].all;
    }
    nodes_[at].colour = colour;
    nodes_[at].all = all;
  }

  void members(size_t at, std::vector<size_t>& into) const {
    into.insert(into.end(), nodes_[at].names.begin(), nodes_[at].names.end());
    for (const auto& [part, child] : nodes_[at].children) members(child, into);
  }

  void collect(size_t at, const std::string& path, std::vector<NameGroup>& into) const {
    const Node& node = nodes_[at];
    if (node.colour >= 0) {
      NameGroup group{path, node.colour, {}};
      members(at, group.members);
      if (group.members.size() == 1) group.name = names_[group.members.front()];
      into.push_back(std::move(group));
      return;
    }
    for (const size_t index : node.names)
      if (colours_[index] >= 0) into.push_back({std::string(names_[index]), colours_[index], {index}});
    for (const auto& [part, child] : node.children)
      collect(child, path.empty() ? std::string(part) : path + '.' + std::string(part), into);
  }

  const std::vector<std::string_view>& names_;
  const std::vector<int>& colours_;
  std::vector<Node> nodes_;
};

bool is_number(std::string_view part) {
  return !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
}

// "0-3,7"
std::string ranges(std::vector<long> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string out;
  for (size_t first = 0; first < numbers.size();) {
    size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", numbers[first]);
    if (last > first) out += fmt::format("-{}", numbers[last]);
    first = last + 1;
  }
  return out;
}

// Groups whose names differ in the number at place `at` alone become one.
std::vector<NameGroup> merged_at(size_t at, std::vector<NameGroup> groups) {
  struct Together {
    size_t first;
    std::vector<long> numbers;
    std::string before, after;
  };
  std::map<std::string, Together> alike;
  std::vector<NameGroup> out;
  for (NameGroup& group : groups) {
    const std::string name = group.name;
    const auto parts = parts_of(name);
    if (at >= parts.size() || !is_number(parts[at])) {
      out.push_back(std::move(group));
      continue;
    }
    const auto place = static_cast<size_t>(parts[at].data() - name.data());
    const std::string before = name.substr(0, place), after = name.substr(place + parts[at].size());
    const auto [entry, fresh] = alike.try_emplace(fmt::format("{}\n{}\n{}", group.colour, before, after),
                                                  Together{out.size(), {}, before, after});
    entry->second.numbers.push_back(std::stol(std::string(parts[at])));
    if (fresh) {
      out.push_back(std::move(group));
    } else {
      auto& members = out[entry->second.first].members;
      members.insert(members.end(), group.members.begin(), group.members.end());
    }
  }
  for (const auto& [key, together] : alike)
    if (together.numbers.size() > 1)
      out[together.first].name = together.before + ranges(together.numbers) + together.after;
  return out;
}

}  // namespace

std::vector<NameGroup> grouped_names(const std::vector<std::string_view>& names, const std::vector<int>& colours) {
  std::vector<NameGroup> groups = Tree(names, colours).groups();
  for (size_t at = 0; at < kDeepest; ++at) groups = merged_at(at, std::move(groups));
  return groups;
}

}  // namespace devtrace::report
