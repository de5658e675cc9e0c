// The verdict: which of the known causes the evidence shows. To add one: a file in rules/, its line in rules.h, its row
// here.
#include "report/verdict/verdict.h"

#include "report/base/format.h"
#include "report/base/phrasing.h"
#include "report/verdict/rules.h"

namespace devtrace::report::verdict {
namespace {

// In order of how particular they are; among answers of equal confidence the first one stands.
constexpr std::optional<Cause> (*kRules[])(const Evidence&) = {
    rules::host_memory,             // a kernel was given memory of the host
    rules::generator,               // a CPU generator for CUDA random numbers, or the other way round
    rules::wanted_on_cpu,           // an argument that only the CPU may have
    rules::declared_access,         // a note
    rules::unguarded_kernel,        // findings at a launch: everything is elsewhere
    rules::misstated_copy,          // findings at a copy
    rules::optimizer_state,         // the refusing code is an optimizer's
    rules::data_parallel,           // … a replica of nn.DataParallel
    rules::kept_from_before,        // what a parameter was before it was moved
    rules::inter_process,           // a tensor of another process
    rules::tied_weights,            // one parameter of two modules on different devices
    rules::cached_state_elsewhere,  // a cache was filled on one device and is met on another
    rules::state_not_registered,    // a module's tensor that .to() does not know of
    rules::created_without_device,  // torch.zeros(…) and the like where the work goes on elsewhere
    rules::module_split,      // parameters of one model on several devices, and nothing moves what passes between them
    rules::input_not_moved,   // what the caller gives to a model, or a label, stayed behind
    rules::default_device,    // "cuda" means the current device, not the one where the data is
    rules::unchecked_kernel,  // at a launch: nothing of the above, and one of the kernel's operands is elsewhere
};

constexpr std::string_view word(Confidence confidence) {
  return confidence == Confidence::high ? "high" : confidence == Confidence::medium ? "medium" : "low";
}

Cause unknown(const Json& finding, const Evidence& evidence) {
  const std::string operands = who_is_where(finding);
  return {"unknown", Confidence::low,
          operands.empty() ? "The operands could not be named, so the cause is not known."
                           : fmt::format("It is known where they are ({}), not why.", operands),
          use_site(evidence)};
}

Json to_json(const Cause& cause) {
  Json out = {{"category", cause.category}, {"confidence", word(cause.confidence)}, {"because", cause.because}};
  if (cause.fix) {
    out["fix"] = cause.fix->code;
    if (!cause.fix->file.empty()) out["file"] = cause.fix->file;
    if (cause.fix->line > 0) out["line"] = cause.fix->line;
    out["repairs"] = cause.fix->repairs == Repairs::cause ? "cause" : "line";
  }
  return out;
}

}  // namespace

Json cause_of(const Json& finding) noexcept try {
  const Evidence evidence(finding);
  std::optional<Cause> best;
  for (const auto rule : kRules) {
    auto cause = rule(evidence);
    if (cause && (!best || cause->confidence > best->confidence)) best = std::move(cause);
  }
  return to_json(best ? *best : unknown(finding, evidence));
} catch (...) {
  return nullptr;
}

}  // namespace devtrace::report::verdict
