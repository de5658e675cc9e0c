// Small edits of one Python statement, for fixes that can be pasted. Every function answers nothing rather than guess:
// a fix that does not compile, or moves another thing than it says, is worse than a sentence.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace devtrace::report::verdict {

// `name` is an expression that can stand before ".to(…)" and be assigned to: `x`, `self.cache`, `batch["ids"]`,
// `past[0][1]`.
bool is_reference(std::string_view name);
// … and a plain variable.
bool is_identifier(std::string_view name);

// … and an expression that calls something, as what a library's function was given: `x.softmax(-1)`.
bool is_call(std::string_view name);

// The container in `encoded["input_ids"]`, `batch[0]`: what is before the first bracket. Empty without one.
std::string_view container_of(std::string_view name);

// How often the expression is read in the statement: as a whole word, outside of strings and comments. An
// assignment's target, a keyword argument's name and another object's attribute are not read. Quotes in subscripts may
// be of either kind.
int reads(std::string_view source, std::string_view name);

// The statement with its only read of `name` replaced. Nothing when it is read never or more than once.
std::optional<std::string> replace_read(std::string_view source, std::string_view name, std::string_view by);

// Is it read once, as an operand of `+`, `-`, `*`, `/` or `@`?
bool is_term(std::string_view source, std::string_view name);
// Is it read as a whole argument of a call that `other` is read in, too?
bool is_argument_beside(std::string_view source, std::string_view name, std::string_view other);

// The statement with `.to(device)` behind the only occurrence of an expression, in brackets where it needs them. The
// evidence has expressions on one line; here, as below, the statement may have them on several.
std::optional<std::string> move_expression(std::string_view source, std::string_view words, std::string_view device);

// The statement with the only occurrence of an expression replaced: of a call, or of anything else that a dot may
// follow.
std::optional<std::string> replace_expression(std::string_view source, std::string_view words, std::string_view by);

// The statement with a keyword argument given to its only call of `function`, or with that argument's value replaced.
std::optional<std::string> give_argument(std::string_view source, std::string_view function, std::string_view keyword,
                                         std::string_view value);
// … of torch.load, where to read to.
std::optional<std::string> give_map_location(std::string_view source, std::string_view device);

// Does the statement bind that variable itself, as a lambda's parameter or in a comprehension? It means nothing in a
// line before.
bool binds(std::string_view source, std::string_view name);

// Is `name` written to by the statement without being assigned: by an operation or method that works in place, or as
// out=? Moving it would lose the write.
bool writes_through(std::string_view source, std::string_view name);

// The value of a keyword argument, as it is written: `rng` for generator in `torch.rand(4, generator=rng)`.
std::optional<std::string> keyword_argument(std::string_view source, std::string_view keyword);

// The expression that is called with `name` among its arguments: `model` for `out = model(**encoded)`; only names and
// attributes.
std::optional<std::string> callee_of(std::string_view source, std::string_view name);
// … or, where that is given nothing itself, the container that has it: `model(batch)` for `batch["ids"]`.
std::optional<std::string> callee_with(std::string_view source, std::string_view name);

// The statement with what is assigned wrapped: `self.x = [a]` → `self.x = nn.ModuleList([a])`.
std::optional<std::string> wrap_value(std::string_view source, std::string_view function);

// The statement with its only call of `callee` calling another, with `more` behind the arguments.
std::optional<std::string> call_instead(std::string_view source, std::string_view callee, std::string_view other,
                                        std::string_view more);

}  // namespace devtrace::report::verdict
