#include "cli/browser.h"

#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"
#include "process/start.h"

namespace devtrace::cli {
namespace {

// As xdg-open and Python's webbrowser read it: commands between colons, with %s where the page's name goes, or at its
// end.
std::vector<std::string> words_of(const std::string& command, const std::string& page) {
  std::vector<std::string> words;
  std::istringstream in(command);
  bool named = false;
  for (std::string word; in >> word; words.push_back(word)) {
    const size_t at = word.find("%s");
    if (at == word.npos) continue;
    word.replace(at, 2, page);
    named = true;
  }
  if (!named) words.push_back(page);
  return words;
}

// Its exit code; nothing where no such program can be started.
std::optional<int> run(std::vector<std::string> words) {
  try {
    const pid_t child = process::start({std::move(words), process::own_environment()}, [] { return true; });
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  } catch (const process::CannotStart&) {
    return std::nullopt;
  }
}

}  // namespace

void open_in_browser(const std::string& file) {
  const std::string page = std::filesystem::absolute(file).lexically_normal().string();
  const char* const chosen = std::getenv("BROWSER");
  std::istringstream commands(chosen && *chosen ? chosen : "xdg-open");
  for (std::string command; std::getline(commands, command, ':');) {
    if (trimmed(command).empty()) continue;
    const auto code = run(words_of(command, page));
    if (!code) continue;
    if (*code == 0) return;
    throw Failure(kBadUsage,
                  fmt::format("'{}' ended with {}: open {} yourself", printable(command), *code, printable(page)));
  }
  throw Failure(kBadUsage,
                fmt::format("there is no {} to open the page with: set BROWSER to a command, or open {} yourself",
                            chosen && *chosen ? printable(chosen) : "xdg-open", printable(page)));
}

}  // namespace devtrace::cli
