#include "cli/fix/consent.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"

namespace devtrace::cli {
void ask_to_run(const std::string& log, const std::filesystem::path& folder, const std::vector<std::string>& words,
                bool yes) {
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : " ") + shell_quoted(word);
  fmt::print(stderr, "devtrace fix: what {} says was run:\n  {}\nin the folder {}\n", printable(log),
             printable(command), printable(folder.string()));
  if (yes) return;
  if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
    throw Failure(kBadUsage,
                  "the command of a log is run only when it is said so: there is no terminal to ask on, so "
                  "give --yes, or the program after --");
  fmt::print(stderr, "Run it, again and again with edits? [y/N] ");
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  const std::string_view said = trimmed(answer);
  if (said != "y" && said != "Y" && said != "yes") throw Failure(kBadUsage, "nothing was run");
}

}  // namespace devtrace::cli
