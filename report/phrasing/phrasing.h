// How findings are said: the same words in the text, the HTML and the Markdown report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/record/json_access.h"

namespace devtrace::report {

// "aten::index_select was given tensors on cuda:0 and cuda:1".
std::string headline(const Json& finding);

// A summary names no more operands than these, and says how many there are besides.
inline constexpr size_t kOperandsShown = 3;

// "input_ids on cuda:0, embeddings.word_embeddings.weight on cuda:1"; empty without operands. Of more than are shown
// the one on the odd device, one of each other device, and "and 4 more".
std::string who_is_where(const Json& finding);

// One line that says it all, for the end of the text report and for lists: "refused-op main.py:42 in embed: input_ids
// on cuda:0, …".
std::string summary(const Json& process, const Json& finding);

// What the fix does, in plain words: "makes this line run"; empty where the verdict does not say.
std::string_view repairs(const Json& cause);

// The finding's operands in the order in which they are shown. The one on the odd device comes first: which PyTorch's
// check stumbled over, or that has its device for itself. Where more are there than a reader is shown, one of each
// device comes next.
std::vector<const Json*> odd_first(const Json& finding);
// The same. Behind one of which it is not known where it came from stands what it was computed from, where that is
// known: it says where the device comes from.
Json operands_and_sources(const Json& finding);
// That of one operand, with a role that says what it is; nothing of the others.
std::optional<Json> source_of(const Json& operand);

// The operand's name. Of what is no tensor "memory of 4.0 KiB from cudaMalloc at main.cpp:12". Without one "the result
// of b.neg()" where the text that made it is known, "parameter 1 (float const*)" of a kernel, else "a tensor".
std::string name_of(const Json& operand);

// "parameter of Embedding in BertModel", "argument", …; empty when nothing is known.
std::string role_of(const Json& operand);

// "int64 [8, 128]", "768 B": what is known of it, empty when nothing is.
std::string extent_of(const Json& operand);

// Of a finding about ranks its operands are these.
bool is_rank(const Json& operand);

// "created", of a rank what it does, or for an array in memory that its library's pool keeps "is in memory that CuPy's
// pool took".
std::string made_by(const Json& operand);

// "1.5 MiB".
std::string bytes(int64_t count);

// A path as a reader knows it: from the working directory, or from the package on, else whole.
std::string shown_file(std::string_view file, std::string_view cwd);

// "main.py:42"; "train+0x40" of a native frame without a file.
std::string location(const Json& frame, std::string_view cwd);
// "embed": without parameters, and without a comprehension's own name.
std::string function_name(const Json& frame);
// "embed (main.py:42)".
std::string place(const Json& frame, std::string_view cwd);

// The innermost frame of the user's own code, else the innermost one; an empty object when there is none.
const Json& user_frame(const Json& frames);

// … of a record with `python` or, where no Python ran, `native`.
const Json& user_frame_of(const Json& record);
// The frames that this one is of.
const Json& frames_of(const Json& record);

// The same of a native stack: the innermost frame of the user's own. Without one it is the innermost with a source
// line, else the innermost outside of CUDA's and PyTorch's libraries, else the innermost. `place` calls it "step
// (train.cpp:12)" or "step (train+0x40)".
const Json& native_user_frame(const Json& frames);

// What would make a native frame of the user's own say more; empty where it has a line.
std::string_view without_lines(const Json& frame);

// What is told and is no fault.
bool is_note(const Json& finding);

// Of a kernel's access: "reads 4 bytes of memory of device 0, which device 1 has no access to, by thread (3,0,0) of
// block (0,0,0)".
std::string access_in_words(const Json& access);
// The finding's kind, "finding" when it says none; "remote-access (note)" of a note.
std::string kind_name(const Json& finding);

// "aten::cat", "a kernel", …: what the devices were mixed in.
std::string operation_of(const Json& finding);

// "cuda:0, cuda:1 and cpu".
std::string listed(const std::vector<std::string>& items);

// The devices of the finding, from `devices` or else from its operands, each once, in order of appearance.
std::vector<std::string> devices_of(const Json& finding);

// "14:03:05 UTC 2026-11-21"-like ISO time of seconds since the epoch; empty for times that no calendar has.
std::string clock_time(double seconds);

}  // namespace devtrace::report
