// devtrace kernel: Jupyter's kernels on simulated devices, beside those that are there.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/launch/installation.h"
#include "cli/launch/program_cuda.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;

struct KernelOptions {
  int gpus = 2;
  std::string python, prefix;
  bool user = false;
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// Where Jupyter looks for kernels: below a prefix, else in the active environment, else among the user's own.
fs::path folder_of_kernels(const KernelOptions& options) {
  const std::string active = options.user ? "" : variable("VIRTUAL_ENV");
  const std::string prefix = options.prefix.empty() ? active : options.prefix;
  if (!prefix.empty()) return fs::absolute(prefix) / "share/jupyter/kernels";
  if (const std::string data = variable("JUPYTER_DATA_DIR"); !data.empty()) return fs::path(data) / "kernels";
  if (const std::string data = variable("XDG_DATA_HOME"); !data.empty()) return fs::path(data) / "jupyter/kernels";
  if (const std::string home = variable("HOME"); !home.empty()) return fs::path(home) / ".local/share/jupyter/kernels";
  throw Failure(kBadUsage, "HOME is not set; say where the kernel goes: --prefix FOLDER");
}

fs::path interpreter(const KernelOptions& options) {
  const std::string wanted = options.python.empty() ? usual_python() : options.python;
  const fs::path found = find_program(wanted);
  std::error_code error;
  if (found.empty() || !fs::exists(found, error))
    throw Failure(kBadUsage, fmt::format("there is no {}; say which Python: --python FILE", wanted));
  return found;
}

int install(const KernelOptions& options) {
  const auto python = interpreter(options).string();
  nlohmann::ordered_json kernel;
  kernel["argv"] = {own_command().string(),
                    "rehearse",
                    "--gpus",
                    std::to_string(options.gpus),
                    "--no-text",
                    "--",
                    python,
                    "-m",
                    "ipykernel_launcher",
                    "-f",
                    "{connection_file}",
                    "--ext=devtrace"};
  kernel["display_name"] = fmt::format("Python ({} simulated GPU{})", options.gpus, options.gpus == 1 ? "" : "s");
  kernel["language"] = "python";
  kernel["metadata"]["debugger"] = true;
  if (const fs::path package = find_python_package(); !package.empty()) {
    const std::string before = variable("PYTHONPATH");
    kernel["env"]["PYTHONPATH"] = package.string() + (before.empty() ? "" : ":" + before);
  }
  const fs::path folder = folder_of_kernels(options) / fmt::format("devtrace-{}", options.gpus);
  const fs::path file = folder / "kernel.json";
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream out(file);
  out << kernel.dump(2) << '\n';
  out.close();
  if (error || !out) throw Failure(kBadUsage, fmt::format("cannot write {}", file.string()));
  fmt::print("devtrace kernel: \"{}\" is among Jupyter's kernels now: {}\n", kernel["display_name"].get<std::string>(),
             printable(file.string()));
  return 0;
}

}  // namespace

Action declare_kernel(CLI::App& app) {
  auto options = std::make_shared<KernelOptions>();
  set_usage(app, "install [options]");
  app.require_subcommand(1);
  CLI::App* const sub = app.add_subcommand("install", "puts a kernel on simulated devices beside the others");
  sub->fallthrough();
  app.add_option("--rehearse", options->gpus, "how many simulated devices it has")
      ->type_name("N")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--python", options->python,
                 "its interpreter, which has ipykernel [the active environment's, python3]")
      ->type_name("FILE");
  CLI::Option* const prefix =
      app.add_option("--prefix", options->prefix, "below FOLDER/share/jupyter [the active environment]")
          ->type_name("FOLDER");
  app.add_flag("--user", options->user, "among the user's own kernels, as without an active environment")
      ->excludes(prefix);
  app.footer(
      "The kernel shows each finding under its cell, as %load_ext devtrace does. It is taken away as any other: "
      "jupyter "
      "kernelspec remove devtrace-2.\n"
      "\n"
      "Exit status: 0 when it is there; 2 when it could not be written, or for bad usage.");
  return [options](const AfterDashes&) { return install(*options); };
}

}  // namespace devtrace::cli
