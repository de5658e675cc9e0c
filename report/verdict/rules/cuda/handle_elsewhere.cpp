// A call of one of CUDA's libraries, or of an event: the handle belongs to the device that was current when it was
// made.
#include <algorithm>

#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "report/verdict/cpp/device.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/cpp/memory.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict::rules {
namespace {

std::string line_of(const Event& event) {
  const Frame* frame = innermost_outside_wrappers(event);
  return at(frame ? frame : event.line());
}

// ", at main.cpp:9, while cuda:0 was current by default".
std::string made_where(const Operand& handle) {
  const std::string where = line_of(handle.created);
  std::string text = where.empty() ? "" : fmt::format(" at {}", where);
  const DeviceChoice& choice = handle.created.choice;
  if (choice.by_default) return text + ", when its thread had chosen no device";
  if (choice.device.empty()) return text;
  const Frame* frame = innermost_own(choice.native);
  const std::string chosen = at(frame ? frame : innermost_own(choice.stack));
  return text + fmt::format(", while {} was current{}", choice.device, chosen.empty() ? "" : ", since " + chosen);
}

// What a line makes: `blas` of cublasCreate(&blas).
std::string_view function_that_made(const Event& created) {
  const Frame* frame = innermost_own(created.native);
  if (!frame) return {};
  const auto call = only_call(frame->source, created.call);
  if (!call || call->arguments.empty() || !call->arguments[0].starts_with('&')) return {};
  const std::string_view name = call->arguments[0].substr(1);
  return is_identifier(name) ? name : std::string_view();
}

// What a handle's device means for a call. Of cuBLAS and cuFFT it is known; of the others NVIDIA says that a handle is
// for one device, not what it does when it is used for another.
bool works_on_its_device(const Evidence& evidence) {
  const std::string_view operation = evidence.operation;
  return operation.starts_with("cufft") || (operation.starts_with("cublas") && !operation.starts_with("cublasLt"));
}

// The call with another handle, which its own function made for the memory's device.
std::optional<Fix> with_other_handle(const Evidence& evidence, const Frame& line) {
  for (const auto& [device, created] : evidence.library_call.other_handles) {
    const Frame* made = innermost_own(created.native);
    const std::string_view name = function_that_made(created);
    if (made && !name.empty() && made->same_function(line)) return with_argument(line, evidence.operation, 0, name);
  }
  return std::nullopt;
}

std::string others_made(const Evidence& evidence) {
  if (evidence.library_call.other_handles.empty()) return {};
  const std::string where = line_of(evidence.library_call.other_handles[0].created);
  return where.empty() ? "" : fmt::format(" One of that device was made at {}.", where);
}

// All memory is on one other device: the handle is the wrong one.
Cause wrong_handle(const Evidence& evidence, const Operand& handle, const Operand& memory) {
  Cause cause{"handle-of-another-device", Confidence::high,
              fmt::format("{} was made on {}{}: {}. All the memory that {} was given is on {}.{}", handle.name,
                          handle.device, made_where(handle),
                          works_on_its_device(evidence) ? "what is called with it works there"
                                                        : "it is for that device, and each device needs one of its own",
                          evidence.operation, memory.device, others_made(evidence)),
              std::nullopt};
  const Frame* line = innermost_own(evidence.native);
  if (!line) return cause;
  if (auto fix = with_other_handle(evidence, *line)) {
    fix->repairs = Repairs::cause;
    cause.fix = std::move(fix);
    return cause;
  }
  // A handle that has worked on its own device's memory is right there: this call needs another.
  const Frame* made = innermost_outside_wrappers(handle.created);
  const WantedDevice wanted{memory.device, memory.created.choice, &handle.created.choice};
  if (made && !evidence.library_call.used && evidence.library_call.other_handles.empty())
    cause.fix = repairing(choose_before(handle.created.native, wanted, made, [](const Frame&) { return true; }));
  return cause;
}

// CUDA did not record it. What it was made for, only its line says: elsewhere it may be right for another stream.
Cause event_on_stream(const Evidence& evidence, const Operand& event, const Operand& stream) {
  const std::string where = line_of(stream.created);
  Cause cause{
      "event-device", Confidence::high,
      fmt::format("{} was made on {}{}, and {} is a stream of {}{}: CUDA records an event on streams of its own "
                  "device only.",
                  event.name, event.device, made_where(event), stream.name, stream.device,
                  where.empty() ? "" : ", made at " + where),
      std::nullopt};
  const Frame* made = innermost_own(event.created.native);
  const Frame* line = innermost_own(evidence.native);
  if (!made || !line || !made->same_function(*line)) return cause;
  const WantedDevice wanted{stream.device, stream.created.choice, &event.created.choice};
  const std::string words = device_words(wanted, *made);
  cause.fix = repairing(chosen_before(*made, wanted, words.empty() ? ordinal_of(stream.device) : words));
  return cause;
}

// The library refused it, for another device is current.
Cause refused_handle(const Evidence& evidence, const Operand& handle) {
  Cause cause{"missing-set-device", Confidence::high,
              fmt::format("{} was made on {}{}, and {} is current: the library works by it on its own device only.",
                          handle.name, handle.device, made_where(handle), evidence.current_device),
              std::nullopt};
  if (const Frame* line = innermost_own(evidence.native)) {
    const WantedDevice wanted{handle.device, handle.created.choice, &evidence.choice, handle.name};
    const std::string words = device_words(wanted, *line);
    cause.fix = repairing(chosen_before(*line, wanted, words.empty() ? ordinal_of(handle.device) : words));
  }
  return cause;
}

// Where the memory has no line of its own that could be another, its peer is all that is left.
Cause given_elsewhere(const Evidence& evidence, const Operand& handle, const Operand& memory) {
  const std::string works = fmt::format("{} {} {}, where {} was made{}.", evidence.operation,
                                        works_on_its_device(evidence) ? "works on" : "was given a handle of",
                                        handle.device, handle.name, made_where(handle));
  const bool one = std::ranges::count_if(evidence.operands, [](const Operand& it) { return it.mismatched; }) == 1;
  if (one && evidence.in_cpp())
    if (auto cause = memory_elsewhere(evidence, memory, {handle.device, handle.created.choice, works, "library"}))
      return *cause;
  const std::string where = line_of(memory.created);
  Cause cause{"memory-of-another-device", Confidence::medium,
              fmt::format("{} {} is on {}{}. Without access to its peer the library cannot read it.", works,
                          memory.name, memory.device, where.empty() ? "" : fmt::format(", allocated at {}", where)),
              std::nullopt};
  const Frame* line = innermost_own(evidence.native);
  if (line && evidence.current_device == handle.device) cause.fix = peer_access_before(*line, memory);
  return cause;
}

}  // namespace

std::optional<Cause> handle_elsewhere(const Evidence& evidence) {
  if (evidence.kind != "handle-mismatch" || evidence.operands.empty() || !evidence.note.empty()) return std::nullopt;
  const Operand& handle = evidence.operands.front();
  const auto is_odd = [](const Operand& it) { return it.mismatched; };
  const auto memory = std::find_if(evidence.operands.begin() + 1, evidence.operands.end(),
                                   [&](const Operand& it) { return handle.mismatched || it.mismatched; });
  const bool has_memory = memory != evidence.operands.end();
  const bool all_there = has_memory && std::all_of(memory, evidence.operands.end(),
                                                   [&](const Operand& it) { return it.device == memory->device; });
  if (has_memory && memory->role == "stream") return event_on_stream(evidence, handle, *memory);
  if (is_odd(handle) && all_there && memory->device != handle.device) return wrong_handle(evidence, handle, *memory);
  if (is_odd(handle)) return refused_handle(evidence, handle);
  if (has_memory) return given_elsewhere(evidence, handle, *memory);
  return std::nullopt;
}

}  // namespace devtrace::report::verdict::rules
