// A copy whose caller says something of its two ends that is not so. Where the ends lie is exact, so what is said of
// them is wrong; whether the word or the pointer was meant, the evidence cannot tell.
#include "common/format.h"
#include "report/phrasing/cpp_source.h"
#include "report/verdict/cpp/device.h"
#include "report/verdict/cpp/line.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict::rules {
namespace {

const Operand* end_named(const Evidence& evidence, std::string_view role) {
  for (const Operand& operand : evidence.operands)
    if (operand.role == role) return &operand;
  return nullptr;
}

std::string_view kind_between(const Operand& source, const Operand& destination) {
  if (source.on_cpu()) return destination.on_cpu() ? "cudaMemcpyHostToHost" : "cudaMemcpyHostToDevice";
  return destination.on_cpu() ? "cudaMemcpyDeviceToHost" : "cudaMemcpyDeviceToDevice";
}

// The kind of the copy is the last argument but a stream; a copy between devices says each behind its pointer.
std::optional<Fix> corrected(const Evidence& evidence, const Operand& source, const Operand& destination) {
  const Frame* line = innermost_own(evidence.native);
  if (!evidence.in_cpp() || !line) return std::nullopt;
  const std::string_view function = evidence.operation;
  if (!evidence.copy.source.empty()) {
    const auto said = [&](const Operand& end) {
      const std::string words = device_words({end.device, end.created.choice, nullptr, end.name}, *line);
      return words.empty() ? ordinal_of(end.device) : words;
    };
    if (!function.starts_with("cudaMemcpyPeer") || source.device.empty() || destination.device.empty() ||
        source.on_cpu() || destination.on_cpu())
      return std::nullopt;
    const bool both = source.mismatched && destination.mismatched;
    if (both) {  // two edits of one line
      const auto call = only_call(line->source, function);
      if (!call || call->arguments.size() < 4) return std::nullopt;
      const auto& declared = evidence.copy;
      const bool exchanged = declared.source == destination.device && declared.destination == source.device;
      auto first = with_argument(*line, function, 1, exchanged ? std::string(call->arguments[3]) : said(destination));
      if (!first) return std::nullopt;
      Frame edited = *line;
      edited.source = first->code;
      return with_argument(edited, function, 3, exchanged ? std::string(call->arguments[1]) : said(source));
    }
    return destination.mismatched ? with_argument(*line, function, 1, said(destination))
                                  : with_argument(*line, function, 3, said(source));
  }
  const auto call = only_call(line->source, function);
  if (!call) return std::nullopt;
  for (size_t i = 0; i < call->arguments.size(); ++i) {
    if (!call->arguments[i].starts_with("cudaMemcpy")) continue;
    const bool known = !source.device.empty() && !destination.device.empty();
    return with_argument(*line, function, i, known ? kind_between(source, destination) : "cudaMemcpyDefault");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> misstated_copy(const Evidence& evidence) {
  if (evidence.kind != "copy-mismatch") return std::nullopt;
  const Operand* source = end_named(evidence, "source");
  const Operand* destination = end_named(evidence, "destination");
  if (!source || !destination) return std::nullopt;
  const auto sure = [](std::string_view category, std::string because, std::optional<Fix> fix = std::nullopt) {
    return Cause{category, Confidence::high, std::move(because), std::move(fix)};
  };
  if (evidence.message.find("runs on into memory of") != evidence.message.npos)
    return sure("copy-too-long", fmt::format("More is copied than one of the ends holds: what follows it belongs to "
                                             "another device, and is {}.",
                                             destination->mismatched ? "overwritten" : "copied instead"));
  const auto& declared = evidence.copy;
  const Operand& mismatched = destination->mismatched ? *destination : *source;
  if (!declared.source.empty() && declared.source == destination->device && declared.destination == source->device)
    return sure("copy-devices-exchanged",
                fmt::format("The two devices are exchanged: the source is on {}, the destination on {}.",
                            source->device, destination->device),
                corrected(evidence, *source, *destination));
  if (!declared.source.empty())
    return sure("copy-device-misstated",
                fmt::format("The {} is said to be on {} and is on {}: either the device or the pointer is another's.",
                            mismatched.role, destination->mismatched ? declared.destination : declared.source,
                            mismatched.device),
                corrected(evidence, *source, *destination));
  if (source->device.empty() || destination->device.empty())
    return sure(
        "copy-direction-misstated",
        fmt::format("{} is stated, and the {} is on {}. With cudaMemcpyDefault CUDA finds the direction itself.",
                    declared.direction, mismatched.role, mismatched.device),
        corrected(evidence, *source, *destination));
  return sure(
      "copy-direction-misstated",
      fmt::format("{} is stated, and the copy goes from {} to {}: that is {}. With cudaMemcpyDefault CUDA finds "
                  "the direction itself.",
                  declared.direction, source->device, destination->device, kind_between(*source, *destination)),
      corrected(evidence, *source, *destination));
}

}  // namespace devtrace::report::verdict::rules
