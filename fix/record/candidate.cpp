#include "fix/record/candidate.h"

#include "finding/json.h"
#include "report/record/json_access.h"

namespace devtrace::fix {
namespace {

using report::Json;

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
  const auto texts = [&](const char* key, Texts& into) {
    for (const auto& [path, content] : report::object(each, key).items())
      if (content.is_string()) into[path] = content.get<std::string>();
  };
  texts("texts", one.texts);
  texts("before", one.before);
  for (const auto& [path, lines] : report::object(each, "added").items())
    for (const Json& line : lines)
      if (line.is_number_integer()) one.added.emplace(path, line.get<int64_t>());
  return one;
}

std::string asked_of(const Candidate& edits, const std::filesystem::path& folder, Json finding) {
  Json asked = {{"finding", std::move(finding)},
                {"folder", folder.string()},
                {"texts", Json::object()},
                {"before", Json::object()}};
  for (const auto& [path, text] : edits.texts) asked["texts"][path] = text;
  for (const auto& [path, text] : edits.before) asked["before"][path] = text;
  return asked.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string question(const finding::Finding& finding, const Candidate& edits, const std::filesystem::path& folder) {
  return asked_of(edits, folder, finding::to_json(finding));
}

std::string question_of_hunks(const Candidate& edits, const std::filesystem::path& folder) {
  return asked_of(edits, folder, nullptr);
}

std::optional<std::vector<Candidate>> read_answer(const std::string& answer) {
  const Json said = Json::parse(answer, nullptr, false);
  if (!said.is_object()) return std::nullopt;
  std::vector<Candidate> found;
  for (const Json& each : report::array(said, "candidates")) found.push_back(read(each));
  return found;
}

}  // namespace devtrace::fix
