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

// … without what the evidence names.
std::string device_of_target(const Evidence& evidence, size_t frame, const Operand& target);

// … that the evidence names: for a line that the operand passed, and for that frame's line. Empty where it names none.
std::string_view expression_of(const finding::Step& step, std::string_view device);
std::string_view expression_of(const Evidence& evidence, size_t frame, std::string_view device);

// … else the device's name in quotes: in the step's line, and in a line that any operand passed or that still runs.
std::string expression_or_number(const finding::Step& step, std::string_view device);
std::string expression_or_number(const Evidence& evidence, const Frame& line, std::string_view device);

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

}  // namespace devtrace::report::verdict
