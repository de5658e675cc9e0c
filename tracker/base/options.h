// DEVTRACE_OPTIONS=key=value:key=value, in the sanitizers' manner.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

namespace devtrace {

namespace option {
using Text = std::string;
using Switch = bool;
using Number = int;
}  // namespace option

// Which way the events of CUDA come: the hooks, CUPTI's callbacks, or the hooks unless the library came too late for
// them.
enum class Backend { automatic, interpose, cupti };
namespace option {
using Backend = devtrace::Backend;
}

struct Options {
#define OPTION(type, name, default_value, description) option::type name = default_value;
#include "tracker/base/options.inc"
#undef OPTION
};

struct ParsedOptions {
  Options values;
  std::vector<std::string>
      complaints;  // one sentence for each key or value that was not understood; its default stands
  bool help = false;
};

// Never throws on bad input. A value may hold ':' when written in double quotes: log_path="C:x".
ParsedOptions parse_options(std::string_view text);

// The table as text, for help=1.
std::string options_help();

namespace detail {
[[gnu::visibility("hidden")]] extern std::atomic<const Options*> current_options;
const Options& first_options();
}  // namespace detail

// The process's options: parsed on first use from the environment; complaints go to stderr then.
inline const Options* known_options() {  // null before that
  return detail::current_options.load(std::memory_order_acquire);
}
inline const Options& options() {
  const Options* const known = known_options();
  if (!known) [[unlikely]]
    return detail::first_options();
  return *known;
}
// In a fork's child, before it has other threads: the environment may have changed since its parent read it. Options
// that were set since stay.
void read_options_anew();

// Others from now on, as in DEVTRACE_OPTIONS, on top of what the environment says. Who has read the former ones goes on
// with them.
void set_options(std::string_view text);
// The same on top of those that hold now.
void add_options(std::string_view text);

}  // namespace devtrace
