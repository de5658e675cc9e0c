// An edit that may repair a finding, as fix/edits makes it: what that is asked for, and what it answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "finding/finding.h"

namespace devtrace::fix {

using Texts = std::map<std::string, std::string>;  // path of a file: its text

struct Candidate {
  std::string kind, category, title, file, code, patch, folder;  // folder: where the patch starts
  int64_t line = 0;                                              // in `file` as it is before this edit
  int64_t changed = 0;                                           // lines that the whole patch adds
  bool names_device = false;                                     // "cuda:1": another machine may want another
  bool names_new_device = false;                                 // … and the program does not name it there itself
  bool to_cpu = false;                                           // moves something to the CPU
  // `identity` is the same for the same edit in texts that other edits have changed. `alternatives` is it for edits
  // that say the device in other words, `asks` for edits that ask the same object for its device; these may be empty.
  std::string identity, alternatives, asks;
  bool fallback = false;  // nothing speaks for it: worth a run only when nothing else helps
  bool at_use = false;    // makes the line run: where the operand is used, not where its device was decided
  Texts texts;            // with all edits so far
  Texts before;           // what these files held when they were first read
  std::set<std::pair<std::string, int64_t>> added;  // files' lines: those that the patch adds
};

// `edits`: those so far; `folder`: where patches of files in it start.
std::string question(const finding::Finding& finding, const Candidate& edits, const std::filesystem::path& folder);

// For the same edits with one hunk left out, once for each.
std::string question_of_hunks(const Candidate& edits, const std::filesystem::path& folder);

// The likeliest first; nothing when it is no answer.
std::optional<std::vector<Candidate>> read_answer(const std::string& answer);

}  // namespace devtrace::fix
