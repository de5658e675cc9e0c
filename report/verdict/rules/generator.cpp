// "Expected a 'cuda' device type for generator but found 'cpu'": random numbers are made where their generator lives.
#include <algorithm>

#include "common/format.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/rules.h"
#include "report/verdict/source/source_line.h"
#include "report/verdict/source/statement_scan.h"

namespace devtrace::report::verdict::rules {
namespace {

// `device=generator.device` where the numbers are asked for: whatever generator somebody gives.
std::optional<Fix> draw_where_it_lives(const Evidence& evidence, const Operand* generator) {
  const auto frame = innermost_project(evidence.stack);
  if (!frame || !generator) return std::nullopt;
  const Frame& line = evidence.stack[*frame];
  const std::string_view name = generator->name_in(*frame);
  if (!is_reference(name)) return std::nullopt;
  std::string device = fmt::format("{}.device", name);
  // A parameter that may be left out.
  const std::string_view around = line.around.text;
  const size_t optional = around.find(fmt::format("{}=None", name));
  if (generator->role == "argument" && optional != around.npos)
    device = fmt::format("{0}.device if {0} is not None else None", name);
  auto code = draw_on(line.source, name, device);
  if (!code) return std::nullopt;
  return repair_of(line, std::move(*code));
}

// On the device that is wanted, by an expression for where the numbers are drawn, if the line has one.
std::string generator_for(std::string_view wanted, std::string_view expression) {
  return expression.empty() ? fmt::format("torch.Generator(device=\"{}\")", wanted)
                            : fmt::format("torch.Generator(device={})", expression);
}

// A library's function that takes a generator, and was given none by the user's line: it draws with the CPU's own.
std::optional<Fix> give_generator(const Evidence& evidence, const Operand* generator, std::string_view wanted,
                                  std::string_view drawn_on) {
  const auto frame = innermost_project(evidence.stack);
  if (!frame || *frame == 0 || !generator || generator->name_in(*frame - 1) != "generator") return std::nullopt;
  const Frame& line = evidence.stack[*frame];
  const std::string& called = evidence.stack[*frame - 1].function;
  if (keyword_argument(line.source, "generator")) return std::nullopt;
  auto code =
      give_argument(line.source, called, "generator", generator_for(wanted, expression_of(evidence, *frame, drawn_on)));
  return code ? std::optional(repair_of(line, std::move(*code))) : std::nullopt;
}

// A DataLoader or RandomSampler shuffles with a generator of its own, on the CPU, whatever the default device is.
std::optional<Fix> give_loader_a_generator(const Operand* generator, std::string_view wanted,
                                           std::string_view drawn_on) {
  if (!generator) return std::nullopt;
  for (const finding::Step& step : generator->lineage) {
    if (step.what != "constructed" || keyword_argument(step.line.source, "generator")) continue;
    const std::string made = generator_for(wanted, expression_of(step, drawn_on));
    auto code = give_argument(step.line.source, step.call, "generator", made);
    return repair_of(step.line, code.value_or(std::string()));
  }
  return std::nullopt;
}

// A sampler's, which the program has made for it.
std::optional<Fix> make_generator_there(const Operand* generator, std::string_view wanted) {
  if (!generator) return std::nullopt;
  for (const finding::Step& step : generator->lineage) {
    if (step.what != "made") continue;
    const std::string_view source = step.line.source;
    const Scan scan(source);
    const auto call = only_call_in(source, scan, "torch.Generator");  // which takes nothing but a device
    if (!call) return repair_of(step.line, {});
    return repair_of(step.line,
                     dedented(spliced(source, {call->open + 1, call->close}, fmt::format("device=\"{}\"", wanted))));
  }
  return std::nullopt;
}

// A default device sends there what a library draws with its own generator of the CPU. That the device is current is
// enough for what the program puts on "cuda".
std::optional<Fix> choose_no_default(const Operand* generator) {
  if (!generator) return std::nullopt;
  for (const finding::Step& step : generator->lineage) {
    if (step.what != "chosen") continue;
    // That wants a number, or a device that has one.
    const std::string_view source = step.line.source;
    const bool numbered = source.find("cuda\"") == source.npos && source.find("cuda'") == source.npos;
    auto code = numbered ? call_instead(source, "torch.set_default_device", "torch.cuda.set_device", "") : std::nullopt;
    return repair_of(step.line, code.value_or(std::string()));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> generator(const Evidence& evidence) {
  constexpr std::string_view kExpected = "Expected a '", kFor = "' device type for generator but found '";
  const size_t begin = evidence.message.find(kExpected);
  const size_t middle = evidence.message.find(kFor);
  if (begin == evidence.message.npos || middle == evidence.message.npos || middle < begin) return std::nullopt;
  const auto wanted = evidence.message.substr(begin + kExpected.size(), middle - begin - kExpected.size());
  const auto rest = evidence.message.substr(middle + kFor.size());
  const auto found = rest.substr(0, rest.find('\''));

  Cause cause{"generator", Confidence::high,
              fmt::format("The random generator lives on {}, and the numbers are asked for on {}: a generator only "
                          "serves its own device.",
                          found, wanted),
              std::nullopt};
  const auto own =
      std::find_if(evidence.operands.begin(), evidence.operands.end(), [](const Operand& it) { return it.generator; });
  const auto drawn =
      std::find_if(evidence.operands.begin(), evidence.operands.end(), [](const Operand& it) { return !it.generator; });
  if (own != evidence.operands.end() && drawn != evidence.operands.end())
    cause.because = fmt::format(
        "The random generator {} lives on {}, and the numbers are asked for on {}: a generator "
        "only serves its own device.",
        own->names.empty() ? "of this line" : own->name, own->device, drawn->device);
  const Operand* const named = own == evidence.operands.end() ? nullptr : &*own;
  const std::string_view drawn_on = drawn == evidence.operands.end() ? evidence.current_device : drawn->device;
  cause.fix = draw_where_it_lives(evidence, named);
  if (!cause.fix) cause.fix = give_generator(evidence, named, wanted, drawn_on);
  if (!cause.fix) cause.fix = give_loader_a_generator(named, wanted, drawn_on);
  if (!cause.fix) cause.fix = make_generator_there(named, wanted);
  if (!cause.fix && (cause.fix = choose_no_default(named)))
    cause.because += " The program has chosen that device for all tensors that are told none.";
  if (cause.fix) return cause;
  const bool specific = wanted == "cuda" && evidence.current_device.starts_with("cuda:");
  // Where the generator was made is not in the evidence.
  if (const auto frame = innermost_project(evidence.stack)) {
    const auto name = keyword_argument(evidence.stack[*frame].source, "generator");
    if (name && is_reference(*name)) {
      cause.fix = Fix{fmt::format("{0} = torch.Generator(device=\"{1}\")  # where {0} is made", *name,
                                  specific ? evidence.current_device : wanted),
                      {},
                      0,
                      Repairs::cause};
    }
  }
  return cause;
}

}  // namespace devtrace::report::verdict::rules
