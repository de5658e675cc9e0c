#include "tracker/findings/refusal_evidence.h"

#include <algorithm>

#include "tracker/base/message.h"
#include "tracker/base/options.h"
#include "tracker/evidence/autograd.h"
#include "tracker/evidence/operands.h"
#include "tracker/evidence/operation.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/evidence/source/group_setup.h"
#include "tracker/evidence/source/raising_code.h"
#include "tracker/evidence/stack_values.h"
#include "tracker/findings/cpp_operands.h"
#include "tracker/findings/reporting.h"
#include "tracker/interface/platform.h"
#include "tracker/python/gil/borrowed_gil.h"
#include "tracker/refusals/swallowed_errors.h"

namespace devtrace::findings {
namespace {

using evidence::Frame;
using evidence::NativeStack;
using evidence::SourceText;
using refusals::RefusalMessage;
using refusals::Repetition;

constexpr size_t kMostFrames = 128;
constexpr size_t kLongestLine = 4000;  // of a message

// What only the refusing thread itself can be asked; the evidence may be gathered on another.
struct ThreadSnapshot {
  NativeStack native = evidence::capture_native_stack();
  python::FrameSource frames = python::FrameSource::of_this_thread();
  evidence::DeviceChanges changes = evidence::capture_device_changes();
};

evidence::OperandQuery query_of(const events::Refused& refusal, const RefusalMessage& message,
                                const NativeStack& native, const std::vector<Frame>& frames,
                                const std::string& current) {
  evidence::OperandQuery query;
  if (refusal.mismatched.known()) {
    query.mismatched_data = reinterpret_cast<uintptr_t>(refusal.mismatched_data);
    query.mismatched_device = refusal.mismatched.name();
  }
  query.devices_named = message.devices_named;
  query.devices_of_operands = message.devices_of_operands;
  query.direct = !native.autograd;
  query.drawn_on = message.generator_wanted == "cuda" ? current : message.generator_wanted;
  const bool in_python = query.raised = refusal.raised == events::Raised::in_python;
  if (!frames.empty() && (in_python || evidence::compiling(frames))) query.asking = evidence::asking_frame(frames);
  query.fake = query.asking > 0;
  if (const auto& known = message.known) {
    query.variable = known->row->operand;
    query.none = known->row->no_tensor;
    query.ordinals = known->row->ordinal;
    query.on_meta = known->at == "meta" || known->wanted == "meta";
    if (!known->at.empty()) query.devices_of_operands = {known->at};
    if (known->row->wanted.empty()) query.other_device = known->wanted;
    query.all_named = known->operation.starts_with(refusals::kDotted);
    if (query.all_named) query.devices_of_operands.push_back(known->wanted);
  }
  return query;
}

// The operator that the program asked for, where PyTorch runs its kernel as Python code: that calls other operators,
// one of which was refused. Empty: there is none such.
std::string asked_of_python_kernel(const NativeStack& native, const std::vector<Frame>& frames) {
  if (native.asked.empty() || frames.empty() || !frames[0].torch) return {};
  const size_t asking = evidence::asking_frame(frames);
  const auto program = frames.begin() + static_cast<ptrdiff_t>(asking);
  if (!std::all_of(frames.begin(), program, [](const Frame& frame) { return frame.torch; })) return {};
  // A mode of the program's own is called by the operator too: then it is not known which one was asked for inside.
  const bool dispatched = std::any_of(
      program, frames.end(), [](const Frame& frame) { return frame.function.ends_with("__torch_dispatch__"); });
  return dispatched ? std::string() : native.asked;
}

refusals::Operation registered(const python::Api& api, const std::string& structure) {
  if (structure.empty()) return {};
  auto [name, overload] = evidence::schema_name(api, structure);
  return {"aten::" + name, std::move(overload)};
}

void name_operation(const python::Api& api, const RefusalMessage& message, const NativeStack& native,
                    const std::vector<Frame>& frames, refusals::Facts& facts) {
  facts.torch_read = true;
  facts.asked = registered(api, asked_of_python_kernel(native, frames));
  facts.at_work = registered(api, native.operation);
  if (!message.generator_wanted.empty()) facts.outermost = registered(api, native.outermost);
  if (!native.operation.empty() || frames.empty()) return;
  facts.jitted = evidence::jitted_kernel(api, frames);
  // A kernel that is written in Python refuses for the operator.
  if (frames[0].torch) facts.calling = registered(api, native.calling);
  facts.called = evidence::called_function(api, frames, evidence::asking_frame(frames));
}

void gather_operands(const python::Api& api, const evidence::Torch& torch, const std::vector<Frame>& frames,
                     const SourceText& source, const RefusalMessage& message, evidence::OperandQuery query,
                     RefusalEvidence& out) {
  auto& facts = std::get<finding::Refusal>(out.finding.facts);
  std::optional<evidence::RefusedGradient> gradient;  // keeps what the query says that is met
  if (const auto& known = message.known; known && known->gradient)
    gradient = evidence::refused_gradient(api, torch, frames, source, known->operation, *known->gradient);
  if (gradient) {
    facts.gradient = gradient->gradient;
    query.met = gradient->met;
    if (!message.known->operation.empty()) query.gradient_device = message.known->at;
    query.gradient_expression = gradient->expression;
  }
  evidence::Operands found = evidence::operands(api, torch, frames, query, source, facts);
  for (finding::Operand& operand : found.list)
    if (operand.generator && operand.device == "cuda") operand.device = out.facts.cuda;
  out.finding.operands = std::move(found.list);
  out.facts.mentioned_devices = std::move(found.mentioned);
  out.facts.named_devices = std::move(found.named_devices);
}

void gather_with_gil(const python::Api& api, const events::Refused& refusal, const RefusalMessage& message,
                     Repetition repetition, const ThreadSnapshot& thread, RefusalEvidence& out) {
  const NativeStack& native = thread.native;
  const python::Gil gil(api);
  const evidence::Torch torch(api);
  const evidence::SourceReader sources(api);
  std::vector<Frame> frames = evidence::frames(api, thread.frames, kMostFrames, sources);
  if (frames.empty() && native.autograd)
    if (const auto waiting = evidence::waiting_for_autograd(api)) {
      frames = evidence::frames(api, *waiting, kMostFrames, sources);
      std::get<finding::Refusal>(out.finding.facts).waiting = true;
    }
  const SourceText source{
      [&](const std::string& file, int line) { return sources.lines(file, line); },
      [&](const std::string& file, int line) { return sources.first_line(file, line); },
      [&](const std::string& file, int line) { return sources.around(file, line); },
      evidence::standard_library(api), [&](const std::string& file) -> auto& {return sources.file(file).all();
}
};  // namespace
out.finding.stack = evidence::python_stack(frames);
const bool raised_here = refusal.raised == events::Raised::in_python && !frames.empty() &&
                         !evidence::StackValues(api, frames, true).calls_c_code();
out.facts.raised_by_program = raised_here && frames[0].project;
out.facts.rephrases = raised_here && repetition == Repetition::rephrased;
if (out.facts.rephrases) return;  // no finding: nothing else is asked
out.facts.swallowed = refusals::swallowed(frames);
out.finding.device_changes = evidence::device_changes(thread.changes, source);
if (!torch.imported()) return;
evidence::OperandQuery query = query_of(refusal, message, native, frames, out.facts.cuda);
gather_operands(api, torch, frames, source, message, std::move(query), out);
name_operation(api, message, native, frames, out.facts);
}  // namespace devtrace::findings

// Without the GIL: what is read as memory.
void gather_without_gil(const ThreadSnapshot& thread, const SourceText& source, finding::Finding& out) {
  out.stack = evidence::python_stack(stacks::resolve(thread.changes.here), source);
  out.device_changes = evidence::device_changes(thread.changes, source);
  std::string& incomplete = std::get<finding::Refusal>(out.facts).incomplete;
  incomplete = "operands were not read: another thread held Python's GIL and did not let go of it in time";
  warn("refused-op: " + incomplete);
}

void gather_python(const events::Refused& refusal, const RefusalMessage& message, Repetition repetition,
                   const ThreadSnapshot& thread, const SourceText& source, RefusalEvidence& out) {
  const python::Api* api = python::api();
  if (!api) return;
  const bool gathered = python::with_gil(*api, [&] {
    try {
      gather_with_gil(*api, refusal, message, repetition, thread, out);
    } catch (...) {  // out of memory: what there is
    }
  });
  if (!gathered) gather_without_gil(thread, source, out.finding);
}

}  // namespace

RefusalEvidence refusal_evidence(const events::Refused& refusal, const RefusalMessage& message, Repetition repetition) {
  const ThreadSnapshot thread;
  RefusalEvidence out{{}, begin("refused-op", finding::Refusal())};
  out.finding.message = refusal.message.substr(0, std::min(refusal.message.find('\n'), kLongestLine));
  out.finding.stack.known = true;
  // What "cuda" means to the thread: device 0 until it chooses another.
  out.facts.cuda = Device::cuda(std::max(0, platform().current_device())).name();
  if (!thread.native.operation.empty()) out.facts.at_work.name = "aten::" + thread.native.operation;
  if (message.known && message.known->row->ordinal)
    for (const DeviceFacts& each : platform().devices()) out.facts.devices.push_back(Device::cuda(each.index).name());
  const SourceText source = evidence::source_from_disk();
  gather_python(refusal, message, repetition, thread, source, out);
  finding::Stack native = evidence::native_stack(thread.native.frames, source);
  if (out.finding.stack.empty() && !thread.native.operation.empty()) {  // without Python: what C++ knows
    out.finding.device_changes = evidence::device_changes(thread.changes, source);
    const auto mismatched = reinterpret_cast<uintptr_t>(refusal.mismatched_data);
    if (auto call = cpp_operands(mismatched, thread.native.frames, native, source)) {
      out.facts.at_work = {"aten::" + call->operation, call->overload};
      out.facts.complete = true;
      out.finding.operands = std::move(call->operands);
    }
  }
  if (options().native) out.finding.native = std::move(native);
  if (message.known && message.known->row->of_group)
    std::get<finding::Refusal>(out.finding.facts).setup = evidence::group_setup(out.finding.stack);
  for (const finding::Operand& operand : out.finding.operands)
    out.facts.operands.push_back({operand.device, operand.mismatched});
  return out;
}

}  // namespace devtrace::findings
