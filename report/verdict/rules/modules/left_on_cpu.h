// Parts of a model, or a whole one, on the CPU while the rest of the work is on a GPU. module_split() asks these, too,
// and has the same words for a model.
#pragma once

#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {

inline constexpr std::string_view kModuleSplit = "module-split-or-hook-missing";

// In words: its class.
std::string of_model(const Operand& state);
// What accelerate's map of the model adds, when it does not say the same.
std::string by_the_map(const Operand& state);
// A method made a tensor of its module anew after the model was moved.
std::optional<Cause> replaced_by_a_method(const Evidence& evidence);
// A part that was constructed on the CPU apart from its model, which was moved before it had that.
std::optional<Cause> part_constructed_later(const Evidence& evidence);
// A method registered it after the model was moved: the model is moved again behind the call of that.
std::optional<Cause> registered_after_the_move(const Evidence& evidence, const Operand& input, const Operand& state);
// `torch.save(model.cpu().state_dict(), path)`: a module goes to the CPU itself, and stays there.
std::optional<Cause> saved_on_the_way(const Evidence& evidence);
// An object that is no module holds several: .to() of one of them does not reach the others.
std::optional<Cause> parts_of_no_module(const Evidence& evidence);
// A model that lies on the CPU as a whole was given what lies there, too, and has made something on a GPU by itself.
std::optional<Cause> made_elsewhere_by_the_model(const Evidence& evidence);
// The input is on a GPU and what it meets first is on the CPU: the model was not moved, or this part of it.
std::optional<Cause> left_on_cpu(const Evidence& evidence);

}  // namespace devtrace::report::verdict::rules
