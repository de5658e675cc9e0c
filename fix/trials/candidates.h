// Edits that may repair a finding: asked of fix/edits, which the interpreter of the user's program runs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fix/trials/outcome.h"

namespace devtrace::fix {

using Texts = std::map<std::string, std::string>;  // path of a file: its text

struct Candidate {
  std::string kind, category, title, file, code, patch, folder;  // folder: where the patch starts
  int64_t line = 0;                                              // in `file` as it is before this edit
  int64_t changed = 0;                                           // lines that the whole patch adds
  bool names_device = false;                                     // "cuda:1": another machine may want another
  bool names_new_device = false;                                 // … and the program does not name it there itself
  bool to_cpu = false;                                           // moves something to the CPU
  // The same for the same edit in texts that other edits have changed; for edits that say the device in other words;
  // for edits that ask the same object for its device. The last two may be empty.
  std::string identity, alternatives, asks;
  bool fallback = false;  // nothing speaks for it: worth a run only when nothing else helps
  bool at_use = false;    // makes the line run: where the operand is used, not where its device was decided
  Texts texts;            // with all edits so far
  Json added;             // {path: [numbers of the lines that the patch adds]}
};

// The likeliest first. `texts`: files that are edited already; `folder`: where patches of files in it start;
// `interpreter`: Python's command. Throws std::runtime_error with what the interpreter said when it cannot be asked.
std::vector<Candidate> candidates(const std::filesystem::path& edits, const std::string& interpreter,
                                  const Json& finding, const Texts& texts, const std::filesystem::path& folder,
                                  const std::filesystem::path& scratch);

// The interpreter that ran the process of that record, else python3.
std::string interpreter_of(const Json& process);

}  // namespace devtrace::fix
