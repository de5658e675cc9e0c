// LibTorch: a constructor made a tensor or a module and kept it without registering it, so that to() of the module that
// has it does not reach it.
#include <algorithm>
#include <string>

#include "common/format.h"
#include "common/text.h"
#include "report/phrasing/cpp_scope.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

// What the line gives to a member: `mean_ = torch::zeros({1});`.
struct Assignment {
  std::string_view member, value;
};

std::optional<Assignment> assignment(std::string_view line) {
  const size_t equals = line.find(" = "), end = line.find(';');
  if (!shape_of(line).is_statement || equals == line.npos || end == line.npos || end < equals) return std::nullopt;
  std::string_view member = line.substr(0, equals);
  member.remove_prefix(std::min(member.find_first_not_of(" \t"), member.size()));
  std::string_view name = member;
  if (name.starts_with("this->")) name.remove_prefix(6);
  const std::string_view value = line.substr(equals + 3, end - equals - 3);
  if (!is_identifier(name) || value.find('(') == value.npos || line.find("register_") != line.npos) return std::nullopt;
  return Assignment{name, value};
}

bool is_module(std::string_view type, const Stack& stack) {
  if (type.ends_with("Impl")) return true;
  const std::string holder = fmt::format("ModuleHolder<{}>", type);
  for (const Frame& frame : stack)
    if (frame.function.find(holder) != frame.function.npos ||
        frame.around.text.find("torch::nn::Module") != frame.around.text.npos)
      return true;
  return false;
}

// The object's own code uses what the constructor assigned: it was no local variable's.
bool is_used_by(std::string_view type, std::string_view member, const Stack& native) {
  const std::string prefix = fmt::format("{}::", type);
  for (const Frame& frame : native)
    if (frame.project && name_in_signature(frame.function).starts_with(prefix) && has_word(frame.source, member))
      return true;
  return false;
}

struct Kept {
  const Frame* line;
  std::string_view type;
  Assignment what;
  bool module;  // … in which the tensor is registered
};

// The innermost line of a constructor that keeps what it made. Inside of it there are only constructors of what is
// registered.
std::optional<Kept> kept_by_a_constructor(const Operand& operand) {
  bool in_module = false;
  for (const Frame& frame : operand.created.native) {
    in_module = in_module || frame.function.starts_with("torch::nn::");
    if (!frame.project) continue;
    const std::string_view type = constructed(frame.function);
    if (type.empty()) return std::nullopt;
    if (const auto found = assignment(frame.source)) {
      const std::string registered = fmt::format(", {})", found->member);
      if (frame.around.text.find(registered) != frame.around.text.npos) return std::nullopt;
      return Kept{&frame, type, *found, in_module};
    }
    if (frame.source.find("register_") == frame.source.npos) return std::nullopt;
    in_module = true;
  }
  return std::nullopt;
}

Fix registered(const Kept& kept) {
  std::string name(kept.what.member);
  while (name.size() > 1 && name.back() == '_') name.pop_back();
  if (name.starts_with("m_") && name.size() > 2) name.erase(0, 2);
  std::string code(kept.line->source);
  code.replace(static_cast<size_t>(kept.what.value.data() - kept.line->source.data()), kept.what.value.size(),
               fmt::format("register_{}(\"{}\", {})", kept.module ? "module" : "buffer", name, kept.what.value));
  return repair_of(*kept.line, dedented(code));
}

}  // namespace

std::optional<Cause> cpp_state_not_registered(const Evidence& evidence) {
  if (evidence.kind != "refused-op" || !evidence.in_cpp()) return std::nullopt;
  for (const Operand& operand : evidence.operands) {
    if (!operand.on_cpu() || operand.moved.known()) continue;
    const auto kept = kept_by_a_constructor(operand);
    if (!kept || !is_module(kept->type, operand.created.native) ||
        !is_used_by(kept->type, kept->what.member, evidence.native))
      continue;
    return Cause{"state-not-registered", Confidence::medium,
                 fmt::format("{} ({}) {} {}, which the constructor of {} keeps at {} without registering it: to() of "
                             "the module does not reach it.",
                             operand.name, operand.device, kept->module ? "is of" : "is", kept->what.member, kept->type,
                             at(kept->line)),
                 registered(*kept)};
  }
  return std::nullopt;
}

}  // namespace devtrace::report::verdict::rules
