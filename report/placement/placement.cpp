#include "report/placement/placement.h"

#include <algorithm>
#include <set>

#include "common/format.h"
#include "common/text.h"
#include "report/placement/name_groups.h"
#include "report/text/markdown.h"
#include "report/traffic/traffic.h"

namespace devtrace::report {
namespace {

constexpr size_t kMostIds = 10'000;
constexpr size_t kMostTensors = 500'000;
constexpr size_t kLongestName = 400;  // bytes
constexpr size_t kShownRoots = 12;
constexpr size_t kShownGroups = 6;  // of a root on one device

Placement::Root read(const Json& record, size_t room) {
  Placement::Root root{printable(shortened(string(record, "root"), kLongestName)),
                       printable(shortened(string(record, "variable"), kLongestName)),
                       {},
                       static_cast<uint64_t>(std::max<int64_t>(0, integer(record, "left_out").value_or(0)))};
  for (const Json& entry : array(record, "entries")) {
    const std::string_view name = string(entry, "name"), device = string(entry, "device");
    if (name.empty() || device.empty() || device.size() > 20) continue;
    if (root.tensors.size() >= room) {
      ++root.left_out;
      continue;
    }
    root.tensors.push_back({printable(shortened(name, kLongestName)),
                            printable(shortened(string(entry, "kind"), kLongestName)), printable(device),
                            static_cast<uint64_t>(std::max<int64_t>(0, integer(entry, "bytes").value_or(0))),
                            !string(entry, "same_as").empty()});
  }
  return root;
}

std::string groups_words(const PlacementRow& row) {
  std::string out;
  for (size_t index = 0; index < std::min(row.groups.size(), kShownGroups); ++index)
    out += (index ? ", " : "") + shortened(group_words(row.groups[index].name), 80);
  if (row.groups.size() > kShownGroups) out += fmt::format(" and {} more", row.groups.size() - kShownGroups);
  return out;
}

std::string left_out_words(const Placement::Root& root) {
  return root.left_out == 0 ? "" : fmt::format("{} of which nothing is known", tensors(root.left_out));
}

}  // namespace

void Placement::take(const Json& record) {
  const int64_t id = integer(record, "id").value_or(0);
  auto known = by_id_.find(id);
  if (known == by_id_.end()) {
    if (by_id_.size() >= kMostIds) return;
    known = by_id_.emplace(id, Root{}).first;
  }
  tensors_ -= known->second.tensors.size();
  known->second = read(record, kMostTensors - tensors_);
  tensors_ += known->second.tensors.size();
}

std::vector<Placement::Root> Placement::roots() const {
  std::map<std::string, std::vector<std::string>> variables;  // of each class
  for (const auto& [id, root] : by_id_)
    if (!root.tensors.empty()) variables[root.name].push_back(root.variable);
  std::vector<Root> out;
  for (const auto& [id, root] : by_id_) {
    if (root.tensors.empty() && root.left_out == 0) continue;
    out.push_back(root);
    const auto& all = variables[root.name];
    const std::set<std::string> different(all.begin(), all.end());
    if (all.size() > 1 && different.size() == all.size() && !different.contains(""))
      out.back().name = fmt::format("{} ({})", root.name, root.variable);
  }
  return out;
}

std::vector<PlacementRow> rows_of(const Placement::Root& root) {
  std::vector<PlacementRow> rows;
  std::vector<std::string_view> names;
  std::vector<int> colours;
  for (const Placement::Tensor& tensor : root.tensors) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& each) { return each.device == tensor.device; });
    if (row == rows.end()) row = rows.insert(rows.end(), {tensor.device, 0, 0, {}});
    names.push_back(tensor.name);
    colours.push_back(static_cast<int>(row - rows.begin()));
  }
  for (NameGroup& group : grouped_names(names, colours)) {
    PlacementRow& row = rows[static_cast<size_t>(group.colour)];
    PlacementRow::Group into{std::move(group.name), 0, 0, std::move(group.members)};
    for (const size_t index : into.members) {
      if (root.tensors[index].again) continue;
      ++into.tensors;
      into.bytes += root.tensors[index].bytes;
    }
    row.tensors += into.tensors;
    row.bytes += into.bytes;
    row.groups.push_back(std::move(into));
  }
  return rows;
}

std::string tensors(uint64_t count) {
  return fmt::format("{} tensor{}", count, count == 1 ? "" : "s");
}

std::string group_words(const std::string& name) {
  return name.empty() ? "all of it" : name;
}

std::string placement_text(const Placement& placement) {
  const auto roots = placement.roots();
  if (roots.empty()) return {};
  std::string out = "Where the model lives:\n";
  for (size_t index = 0; index < std::min(roots.size(), kShownRoots); ++index) {
    const Placement::Root& root = roots[index];
    out += fmt::format("  {}\n", shortened(root.name, 100));
    for (const PlacementRow& row : rows_of(root))
      out += fmt::format("    {:<8}  {:>8}  {:>13}  {}\n", row.device, size(row.bytes), tensors(row.tensors),
                         groups_words(row));
    if (root.left_out > 0) out += fmt::format("    {}\n", left_out_words(root));
  }
  if (roots.size() > kShownRoots) out += fmt::format("  and {} more models\n", roots.size() - kShownRoots);
  return out;
}

std::string placement_markdown(const Placement& placement) {
  const auto roots = placement.roots();
  if (roots.empty()) return {};
  std::string out = "### Where the model lives\n\n| | device | bytes | tensors | what |\n|---|---|---:|---:|---|\n";
  for (size_t index = 0; index < std::min(roots.size(), kShownRoots); ++index)
    for (const PlacementRow& row : rows_of(roots[index]))
      out +=
          fmt::format("| {} | {} | {} | {} | {} |\n", markdown_cell(markdown_code(shortened(roots[index].name, 100))),
                      markdown_cell(markdown_code(row.device)), size(row.bytes), row.tensors,
                      markdown_cell(markdown_code(groups_words(row))));
  if (roots.size() > kShownRoots) out += fmt::format("\nAnd {} more models.\n", roots.size() - kShownRoots);
  return out;
}

}  // namespace devtrace::report
