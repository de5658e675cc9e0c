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

// How often the expression is read in the statement: as a whole word, outside of strings and comments, not as an
// assignment's target, a keyword argument's name or another object's attribute. Quotes in subscripts may be of either
// kind.
int reads(std::string_view source, std::string_view name);

// The statement with its only read of `name` replaced. Nothing when it is read never or more than once.
std::optional<std::string> replace_read(std::string_view source, std::string_view name, std::string_view by);

// The statement with `.to(device)` behind the only occurrence of an expression, in brackets where it needs them.
std::optional<std::string> move_expression(std::string_view source, std::string_view expression,
                                           std::string_view device);

// The statement with the only occurrence of an expression replaced: of a call, or of anything else that a dot may
// follow.
std::optional<std::string> replace_expression(std::string_view source, std::string_view expression,
                                              std::string_view by);

// The statement with a keyword argument given to its only call of `function`, or with that argument's value replaced.
std::optional<std::string> give_argument(std::string_view source, std::string_view function, std::string_view keyword,
                                         std::string_view value);

// `model.to(device)` → `model.to_empty(device=device)`, where it is the statement's only move, to one device.
std::optional<std::string> to_empty(std::string_view source);

// Is `name` written to by the statement without being assigned: by a method that works in place, or as out=? Moving it
// would lose the write.
bool writes_through(std::string_view source, std::string_view name);

// The value of a keyword argument, as it is written: `rng` for generator in `torch.rand(4, generator=rng)`.
std::optional<std::string> keyword_argument(std::string_view source, std::string_view keyword);

// The expression that is called with `name` among its arguments: `model` for `out = model(**encoded)`; only names and
// attributes.
std::optional<std::string> callee_of(std::string_view source, std::string_view name);

// The statement with device=`device` given to its only call of a function that makes tensors (torch.zeros,
// torch.arange, …) or, when it has one already that names no number ("cuda"), that replaced. Nothing when there is no
// such call, several, or one that says a device.
std::optional<std::string> give_device(std::string_view source, std::string_view device);

// The same for all such calls of it; none may say a device.
std::optional<std::string> give_device_to_all(std::string_view source, std::string_view device);

// The statement with what is assigned wrapped: `self.x = [a]` → `self.x = nn.ModuleList([a])`.
std::optional<std::string> wrap_value(std::string_view source, std::string_view function);

// The statement with its only call of `callee` calling another, with `more` behind the arguments.
std::optional<std::string> call_instead(std::string_view source, std::string_view callee, std::string_view other,
                                        std::string_view more);

// Does the statement call a function that makes a tensor from nothing and takes device=? And does it say one?
bool makes_tensor(std::string_view source);
bool says_device(std::string_view source);

// The statement with its only `.to(…)` or `.cuda(…)` going to `device`. Nothing when there is none, or several.
std::optional<std::string> redirect_move(std::string_view source, std::string_view device);
// … when that place is "the current device": `.cuda()`, `.to("cuda")`, or device="cuda" in a factory call.
bool says_current_device(std::string_view source);

// The tensor that an expression of one device begins with: `logprobs` for `torch.gather(logprobs, 1, ids).squeeze()`.
// Nothing where a step could change the device, or could give something that is no tensor.
std::optional<std::string> begins_with(std::string_view expression);

// The line with `.to(device)` behind its only call of `function`, where the call is a whole argument of another call.
std::optional<std::string> move_result(std::string_view source, std::string_view function, std::string_view device);

// Is the line's only torch.tensor(…) or the like all that is given for an argument: `f(x=torch.tensor(y))`?
bool makes_argument(std::string_view source);

// What .to(…) is given in the line's only move: `device` for `model.to(device)`; nothing unless it is a reference.
std::optional<std::string> moved_to(std::string_view source);

}  // namespace devtrace::report::verdict
