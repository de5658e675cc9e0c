// A copy whose caller says something of its two ends that is not so. Where the ends lie is exact, so what is said of
// them is wrong; whether the word or the pointer was meant, the evidence cannot tell.
#include "report/base/format.h"
#include "report/verdict/rules.h"

namespace devtrace::report::causes::rules {
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

}  // namespace

std::optional<Cause> misstated_copy(const Evidence& evidence) {
  if (evidence.kind != "copy-mismatch") return std::nullopt;
  const Operand* source = end_named(evidence, "source");
  const Operand* destination = end_named(evidence, "destination");
  if (!source || !destination) return std::nullopt;
  const auto sure = [](std::string_view category, std::string because) {
    return Cause{category, Confidence::high, std::move(because), std::nullopt};
  };
  if (evidence.message.find("runs on into memory of") != evidence.message.npos)
    return sure("copy-too-long", fmt::format("More is copied than one of the ends holds: what follows it belongs to "
                                             "another device, and is {}.",
                                             destination->odd ? "overwritten" : "copied instead"));
  const auto& declared = evidence.copy;
  const Operand& odd = destination->odd ? *destination : *source;
  if (!declared.source.empty() && declared.source == destination->device && declared.destination == source->device)
    return sure("copy-devices-exchanged",
                fmt::format("The two devices are exchanged: the source is on {}, the destination on {}.",
                            source->device, destination->device));
  if (!declared.source.empty())
    return sure("copy-device-misstated",
                fmt::format("The {} is said to be on {} and is on {}: either the device or the pointer is another's.",
                            odd.role, destination->odd ? declared.destination : declared.source, odd.device));
  if (source->device.empty() || destination->device.empty())
    return sure(
        "copy-direction-misstated",
        fmt::format("{} is stated, and the {} is on {}. With cudaMemcpyDefault CUDA finds the direction itself.",
                    declared.direction, odd.role, odd.device));
  return sure(
      "copy-direction-misstated",
      fmt::format("{} is stated, and the copy goes from {} to {}: that is {}. With cudaMemcpyDefault CUDA finds "
                  "the direction itself.",
                  declared.direction, source->device, destination->device, kind_between(*source, *destination)));
}

}  // namespace devtrace::report::causes::rules
