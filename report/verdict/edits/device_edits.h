// Edits of one Python statement that change where it makes a tensor or moves one, and what it says about that. Every
// function answers nothing rather than guess, as in source_line.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace devtrace::report::verdict {

// `model.to(device)` → `model.to_empty(device=device)`, where it is the statement's only move, to one device.
std::optional<std::string> to_empty(std::string_view source);

// The statement with device=`device` given to its only call of a function that makes tensors (torch.zeros,
// torch.zeros_like, …). A device= that names no number ("cuda") is replaced. Nothing when there is no such call,
// several, or one that says a device. Only where nothing is made from nothing do calls like torch.zeros_like(x) count.
std::optional<std::string> give_device(std::string_view source, std::string_view device);

// … with that device in the place of the one that the call says, whichever that is.
std::optional<std::string> say_device(std::string_view source, std::string_view device);

// The same for all such calls of it; none may say a device.
std::optional<std::string> give_device_to_all(std::string_view source, std::string_view device);

// The same, where the statement reads `name` outside of these calls: `torch.cat([torch.zeros(1), x])`.
std::optional<std::string> give_device_beside(std::string_view source, std::string_view name, std::string_view device);

// The statement with its only call of such a function that takes `generator` drawing on `device`; where it says another
// device, the numbers go there afterwards.
std::optional<std::string> draw_on(std::string_view source, std::string_view generator, std::string_view device);

// Does the statement call a function that makes a tensor from nothing and takes device=? And does it say one?
bool makes_tensor(std::string_view source);
// … or one of PyTorch's old constructors, which take none: `torch.Tensor([1.0])`, `torch.LongTensor(ids)`.
bool constructs_tensor(std::string_view source);
// Does it make a tensor in one of these ways, and say no device?
bool leaves_device_out(std::string_view source);
bool says_device(std::string_view source);
// Does it make a tensor of what a name stands for, and not of sizes: `torch.tensor(batch["scores"].values)`?
bool converts_data(std::string_view source);
// Does a call that makes a tensor hand on what its caller chose, `torch.zeros(*shape, **options)`? A device may be
// among that.
bool hands_on_options(std::string_view source);

// The statement with its `.to(…)` or `.cuda(…)` going to `device`. Nothing when there is none, or where several
// `.to(…)` do not all say the same device and nothing else.
std::optional<std::string> redirect_move(std::string_view source, std::string_view device);
// … when that place is "the current device": `.cuda()`, `.to("cuda")`, or device="cuda" in a factory call.
bool says_current_device(std::string_view source);

// `model.to(device)`, `net.cuda()`, `model = model.to(device)`: a move and nothing else.
bool only_moves(std::string_view statement);

// `x.to(device)` → `x = x.to(device)`, of a statement that is nothing else.
std::optional<std::string> kept_move(std::string_view source);

// The statement without its only move, of what a call of `function` gives: `nn.Parameter(x).cuda()` →
// `nn.Parameter(x)`.
std::optional<std::string> without_move_of(std::string_view source, std::string_view function);

// The statement without its only move, whose result stays where its value is: `return x.to(self.device)` → `return x`.
// Nothing where that says more than a device.
std::optional<std::string> without_move(std::string_view source);

// The tensor that an expression of one device begins with: `logprobs` for `torch.gather(logprobs, 1, ids).squeeze()`.
// Nothing where a step could change the device, or could give something that is no tensor.
std::optional<std::string> begins_with(std::string_view expression);

// The line with `.to(device)` behind its only call of `function`, where the call is a whole argument of another call.
std::optional<std::string> move_result(std::string_view source, std::string_view function, std::string_view device);

// `name = value` → `name = value.to(device)`, and the same of `return value`; and the name, a reference.
std::optional<std::string> move_value(std::string_view source, std::string_view device);
std::optional<std::string> assigned_name(std::string_view source);
// `grid` where that value is a call, `self.grid(x)`; empty for another one.
std::string called_in_value(std::string_view source);
// The variables of `a, b = value`; empty for another statement.
std::vector<std::string> unpacked_names(std::string_view source);
// `x` and `f(y, z)` of the value `x, f(y, z)`.
std::vector<std::string> parts_of_display(std::string_view value);
// Is that value a tensor that a function of PyTorch's makes of no tensor: `torch.from_numpy(x).long()`?
bool gives_new_tensor(std::string_view source);
// The statement with each such tensor that its comprehension gives on that device: `x, y = (torch.from_numpy(each) for
// each in pair)`.
std::optional<std::string> move_new_elements(std::string_view source, std::string_view device);
// … with another text in its place.
std::optional<std::string> replace_value(std::string_view source, std::string_view by);
// … and the value as the statement has it; empty for another statement.
std::string_view value_in(std::string_view source);

// `name = Class(…)` with `.to(device)` behind that.
std::optional<std::string> move_constructed(std::string_view source, std::string_view type, std::string_view device);

// The statement with `.to(device)` behind its only call of `type`, wherever that stands.
std::optional<std::string> move_call_of(std::string_view source, std::string_view type, std::string_view device);

// Is the line's only torch.tensor(…) or the like all that is given for an argument: `f(x=torch.tensor(y))`?
bool makes_argument(std::string_view source);

// What .to(…) is given in the line's only move: `device` for `model.to(device)`; nothing unless it is a reference.
std::optional<std::string> moved_to(std::string_view source);

}  // namespace devtrace::report::verdict
