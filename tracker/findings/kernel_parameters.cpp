#include "tracker/findings/kernel_parameters.h"

#include <algorithm>

#include "binary/dwarf/members.h"
#include "common/format.h"
#include "report/phrasing/cpp_launch.h"
#include "report/phrasing/cpp_made.h"
#include "report/phrasing/cpp_scope.h"
#include "report/phrasing/cpp_source.h"
#include "report/phrasing/signature.h"
#include "tracker/evidence/origins/kernel_stub.h"
#include "tracker/evidence/origins/native_frames.h"

namespace devtrace::findings {
namespace {

using evidence::SourceText;

std::vector<std::string> copies(const std::vector<std::string_view>& texts) {
  return {texts.begin(), texts.end()};
}

// The kernel's declaration: what nvcc made of it for the host stands at its place in the source.
std::vector<std::string> declared_names(const events::Launch& launch, const std::vector<stacks::NativeFrame>& frames,
                                        const std::string& kernel, const SourceText& source) {
  std::vector<std::string> names;
  const auto on_stack = evidence::kernel_stub(frames, kernel);
  const auto stub = on_stack ? std::optional(frames[*on_stack]) : evidence::kernel_stub_at(launch.function, kernel);
  if (!stub || stub->line <= 0) return names;
  const std::string text = evidence::cpp_statement(source, evidence::source_file(*stub), stub->line);
  const auto declaration = report::only_call(text, report::unqualified_name(kernel));
  if (!declaration) return names;
  for (const std::string_view each : declaration->arguments) names.emplace_back(report::name_of_parameter(each));
  return names;
}

// What the innermost line of the program's that shows it gives to the kernel.
std::vector<std::string> given(const finding::Stack& shown, const std::string& kernel, size_t count,
                               const SourceText& source) {
  const std::string name = report::unqualified_name(kernel);
  for (const finding::Frame& frame : shown) {
    if (!frame.project || frame.source.empty()) continue;
    const std::string above =
        source.file ? report::scope_above(source.file(frame.file), static_cast<int>(frame.line)) : std::string();
    auto arguments = report::launch_arguments(above, frame.source, name);
    if (arguments.size() == count) return arguments;
  }
  return {};
}

// `Params` of `Params const&`; empty for a pointer.
std::string_view structure(std::string_view type) {
  for (const std::string_view qualifier : {" const", "&", " "})
    while (type.ends_with(qualifier)) type.remove_suffix(qualifier.size());
  return type.ends_with('*') ? std::string_view() : type;
}

}  // namespace

void CppParameters::add_to(finding::Operand& operand, size_t parameter, size_t offset) const {
  const auto at = [&](const std::vector<std::string>& all) { return parameter < all.size() ? all[parameter] : ""; };
  operand.type = at(types);
  operand.parameter_name = at(names);
  std::string argument = at(arguments);
  if (const std::string_view type = structure(operand.type); !type.empty() && !module.empty()) {
    const std::string member = dwarf::member_at(module, type, offset);
    const std::string step = member.empty() || member.starts_with('[') ? member : "." + member;
    if (!operand.parameter_name.empty()) operand.parameter_name += step;
    if (!argument.empty()) argument += step;
  }
  if (operand.name.empty()) operand.name = std::move(argument);
}

void CppParameters::add_place(finding::Operand& operand, size_t in_memory) const {
  std::string_view type = operand.type;
  if (type.ends_with(" const")) type.remove_suffix(std::string_view(" const").size());
  if (type.ends_with('*')) type.remove_suffix(1);
  type = structure(type);
  const std::string member = type.empty() || module.empty() ? "" : dwarf::member_at(module, type, in_memory);
  const std::string step = member.empty() ? fmt::format("[{}]", in_memory / sizeof(uintptr_t)) : "->" + member;
  for (std::string* name : {&operand.name, &operand.parameter_name})
    if (!name->empty()) *name += step;
}

CppParameters cpp_parameters(const MisplacedLaunch& misplaced, const std::string& kernel,
                             const evidence::NativeStack& native, const finding::Stack& shown,
                             const SourceText& source) {
  const size_t count = misplaced.launch.kernel->parameters.size();
  CppParameters found;
  found.types = copies(report::parameter_types(kernel));
  found.names = declared_names(misplaced.launch, native.frames, kernel, source);
  found.arguments = given(shown, kernel, count, source);
  // A count that differs (default arguments, a pack) leaves no telling which is which.
  for (auto* each : {&found.types, &found.names, &found.arguments})
    if (each->size() != count) each->clear();
  if (const finding::Frame* const caller = finding::native_user_frame(shown); caller && caller->project)
    found.module = caller->module;
  return found;
}

void name_by_allocation(finding::List<finding::Operand>& operands, const finding::Stack& launch) {
  const auto runs = [&](const finding::Frame& made) {
    return std::ranges::any_of(launch,
                               [&](const finding::Frame& frame) { return frame.project && frame.same_function(made); });
  };
  for (finding::Operand& operand : operands) {
    if (!operand.name.empty()) continue;
    const auto& made = operand.created.native;
    const auto line =
        std::ranges::find_if(made, [&](const finding::Frame& frame) { return frame.project && runs(frame); });
    if (line != made.end()) operand.name = report::made_name(line->source);
  }
}

}  // namespace devtrace::findings
