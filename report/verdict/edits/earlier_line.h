// Edits of lines that ran before the failing call. Their functions may have returned: what these had in their variables
// is known as far as a line, its neighbours and the stacks say it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/verdict/edits/fixes.h"

namespace devtrace::report::verdict {

// The variable that an expression begins with: `batch` for `batch["x"].device`.
std::string_view variable_of(std::string_view expression);

// `model` for the state of a module that is a variable of that frame; empty where none is.
std::string_view module_in(size_t frame, const Operand& state);

// `model` and `model.head` for the state `model.head.weight`, as that frame names it: all that may be called.
std::vector<std::string_view> modules_in(size_t frame, const Operand& state);

// Of a function or a class, whose statements stand further in.
bool is_definition(std::string_view text);

// The statements around, each with the number of its first line, from the top.
std::vector<std::pair<int64_t, std::string_view>> statements_around(const Frame& line);
// … whether two of them are in one function, as far as they show it.
bool in_one_function(const std::vector<std::pair<int64_t, std::string_view>>& lines, int64_t one, int64_t other);
// Statements below that line of its function, as far as the lines around the frame show them.
std::vector<std::pair<int64_t, std::string>> statements_below(const Frame& here, int64_t line);

// Where the text has the variable, as code and not as another object's attribute; npos: nowhere.
size_t find_variable(std::string_view text, std::string_view variable);

// Does the variable have its value before that line runs, as the lines above it show? What stands deeper than the line
// may not have run.
bool bound_above(const Frame& line, std::string_view variable);
// Was the operand there before that line of that frame's function ran, under the name that the function has for it now?
bool named_before(const Evidence& evidence, size_t frame, const Operand& operand, const Frame& line);

// The line above that gave the variable its value last, where it stands in the same block or one around it and nothing
// but an assignment.
std::optional<Frame> assigned_above(const Frame& line, std::string_view variable);

// An expression for the device of `target` that works in an earlier line: `self.device`, `x.device`,
// `next(model.parameters()).device`. Nothing where none is known.
std::optional<std::string> device_in_earlier_line(const Evidence& evidence, const Frame& line, const Operand& target);

// The statement that moved a model, put in front of the one that made something of it, in the function that ran both.
// It is deleted nowhere: where it stood it does nothing then. Without code where more than a move would come first, or
// what it names may not be there yet. Nothing where the two did not run in one function, one after the other.
std::optional<Fix> move_before_making(const Event& made, const Event& moved);

// A line that reads a file told where to put the tensors: where `target` is. By a number where it has no words for it.
std::optional<Fix> load_where(const Evidence& evidence, const Frame& load, const Operand& target);

// The line of the user's by which a file was read that has the tensor; null: nobody's.
const Frame* line_of_load(const Operand& it);
// … or put a module's tensors where it lay, as a whole model or by load_state_dict(…, assign=True).
const Frame* line_that_read(const Operand& it);

}  // namespace devtrace::report::verdict
