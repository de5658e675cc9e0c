// The fixes that rules ask for, by what they know: a line rewritten, or a line put before it.
#pragma once

#include "report/verdict/cause.h"

namespace devtrace::report::verdict {

// The container, whole, on the device: a dict and a list have no .to(), what a tokenizer returns has, unless a
// comprehension made it anew. `subscript`: by which it has the operand. `value`: what stands for it. `file`: where the
// code is to stand.
std::string moved_container(const Operand& operand, std::string_view container, std::string_view subscript,
                            std::string_view value, const std::string& device, const std::string& file);

// The code that brings `operand` to `device` in that frame's line: the line rewritten, or a line put before it. Nothing
// when the line does not show the operand.
std::optional<Fix> move_at(const Evidence& evidence, size_t frame, const Operand& operand, const std::string& device);

// … with what came there in the same way and the function computes with below: its line would be refused next.
std::optional<Fix> move_with_siblings(const Evidence& evidence, size_t frame, const Operand& operand,
                                      const std::string& device);

// Does an object keep it on the CPU, and the line of that frame write to it? It can be moved in front of that line, and
// not within.
bool is_kept_and_written(const Evidence& evidence, size_t frame, const Operand& operand);

// The frames of the user's code that name the operand, innermost first, then: the first for which move_at has an
// answer; with siblings.
std::optional<Fix> move_where_named(const Evidence& evidence, const Operand& operand, const Operand& target);

// What the frame has a name for: the operand, or the only one that an expression of the failing line was computed from.
const Operand& named_in(const Operand& it, size_t frame);

// In the line of that frame, which calls a model: what it is given, on the device of the model's `state`. Or the line
// above that put it elsewhere, going there.
std::optional<Fix> move_at_call(const Evidence& evidence, size_t caller, const Operand& input, const Operand& state);
// … where a line within the model fails, of which all that runs lies on one device. What else is given from where the
// operand lies comes along.
std::optional<Fix> move_where_given(const Evidence& evidence);

// The operands of one device brought to another one in the innermost line of the user's that names them: for want of a
// cause. Nothing where there are more than two devices, or no line shows them.
std::optional<Fix> use_site(const Evidence& evidence);

// … the operand that a library's function was given by an expression, `kl_div(s.log_softmax(-1), t.softmax(-1))`.
std::optional<Fix> move_expression_given(const Evidence& evidence);

// Does a line that has a name for it write to it in place? A copy on another device would lose that.
bool is_written_through(const Evidence& evidence, const Operand& operand);

// The line that left an operand on the default device or the current one, saying the device of what it meets, in words
// that the line can use.
std::optional<Fix> fix_at_origin(const Evidence& evidence);
// … of one operand, saying the device where it is wanted.
std::optional<Fix> fix_at_origin_of(const Evidence& evidence, const Operand& operand, std::string_view wanted);
// Gives a fix that stands where one tensor was placed those of its siblings.
void add_siblings(const Evidence& evidence, Fix& fix);
// … and those of lines near it that have not run. A variable that it moves meets new tensors below. A constructor may
// leave another layer like the one that it moves.
void add_lines_near(const Evidence& evidence, Fix& fix);
// … and those that compute with what the fix brings to another device, and with what has stayed.
void add_refused_next(const Evidence& evidence, Fix& fix);
// The line that constructed a module whose state was left on the CPU, with the other one's device by its name: for want
// of words.
std::optional<Fix> move_where_constructed(const Evidence& evidence);
// … of a module whose tensor the other operand meets a view of: `solver = Solver("heun").to(device)`.
std::optional<Fix> move_view_where_constructed(const Evidence& evidence);
// `state = [each.to(self.device) for each in self.begin()]`, where that is another device than the other operand's: the
// line, saying that.
std::optional<Fix> redirect_elements(const Operand& it, const Operand& other);
// The step's line with words for where the other operand is, in the place of those for where this one is.
std::optional<Fix> say_where_the_other_is(const finding::Step& step, const Operand& it, const Operand& other);
// Of an operand that a line brought to another GPU by words for it, `cache.begin(size, self.device)`: the same line
// with words for where the other operand is.
std::optional<Fix> say_other_words(const Evidence& evidence);

// A model of which a part was left on the CPU, moved where it is called: `self.net.to(self.device)(x)`.
std::optional<Fix> move_where_called(const Evidence& evidence);
// … the model that has this state, where that frame's line calls it, with what the line has for a device.
std::optional<Fix> move_model_at(const Evidence& evidence, size_t frame, const Operand& state, const Operand& other);
// The part itself, where the innermost line calls it that has words for it: `self.head.to(x.device)(x)`. Or a library's
// module that has nothing registered, as a metric.
std::optional<Fix> move_part_where_called(const Evidence& evidence);
// The program's line that calls a method of the running module: what runs between is a library's.
std::optional<size_t> caller_of(const Evidence& evidence, const finding::RunningModule& module);
// The module that a line of the program's calls with something of `other`'s device, where no name leads from there to
// what it keeps: `iou.to(target.device)(answer, target)`. `only`: of that name; empty: of any.
std::optional<Fix> move_called(const Evidence& evidence, size_t frame, const Operand& other, std::string_view only);
// The line that brought an operand where it lies, if that still runs: with words for where the other one is, as the
// model that it is given to. `block(x.to(self.devices[index]))` → `block(x.to(next(block.parameters()).device))`.
std::optional<Fix> redirect_where_it_runs(const Evidence& evidence, const Operand& it, const Operand& other);
// Such a module, where a line of the program's constructed it that has words for the device: `it` is an attribute.
std::optional<Fix> move_owner_where_constructed(const Evidence& evidence, const Operand& it, const Operand& other);

// Of an operand that a line of the user's put on "the current device": that line, saying the device where `target` is.
// In words, where the function still runs and has them before that line, else by its number.
std::optional<Fix> say_device_where_placed(const Evidence& evidence, const Operand& operand, const Operand& target);

// `self.anchors = torch.tensor(…)` → `self.register_buffer("anchors", torch.tensor(…), persistent=False)`: without
// persistent=False old checkpoints would no longer load.
// Nothing where the line gives a value to another attribute than this operand.
std::optional<Fix> register_buffer(const Frame& made, const Operand& it);

// `self.parts = [nn.Linear(…)]` → `self.parts = nn.ModuleList([nn.Linear(…)])`, where the list or dict that the
// module at `index` of the chain has holds modules. `it`: the operand that they hold.
std::optional<Fix> register_modules(const Chain& chain, size_t index, const Operand& it);
// The modules of an object of the module's that is none itself: `self.scorer = scorer` registers nothing of it. Behind
// that line they can be.
std::optional<Fix> register_of_object(const Operand::Hidden& hidden, const Operand& it);

}  // namespace devtrace::report::verdict
