#include "tracker/evidence/source/group_setup.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/evidence/source/source.h"

namespace devtrace::evidence {
namespace {

// `import os`, `import sys, os`.
bool imports_os(std::string_view line) {
  if (!trimmed(line).starts_with("import ")) return false;
  const auto part_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  for (size_t at = line.find("os"); at != line.npos; at = line.find("os", at + 1))
    if (!part_of_name(line[at - 1]) && (at + 2 == line.size() || !part_of_name(line[at + 2]))) return true;
  return false;
}

// The name that a line gives to the rank on its machine; empty where it gives none.
std::string_view names_local_rank(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == line.npos || line.find("LOCAL_RANK", equals) == line.npos || line.find("int(", equals) == line.npos)
    return {};
  const std::string_view name = trimmed(line.substr(0, equals));
  const bool plain = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return plain ? name : std::string_view();
}

// What a line can call it: named before it in its own block, or by the module.
std::string_view local_rank_at(const std::vector<std::string>& lines, size_t at) {
  const size_t own = indentation(lines[at]);
  bool same_block = true;
  for (size_t i = at; i-- > 0;) {
    const std::string_view line = lines[i];
    if (trimmed(line).empty()) continue;
    if (indentation(line) < own) same_block = false;
    const std::string_view name = names_local_rank(line);
    if (!name.empty() && (indentation(line) == 0 || (same_block && indentation(line) == own))) return name;
  }
  return {};
}

// What the call in that line, or the lines below it, is given as `rank=`; empty where it is nothing plain.
std::string rank_given(const std::vector<std::string>& lines, size_t at) {
  constexpr size_t kMost = 6;  // lines of one call
  std::string call;
  for (size_t i = at; i < std::min(lines.size(), at + kMost); ++i) call += lines[i] + ' ';
  const size_t begin = call.find("init_process_group(");
  for (size_t found = begin; (found = call.find("rank=", found)) != call.npos; ++found) {
    if (call[found - 1] != ' ' && call[found - 1] != '(' && call[found - 1] != ',') continue;
    const size_t from = found + std::string_view("rank=").size(), end = call.find_first_of(",)", from);
    const std::string_view given = trimmed(std::string_view(call).substr(from, end - from));
    const bool plain =
        std::ranges::all_of(given, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
    return plain && end != call.npos ? std::string(given) : std::string();
  }
  return {};
}

// Without LOCAL_RANK, as where the program itself starts its ranks: on one machine the rank is its own.
std::string rank_without_launcher(const std::vector<std::string>& lines, size_t at) {
  const std::string given = rank_given(lines, at);
  return given.empty() ? given : given + " % torch.cuda.device_count()";
}

}  // namespace

finding::GroupSetup group_setup(const finding::Stack& stack) {
  finding::GroupSetup setup;
  for (const finding::Frame& frame : stack) {
    if (!frame.project) continue;
    const std::vector<std::string> lines = lines_on_disk(frame.file);
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string_view line = trimmed(lines[i]);
      if (line.starts_with('#') || line.find("init_process_group(") == line.npos) continue;
      setup.line.file = frame.file;
      setup.line.line = static_cast<int64_t>(i) + 1;
      setup.line.source = shown_source(std::string(line));
      setup.line.project = true;
      setup.local_rank = local_rank_at(lines, i);
      if (setup.local_rank.empty() && !std::getenv("LOCAL_RANK"))
        setup.local_rank = rank_without_launcher(lines, i);
      else if (setup.local_rank.empty() && std::ranges::any_of(lines, imports_os))
        setup.local_rank = "int(os.environ[\"LOCAL_RANK\"])";
      return setup;
    }
  }
  return setup;
}

}  // namespace devtrace::evidence
