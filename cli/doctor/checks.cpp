#include "cli/doctor/checks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "attach/process/permission.h"
#include "cli/launch/installation.h"
#include "cli/launch/program_cuda.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"
#include "common/version.h"
#include "process/output.h"
#include "report/record/json_access.h"
#include "report/record/log_reader.h"

namespace devtrace::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int kPatience = 120'000;  // milliseconds; PyTorch is read from a slow disk

using process::Ended;

// Runs a program with nothing to read, and takes what it writes to both streams.
Ended run(std::vector<std::string> words, const std::map<std::string, std::string>& variables = {},
          const std::string& folder = "") {
  process::Program program{std::move(words), process::own_environment()};
  for (const auto& [key, value] : variables) program.environment[key] = value;
  return process::output_of(program, folder, kPatience, true);
}

std::string last_line(std::string_view text) {
  text = trimmed(text);
  return printable(text.substr(text.rfind('\n') + 1));
}

// A folder that is gone when it is done.
struct Scratch {
  std::string path = (fs::temp_directory_path() / "devtrace-doctor-XXXXXX").string();
  Scratch() {
    if (!::mkdtemp(path.data())) throw Failure(kBadUsage, fmt::format("cannot write into {}", path));
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

Answer devtrace(const Python&) {
  return {State::good, fmt::format("{}, {}", kVersion, find_library().string()), ""};
}

Answer preload(const Python&) {
  const std::string library = find_library().string();
  const Ended ended =
      run({own_command().string(), "--version"}, {{"LD_PRELOAD", library}, {"DEVTRACE_OPTIONS", "verbose=1"}});
  if (ended.output.find("loaded into") != std::string::npos) return {State::good, "it is loaded into programs", ""};
  return {State::bad, "it is not loaded into a program: " + last_line(ended.output),
          "its folder may be mounted without exec, or the C library be another than glibc; install it elsewhere"};
}

Answer driver(const Python&) {
  std::ifstream in("/proc/driver/nvidia/version");
  std::string line;
  std::getline(in, line);
  if (line.empty())
    return {State::missing, "no NVIDIA driver", "devtrace rehearse --gpus 2 -- python train.py simulates devices"};
  size_t devices = 0;
  std::error_code error;
  for (auto each = fs::directory_iterator("/proc/driver/nvidia/gpus", error); each != fs::directory_iterator(); ++each)
    ++devices;
  const size_t number = line.find_first_of("0123456789");
  const std::string version = line.substr(number, line.find(' ', number) - number);
  const std::string fact = fmt::format("driver {}, {} device{}", version, devices, devices == 1 ? "" : "s");
  if (::access("/dev/nvidiactl", R_OK | W_OK) != 0)
    return {State::bad, fact + "; /dev/nvidiactl may not be opened", "in a container: start it with --gpus all"};
  return {State::good, fact, ""};
}

Answer python(const Python& asked) {
  if (asked.path.empty())
    return {State::missing, "no python3 on PATH", "which one: devtrace doctor --python FILE; C++ programs need none"};
  if (asked.version.empty()) return {State::bad, fmt::format("{}: {}", asked.path, asked.problem), ""};
  return {State::good, fmt::format("{}, {}", asked.version, asked.path), ""};
}

Answer torch(const Python& asked) {
  if (asked.version.empty()) return {State::missing, "not asked for: there is no Python", ""};
  if (!asked.torch_problem.empty()) return {State::bad, "cannot be imported: " + asked.torch_problem, ""};
  if (asked.torch.empty())
    return {State::missing, "not in this Python", "which one has it: devtrace doctor --python FILE"};
  if (asked.cuda.empty())
    return {State::missing, asked.torch + ", built without CUDA: nothing of it lies on a device",
            "pip install torch takes the build with CUDA"};
  return {State::good, fmt::format("{}, CUDA {}", asked.torch, asked.cuda), ""};
}

// A mistake of two lines, on simulated devices: what is found, and how it was read.
Answer rehearsal(const Python& asked) {
  const int cuda = std::atoi(asked.cuda.c_str());
  find_simulated_libraries(cuda == 12 ? 12 : 13);
  if (asked.cuda.empty()) return {State::missing, "the libraries are there; not tried without PyTorch for CUDA", ""};
  const Scratch folder;
  std::ofstream(folder.path + "/two_devices.py")
      << "import torch\n"
         "here, there = (torch.ones(2, device=f'cuda:{n}') for n in (0, 1))\n"
         "here + there\n";
  const Ended ended = run({own_command().string(), "rehearse", "--gpus", "2", "--no-html", "--no-text", "--log-path",
                           folder.path + "/log.jsonl", "--", asked.path, "two_devices.py"},
                          {}, folder.path);
  report::Json process, finding;
  try {
    report::read_log(folder.path + "/log.jsonl", [&](report::Json&& record) {
      const auto kind = std::string(report::string(record, "record"));
      if (kind == "process") process = record;
      if (kind == "finding" && finding.is_null()) finding = record;
    });
  } catch (const report::LogError&) {
  }
  if (finding.is_null())
    return {State::bad, "a mistake of two lines is not found: " + last_line(ended.output),
            fmt::format("devtrace rehearse -- {} -c 'import torch; print(torch.cuda.device_count())' says more",
                        asked.path)};
  const std::string stacks(report::string(process, "stacks"));
  if (report::array(finding, "python").empty())
    return {State::bad, "a mistake is found, and its line is not: " + stacks, ""};
  const auto& missing = report::array(process, "missing_symbols");
  if (!missing.empty())
    return {State::bad,
            fmt::format("found; of this PyTorch {} function{} not where devtrace looks", missing.size(),
                        missing.size() == 1 ? " is" : "s are"),
            "the log's missing_symbols say what is not seen; a newer devtrace may know it"};
  return {State::good, "a mistake is found, with its line", ""};
}

// Whether one process may trace another that it has not started: as `attach` will want to.
bool may_trace_siblings() {
  const pid_t target = ::fork();
  if (target == 0) {
    ::pause();
    ::_exit(0);
  }
  const pid_t tracer = ::fork();
  if (tracer == 0) ::_exit(::ptrace(PTRACE_SEIZE, target, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 1;
  if (tracer > 0) ::waitpid(tracer, &status, 0);
  if (target > 0) {
    ::kill(target, SIGKILL);
    ::waitpid(target, nullptr, 0);
  }
  return status == 0;
}

Answer attaching(const Python& asked) {
  if (may_trace_siblings()) return {State::good, "one process may trace another", ""};
  const std::string why = attach::why_refused(0, attach::permission_facts(::geteuid(), true), "devtrace attach PID");
  if (asked.remote_exec) return {State::good, "by the interpreter itself (sys.remote_exec); ptrace is refused", ""};
  const size_t sentence = why.find("; ");
  return {State::missing, why.substr(0, sentence), sentence == why.npos ? "" : why.substr(sentence + 2)};
}

Answer notebooks(const Python& asked) {
  if (asked.version.empty()) return {State::missing, "not asked for: there is no Python", ""};
  if (asked.ipykernel.empty())
    return {State::missing, "no ipykernel in this Python", "pip install ipykernel; then %load_ext devtrace"};
  return {State::good,
          fmt::format("ipykernel {}: %load_ext devtrace, devtrace kernel install --rehearse 2", asked.ipykernel), ""};
}

Answer logs(const Python&) {
  std::error_code error;
  const std::string here = fs::current_path(error).string();
  // Tried: root is allowed everywhere, and cannot write everywhere.
  const std::string name = fmt::format(".devtrace-doctor-{}", ::getpid());
  const int file = ::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file), ::unlink(name.c_str());
  if (error || file < 0)
    return {State::missing, "nothing can be written into this folder",
            "devtrace run --log-path /tmp/devtrace-%p.jsonl -- …"};
  return {State::good, "into " + here, ""};
}

}  // namespace

Python ask(const std::string& wanted) {
  Python python;
  const fs::path found = find_program(wanted);
  std::error_code error;
  if (found.empty() || !fs::exists(found, error)) return python;
  python.path = found.string();
  const Ended ended = run({python.path, "-c", R"(
import importlib.metadata, sys
print("devtrace:version", ".".join(map(str, sys.version_info[:3])))
if hasattr(sys, "remote_exec"): print("devtrace:remote_exec yes")
try: print("devtrace:ipykernel", importlib.metadata.version("ipykernel"))
except importlib.metadata.PackageNotFoundError: pass
try:
    import torch
    print("devtrace:torch", torch.__version__)
    print("devtrace:cuda", torch.version.cuda or "")
except ModuleNotFoundError: pass
except Exception as error: print("devtrace:torch_problem", str(error).replace("\n", " "))
)"});
  const std::map<std::string, std::string*> fields = {{"version", &python.version},
                                                      {"torch", &python.torch},
                                                      {"cuda", &python.cuda},
                                                      {"ipykernel", &python.ipykernel},
                                                      {"torch_problem", &python.torch_problem}};
  for (std::string_view rest = ended.output; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.starts_with("devtrace:")) continue;
    const size_t space = line.find(' ');
    const std::string key(line.substr(9, space - 9));
    if (key == "remote_exec") python.remote_exec = true;
    if (const auto field = fields.find(key); field != fields.end() && space != line.npos)
      *field->second = printable(trimmed(line.substr(space)));
  }
  if (python.version.empty())
    python.problem = ended.output.empty() ? "no Python" : "no Python: " + last_line(ended.output);
  return python;
}

const std::vector<Check>& checks() {
  static const std::vector<Check> all = {
      {"devtrace", devtrace},  {"preload", preload},  {"GPUs", driver},         {"Python", python}, {"PyTorch", torch},
      {"rehearse", rehearsal}, {"attach", attaching}, {"notebooks", notebooks}, {"logs", logs},
  };
  return all;
}

}  // namespace devtrace::cli::doctor
