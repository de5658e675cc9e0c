#include "fix/trials/trial.h"

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "common/format.h"
#include "fix/record/output.h"
#include "fix/trials/copied_tree.h"

namespace devtrace::fix {

namespace fs = std::filesystem;

namespace {

void append(std::map<std::string, std::string>& environment, const char* key, const std::string& value, char between) {
  std::string& all = environment[key];
  all += all.empty() ? value : between + value;
}

constexpr const char* kCollectiveWait = "collective_wait=10";
// Seconds for the other ranks to tell what they met, and to end by themselves.
constexpr double kLastWords = 2;

// Each replaced file under a name of its own, and the table that overlay.so reads.
fs::path write_overlay(const fs::path& folder, const Texts& texts) {
  fs::create_directories(folder / "overlay");
  std::ofstream table(folder / "overlay" / "table", std::ios::binary);
  size_t number = 0;
  for (const auto& [path, text] : texts) {
    const fs::path copy = folder / "overlay" / fmt::format("{}-{}", number++, fs::path(path).filename().string());
    std::ofstream(copy, std::ios::binary) << text;
    table << path << '\t' << copy.string() << '\n';
  }
  table.close();
  if (!table) throw std::runtime_error(fmt::format("{}: cannot be written", folder.string()));
  return folder / "overlay" / "table";
}

// All of one length: a fork writes its run's over its server's.
fs::path folder_of_run(const Runs& runs, int number) {
  return runs.workspace.make(fmt::format("run-{:05}", number));
}

// As a run in that folder starts it.
ProgramToRun program_of_run(const Runs& runs, const fs::path& folder, const Texts& texts) {
  fs::create_directories(folder / "summary");
  ProgramToRun program = runs.program;
  auto& environment = program.environment;
  // Ranks of a rehearsal have nobody else's network to wait for. What the user says comes behind it.
  std::string& options = environment["DEVTRACE_OPTIONS"];
  options = options.empty() ? kCollectiveWait : fmt::format("{}:{}", kCollectiveWait, options);
  append(
      environment, "DEVTRACE_OPTIONS",
      fmt::format("log_path=\"{}/devtrace-%p.jsonl\":html=0:text=0:error_exitcode=0:halt_on_error=0", folder.string()),
      ':');
  environment["DEVTRACE_SIM_SUMMARY"] = folder / "summary";
  environment[kMark] = folder;
  // Nothing is left beside the program's files, and no byte code of another text is read.
  environment.insert_or_assign("PYTHONDONTWRITEBYTECODE", std::string(1, '1'));
  // OpenMP's threads spin while they wait, on the cores that the other runs need.
  environment.emplace("OMP_WAIT_POLICY", "passive");
  append(environment, "PYTEST_ADDOPTS", "-p no:cacheprovider", ' ');
  if (!texts.empty() && runs.build.empty()) environment["DEVTRACE_OVERLAY"] = write_overlay(folder, texts);
  std::string& preload = environment["LD_PRELOAD"];
  preload = preload.empty() ? runs.overlay.string() : runs.overlay.string() + ":" + preload;
  return program;
}

}  // namespace

std::unique_ptr<Server> start_server(const Runs& runs) {
  const auto main = Server::main_file(runs.program);
  std::ifstream in(runs.overlay.parent_path() / "serve.py", std::ios::binary);
  if (!main || !in) return nullptr;
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const fs::path folder = folder_of_run(runs, 0);
  try {
    return std::make_unique<Server>(program_of_run(runs, folder, {{main->string(), text}}), *main, folder);
  } catch (const std::runtime_error&) {
    return nullptr;  // each run starts by itself
  }
}

Run::Run(Runs& runs, const Texts& texts, Refused refused)
    : runs_(runs), folder_(folder_of_run(runs, ++runs.count)), timeout_(runs.timeout) {
  if (!runs.build.empty()) {
    build(texts);
    return;
  }
  ProgramToRun program = program_of_run(runs, folder_, texts);
  if (refused == Refused::computed) program.environment["DEVTRACE_SIM_KEEP_GOING"] = std::string(1, '1');
  if (runs.server) {
    if (const auto forked = runs.server->fork(program, folder_ / "output"))
      child_.emplace(*forked);
    else
      runs.server = nullptr;
  }
  fresh_ = !child_;
  if (!fresh_) return;
  ranks_ = std::make_unique<OfferedRankTable>();
  if (ranks_->table()) program.environment[kRankTableVariable] = ranks_->ticket();
  child_.emplace(program, folder_ / "output");
}

// Beside the run's own folder, whose logs are all its own.
fs::path Run::copy_of_tree() const {
  return folder_.string() + "-tree";
}

// In the copy of its folder; what the build says is the output of a run whose build fails.
void Run::build(const Texts& texts) {
  const fs::path copy = copy_of_tree();
  copy_tree(runs_.tree, copy, texts);
  built_ = program_of_run(runs_, folder_, texts);
  const fs::path from = built_->folder.empty() ? runs_.tree : fs::absolute(built_->folder);
  built_->folder = copy / from.lexically_relative(runs_.tree);
  if (const fs::path inside = fs::path(built_->words[0]).lexically_relative(runs_.tree);
      fs::path(built_->words[0]).is_absolute() && !inside.empty() && *inside.begin() != "..")
    built_->words[0] = copy / inside;
  ProgramToRun build;
  build.words = {"/bin/sh", "-c", runs_.build};
  build.environment = process::own_environment();
  build.environment[kMark] = folder_;
  build.folder = copy;
  child_.emplace(build, folder_ / "output");
}

bool Run::ended() {
  keep_ends(folder_ / "output");
  if (child_->ended()) {
    if (!built_ || child_->code() != 0) return true;
    const ProgramToRun program = *std::exchange(built_, std::nullopt);
    child_.emplace(program, folder_ / "output");
    return false;
  }
  if (child_->seconds() <= timeout_ && !is_at_dead_end()) return false;
  stop();
  return true;
}

// Ranks that wait for one that does not come do so for minutes.
bool Run::is_at_dead_end() {
  const double now = child_->seconds();
  if (!dead_end_ && now >= next_look_ && found_dead_end(folder_)) dead_end_ = now;
  if (now >= next_look_) next_look_ = now + 0.25;
  return dead_end_ && now > *dead_end_ + kLastWords;
}

void Run::stop() {
  if (child_->ended()) return;
  timed_out_ = true;
  child_->end(folder_);
}

Outcome Run::outcome() const {
  if (!runs_.build.empty()) {
    name_original_in_logs(folder_, copy_of_tree(), runs_.tree);
    std::error_code ignored;
    fs::remove_all(copy_of_tree(), ignored);
  }
  Outcome outcome = read_outcome(folder_);
  outcome.code = child_->code();
  outcome.timed_out = timed_out_;
  outcome.fresh = fresh_;
  outcome.seconds = child_->seconds();
  return outcome;
}

}  // namespace devtrace::fix
