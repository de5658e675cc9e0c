// Edits of a C++ line, for fixes that can be pasted. As in source_line.h: nothing rather than a guess.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/verdict/cause.h"

namespace devtrace::report::verdict {

// The innermost frame of the user's own code that has a source line; null for none.
const Frame* innermost_own(const Stack& native);

// `ns::Timer` of its constructor ns::Timer::Timer(int); empty for other functions.
std::string_view constructed(std::string_view function);

// The frame that wanted what a stack of `made` made: not the constructor of a class that wraps it, which makes one for
// every device, but who makes the object. A constructor that chose the device itself is meant. Null for none.
const Frame* innermost_outside_wrappers(const Event& made);

// Something that can be said a second time: names, members, subscripts.
bool is_plain_expression(std::string_view text);

// The line with that statement, or `cudaSetDevice(argument);`, in front of it.
// An expression that a second statement may have, too: it calls nothing, and changes nothing.
bool may_be_said_twice(std::string_view text);

// The line's statement with others in front of it and behind it, in braces where it is the only one of an `if`.
std::optional<Fix> around_statement(const Frame& frame, std::string_view in_front, std::string_view behind);

std::optional<Fix> statement_before(const Frame& frame, const std::string& statement);
std::optional<Fix> set_device_before(const Frame& frame, std::string_view argument);

// The line with what makes the device current that the pointer's memory is on, in front of it.
std::optional<Fix> device_of_pointer_before(const Frame& frame, std::string_view pointer);

// The line with what makes the stream's device current in front of it. Takes CUDA 12.8.
std::optional<Fix> device_of_stream_before(const Frame& frame, std::string_view stream);

// The line with what lets the current device reach another one's memory in front of it. Nothing for memory that this
// opens no way to: of a pool, or mapped.
std::optional<Fix> peer_access_before(const Frame& frame, const Operand& memory);

// The line with one argument of its only call of a function replaced.
std::optional<Fix> with_argument(const Frame& frame, std::string_view function, size_t argument, std::string_view by);

}  // namespace devtrace::report::verdict
