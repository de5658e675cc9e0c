// What a rule answers, and what all rules say the same way.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/verdict/evidence.h"

namespace devtrace::report::verdict {

// Which confidence: high when nothing else could have left this evidence. Medium when it is the usual reason; low when
// only the kinds of what meets suggest it, or nothing does.
enum class Confidence { low, medium, high };

// What a fix does: it changes what is wrong, or only brings together what meets in this line.
enum class Repairs { line, cause };

struct Fix {
  std::string code;  // the new line, or the lines that replace it
  std::string file;
  int64_t line = 0;
  Repairs repairs = Repairs::line;
  std::vector<finding::Edit> also = {};  // the same mistake in other lines
};

// The line, saying something else: what repairs the cause. Empty code: what it should say is not known.
Fix repair_of(const Frame& line, std::string code);
// … what makes that line run, whatever the cause.
Fix line_fix(const Frame& line, std::string code);

// The same fix, where it repairs the cause.
std::optional<Fix> repairing(std::optional<Fix> fix);

struct Cause {
  std::string_view category;
  Confidence confidence = Confidence::low;
  std::string because;  // one sentence
  std::optional<Fix> fix;
};

// "x (cuda:0, moved there at main.py:31)".
std::string with_place(const Operand& operand);
// "main.py:31"; empty for no frame.
std::string at(const Frame* frame);

// An expression for the device of `target` that works in that frame of the failing call, always in this order. The
// model that is called, the target's own name, the device that it was moved to, another tensor of the line. Then what
// the evidence names (expression_of). The device's name in quotes comes last: it is another one on the next machine.
std::string device_expression(const Evidence& evidence, size_t frame, const Operand& target);

// … that the evidence names: for a line that the operand passed, and for that frame's line. Empty where it names none.
std::string_view expression_of(const finding::Step& step, std::string_view device);
std::string_view expression_of(const Evidence& evidence, size_t frame, std::string_view device);

// … else the device's name in quotes: in the step's line, and in a line that any operand passed or that still runs.
std::string expression_or_number(const finding::Step& step, std::string_view device);
std::string expression_or_number(const Evidence& evidence, const Frame& line, std::string_view device);

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

// Does the fix write that operand's device by its name, "cuda:1"?
bool names(const Fix& fix, const Operand& target);

// Does it change the line of a library that failed, which brings together what it was given and what it computes?
bool in_failing_library(const Evidence& evidence, const Fix& fix);

// The running function, as a frame of the failing call, that got that stack's end behind itself: it goes on now in
// another line than the one that called. Nothing where no running function had called it.
std::optional<size_t> frame_that_went_on(const Evidence& evidence, const Stack& ended);

// Was the operand there before that line of this frame's function ran? Only a line of the same function can tell that
// it was not.
bool there_before(const Operand& operand, const Frame& here, const Frame& line);

// `self.anchors = torch.tensor(…)` → `self.register_buffer("anchors", torch.tensor(…), persistent=False)`: without
// persistent=False old checkpoints would no longer load.
// Nothing where the line gives a value to another attribute than this operand.
std::optional<Fix> register_buffer(const Frame& made, const Operand& it);

// `self.parts = [nn.Linear(…)]` → `self.parts = nn.ModuleList([nn.Linear(…)])`, where the list or dict that the
// module at `index` of the chain has holds modules. `it`: the operand that they hold.
std::optional<Fix> register_modules(const Chain& chain, size_t index, const Operand& it);

}  // namespace devtrace::report::verdict
