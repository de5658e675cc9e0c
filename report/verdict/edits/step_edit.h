// What a line should say that an operand has passed, so that it goes on to another device.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/verdict/edits/fixes.h"

namespace devtrace::report::verdict {

using Operands = std::vector<const Operand*>;

// What it was computed from that lies where it lies.
Operands sources_of(const Operand& it);

// A variable or an attribute said "cuda".
bool current_by_name(const Operand& it);
// Did a line bring it to the device that was current, and says nothing of devices itself? A reader of files may have
// been given "cuda" before.
bool brought_by_no_word(const Evidence& evidence, const Operand& it);

// Does the line of the step say a GPU without a number, or a variable that does?
bool names_no_number(const finding::Step& step);

// Nothing where the line does not show how. `device`: an expression that it can use.
std::optional<std::string> edit_of_step(const Evidence& evidence, const finding::Step& step, const Operand& it,
                                        std::string_view device);

}  // namespace devtrace::report::verdict
