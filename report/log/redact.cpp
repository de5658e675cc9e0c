#include "report/log/redact.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/phrasing.h"

namespace devtrace::report {
namespace {

using Words = std::set<std::string, std::less<>>;

void add_words(Words& set, std::string_view words) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (end > 0) set.emplace(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

struct Public {
  Words words, packages, standard, libraries;
};

Public read_public() {
  Public all;
#define WORDS(text) add_words(all.words, text);
#define PACKAGES(text) add_words(all.packages, text);
#define STANDARD(text) add_words(all.standard, text);
#define LIBRARIES(text) add_words(all.libraries, text);
#include "report/log/redact_public.inc"
#undef WORDS
#undef PACKAGES
#undef STANDARD
#undef LIBRARIES
  return all;
}

const Public& known() {
  static const Public& all = *new Public(read_public());  // leaked: hooks run after static destructors
  return all;
}

bool begins_name(char c) {
  return c == '_' || std::isalpha(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80;
}
bool in_name(char c) {
  return begins_name(c) || std::isdigit(static_cast<unsigned char>(c));
}

// 4096, 0x10, 1e5, 2.0f: no name, as `3d_encoder` may be one, of a module's.
bool is_number(std::string_view word) {
  if (word.size() > 2 && word[0] == '0' && std::string_view("xXbBoO").find(word[1]) != word.npos)
    return word.find_first_not_of("0123456789abcdefABCDEF_", 2) == word.npos;
  const size_t digits = std::min(word.find_first_not_of("0123456789_"), word.size());
  std::string_view rest = word.substr(digits);
  if (rest.starts_with('e') || rest.starts_with('E'))
    rest.remove_prefix(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
  return digits > 0 && rest.size() <= 3 && rest.find_first_not_of("jJlLuUfF") == rest.npos;
}

// Calls `name` for each identifier and `other` for each character between them. Numbers are no names.
template <class Name, class Other>
void split(std::string_view text, const Name& name, const Other& other) {
  while (!text.empty()) {
    if (!in_name(text.front())) {
      other(text.front());
      text.remove_prefix(1);
      continue;
    }
    const size_t end =
        std::min<size_t>(std::find_if_not(text.begin(), text.end(), in_name) - text.begin(), text.size());
    const std::string_view word = text.substr(0, end);
    if (!is_number(word)) {
      name(word);
    } else {
      for (const char c : word) other(c);
    }
    text.remove_prefix(end);
  }
}

// In front of a quote these are no names.
bool is_string_prefix(std::string_view word) {
  return word.size() <= 2 && word.find_first_not_of("rRbBfFuU") == word.npos;
}

// Strings that say where something lies, and not what.
bool is_plain_string(std::string_view text) {
  if (text == "cpu" || text == "cuda" || text == "auto" || text == "pt") return true;
  return text.starts_with("cuda:") && text.size() < 9 &&
         std::all_of(text.begin() + 5, text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// The string literal at the front, its quotes included; the rest of the text when it does not end.
std::string_view literal(std::string_view text) {
  const char quote = text.front();
  const size_t marks = text.starts_with(std::string(3, quote)) ? 3 : 1;
  const std::string end(marks, quote);
  for (size_t at = marks; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text.substr(at).starts_with(end)) {
      return text.substr(0, at + marks);
    }
  }
  return text;
}

// The name up to its first dot or slash.
std::string_view first_part(std::string_view path) {
  return path.substr(0, path.find_first_of("./>"));
}

// "/lib/python3.11/threading.py". Other files may lie in such a folder, a program's own.
std::string_view of_python(std::string_view file) {
  const size_t at = file.rfind("/lib/python3.");
  if (at == file.npos || !within_packages(file).empty()) return {};
  std::string_view module = file.substr(std::min(file.find('/', at + 5), file.size() - 1) + 1);
  if (module.starts_with("lib-dynload/")) module.remove_prefix(12);
  return known().standard.contains(first_part(module)) ? file.substr(at) : std::string_view();
}

constexpr std::string_view kFrozen = "<frozen ", kGenerated = "<eval_with_key>";

bool is_public(std::string_view file) {
  if (const auto rest = within_packages(file); !rest.empty()) {
    std::string_view package = rest.substr(0, rest.find('/'));
    if (package.ends_with(".py")) package.remove_suffix(3);
    return known().packages.contains(package);
  }
  if (file.starts_with(kFrozen)) return known().standard.contains(first_part(file.substr(kFrozen.size())));
  return !of_python(file).empty();
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool is_python(std::string_view program) {
  return program.starts_with("python") && program.find_first_not_of("0123456789.", 6) == program.npos;
}

bool is_public_library(std::string_view module) {
  const auto file = base_name(module);
  const auto stem = file.substr(0, file.find(".so"));
  return known().libraries.contains(stem) || is_python(file) ||
         (stem.starts_with("lib") && is_python(stem.substr(3))) || is_public(module);
}

// "2.4.0+cu121": what stands behind the sign may be anybody's, but for what PyTorch builds itself.
std::string public_version(std::string_view version) {
  const size_t sign = version.find('+');
  if (sign == version.npos) return std::string(version);
  const auto local = version.substr(sign + 1);
  for (const std::string_view build : {"cpu", "cu", "rocm"})
    if (local.starts_with(build) && local.find_first_not_of("0123456789.", build.size()) == local.npos)
      return std::string(version);
  return std::string(version.substr(0, sign));
}

// `cudaMemcpyAsync`, `cuMemcpyDtoD_v2`.
bool is_cuda_function(std::string_view name) {
  const size_t prefix = name.starts_with("cuda") ? 4 : name.starts_with("cu") ? 2 : 0;
  return prefix > 0 && name.size() > prefix && std::isupper(static_cast<unsigned char>(name[prefix])) &&
         std::all_of(name.begin(), name.end(), in_name);
}

// `cublasSgemm`, `cufftExecC2C`, `cusolverDnSgetrf`.
bool is_library_function(std::string_view name) {
  for (const std::string_view library : {"cublas", "cufft", "curand", "cusolver", "cusparse", "cudnn", "nccl"})
    if (name.starts_with(library)) return std::all_of(name.begin(), name.end(), in_name);
  return false;
}

// Copies the fields that are as they are in every program.
void take(Json& out, const Json& in, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (in.contains(key)) out[key] = in[key];
  }
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
}

}  // namespace

std::string Redactor::file(std::string_view raw) {
  if (raw.empty()) return {};
  if (is_public(raw)) {
    if (const auto rest = within_packages(raw); !rest.empty()) return "/site-packages/" + std::string(rest);
    if (const auto rest = of_python(raw); !rest.empty()) return std::string(rest);
    return std::string(raw);
  }
  if (raw == "<string>" || raw == "<stdin>") return std::string(raw);
  // What follows the number says from which file of the program's it was made.
  if (raw.starts_with(kGenerated))
    return std::string(raw.substr(0, std::min(raw.find_first_not_of(".0123456789", kGenerated.size()), raw.size())));
  const auto [entry, fresh] = files_.try_emplace(std::string(raw));
  if (fresh) {
    const auto name = base_name(raw);
    const size_t dot = name.rfind('.');
    const auto ending = dot == name.npos || name.size() - dot > 5 ? std::string_view(".py") : name.substr(dot);
    entry->second = fmt::format("/project/file{}{}", files_.size(), ending);
  }
  return entry->second;
}

// The same kind of name, so that code still reads as code. What has two letters tells nothing.
std::string Redactor::name(std::string_view raw) {
  if (raw.size() <= 2 || known().words.contains(raw) || public_.contains(raw)) return std::string(raw);
  const auto [entry, fresh] = names_.try_emplace(std::string(raw));
  if (fresh) {
    const bool capital = std::isupper(static_cast<unsigned char>(raw[0])) != 0;
    const bool small = std::any_of(raw.begin(), raw.end(), [](unsigned char c) { return std::islower(c); });
    entry->second = fmt::format("{}{}", !capital ? "name" : small ? "Name" : "NAME", names_.size());
  }
  return entry->second;
}

std::string Redactor::code(std::string_view raw) {
  std::string out;
  while (!raw.empty()) {
    const char c = raw.front();
    if (c == '"' || c == '\'') {
      const auto whole = literal(raw);
      const size_t marks = whole.starts_with(std::string(3, c)) ? 3 : 1;
      const bool ends = whole.size() >= 2 * marks;
      const auto inside = ends ? whole.substr(marks, whole.size() - 2 * marks) : std::string_view();
      out += fmt::format("{0}{1}{0}", c, is_plain_string(inside) ? std::string(inside) : "…");
      raw.remove_prefix(whole.size());
    } else if (c == '#') {
      raw.remove_prefix(std::min(raw.find('\n'), raw.size()));
      while (!out.empty() && out.back() == ' ') out.pop_back();
    } else if (in_name(c)) {
      const size_t end = std::min<size_t>(std::find_if_not(raw.begin(), raw.end(), in_name) - raw.begin(), raw.size());
      const std::string_view word = raw.substr(0, end);
      const bool prefix = end < raw.size() && (raw[end] == '"' || raw[end] == '\'') && is_string_prefix(word);
      out += prefix || is_number(word) ? std::string(word) : name(word);
      raw.remove_prefix(end);
    } else {
      out += c;
      raw.remove_prefix(1);
    }
  }
  return out;
}

// A C++ name, mangled or not, or an operator's. Of a template of PyTorch's the arguments may be the program's own.
std::string Redactor::kernel(std::string_view raw) {
  if (raw.starts_with("aten::") && std::all_of(raw.begin() + 6, raw.end(), in_name)) return std::string(raw);
  std::string out;
  while (!raw.empty()) {
    const size_t begin = std::min<size_t>(std::find_if(raw.begin(), raw.end(), in_name) - raw.begin(), raw.size());
    out += raw.substr(0, begin);
    raw.remove_prefix(begin);
    size_t end = 0;  // of a name with its namespaces
    while (end < raw.size() && (in_name(raw[end]) || (raw.substr(end).starts_with("::") && end + 2 < raw.size() &&
                                                      in_name(raw[end + 2]) && (end += 1))))
      ++end;
    const std::string_view whole = raw.substr(0, end);
    const std::string_view space = whole.substr(0, whole.find("::"));
    const bool open = space.size() < whole.size() && (space == "at" || space == "c10" || space == "std");
    out += open ? std::string(whole) : code(whole);
    raw.remove_prefix(end);
  }
  return out;
}

// A sentence about what was learnt before.
std::string Redactor::prose(std::string_view raw) const {
  std::string text(raw);
  std::vector<std::pair<std::string, std::string>> paths;
  for (const auto& [from, to] : files_) {
    paths.emplace_back(from, to);
    paths.emplace_back(shown_file(from, cwd_), shown_file(to, "/project"));
    paths.emplace_back(base_name(from), base_name(to));
  }
  // The longest first: main.py is a part of domain.py.
  std::stable_sort(paths.begin(), paths.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& [from, to] : paths) replace_all(text, from, to);
  std::string out;
  split(
      text,
      [&](std::string_view word) {
        const auto found = names_.find(word);
        out += found == names_.end() ? word : std::string_view(found->second);
      },
      [&](char c) { out += c; });
  return out;
}

Json Redactor::frames(const Json& python) {
  Json out = Json::array();
  for (const Json& frame : python) {
    if (!frame.is_object()) continue;
    Json clean = Json::object();
    const auto raw = string(frame, "file");
    const bool open = is_public(raw) && !flag(frame, "project");
    if (!raw.empty()) clean["file"] = file(raw);
    take(clean, frame, {"line", "project"});
    if (const auto function = string(frame, "function"); !function.empty())
      clean["function"] = open ? std::string(function) : code(function);
    if (const auto source = string(frame, "source"); !source.empty())
      clean["source"] = open ? std::string(source) : code(source);
    out.push_back(std::move(clean));
  }
  return out;
}

Json Redactor::native(const Json& frames) {
  Json out = Json::array();
  for (const Json& frame : frames) {
    if (!frame.is_object()) continue;
    Json clean = Json::object();
    const auto module = string(frame, "module");
    const bool open = is_public_library(module);
    if (!module.empty()) clean["module"] = open ? std::string(base_name(module)) : name(base_name(module));
    if (const auto function = string(frame, "function"); !function.empty())
      clean["function"] = open ? std::string(function) : code(function);
    if (const auto source = string(frame, "file"); !source.empty()) clean["file"] = file(source);
    take(clean, frame, {"offset", "line", "project", "inlined"});
    out.push_back(std::move(clean));
  }
  return out;
}

Json Redactor::event(const Json& event) {
  Json out = Json::object();
  take(out, event, {"time", "thread", "device", "from", "to", "by_default"});
  if (event.contains("python")) out["python"] = frames(array(event, "python"));
  take(out, event, {"call"});
  if (event.contains("native")) out["native"] = native(array(event, "native"));
  return out;
}

Json Redactor::operand(const Json& operand) {
  Json out = Json::object();
  const auto coded = [&](const char* key) {
    if (const auto value = string(operand, key); !value.empty()) out[key] = code(value);
  };
  if (is_rank(operand))
    take(out, operand, {"name", "position"});
  else
    coded("name");
  Json names = Json::array();
  for (const Json& each : array(operand, "names")) {
    if (!each.is_object()) continue;
    Json clean = Json::object();
    take(clean, each, {"frame"});
    clean["name"] = code(string(each, "name"));
    names.push_back(std::move(clean));
  }
  if (!names.empty()) out["names"] = std::move(names);
  take(out, operand, {"role", "odd", "before_attach"});
  coded("expression");
  for (const char* key : {"type", "parameter_name"}) coded(key);
  take(out, operand, {"device", "dtype", "shape", "bytes", "address", "parameter", "array_of", "pool"});
  for (const char* key : {"module_path", "module_class", "root_class", "hook"}) coded(key);
  take(out, operand, {"requires_grad", "is_parameter", "root_devices", "generator"});
  // Left out, but for their names, which the verdict's sentence may say.
  for (const char* key : {"held_by", "given_by", "moved_away", "kept_for"}) learn_names(operand.value(key, Json()));
  if (const auto view = string(operand, "view_of"); !view.empty()) code(view);
  for (const char* key : {"created", "moved"}) {
    if (const Json& at = object(operand, key); !at.empty()) out[key] = event(at);
  }
  return out;
}

void Redactor::learn_names(const Json& record) {
  if (record.is_object()) {
    for (const char* key : {"name", "class", "function"})
      if (const auto value = string(record, key); !value.empty()) code(value);
    file(string(object(record, "bound"), "file"));
    if (record.contains("python")) frames(array(record, "python"));
  }
  if (record.is_structured())
    for (const Json& each : record) learn_names(each);
}

Json Redactor::cause(const Json& cause) {
  Json out = Json::object();
  take(out, cause, {"category", "confidence"});
  const std::string place = file(string(cause, "file"));
  const std::string fix = code(string(cause, "fix"));  // may bring names that nothing else has
  if (const auto because = string(cause, "because"); !because.empty()) out["because"] = prose(because);
  if (!fix.empty()) out["fix"] = fix;
  if (!place.empty()) out["file"] = place;
  take(out, cause, {"line", "repairs"});
  for (const Json& edit : array(cause, "also")) {
    Json& also = out["also"].emplace_back();
    also = {{"file", file(string(edit, "file"))}, {"fix", code(string(edit, "fix"))}};
    take(also, edit, {"line"});
  }
  if (const Json& verified = object(cause, "verified"); !verified.empty()) {
    take(out["verified"], verified,
         {"outcome", "findings_before", "findings_after", "same_output", "bytes_per_step", "bytes", "devices_with_work",
          "runs"});
    // They name kernels and operators that nothing else may have.
    if (!array(verified, "open").empty()) out["verified"]["open"] = {"what is still open is left out here"};
  }
  return out;
}

// Every name that code of well-known packages uses in this record is anybody's.
void Redactor::learn(const Json& record) {
  if (record.is_array()) {
    for (const Json& each : record) learn(each);
    return;
  }
  if (!record.is_object()) return;
  const auto where = string(record, "file");
  if (!where.empty() && is_public(where) && !flag(record, "project")) {
    for (const char* key : {"function", "source"})
      split(
          string(record, key), [&](std::string_view word) { public_.emplace(word); }, [](char) {});
  }
  for (const Json& each : record)
    if (each.is_structured()) learn(each);
}

Json Redactor::process(const Json& record) {
  cwd_ = string(record, "cwd");
  Json out = Json::object();
  take(out, record, {"record", "schema", "pid", "ppid"});
  Json command = Json::array();
  for (const Json& word : array(record, "command")) {
    if (!word.is_string()) continue;
    const auto program = base_name(word.get_ref<const std::string&>());
    command.push_back(is_python(program) ? std::string(program) : "program");
    command.push_back("…");
    break;
  }
  if (!command.empty()) out["command"] = std::move(command);
  take(out, record, {"started", "attached"});
  if (!cwd_.empty()) out["cwd"] = "/project";
  for (const char* key : {"python", "torch", "cuda_runtime"})
    if (const auto version = string(record, key); !version.empty()) out[key] = public_version(version);
  Json devices = Json::array();
  for (const Json& device : array(record, "devices")) {
    Json clean = Json::object();
    take(clean, device, {"index", "name", "memory"});
    devices.push_back(std::move(clean));
  }
  if (!devices.empty()) out["devices"] = std::move(devices);
  const auto numbers = [](std::string_view text) { return text.find_first_not_of("0123456789, ") == text.npos; };
  if (const auto visible = string(record, "visible_devices"); !visible.empty() && numbers(visible))
    out["visible_devices"] = visible;
  take(out, record, {"devtrace", "backend", "rehearsal", "stacks", "missing_symbols"});
  Json environment = Json::object();
  for (const auto& [key, value] : object(record, "environment").items()) {
    if (value.is_string() && numbers(value.get_ref<const std::string&>())) environment[key] = value;
  }
  if (!environment.empty()) out["environment"] = std::move(environment);
  out["redacted"] = true;
  return out;
}

Json Redactor::record(const Json& record) {
  learn(record);
  Json out = Json::object();
  take(out, record,
       {"record",   "id",    "kind",    "severity", "note",           "fingerprint", "time",  "thread", "count",
        "findings", "notes", "dropped", "exit",     "from",           "to",          "bytes", "copies", "staged",
        "other",    "first", "timed",   "pid",      "before_forward", "a_token"});
  const auto operation = string(record, "operation");
  const auto kind = string(record, "kind");
  const bool cudas = (kind == "copy-mismatch" && is_cuda_function(operation)) ||
                     ((kind == "handle-mismatch" || record.contains("communicator")) &&
                      (is_library_function(operation) || is_cuda_function(operation)));
  if (!operation.empty()) out["operation"] = cudas ? std::string(operation) : kernel(operation);
  // An operator of the program's own has arguments of its own.
  const bool own = string(out, "operation") != operation && string(record, "kind") == "refused-op";
  if (own) {
    for (const char* key : {"overload", "argument"})
      if (const auto value = string(record, key); !value.empty()) out[key] = code(value);
  } else {
    take(out, record, {"overload", "method", "argument"});
  }
  take(out, record, {"current_device", "devices"});
  if (record.contains("operands")) {
    out["operands"] = Json::array();
    for (const Json& each : array(record, "operands"))
      if (each.is_object()) out["operands"].push_back(operand(each));
  }
  for (const char* key : {"modules", "mentions"}) learn_names(array(record, key));
  if (record.contains("entries")) {  // a `placement`
    for (const char* key : {"root", "variable", "part_of"})
      if (const auto value = string(record, key); !value.empty()) out[key] = code(value);
    take(out, record, {"left_out", "cut"});
    Json& entries = out["entries"] = Json::array();
    for (const Json& each : array(record, "entries")) {
      if (!each.is_object()) continue;
      Json clean = {{"name", code(string(each, "name"))}};
      take(clean, each, {"kind", "device", "bytes"});
      if (const auto same = string(each, "same_as"); !same.empty()) clean["same_as"] = code(same);
      entries.push_back(std::move(clean));
    }
  }
  // Of `memory` and `out_of_memory`.
  take(out, record,
       {"device", "peak", "reserved", "weights", "gradients", "optimizer", "caches", "activations", "other", "course",
        "asked", "free", "missing"});
  if (const Json& module = object(record, "module"); !module.empty())
    for (const char* key : {"path", "class", "root"})
      if (const auto name = string(module, key); !name.empty()) out["module"][key] = code(name);
  if (record.contains("python")) out["python"] = frames(array(record, "python"));
  if (record.contains("native")) out["native"] = native(array(record, "native"));
  if (const Json& launch = object(record, "launch"); !launch.empty()) {
    take(out["launch"], launch, {"grid", "block", "stream", "parameter", "offset", "graph", "stream_device"});
    if (const auto name = string(launch, "kernel"); !name.empty()) out["launch"]["kernel"] = kernel(name);
  }
  if (const Json& copy = object(record, "copy"); !copy.empty())
    take(out["copy"], copy, {"function", "direction", "source", "destination", "bytes", "stream"});
  if (const Json& call = object(record, "library_call"); !call.empty())
    take(out["library_call"], call, {"device", "refused", "used", "stream", "stream_device"});
  if (const Json& ranks = object(record, "communicator"); !ranks.empty())
    take(out["communicator"], ranks, {"function", "size", "rank", "local_rank", "visible_devices"});
  if (const Json& choice = object(record, "device_choice"); !choice.empty()) out["device_choice"] = event(choice);
  if (record.contains("device_changes")) {
    out["device_changes"] = Json::array();
    for (const Json& change : array(record, "device_changes"))
      if (change.is_object()) out["device_changes"].push_back(event(change));
  }
  if (const Json& why = object(record, "cause"); !why.empty()) out["cause"] = cause(why);
  // Last, when every name of the finding is known.
  if (const auto message = string(record, "message"); !message.empty()) out["message"] = prose(message);
  return out;
}

}  // namespace devtrace::report
