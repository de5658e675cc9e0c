// The line that brings an operand to another device, in the function that uses it.
#include <algorithm>

#include "common/format.h"
#include "common/name_steps.h"
#include "common/python_scan.h"
#include "common/text.h"
#include "report/verdict/cpp/device.h"
#include "report/verdict/edits/device_edits.h"
#include "report/verdict/edits/earlier_line.h"
#include "report/verdict/edits/fixes.h"
#include "report/verdict/source/source_line.h"

namespace devtrace::report::verdict {
namespace {

bool is_batch_encoding(const Operand& operand) {
  for (const Frame& frame : operand.created.stack) {
    for (const std::string_view maker : {"/transformers/tokenization_", "/transformers/feature_extraction_",
                                         "/transformers/image_processing_", "/transformers/processing_"}) {
      if (frame.file.find(maker) != frame.file.npos) return true;
    }
  }
  return false;
}

// In the body of the line's only lambda, where one of its parameters has that name: `lambda w: (w * b).sum()`.
std::optional<Fix> move_in_lambda(const Frame& here, std::string_view name, const std::string& device) {
  constexpr std::string_view kLambda = "lambda ";
  const std::string_view source = here.source;
  const size_t begin = source.find(kLambda), colon = source.find(':', begin);
  if (begin == source.npos || colon == source.npos) return std::nullopt;
  const std::string_view parameters = source.substr(begin + kLambda.size(), colon - begin - kLambda.size());
  const std::string_view body = source.substr(colon + 1);
  if (body.find(kLambda) != body.npos || parameters.find_first_of("([{\"'") != parameters.npos) return std::nullopt;
  auto moved = replace_read(body, name, fmt::format("{}.to({})", name, device));
  if (!moved) return std::nullopt;
  return line_fix(here, dedented(fmt::format("{} {}", here.source.substr(0, colon + 1), dedented(*moved))));
}

// `keys if self.kept is None else cat(self.kept, keys)`: in the part that has both.
std::optional<Fix> move_behind_else(const Frame& here, std::string_view name, const std::string& device) {
  constexpr std::string_view kElse = " is None else ";
  const size_t at = here.source.find(kElse);
  if (at == here.source.npos) return std::nullopt;
  const size_t begin = at + kElse.size();
  auto moved = replace_read(std::string_view(here.source).substr(begin), name, fmt::format("{}.to({})", name, device));
  if (!moved) return std::nullopt;
  return line_fix(here, dedented(here.source.substr(0, begin) + *moved));
}

// Can a line in front of this one give the variable another value? `def f(x): return x + x`: that is outside of the
// function. So it is of a lambda, and of a comprehension; and nothing can stand in front of `elif`.
bool may_stand_in_front(const Frame& here, std::string_view name) {
  const std::string line = dedented(here.source);
  const auto begins = [&](std::string_view word) { return line.starts_with(word); };
  const bool inner = here.function.ends_with('>') && !here.function.ends_with("<module>");
  return !inner && !begins("def ") && !begins("async def ") && !begins("class ") && !begins("elif ") &&
         !begins("except ") && !begins("case ") && !writes_through(here.source, name) && !binds(here.source, name) &&
         (assigned_name(here.source) != name || (is_identifier(name) && reads(value_in(here.source), name) > 1)) &&
         Scan(here.source).balanced;
}

// Nothing known of the file is a yes.
bool imports_torch(const std::string& file) {
  const std::vector<std::string> lines = lines_of(file);
  return lines.empty() || std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
           return trimmed(line) == "import torch" || trimmed(line).starts_with("import torch ") ||
                  trimmed(line).starts_with("import torch,");
         });
}

// Neither an element of a tuple nor a temporary: a variable, an attribute, what a dict has under a word.
bool may_be_assigned(std::string_view name) {
  const size_t bracket = name.rfind('[');
  return is_reference(name) && (bracket == name.npos || name.substr(bracket + 1).find_first_of("\"'") == 0);
}

// `sums[name]`, where the frame says the same by a word, `sums["weight"]`.
bool is_of_a_dict(const Operand& it, size_t frame) {
  const std::string_view name = it.name_in(frame), container = container_of(name);
  return std::any_of(it.names.begin(), it.names.end(), [&](const finding::Name& each) {
    const std::string_view word = each.name;
    return each.frame == frame && !container.empty() && word.starts_with(container) &&
           word.substr(container.size()).starts_with("[\"");
  });
}

std::string move_of(std::string_view name, const std::string& device) {
  return fmt::format("{0} = {0}.to({1})\n", name, device);
}

// Does the statement itself give the expression's variable its value?
bool says_in_front(const Frame& here, const std::string& device) {
  // `x if self.kept is None else …`: there is none to ask in front of the line.
  const std::string owner = device.substr(0, device.rfind('.'));
  if (here.source.find(fmt::format("{} is None", owner)) != std::string::npos) return false;
  return !binds(here.source, device.substr(0, device.find_first_of(".([")));
}

// The only tensor that an expression of the failing line was computed from, where that function has it in a variable or
// an attribute.
const Operand* only_source(const Operand& operand, size_t frame) {
  if (operand.computed_from.size() != 1 || operand.computed_from[0].device != operand.device) return nullptr;
  const Operand& source = operand.computed_from[0];
  const std::string_view name = source.name_in(frame);
  const bool kept = source.role == "attribute" && !source.is_state() && may_be_assigned(name);
  return is_identifier(name) || kept ? &source : nullptr;
}

// `weight.copy_(slow)` below: a copy of the parameter under its name would take what is meant for the model.
bool is_written_below(const Frame& here, const Operand& it, std::string_view name) {
  return it.is_state() && std::ranges::any_of(statements_below(here, here.line), [&](const auto& statement) {
           return writes_through(statement.second, name);
         });
}

// `critic(now), critic(next)`: is the one given to what is given the other one?
bool given_alike(std::string_view source, std::string_view name, std::string_view other) {
  const auto called = callee_of(source, name);
  return called && called == callee_of(source, other);
}

// The line with what else it calculates with on the operand's device moved, too, or gives to the same function:
// `x * self.scale + self.shift`, `model(ids, mask)`. What it reads several times is moved in front of it. Lengths may
// be wanted on the CPU.
std::string others_moved(const Evidence& evidence, size_t frame, const Operand& operand, std::string line,
                         const std::string& device, std::string_view in_front_already = {}) {
  const Frame& here = evidence.stack[frame];
  const std::string_view own = operand.name_in(frame);
  std::string in_front;
  const auto move = [&](std::string_view name, std::string_view lies_on) {
    if (lies_on != operand.device || name == own || !is_reference(name)) return;
    const auto has = [&](std::string_view text, const std::string& move) { return text.find(move) != text.npos; };
    if (has(in_front_already, move_of(name, device)) || has(in_front, move_of(name, device)) ||
        has(line, fmt::format("{}.to(", name)))
      return;
    // `loss(model(x), labels)`: what the model gives comes along.
    const auto called = callee_of(here.source, own);
    const bool given = is_argument_beside(line, name, own) || (called && is_argument_beside(line, name, *called));
    const bool beside = given && name.find("len") == name.npos;
    if (!beside && !is_term(line, name) && !given_alike(here.source, name, own)) return;
    if (auto moved = replace_read(line, name, fmt::format("{}.to({})", name, device)))
      line = std::move(*moved);
    else if (is_identifier(name) && may_stand_in_front(here, name) && says_in_front(here, device))
      in_front += move_of(name, device);
  };
  for (const finding::Mention& mention : evidence.refusal.mentions)
    if (mention.frame == frame) move(mention.name, mention.device);
  for (const Operand& each : evidence.operands)
    if (!each.generator) move(each.name_in(frame), each.device);
  return in_front + line;
}

// The other properties of the class whose property made the operand for that line: those that make a tensor, and say no
// device either. Empty for what no property made. The first is the operand's own.
std::vector<std::string> properties_alike(const Evidence& evidence, size_t frame, const Operand& operand) {
  const Stack& made = operand.created.stack;
  const size_t outside = evidence.stack.size() - frame;
  if (made.size() <= outside || operand.moved.known() || !made[made.size() - outside].same_line(evidence.stack[frame]))
    return {};
  const Frame& own = made[made.size() - outside - 1];
  constexpr std::string_view kProperty = "@property", kDefinition = "def ";
  std::vector<std::string> found{own.function.substr(own.function.rfind('.') + 1)};
  if (!is_identifier(found[0]) || !own.project) return {};
  const std::vector<std::string> lines = lines_of(own.file);
  bool decorated = false, is_own = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = trimmed(lines[i]);
    if (decorated && line.starts_with(kDefinition)) {
      const std::string name(line.substr(kDefinition.size(), line.find('(') - kDefinition.size()));
      size_t end = i + 1;
      bool makes = false, says = false;
      for (; end < lines.size() && (trimmed(lines[end]).empty() || indentation(lines[end]) > indentation(lines[i]));
           ++end) {
        makes = makes || makes_tensor(lines[end]);
        says = says || says_device(lines[end]);
      }
      is_own =
          is_own || (name == found[0] && static_cast<size_t>(own.line) > i && static_cast<size_t>(own.line) <= end);
      if (makes && !says && name != found[0]) found.push_back(name);
    }
    decorated = line == kProperty;
  }
  return is_own ? found : std::vector<std::string>();
}

// The line with the values of such properties moved, too: `(x - self.mean.to(x.device)) / self.std`.
std::string properties_moved(const Evidence& evidence, size_t frame, const Operand& operand, std::string line,
                             const std::string& device) {
  const std::vector<std::string> names = properties_alike(evidence, frame, operand);
  const std::string_view own = operand.name_in(frame);
  const std::string written(own.empty() ? std::string_view(operand.expression) : own);
  for (size_t i = 1; i < names.size(); ++i) {
    const std::string from = fmt::format(".{}", names[0]);
    const size_t at = written.find(from);
    if (at == written.npos || (at + from.size() < written.size() && word_char(written[at + from.size()]))) break;
    const std::string other = fmt::format("{}.{}{}", written.substr(0, at), names[i], written.substr(at + from.size()));
    if (auto moved = move_expression(line, other, device)) line = std::move(*moved);
  }
  return line;
}

// The line with what else it gives to the failing operation in other words than a name moved, too:
// `linear(x, kept["weight"].to(x.device), kept["bias"])`.
std::string expressions_moved(const Evidence& evidence, size_t frame, const Operand& operand, std::string line,
                              const std::string& device) {
  for (const Operand& other : evidence.operands) {
    const bool along = &other != &operand && other.device == operand.device && other.name_in(frame).empty() &&
                       !other.expression.empty() && !other.generator;
    if (!along || line.find(fmt::format("{}.to(", other.expression)) != line.npos) continue;
    if (auto moved = move_expression(line, other.expression, device)) line = std::move(*moved);
  }
  return line;
}

Fix moved_in_front(const Evidence& evidence, size_t frame, const Operand& operand, std::string_view name,
                   const std::string& device) {
  const Frame& here = evidence.stack[frame];
  return line_fix(here, move_of(name, device) + others_moved(evidence, frame, operand, dedented(here.source), device));
}

}  // namespace

// What a comprehension may call an element: no name that the words for the device have.
static std::string_view element_beside(const std::string& device) {
  return find_variable(device, "value") == device.npos ? "value" : "each";
}

// `mixed`: it may be no tensor.
static std::string moved_element(std::string_view each, const std::string& device, bool mixed) {
  return fmt::format("{0}.to({1}){2}", each, device,
                     mixed ? fmt::format(" if hasattr({0}, \"to\") else {0}", each) : "");
}

static std::string moved_mapping(std::string_view mapping, const std::string& device, bool mixed) {
  const std::string_view each = element_beside(device);
  return fmt::format("{{key: {} for key, {} in {}.items()}}", moved_element(each, device, mixed), each, mapping);
}

// Of containers in containers. It says `torch`.
static std::string moved_nested(std::string_view container, const std::string& device) {
  const std::string_view each = element_beside(device);
  return fmt::format("torch.utils._pytree.tree_map_only(torch.Tensor, lambda {0}: {0}.to({1}), {2})", each, device,
                     container);
}

std::string moved_container(const Operand& operand, std::string_view container, std::string_view subscript,
                            std::string_view value, const std::string& device, const std::string& file) {
  const bool rebuilt = operand.moved.known() && operand.moved.line() &&
                       operand.moved.line()->source.find(" for ") != std::string_view::npos;
  if (is_batch_encoding(operand) && !rebuilt && !operand.moved.known()) return fmt::format("{}.to({})", value, device);
  // What a call gives may hold more than what is left of it now, and what was not looked into anything.
  const auto holds_tensors = [&](const finding::Chain& chain) {
    return !chain.holders.empty() && chain.holders.back().name == container && !chain.holders.back().mixed;
  };
  const bool mixed = value != container || std::ranges::none_of(operand.held_by, holds_tensors);
  const auto nested = [&](const Operand& it) {
    return std::ranges::any_of(it.names, [&](const finding::Name& name) {
      return name.name.starts_with(fmt::format("{}[", container)) && name.name.find("][") != name.name.npos;
    });
  };
  if (std::ranges::any_of(operand.siblings, nested) && imports_torch(file)) return moved_nested(value, device);
  const bool mapping = subscript.starts_with("[\"") || subscript.starts_with("['");
  if (mapping) return moved_mapping(value, device, mixed);
  const std::string_view each = element_beside(device);
  return fmt::format("[{} for {} in {}]", moved_element(each, device, mixed), each, value);
}

// Has what the operand is an element of there a method .to()?
static bool moves_itself(const Operand& operand, size_t frame) {
  return operand.holder_in(frame) == "moves";
}

// The container of which the operand is an element in that frame, on the device.
static std::string container_moved(const Frame& here, size_t frame, const Operand& operand, std::string_view container,
                                   const std::string& device) {
  if (moves_itself(operand, frame)) return fmt::format("{}.to({})", container, device);
  const std::string_view subscript = operand.name_in(frame).substr(container.size());
  return moved_container(operand, container, subscript, container, device, here.file);
}

bool is_kept_and_written(const Evidence& evidence, size_t frame, const Operand& operand) {
  const std::string_view name = operand.name_in(frame);
  return operand.role == "attribute" && operand.on_cpu() && may_be_assigned(name) &&
         writes_through(evidence.stack[frame].source, name);
}

// `layer(*args, **kwargs)`: what came to the called function beside the operand, and has no name here, may be in
// either.
static std::string keywords_moved(const Frame& here, size_t frame, const Operand& operand, std::string line,
                                  const std::string& device) {
  const auto unnamed = [&](const Operand& each) { return each.name_in(frame).empty(); };
  const size_t stars = here.source.find(", **");
  if (stars == here.source.npos || std::ranges::none_of(operand.siblings, unnamed)) return line;
  const std::string_view rest = std::string_view(here.source).substr(stars + 4);
  const std::string_view name = rest.substr(0, rest.find(')'));
  if (!is_identifier(name)) return line;
  return replace_read(line, name, moved_mapping(name, device, true)).value_or(line);
}

// `low = self.up(self.down(x))` where the function goes on with x on a GPU: what the parts give goes back there.
// `line`: the same with x moved to the module whose device it is.
static std::optional<std::string> there_and_back(const Frame& here, std::string_view name, std::string_view line,
                                                 std::string_view device) {
  constexpr std::string_view kNext = "next(";
  std::string_view module = device.substr(device.starts_with(kNext) ? kNext.size() : 0);
  const auto is_called = [&](std::string_view it) {
    const size_t at = find_variable(here.source, it);
    return at != std::string_view::npos && here.source.substr(at + it.size()).starts_with('(');
  };
  while (!module.empty() && !is_called(module)) module = holder_of(module);
  const auto target = assigned_name(here.source);
  const std::string_view value = value_in(here.source);
  const bool parts_alone = value.starts_with("self.") && value.find(',') == value.npos;
  if (module.empty() || !target || *target == name || !parts_alone || called_in_value(here.source).empty())
    return std::nullopt;
  return move_value(line, fmt::format("{}.device", name));
}

// May a line in front of that one give the variable what it has, on the device?
static bool may_be_moved_in_front(const Frame& here, std::string_view variable, const std::string& device) {
  return is_identifier(variable) && may_stand_in_front(here, variable) && says_in_front(here, device) &&
         !device.starts_with(variable);
}

std::optional<Fix> move_at(const Evidence& evidence, size_t frame, const Operand& operand, const std::string& device) {
  const Frame& here = evidence.stack[frame];
  const std::string_view name = operand.name_in(frame);
  if (here.source.empty()) return std::nullopt;
  if (name.empty() && frame == 0 && !operand.expression.empty()) {
    const Operand* const source = only_source(operand, frame);
    const bool again = source && (source->read_again_in(frame) || reads(here.source, source->name_in(frame)) > 1) &&
                       !is_written_below(here, *source, source->name_in(frame));
    if (again && may_stand_in_front(here, source->name_in(frame)) && says_in_front(here, device))
      return line_fix(here, move_of(source->name_in(frame), device) + dedented(here.source));
    // What an attribute gives that no object has under that name.
    const std::string_view text = operand.expression;
    const bool in_front = may_stand_in_front(here, text) || assigned_name(here.source) == text;
    if (is_reference(text) && reads(here.source, text) > 1 && in_front && says_in_front(here, device))
      return line_fix(here, move_of(text, device) + dedented(here.source));
    auto line = move_expression(here.source, operand.expression, device);
    if (!line) return std::nullopt;
    line = expressions_moved(evidence, frame, operand, std::move(*line), device);
    return line_fix(here, properties_moved(evidence, frame, operand, std::move(*line), device));
  }
  if (!is_reference(name)) return std::nullopt;
  if (is_kept_and_written(evidence, frame, operand)) return moved_in_front(evidence, frame, operand, name, device);
  if (auto line = replace_read(here.source, name, fmt::format("{}.to({})", name, device))) {
    if (operand.read_again_in(frame) && !operand.on_cpu())
      if (auto back = there_and_back(here, name, *line, device)) return line_fix(here, std::move(*back));
    if (operand.read_again_in(frame) && may_stand_in_front(here, name) && says_in_front(here, device))
      return moved_in_front(evidence, frame, operand, name, device);
    line = others_moved(evidence, frame, operand, std::move(*line), device);
    return line_fix(here, properties_moved(evidence, frame, operand, std::move(*line), device));
  }
  if (auto fix = move_behind_else(here, name, device)) return fix;
  if (here.function.ends_with("<lambda>")) return move_in_lambda(here, name, device);
  if (reads(here.source, name) > 1 && may_stand_in_front(here, name) && says_in_front(here, device))
    return moved_in_front(evidence, frame, operand, name, device);
  const std::string_view container = container_of(name);
  const bool within = operand.holder_in(frame) == "within" && reads(here.source, container) == 0;
  if ((container.empty() && moves_itself(operand, frame) && reads(here.source, name) == 0) || within) {
    const std::string_view holder = within ? holder_of(holder_of(name)) : holder_of(name);
    if (within && operand.read_again_in(frame) && may_be_moved_in_front(here, holder, device))
      return line_fix(here, move_of(holder, device) + dedented(here.source));
    auto line = replace_read(here.source, holder, fmt::format("{}.to({})", holder, device));
    return line ? std::optional(line_fix(here, std::move(*line))) : std::nullopt;
  }
  if (container.empty()) return std::nullopt;
  const bool nested = name.find(']') + 1 != name.size();
  if (nested && !imports_torch(here.file)) return std::nullopt;
  const std::string moved =
      nested ? moved_nested(container, device) : container_moved(here, frame, operand, container, device);
  // `pairs` of `for a, b in pairs`, where lines below go over it, too.
  const auto reads_it = [&](const auto& statement) { return reads(statement.second, container) > 0; };
  if (nested && is_identifier(container) && may_stand_in_front(here, container) && says_in_front(here, device) &&
      std::ranges::any_of(statements_below(here, here.line), reads_it))
    return line_fix(here, fmt::format("{} = {}\n{}", container, moved, dedented(here.source)));
  if (auto line = replace_read(here.source, container, moved))
    return line_fix(here, keywords_moved(here, frame, operand, std::move(*line), device));
  return std::nullopt;
}

// `batch = batch.to(device)` in front of a line that computes with `batch.ids`, where others of the batch lie there and
// are computed with, too.
static std::optional<Fix> move_holder(const Evidence& evidence, size_t frame, const Operand& operand,
                                      const std::string& device) {
  const Frame& here = evidence.stack[frame];
  const std::string_view name = operand.name_in(frame), how = operand.holder_in(frame);
  const std::string_view holder = how == "within" ? holder_of(holder_of(name)) : holder_of(name);
  if ((how != "moves" && how != "within") || holder == "self" || !may_be_moved_in_front(here, holder, device))
    return std::nullopt;
  const auto beside = [&](const Operand& each) {
    const std::string_view own = each.name_in(frame);
    return own != name && (holder_of(own) == holder || holder_of(own) == holder_of(name));
  };
  // Of a dict within it what lines below read of it, too, has come there with it.
  const auto reads_another = [&](const auto& statement) {
    const std::string_view text = statement.second;
    const size_t at = find_variable(text, holder), end = at + holder.size();
    return at != text.npos && text.substr(end).starts_with('.') && !text.substr(at).starts_with(holder_of(name)) &&
           !says_device(text);
  };
  const bool several =
      std::ranges::any_of(operand.siblings, beside) ||
      std::ranges::any_of(evidence.operands,
                          [&](const Operand& each) { return each.device == operand.device && beside(each); }) ||
      (how == "within" && operand.on_cpu() && std::ranges::any_of(statements_below(here, here.line), reads_another));
  if (!several) return std::nullopt;
  return line_fix(here, fmt::format("{0} = {0}.to({1})\n{2}", holder, device, dedented(here.source)));
}

// … and of a dict, where lines below read what else it has: `batch[name]`.
static std::optional<Fix> move_dict(const Evidence& evidence, size_t frame, const Operand& operand,
                                    const std::string& device) {
  const Frame& here = evidence.stack[frame];
  const std::string_view name = operand.name_in(frame), dict = container_of(name), key = name.substr(dict.size());
  const bool one_step = !dict.empty() && name.find(']') + 1 == name.size() && key.find_first_of("\"'") == 1;
  if (!one_step || !(operand.on_cpu() || moves_itself(operand, frame)) || !may_be_moved_in_front(here, dict, device))
    return std::nullopt;
  const auto reads_another = [&](std::string_view text) {
    for (size_t at = find_variable(text, dict), begin = 0; at != text.npos;
         at = find_variable(text.substr(begin), dict)) {
      at += begin;
      begin = at + dict.size();
      const std::string_view rest = text.substr(begin);
      if (rest.starts_with('[') && !rest.starts_with(key) &&
          assigned_name(text) != text.substr(at, dict.size() + rest.find(']') + 1) && !says_device(text))
        return true;
    }
    return false;
  };
  const auto below = statements_below(here, here.line);
  if (!reads_another(here.source) &&
      std::ranges::none_of(below, [&](const auto& statement) { return reads_another(statement.second); }))
    return std::nullopt;
  const std::string moved = container_moved(here, frame, operand, dict, device);
  return line_fix(here, fmt::format("{} = {}\n{}", dict, moved, dedented(here.source)));
}

std::optional<Fix> move_with_siblings(const Evidence& evidence, size_t frame, const Operand& operand,
                                      const std::string& device) {
  // `data["image"].flatten(1)` is of what the dict has.
  const auto& sources = operand.computed_from;
  const bool of_one =
      !is_reference(operand.name_in(frame)) && sources.size() == 1 && sources[0].device == operand.device;
  if (auto fix = move_dict(evidence, frame, of_one ? sources[0] : operand, device)) return fix;
  if (auto fix = move_holder(evidence, frame, operand, device)) return fix;
  auto fix = move_at(evidence, frame, operand, device);
  const Frame& here = evidence.stack[frame];
  if (!fix || !says_in_front(here, device)) return fix;
  const std::string_view name = operand.name_in(frame);
  const Operand* const source = name.empty() ? only_source(operand, frame) : &operand;
  if (!source) return fix;
  // `past[0]` where `past[1]` comes next.
  const std::string_view list = container_of(name);
  const auto beside = [&](const Operand& each) { return !list.empty() && container_of(each.name_in(frame)) == list; };
  if (is_identifier(list) && !may_be_assigned(name) && may_stand_in_front(here, list) &&
      std::any_of(source->siblings.begin(), source->siblings.end(), beside)) {
    fix->code = fmt::format("{0} = tuple(value.to({1}) for value in {0})\n{2}", list, device, dedented(here.source));
    return fix;
  }
  const auto may_be_given = [&](const Operand& it) {
    const bool assigned = may_be_assigned(it.name_in(frame)) || is_of_a_dict(it, frame);
    return assigned && !it.is_parameter && operand.holder_in(frame) != "frozen" &&
           may_stand_in_front(here, it.name_in(frame));
  };
  std::string others;
  const auto moves = [&](std::string_view own) {
    return !own.empty() && fix->code.find(fmt::format("{}.to(", own)) != fix->code.npos;
  };
  // `loss(model(x), labels)`: x was given to what gave the other operand, and lies where it has to.
  const auto is_given_there = [&](std::string_view own) {
    return std::any_of(evidence.operands.begin(), evidence.operands.end(), [&](const Operand& each) {
      return each.device != operand.device && each.name_in(frame).find('(') != std::string_view::npos &&
             reads(each.name_in(frame), own) > 0;
    });
  };
  const auto add = [&](const Operand& sibling) {
    const std::string_view own = sibling.name_in(frame);
    if (own == name || is_given_there(own)) return;
    // What an object keeps may be used elsewhere, too: in the line it is moved for this call alone.
    const bool moved = !is_identifier(own) && moves(own);
    if (!moved && may_be_given(sibling) && others.find(move_of(own, device)) == others.npos)
      others += move_of(own, device);
  };
  for (const Operand& sibling : source->siblings) add(sibling);
  for (const Operand& each : evidence.operands) {
    const bool along = &each != &operand && each.device == operand.device && moves(each.name_in(frame));
    if (along) std::for_each(each.siblings.begin(), each.siblings.end(), add);
  }
  if (others.empty()) return fix;
  const bool in_front = is_kept_and_written(evidence, frame, operand) || may_be_given(operand);
  if (in_front) others = move_of(name, device) + others;
  fix->code =
      others + (in_front ? others_moved(evidence, frame, operand, dedented(here.source), device, others) : fix->code);
  return fix;
}

}  // namespace devtrace::report::verdict
