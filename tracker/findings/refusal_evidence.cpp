#include "tracker/findings/refusal_evidence.h"

#include <algorithm>

#include "tracker/base/message.h"
#include "tracker/evidence/autograd.h"
#include "tracker/evidence/operands.h"
#include "tracker/evidence/operation.h"
#include "tracker/evidence/source/raising_code.h"
#include "tracker/evidence/stack_values.h"
#include "tracker/findings/cpp_operands.h"
#include "tracker/findings/operand_json.h"
#include "tracker/interface/platform.h"
#include "tracker/log/record_fields.h"
#include "tracker/memory/provenance.h"
#include "tracker/python/gil/borrowed_gil.h"
#include "tracker/refusals/swallowed_errors.h"

namespace devtrace::findings {
namespace {

using evidence::Frame;
using refusals::RefusalMessage;
using refusals::Repetition;
using namespace log::record_fields;

constexpr size_t kMostFrames = 128;

// What only the refusing thread itself can be asked; the evidence may be gathered on another.
struct ThreadSnapshot {
  Native native = native_stack();
  python::FrameSource frames = python::FrameSource::of_this_thread();
  DeviceChanges changes = device_changes();
};

std::optional<evidence::Made> made_by(uintptr_t storage) {
  const auto block = storage ? memory::provenance::find(storage) : std::nullopt;
  if (!block) return std::nullopt;
  return evidence::Made{stacks::resolve(block->allocated.stack), block->allocated.time, block->moved_from.known()};
}

evidence::OperandQuery query_of(const events::Refused& refusal, const RefusalMessage& message, const Native& native,
                                const std::vector<Frame>& frames) {
  evidence::OperandQuery query;
  if (refusal.odd.known()) {
    query.odd_data = reinterpret_cast<uintptr_t>(refusal.odd_data);
    query.odd_device = refusal.odd.name();
  }
  query.devices_named = message.devices_named;
  query.devices_of_operands = message.devices_of_operands;
  query.direct = !native.autograd;
  query.generator = !message.generator_wanted.empty();
  const bool in_python = refusal.raised == events::Raised::in_python;
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

// Is it about what a node of autograd's graph gave, or what the program gave to backward()?
bool is_of_a_gradient(const RefusalMessage& message) {
  return message.known && message.known->row->argument == "gradient";
}

// The gradient itself, of which nothing but the device is known.
void say_gradient(const evidence::RefusedGradient& gradient, const refusals::KnownMatch& known,
                  evidence::Operands& operands) {
  if (known.operation.empty()) return;
  const auto unnamed = [&](const evidence::Operand& each) {
    return !each.is_object() && each.tensor.device == known.at;
  };
  auto found = std::find_if(operands.list.begin(), operands.list.end(), unnamed);
  if (found == operands.list.end()) found = operands.list.insert(operands.list.begin(), evidence::Operand());
  found->tensor.device = known.at;
  found->role = "temporary";
  found->expression = gradient.expression;
  found->odd = true;
}

// The operator that the program asked for, where PyTorch runs its kernel as Python code: that calls other operators,
// one of which was refused. Empty: there is none such.
std::string asked_of_python_kernel(const Native& native, const std::vector<Frame>& frames) {
  if (native.asked.empty() || frames.empty() || !frames[0].torch) return {};
  const size_t asking = evidence::asking_frame(frames);
  const auto program = frames.begin() + static_cast<ptrdiff_t>(asking);
  if (!std::all_of(frames.begin(), program, [](const Frame& frame) { return frame.torch; })) return {};
  // A mode of the program's own is called by the operator too: then it is not known which one was asked for inside.
  const bool dispatched = std::any_of(
      program, frames.end(), [](const Frame& frame) { return frame.function.ends_with("__torch_dispatch__"); });
  return dispatched ? std::string() : native.asked;
}

void add_operand(Json record, const std::string& device, bool mismatched, RefusalEvidence& out) {
  out.operands.push_back(std::move(record));
  out.facts.operands.push_back({device, mismatched});
}

// What the generator's numbers were asked for: a tensor without a name, on the current device.
void add_drawn(const RefusalMessage& message, const std::vector<Frame>& frames, RefusalEvidence& out) {
  Json drawn{{"role", "temporary"}};
  const std::string device = message.generator_wanted != "cuda" ? message.generator_wanted : out.facts.cuda;
  const std::string& text = frames.empty() ? std::string() : frames[0].expression;
  if (!frames.empty() && frames[0].exact && text.size() <= 120 && text.find('\n') == text.npos)
    add(drawn, "expression", text);
  drawn["device"] = device;
  add_operand(std::move(drawn), device, false, out);
}

void add_operands(evidence::Operands& operands, const std::string& library, const SourceText& source,
                  RefusalEvidence& out) {
  out.facts.mentioned_devices = std::move(operands.mentioned);
  out.facts.named_devices = std::move(operands.named_devices);
  for (evidence::Operand& operand : operands.list) {
    if (operand.generator && operand.tensor.device == "cuda") operand.tensor.device = out.facts.cuda;
    add_operand(operand_json(operand, library, source), operand.tensor.device, operand.odd, out);
  }
  if (!operands.state_devices.empty()) out.surroundings["state_devices"] = operands.state_devices;
  if (!operands.modules.empty()) out.surroundings["modules"] = modules_json(operands.modules);
  for (const evidence::Mention& mention : operands.mentions)
    out.surroundings["mentions"].push_back(
        {{"frame", mention.frame}, {"name", mention.name}, {"device", mention.device}});
}

refusals::Operation registered(const python::Api& api, const std::string& structure) {
  if (structure.empty()) return {};
  auto [name, overload] = evidence::schema_name(api, structure);
  return {"aten::" + name, std::move(overload)};
}

void name_operation(const python::Api& api, const Native& native, const std::vector<Frame>& frames,
                    refusals::Facts& facts) {
  facts.torch_read = true;
  facts.asked = registered(api, asked_of_python_kernel(native, frames));
  facts.at_work = registered(api, native.operation);
  if (!native.operation.empty() || frames.empty()) return;
  facts.jitted = evidence::jitted_kernel(api, frames);
  // A kernel that is written in Python refuses for the operator.
  if (frames[0].torch) facts.calling = registered(api, native.calling);
  facts.called = evidence::called_function(api, frames, evidence::asking_frame(frames));
}

void gather_with_gil(const python::Api& api, const events::Refused& refusal, const RefusalMessage& message,
                     Repetition repetition, const ThreadSnapshot& thread, RefusalEvidence& out) {
  const Native& native = thread.native;
  const python::Gil gil(api);
  const evidence::Torch torch(api);
  const evidence::SourceReader sources(api);
  std::vector<Frame> frames = evidence::frames(api, thread.frames, kMostFrames, sources);
  if (frames.empty() && native.autograd)
    if (const auto waiting = evidence::waiting_for_autograd(api)) {
      frames = evidence::frames(api, *waiting, kMostFrames, sources);
      out.waiting = true;
    }
  const std::string library = evidence::standard_library(api);
  const SourceText source{[&](const std::string& file, int line) { return sources.lines(file, line); },
                          [&](const std::string& file, int line) { return sources.around(file, line); }};
  out.python = python_json(frames);
  const bool raised_here = refusal.raised == events::Raised::in_python && !frames.empty() &&
                           !evidence::StackValues(api, frames).calls_c_code();
  out.facts.raised_by_program = raised_here && frames[0].project;
  out.facts.rephrases = raised_here && repetition == Repetition::rephrased;
  if (out.facts.rephrases) return;  // no finding: nothing else is asked
  out.facts.swallowed = refusals::swallowed(frames);
  add_device_changes(out.history, thread.changes, library, source);
  if (!torch.imported()) return;
  evidence::OperandQuery query = query_of(refusal, message, native, frames);
  query.made = made_by;
  query.sources = &sources;
  query.standard_library = library;
  const auto gradient =
      is_of_a_gradient(message)
          ? evidence::refused_gradient(api, torch, frames, sources, message.known->operation, refusal.message)
          : std::nullopt;
  if (gradient) query.met = gradient->met;
  evidence::Operands operands = evidence::operands(api, torch, frames, query);
  if (gradient) say_gradient(*gradient, *message.known, operands);
  if (gradient) out.gradient = gradient_json(*gradient, library);
  add_operands(operands, library, source, out);
  if (query.generator) add_drawn(message, frames, out);
  name_operation(api, native, frames, out.facts);
}

// Without the GIL: what is read as memory.
void gather_without_gil(const ThreadSnapshot& thread, const SourceText& source, RefusalEvidence& out) {
  out.python = python_json(stacks::resolve(thread.changes.here), "", source);
  add_device_changes(out.history, thread.changes, "", source);
  out.incomplete = "operands were not read: another thread held Python's GIL and did not let go of it in time";
  say("refused-op: " + out.incomplete);
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
  if (!gathered) gather_without_gil(thread, source, out);
}

// Of a program without Python what C++ knows.
void gather_cpp(const events::Refused& refusal, const ThreadSnapshot& thread, const SourceText& source,
                RefusalEvidence& out) {
  add_device_changes(out.history, thread.changes, "", source);
  auto call = cpp_operands(refusal, thread.native, out.native, source);
  if (!call) return;
  out.facts.at_work = {"aten::" + call->operation, call->overload};
  out.facts.complete = true;
  out.facts.operands = std::move(call->facts);
  out.operands = std::move(call->operands);
}

}  // namespace

RefusalEvidence refusal_evidence(const events::Refused& refusal, const RefusalMessage& message, Repetition repetition) {
  const ThreadSnapshot thread;
  RefusalEvidence evidence;
  // What "cuda" means to the thread: device 0 until it chooses another.
  evidence.facts.cuda = Device::cuda(std::max(0, platform().current_device())).name();
  if (!thread.native.operation.empty()) evidence.facts.at_work.name = "aten::" + thread.native.operation;
  if (message.known && message.known->row->ordinal)
    for (const DeviceFacts& each : platform().devices())
      evidence.facts.devices.push_back(Device::cuda(each.index).name());
  const SourceText source = source_from_disk();
  gather_python(refusal, message, repetition, thread, source, evidence);
  evidence.native = native_json(thread.native.frames, source);
  if (evidence.python.empty() && !thread.native.operation.empty()) gather_cpp(refusal, thread, source, evidence);
  return evidence;
}

}  // namespace devtrace::findings
