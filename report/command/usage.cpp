#include "report/command/usage.h"

#include <memory>

namespace devtrace::report::command {
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

}  // namespace devtrace::report::command
