#include "fix/trials/candidates.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "fix/trials/child.h"
#include "report/base/environment.h"
#include "report/base/format.h"
#include "report/base/json_access.h"

namespace devtrace::fix {

namespace fs = std::filesystem;

namespace {

std::string whole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Candidate read(const Json& each) {
  Candidate one;
  const auto text = [&](const char* key) { return std::string(report::string(each, key)); };
  one.kind = text("kind");
  one.category = text("category");
  one.title = text("title");
  one.file = text("file");
  one.code = text("code");
  one.patch = text("patch");
  one.folder = text("folder");
  one.identity = text("identity");
  one.alternatives = text("alternatives");
  one.asks = text("asks");
  one.line = report::integer(each, "line").value_or(0);
  one.changed = report::integer(each, "changed").value_or(0);
  one.names_device = report::flag(each, "names_device");
  one.names_new_device = report::flag(each, "names_new_device");
  one.fallback = report::flag(each, "fallback");
  one.at_use = report::flag(each, "at_use");
  one.to_cpu = report::flag(each, "to_cpu");
  for (const auto& [path, content] : report::object(each, "texts").items())
    if (content.is_string()) one.texts[path] = content.get<std::string>();
  one.added = report::object(each, "added");
  return one;
}

}  // namespace

std::vector<Candidate> candidates(const fs::path& edits, const std::string& interpreter, const Json& finding,
                                  const Texts& texts, const fs::path& folder, const fs::path& scratch) {
  const fs::path question = scratch / "question", answer = scratch / "answer", output = scratch / "complaints";
  Json asked = {{"finding", finding}, {"folder", folder.string()}, {"texts", Json::object()}};
  for (const auto& [path, text] : texts) asked["texts"][path] = text;
  std::ofstream(question) << asked.dump(-1, ' ', false, Json::error_handler_t::replace);
  ProgramToRun program;
  program.words = {interpreter, "-I", "-S", "-B", edits.string(), question.string(), answer.string()};
  program.environment = report::own_environment();
  program.environment.erase("LD_PRELOAD");  // the question needs no simulated device
  Child child(program, output);
  while (!child.ended()) {
    if (child.seconds() > 60) {
      child.end(scratch);
      throw std::runtime_error("no edits were found within 60 seconds");
    }
    usleep(2'000);
  }
  const Json said = Json::parse(whole(answer), nullptr, false);
  if (child.code() != 0 || !said.is_object()) {
    const std::string complaint = whole(output);
    throw std::runtime_error(fmt::format("{} could not make edits:\n{}", interpreter,
                                         complaint.substr(complaint.size() > 2000 ? complaint.size() - 2000 : 0)));
  }
  std::vector<Candidate> found;
  for (const Json& each : report::array(said, "candidates")) found.push_back(read(each));
  return found;
}

std::string interpreter_of(const Json& process) {
  const Json& command = report::array(process, "command");
  if (command.empty() || !command[0].is_string()) return "python3";
  fs::path path = command[0].get<std::string>();
  if (path.filename().string().find("python") == std::string::npos) return "python3";
  if (path.is_relative() && path.has_parent_path()) path = fs::path(report::string(process, "cwd")) / path;
  std::error_code ignored;
  if (path.has_parent_path() && !fs::exists(path, ignored)) return "python3";
  return path.string();
}

}  // namespace devtrace::fix
