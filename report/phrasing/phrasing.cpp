#include "report/phrasing/phrasing.h"

#include <algorithm>
#include <ctime>
#include <map>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/signature.h"
#include "report/phrasing/system_libraries.h"

namespace devtrace::report {
namespace {

// What happened, by kind: the sentence is "<operation> <happened> <devices>".
struct Kind {
  std::string_view name;
  std::string_view happened;
  std::string_view nameless_operation;
};
constexpr Kind kKinds[] = {
    {"refused-op", "was given tensors on", "an operation"},
    {"remote-access", "was given memory of another device:", "a kernel"},
    {"host-access", "was given host memory that it cannot read:", "a kernel"},
    {"wrong-current-device", "was launched while another device was current:", "a kernel"},
    {"invalid-access", "used memory that is nobody's on", "a kernel"},
    {"unset-variable", "read a variable that was set on another device alone:", "a kernel"},
    {"uninitialized-read", "read memory that nothing has written on", "a kernel"},
    {"shared-memory-race", "has threads that race in shared memory on", "a kernel"},
    {"handle-mismatch", "was given a handle of another device:", "a library's function"},
    {"copy-mismatch", "states devices that its ends contradict:", "a copy"},
    {"duplicate-device", "was called by ranks of one device:", "a communicator"},
    {"collective-mismatch", "was called by ranks that ask for different things:", "a collective"},
    {"collective-stalled", "was not called by all ranks:", "a collective"},
};

const Kind& kind_of(const Json& finding) {
  for (const Kind& kind : kKinds) {
    if (kind.name == string(finding, "kind")) return kind;
  }
  static constexpr Kind kOther = {"", "mixed", "an operation"};
  return kOther;
}

}  // namespace

bool is_note(const Json& finding) {
  return string(finding, "severity") == "note";
}

std::string operation_of(const Json& finding) {
  if (const auto operation = string(finding, "operation"); !operation.empty()) return std::string(operation);
  if (const auto kernel = string(object(finding, "launch"), "kernel"); !kernel.empty()) return std::string(kernel);
  return std::string(kind_of(finding).nameless_operation);
}

std::string kind_name(const Json& finding) {
  const auto kind = string(finding, "kind");
  const std::string name = kind.empty() ? "finding" : std::string(kind);
  return is_note(finding) ? name + " (note)" : name;
}

std::string access_in_words(const Json& access) {
  const auto three = [&](const char* key) {
    std::string text;
    for (const Json& each : array(access, key)) text += (text.empty() ? "" : ",") + each.dump();
    return text;
  };
  const auto bytes = integer(access, "bytes");
  const auto whose = string(access, "whose"), variable = string(access, "variable");
  std::string text = flag(access, "writes") ? "writes" : "reads";
  if (bytes) text += fmt::format(" {} byte{}", *bytes, *bytes == 1 ? "" : "s");
  if (!whose.empty())
    text += fmt::format("{}{}", bytes ? " of " : " ", whose);
  else if (!variable.empty())
    text += fmt::format(" of {}, which has no value here", variable);
  return text + fmt::format(", by thread ({}) of block ({})", three("thread"), three("block"));
}

std::vector<std::string> devices_of(const Json& finding) {
  std::vector<std::string> devices;
  const auto add = [&](std::string_view device) {
    if (!device.empty() && std::find(devices.begin(), devices.end(), device) == devices.end())
      devices.emplace_back(device);
  };
  for (const Json& device : array(finding, "devices")) {
    if (device.is_string()) add(device.get_ref<const std::string&>());
  }
  if (devices.empty()) {
    for (const Json& operand : array(finding, "operands")) add(string(operand, "device"));
  }
  return devices;
}

std::string listed(const std::vector<std::string>& items) {
  std::string out;
  for (size_t index = 0; index < items.size(); ++index) {
    if (index > 0) out += index + 1 == items.size() ? " and " : ", ";
    out += items[index];
  }
  return out;
}

// Of a refusal with nothing on a second device: one operand is enough where it has to lie elsewhere.
static std::string of_one_device(const Json& finding, const std::vector<std::string>& devices) {
  const auto wanted = string(finding, "wanted_device");
  const auto there = [&](std::string_view device) {
    return device.substr(0, device.find(':')) == wanted || device == wanted;
  };
  std::vector<std::string> elsewhere;
  for (const std::string& device : devices)
    if (wanted.empty() || !there(device)) elsewhere.push_back(device);
  for (const Json& operand : array(finding, "operands"))
    if (!wanted.empty() && there(string(operand, "device"))) return {};
  if (!wanted.empty() && !elsewhere.empty())
    return fmt::format("{} was given what lies on {}, and wants it on {}", operation_of(finding), listed(elsewhere),
                       wanted == "cuda" ? "a CUDA device" : wanted);
  return devices.size() == 1 ? fmt::format("{} was refused on {}", operation_of(finding), devices[0]) : std::string();
}

std::string headline(const Json& finding) {
  // Of a copy the message says more: which end lies elsewhere than stated. Of a launch that CUDA refused, why. Of a
  // library's call, whose the handle is.
  const bool refused_launch = !string(object(finding, "launch"), "stream_device").empty();
  const auto kind = string(finding, "kind");
  if ((kind == "copy-mismatch" || kind == "handle-mismatch" || finding.contains("communicator") || refused_launch) &&
      !string(finding, "message").empty())
    return std::string(string(finding, "message"));
  const auto devices = devices_of(finding);
  if (devices.empty()) return fmt::format("{} was given tensors on different devices", operation_of(finding));
  if (const auto count = integer(finding, "device_count"))
    return fmt::format("{} was asked for {}, and this process sees {} CUDA device{}", operation_of(finding),
                       listed(devices), *count, *count == 1 ? "" : "s");
  if (flag(finding, "handles") && devices.size() >= 2)
    return fmt::format("{} was given events or streams of {}", operation_of(finding), listed(devices));
  // A generator is no tensor: which device is its own, and for which one numbers were asked.
  for (const Json& operand : array(finding, "operands")) {
    if (!flag(operand, "generator")) continue;
    std::vector<std::string> others;
    for (const std::string& device : devices)
      if (device != string(operand, "device")) others.push_back(device);
    if (!others.empty())
      return fmt::format("{} was given a random generator of {} for {}", operation_of(finding),
                         string(operand, "device"), listed(others));
  }
  if (string(finding, "kind") == "refused-op") {
    if (const std::string text = of_one_device(finding, devices); !text.empty()) return text;
  }
  return fmt::format("{} {} {}", operation_of(finding), kind_of(finding).happened, listed(devices));
}

std::string_view repairs(const Json& cause) {
  const auto what = string(cause, "repairs");
  if (what == "line") return "makes this line run, whatever the cause";
  return what == "cause" ? "repairs the cause" : "";
}

// Where memory that is no tensor came from: "memory of 4.0 KiB from cudaMalloc at main.cpp:12".
static std::string memory_words(const Json& operand) {
  std::string out = "memory";
  if (const auto size = integer(operand, "bytes"); size && *size > 0) out += " of " + bytes(*size);
  const Json& created = object(operand, "created");
  if (const auto call = string(created, "call"); !call.empty()) out += fmt::format(" from {}", call);
  const Json& frame = user_frame_of(created);
  const auto line = integer(frame, "line");
  if (const auto file = string(frame, "file"); !file.empty() && line)
    out += fmt::format(" at {}:{}", file.substr(file.rfind('/') + 1), *line);
  return out;
}

std::string name_of(const Json& operand) {
  const auto name = string(operand, "name");
  if (!name.empty()) return std::string(name);
  const auto expression = string(operand, "expression");
  if (!expression.empty()) return fmt::format("the result of {}", expression);
  if (flag(operand, "generator")) return "a generator";
  const bool tensor = !string(operand, "dtype").empty() || (operand.is_object() && operand.contains("shape"));
  if (const auto parameter = integer(operand, "parameter"); parameter && !tensor) {
    const auto type = string(operand, "type");
    return fmt::format("parameter {} ({})", *parameter, type.empty() ? "pointer" : type);
  }
  if (!tensor && !string(object(operand, "created"), "call").empty()) return memory_words(operand);
  return "a tensor";
}

std::optional<Json> source_of(const Json& operand) {
  if (!operand.is_object() || operand.contains("created") || operand.contains("moved")) return std::nullopt;
  const Json& sources = array(operand, "computed_from");
  if (sources.empty() || !sources[0].is_object()) return std::nullopt;
  Json source = sources[0];
  source["role"] = fmt::format("of which {} was computed", name_of(operand));
  return source;
}

std::vector<const Json*> odd_first(const Json& finding) {
  std::vector<const Json*> all;
  for (const Json& operand : array(finding, "operands"))
    if (operand.is_object()) all.push_back(&operand);
  std::map<std::string_view, size_t> by_device;
  for (const Json* each : all) ++by_device[string(*each, "device")];
  const auto is_odd = [&](const Json* each) {
    return flag(*each, "odd") || (all.size() > 2 && by_device[string(*each, "device")] == 1);
  };
  std::vector<const Json*> sorted = all;
  std::stable_partition(sorted.begin(), sorted.end(), is_odd);
  if (all.size() <= kOperandsShown) return sorted;
  std::vector<const Json*> first, rest;
  for (const Json* each : sorted) {
    const auto same = [&](const Json* other) { return string(*other, "device") == string(*each, "device"); };
    (std::any_of(first.begin(), first.end(), same) ? rest : first).push_back(each);
  }
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

Json operands_and_sources(const Json& finding) {
  Json all = Json::array();
  for (const Json* operand : odd_first(finding)) {
    all.push_back(*operand);
    if (std::optional<Json> source = source_of(*operand)) all.push_back(*std::move(source));
  }
  return all;
}

std::string who_is_where(const Json& finding) {
  std::string out;
  const auto operands = odd_first(finding);
  for (size_t index = 0; index < std::min(operands.size(), kOperandsShown); ++index) {
    if (!out.empty()) out += ", ";
    out += name_of(*operands[index]);
    if (const auto device = string(*operands[index], "device"); !device.empty()) out += fmt::format(" on {}", device);
  }
  if (operands.size() > kOperandsShown) out += fmt::format(" and {} more", operands.size() - kOperandsShown);
  return out;
}

std::string role_of(const Json& operand) {
  std::string out(string(operand, "role"));
  // Of a kernel: which parameter, as its declaration has it; a tensor has a role of its own.
  if (const auto parameter = integer(operand, "parameter"); parameter && out == "parameter") {
    const auto type = string(operand, "type"), name = string(operand, "parameter_name");
    out += fmt::format(" {}{}{}{}{}", *parameter, type.empty() && name.empty() ? "" : ": ", type,
                       type.empty() || name.empty() ? "" : " ", name);
  }
  // Of a C++ call: which argument of the operator's schema.
  if (const auto argument = string(operand, "argument"); !argument.empty() && argument != string(operand, "name"))
    out = fmt::format("{} {}", out.empty() ? "argument" : out, argument);
  if (flag(operand, "generator")) return "random generator" + (out.empty() ? out : ", " + out);
  const auto owner = string(operand, "module_class");
  const auto root = string(operand, "root_class");
  if (!owner.empty()) out += fmt::format("{}of {}", out.empty() ? "" : " ", owner);
  if (!root.empty() && root != owner) out += fmt::format("{}in {}", out.empty() ? "" : " ", root);
  return out;
}

std::string bytes(int64_t count) {
  if (count < 1024) return fmt::format("{} B", count);
  double value = static_cast<double>(count);
  const char* unit = "";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = larger;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, unit);
}

bool is_rank(const Json& operand) {
  return string(operand, "role") == "rank";
}

std::string made_by(const Json& operand) {
  if (is_rank(operand)) return std::string(string(object(operand, "created"), "call"));
  const std::string_view pool = string(operand, "pool");
  if (pool.empty()) return "created";
  return fmt::format("is in memory that {}'s pool took", pool == "cupy" ? std::string_view("CuPy") : pool);
}

std::string extent_of(const Json& operand) {
  std::string out(string(operand, "dtype"));
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : " ") + part; };
  if (operand.is_object() && operand.contains("shape") && operand["shape"].is_array()) {
    std::string sizes;
    for (const Json& size : operand["shape"]) {
      if (!sizes.empty()) sizes += ", ";
      sizes += size.is_number_integer() ? size.dump() : "?";
    }
    add('[' + sizes + ']');
  }
  // Memory that no tensor is known to lie in.
  if (const auto size = integer(operand, "bytes"); out.empty() && size && *size > 0) out = bytes(*size);
  return out;
}

std::string shown_file(std::string_view file, std::string_view cwd) {
  while (cwd.size() > 1 && cwd.back() == '/') cwd.remove_suffix(1);
  if (const std::string_view rest = within_packages(file); !rest.empty()) return std::string(rest);
  if (cwd.size() > 1 && file.starts_with(cwd) && file.size() > cwd.size() + 1 && file[cwd.size()] == '/') {
    return std::string(file.substr(cwd.size() + 1));
  }
  return std::string(file);
}

std::string location(const Json& frame, std::string_view cwd) {
  std::string where = shown_file(string(frame, "file"), cwd);
  if (const auto module = string(frame, "module"); where.empty() && !module.empty())
    where = fmt::format("{}+{}", module.substr(module.rfind('/') + 1), string(frame, "offset"));
  if (const auto line = integer(frame, "line"); line && *line > 0) where += fmt::format(":{}", *line);
  return where;
}

std::string function_name(const Json& frame) {
  auto function = string(frame, "function");
  if (!string(frame, "module").empty()) return short_name_in_signature(function);
  // Before Python 3.12 a comprehension is a function of its own; its reader knows it by the function around it.
  for (const std::string_view anonymous :
       {".<locals>.<dictcomp>", ".<locals>.<listcomp>", ".<locals>.<setcomp>", ".<locals>.<genexpr>"}) {
    if (function.ends_with(anonymous)) function.remove_suffix(anonymous.size());
  }
  return std::string(function);
}

std::string place(const Json& frame, std::string_view cwd) {
  const std::string function = function_name(frame), where = location(frame, cwd);
  if (function.empty()) return where;
  return where.empty() ? function : fmt::format("{} ({})", function, where);
}

std::string_view without_lines(const Json& frame) {
  if (string(frame, "module").empty() || !string(frame, "file").empty() || !flag(frame, "project")) return {};
  return "There is no debug information: built with -g, the program has its files, lines and variables named here.";
}

const Json& user_frame(const Json& frames) {
  static const Json& none = *new Json(Json::object());
  if (!frames.is_array()) return none;
  for (const Json& frame : frames) {
    if (flag(frame, "project")) return frame;
  }
  return frames.empty() || !frames.front().is_object() ? none : frames.front();
}

const Json& native_user_frame(const Json& frames) {
  static const Json& none = *new Json(Json::object());
  if (!frames.is_array() || frames.empty()) return none;
  const auto first = [&](auto&& fits) -> const Json* {
    for (const Json& frame : frames)
      if (frame.is_object() && fits(frame)) return &frame;
    return nullptr;
  };
  const auto own = [](const Json& frame) {
    const std::string_view path = string(frame, "module");
    return !path.empty() && !path.ends_with('/') && !hides_callers(path);
  };
  const auto project = [](const Json& frame) { return flag(frame, "project"); };
  for (const auto* found :
       {first(project), first([&](const Json& f) { return own(f) && !string(f, "file").empty(); }), first(own)})
    if (found) return *found;
  return frames.front().is_object() ? frames.front() : none;
}

const Json& frames_of(const Json& record) {
  const Json& python = array(record, "python");
  return python.empty() ? array(record, "native") : python;
}

const Json& user_frame_of(const Json& record) {
  const Json& python = array(record, "python");
  return python.empty() ? native_user_frame(array(record, "native")) : user_frame(python);
}

std::string summary(const Json& process, const Json& finding) {
  const Json& frame = user_frame_of(finding);
  std::string out = kind_name(finding);
  if (!string(frame, "file").empty()) {
    out += ' ' + location(frame, string(process, "cwd"));
    const auto function = string(frame, "function");
    if (!function.empty())
      out += fmt::format(" in {}",
                         string(frame, "module").empty() ? std::string(function) : short_name_in_signature(function));
  } else if (!frame.empty()) {
    out += ' ' + place(frame, string(process, "cwd"));
  }
  const std::string operands = who_is_where(finding);
  out += ": " + (operands.empty() ? headline(finding) : operands);
  return out;
}

std::string clock_time(double seconds) {
  if (!(seconds > -6e10 && seconds < 2.5e11)) return {};
  const auto whole = static_cast<time_t>(seconds);
  tm fields{};
  if (!gmtime_r(&whole, &fields)) return {};
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", fields.tm_year + 1900, fields.tm_mon + 1,
                     fields.tm_mday, fields.tm_hour, fields.tm_min, fields.tm_sec);
}

}  // namespace devtrace::report
