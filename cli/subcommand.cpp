#include "cli/subcommand.h"

#include <charconv>
#include <memory>

namespace devtrace::cli {
namespace {

class WithUsage : public CLI::Formatter {
 public:
  explicit WithUsage(std::string form) : form_(std::move(form)) { column_width(28); }
  std::string make_usage(const CLI::App* app, std::string) const override {
    return "Usage: devtrace " + app->get_name() + ' ' + form_ + '\n';
  }

 private:
  std::string form_;
};

}  // namespace

void set_usage(CLI::App& app, const std::string& form) {
  app.formatter(std::make_shared<WithUsage>(form));
}

void add_process(CLI::App& app, pid_t& process) {
  const auto take = [&process](const std::string& text) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), process);
    if (fault != std::errc() || end != text.data() + text.size() || process <= 0)
      throw CLI::ConversionError("'" + text + "' is not the number of a process; to find one: pgrep -fa " +
                                 (text.empty() || text[0] == '-' ? "python" : text));
  };
  app.add_option_function<std::string>("PID", take, "the process")->required()->type_name("");
}

}  // namespace devtrace::cli
