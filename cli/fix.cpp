// devtrace fix: rehearse, try edits at each finding, and leave the patch with which the program runs.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>

#include "cli/fix/apply.h"
#include "cli/fix/build.h"
#include "cli/fix/consent.h"
#include "cli/fix/log.h"
#include "cli/fix/progress.h"
#include "cli/fix/text.h"
#include "cli/launch/installation.h"
#include "cli/launch/rehearse_options.h"
#include "cli/output.h"
#include "cli/subcommand.h"
#include "common/format.h"
#include "common/text.h"
#include "fix/trials/search.h"
#include "process/supervise.h"
#include "report/record/json_access.h"
#include "report/record/log_reader.h"

namespace devtrace::cli {
namespace {

namespace fs = std::filesystem;

// Exit codes, besides kBadUsage.
constexpr int kVerified = 0, kNotVerified = 1, kCouldNotRun = 2;

struct FixOptions : RehearseOptions {
  double timeout = 120, budget = 0;
  int jobs = 0, tries = 24;
  bool apply = false, yes = false;
  std::string command, output, build;
};

// What is run: the words after --, --command, or what a log says was run.
struct Subject {
  std::vector<std::string> words;
  fs::path folder;  // where it runs; empty: here
  int gpus = 0;     // of the log's machine; 0: not said
  std::string log;  // the words are its; empty: they are the user's own
};

std::vector<std::string> in_shell(const std::string& command) {
  return {"/bin/sh", "-c", command};
}

bool is_log(const std::string& word) {
  std::error_code ignored;
  return word.ends_with(".jsonl") && fs::is_regular_file(word, ignored);
}

Subject of_log(const std::string& log) {
  Subject subject;
  bool first = true;
  try {
    report::read_log(
        fs::path(log),
        [&](report::Json&& record) {
          if (report::string(record, "record") == "process") {
            for (const report::Json& word : report::array(record, "command"))
              if (first && word.is_string()) subject.words.push_back(word.get<std::string>());
            if (first) subject.folder = report::string(record, "cwd");
            subject.gpus = std::max(subject.gpus, static_cast<int>(report::array(record, "devices").size()));
            first = false;
          }
        },
        [](const report::FindingLine&) { return true; });
  } catch (const report::LogError& error) {
    throw Failure(kCouldNotRun, error.what());
  }
  if (subject.words.empty())
    throw Failure(kCouldNotRun, fmt::format("{}: does not say what was run; say it with --command", log));
  std::error_code ignored;
  if (!fs::is_directory(subject.folder, ignored))
    throw Failure(kCouldNotRun, fmt::format("{}: its program ran in {}, which is not here; give the program after --",
                                            log, subject.folder.string()));
  return subject;
}

Subject subject_of(const CLI::App& app, const AfterDashes& after_dashes, const FixOptions& options) {
  std::vector<std::string> words = app.remaining();
  Subject subject;
  if (words.size() == 1 && is_log(words[0])) {
    subject = of_log(words[0]);
    if (after_dashes)
      subject.words = *after_dashes;
    else if (options.command.empty())
      subject.log = words[0];
    words.clear();
  } else {
    if (!words.empty() && words[0].size() > 1 && words[0][0] == '-')
      throw Failure(kBadUsage, fmt::format("there is no option {}", words[0]));
    if (!words.empty() && words[0].ends_with(".jsonl"))
      throw Failure(kCouldNotRun, fmt::format("{}: no such log", words[0]));
    if (after_dashes) {
      if (!words.empty()) words.push_back("--");
      words.insert(words.end(), after_dashes->begin(), after_dashes->end());
    }
    subject.words = words;
  }
  if (!options.command.empty()) subject.words = in_shell(options.command);
  if (subject.words.empty() || subject.words[0].empty())
    throw Failure(kBadUsage,
                  "no program is given\nUsage: devtrace fix [options] -- program [arguments], or devtrace fix LOG");
  return subject;
}

volatile sig_atomic_t g_interrupted = 0;

// Ctrl-C and its like end the runs and clear up, instead of this process at once.
void take_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { g_interrupted = signal; };
  sigemptyset(&action.sa_mask);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (sigaction(each, nullptr, &before) == 0 && before.sa_handler == SIG_IGN && each == SIGHUP) continue;
    sigaction(each, &action, nullptr);
  }
}

int say_nothing_to_fix(const fix::Outcome& before) {
  if (before.code == 0 && !before.timed_out) {
    fmt::print("devtrace fix: nothing to fix: the program ran to its end without a finding\n");
    return kVerified;
  }
  if (before.timed_out)
    throw Failure(kCouldNotRun,
                  fmt::format("the program had no finding in {:.0f} s and was ended then; give it more with --timeout",
                              before.seconds));
  throw Failure(kCouldNotRun, fmt::format("the program failed (exit code {}), but with no finding of devtrace's: {}",
                                          before.code, printable(before.end())));
}

std::string how_to_apply(const fix::Candidate& edits, const std::string& patch) {
  const fs::path here = fs::current_path(), folder = edits.folder.empty() ? here : fs::path(edits.folder);
  const std::string where =
      folder == here ? patch : fmt::format("{}, in {}", fs::absolute(patch).string(), folder.string());
  return fmt::format("to apply it: git apply {}; or devtrace fix once more, with --apply\n", printable(where));
}

// Of a search that met findings.
int conclude(const FixOptions& options, const fix::SearchResult& result) {
  const auto beside = [&](const char* name) { return (fs::path(options.output) / name).string(); };
  const std::string patch = result.edits.patch.empty() ? "" : beside("devtrace.patch");
  const std::string log = beside("devtrace-fix.jsonl"), page = options.no_html ? "" : beside("devtrace-fix.html");
  write_file(patch, result.edits.patch);
  const fix::Conclusion conclusion = fix::conclusion(result, patch);
  write_fix_log(result, conclusion, log);
  show_fix_log(log, page, !options.no_text);
  print_fix_text(result, conclusion, patch);
  if (result.solved && !options.apply) fmt::print("{}", how_to_apply(result.edits, patch));
  if (!page.empty()) fmt::print("report: {}\n", page);
  if (result.solved && options.apply) {
    try {
      apply(result.edits.before, result.edits.texts);
    } catch (const Failure& failure) {
      throw Failure(failure.code, fmt::format("{}\nthe patch is in {}", failure.what(), patch));
    }
    fmt::print("applied to {} file{}\n", result.edits.texts.size(), result.edits.texts.size() == 1 ? "" : "s");
  }
  return result.solved ? kVerified : kNotVerified;
}

int fix_program(const CLI::App& app, const AfterDashes& after_dashes, FixOptions& options) {
  Subject subject = subject_of(app, after_dashes, options);
  if (subject.gpus > 0 && app.count("--gpus") == 0) options.gpus = std::clamp(subject.gpus, 1, 16);
  const Launch launch = options.on_simulated_devices(options.launch(subject.words));
  if (!subject.log.empty()) ask_to_run(subject.log, subject.folder, launch.program, options.yes);
  if (!options.output.empty()) {
    std::error_code error;
    fs::create_directories(options.output, error);
    if (error) throw Failure(kCouldNotRun, fmt::format("--output {}: {}", options.output, error.message()));
  }
  const fs::path edits = find_edits(), overlay = find_overlay();
  process::supervise(fix::kGuard);
  take_signals();
  // Behind the workspace, whose guard is not killed.
  const std::unique_ptr<void, void (*)(void*)> leftovers(&options, [](void*) { process::end_descendants(); });
  try {
    const fix::Workspace workspace;
    fix::Runs runs{workspace,
                   {{launch.program, environment_of(launch)}, subject.folder},
                   overlay,
                   options.timeout,
                   options.computes()};
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const fix::Limits limits{options.budget, options.jobs > 0 ? options.jobs : std::min(cores, 8), options.tries,
                             options.jobs == 0};
    const fs::path folder = fs::canonical(subject.folder.empty() ? fs::current_path() : subject.folder);
    runs.build = options.build.empty() ? build_of(launch.program, folder) : options.build;
    runs.tree = folder;
    ProgressLine line;
    const auto result = fix::search(
        runs, edits, folder, limits, [] { return g_interrupted != 0; },
        [&](const fix::Progress& progress) { line.show(progress); });
    line.clear();
    if (result.interrupted) {
      fmt::print(stderr, "devtrace fix: interrupted: nothing was written\n");
      return 128 + g_interrupted;
    }
    return result.before.findings.empty() ? say_nothing_to_fix(result.before) : conclude(options, result);
  } catch (const std::runtime_error& error) {
    if (dynamic_cast<const Failure*>(&error)) throw;
    throw Failure(kCouldNotRun, error.what());
  }
}

}  // namespace

Action declare_fix(CLI::App& app) {
  auto options = std::make_shared<FixOptions>();
  options->declare(app);
  set_usage(app, "[options] -- program [arguments]\n       devtrace fix [options] LOG");
  options->declare_devices(app);
  app.add_option("--timeout", options->timeout, "seconds for one run; then it is ended [120]")
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--budget", options->budget,
                 "seconds for all runs together [40 times what the first takes, 120 to 900]")
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 1e7));
  app.add_option("--jobs", options->jobs,
                 "runs at a time [the machine's cores, 8 at most, by the program's processes on GPUs]")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  app.add_option("--tries", options->tries, "edits tried for one finding at most [24]")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  app.add_option("--command", options->command,
                 "what to run instead, as a line of the shell: with a LOG of another machine")
      ->type_name("LINE");
  app.add_option("--build", options->build,
                 "how a compiled program is built, as a line of the shell: in a copy of this folder, with each edit "
                 "[make or CMake, by what lies here]")
      ->type_name("LINE");
  app.add_option("--output", options->output, "folder for devtrace.patch, devtrace-fix.jsonl and devtrace-fix.html [.]")
      ->type_name("FOLDER");
  app.add_flag("--apply", options->apply, "write the verified patch into the program's files");
  app.add_flag("--yes", options->yes, "run the command of a LOG without asking on the terminal");
  app.footer(
      "The program is rehearsed on simulated devices. At its first finding edits of the program's own files are tried, "
      "each in a run of its own that\n"
      "reads the edited text; the files themselves stay as they are, without --apply. Then the next finding, until the "
      "program runs to its end. A run\n"
      "is a real run: what the program writes, each of them writes. The command of a LOG is shown, and run when you "
      "say so.\n"
      "\n"
      "Exit status: 0 with a verified patch, or when there is nothing to fix; 1 when there are findings and no edit "
      "was found with which the\n"
      "program runs to its end (the nearest is in devtrace.patch); 2 when the program could not be run or "
      "--apply could not write, or\n"
      "for bad usage; 128 + N when signal N ended it: nothing is left behind then.");
  return [options, &app](const AfterDashes& after_dashes) { return fix_program(app, after_dashes, *options); };
}

}  // namespace devtrace::cli
