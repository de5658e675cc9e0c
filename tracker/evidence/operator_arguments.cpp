#include "tracker/evidence/operator_arguments.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "binary/elf/loaded_objects.h"
#include "common/text.h"
#include "tracker/evidence/operation.h"
#include "tracker/evidence/source/prologue.h"
#include "tracker/interface/platform.h"
#include "tracker/python/safe_memory.h"
#include "tracker/stacks/native/saved_registers.h"

namespace devtrace::evidence {
namespace {

constexpr char kLibrary[] = "libtorch_cpu.so";
constexpr size_t kPrologue = 256;
constexpr size_t kMostListed = 64;
constexpr size_t kMostOperators = 8;

// What stands between commas outside of brackets.
std::vector<std::string_view> parts(std::string_view text) {
  std::vector<std::string_view> found;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::strchr("(<[{", text[i])) ++depth;
    if (std::strchr(")>]}", text[i])) --depth;
    if (text[i] != ',' || depth > 0) continue;
    found.push_back(trimmed(text.substr(start, i - start)));
    start = i + 1;
  }
  if (start < text.size()) found.push_back(trimmed(text.substr(start)));
  return found;
}

// The parameters of "at::_ops::add_Tensor::call(at::Tensor const&, …)".
std::vector<std::string_view> parameter_types(std::string_view function) {
  const size_t open = function.find(
      '(', function.find("::call") != function.npos ? function.find("::call") : function.find("::redispatch"));
  if (open == function.npos || !function.ends_with(')')) return {};
  return parts(function.substr(open + 1, function.size() - open - 2));
}

// Which of a schema's parameters are tensors, or lists of them.
std::vector<bool> tensors_of(const Schema& schema) {
  std::vector<bool> found;
  for (const std::string& type : schema.types) found.push_back(type.starts_with("Tensor"));
  return found;
}

// The schema that begins so and has such parameters, in the constants of PyTorch's library: its registration of
// operators has every one as a text. The linker keeps a text that another one ends with as that one's end; what stands
// behind a zero, or behind "aten::", is rather it.
std::optional<Schema> schema_that_begins(const std::string& begin, const std::vector<bool>& tensors) {
  std::optional<Schema> found;
  int rank = 3;
  elf::for_each_object([&](const elf::Object& object) {
    if (!object.file().starts_with(kLibrary)) return false;
    for (const ElfW(Phdr) & segment : object.segments) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & (PF_R | PF_W)) != PF_R) continue;
      const auto* start = reinterpret_cast<const char*>(object.base + segment.p_vaddr);
      const char* const end = start + segment.p_filesz;
      for (const char* at = start; at < end && rank > 0;) {
        const auto* hit =
            static_cast<const char*>(::memmem(at, static_cast<size_t>(end - at), begin.data(), begin.size()));
        if (!hit) break;
        at = hit + 1;
        const int rank_here = hit == start || hit[-1] == '\0' ? 0 : hit[-1] == ':' ? 1 : 2;
        const std::string_view text(hit, ::strnlen(hit, std::min<size_t>(4096, static_cast<size_t>(end - hit))));
        if (rank_here >= rank || text.find(") ->") == text.npos) continue;
        Schema schema = parse_schema(text);
        if (tensors_of(schema) != tensors) continue;
        found = std::move(schema);
        rank = rank_here;
      }
    }
    return true;
  });
  return found;
}

// The structure add_Tensor is the operator add with the overload Tensor; sum_dim_IntList is sum, dim_IntList.
Schema schema_of(const std::string& structure, const std::vector<std::string_view>& types) {
  std::vector<bool> tensors;
  for (const std::string_view type : types)
    if (type != "c10::DispatchKeySet") tensors.push_back(passing_of(type).holds != Passing::Holds::other);
  if (auto schema = schema_that_begins(structure + "(", tensors)) return *schema;
  for (size_t end = structure.rfind('_'); end != std::string::npos && end != 0; end = structure.rfind('_', end - 1))
    if (auto schema = schema_that_begins(structure.substr(0, end) + "." + structure.substr(end + 1) + "(", tensors))
      return *schema;
  return {structure, {}, {}, {}};
}

class ArgumentReader {
 public:
  ArgumentReader() {
    const auto look_up = [](auto& target, const char* library, const char* symbol) {
      if (platform().symbol)
        target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(platform().symbol(library, symbol));
    };
    look_up(get_type_, kLibrary, "aoti_torch_get_device_type");
    look_up(get_index_, kLibrary, "aoti_torch_get_device_index");
  }

  bool usable() const { return memory_.usable() && tensors_.reads_handles() && get_type_ && get_index_; }

  uintptr_t word(uintptr_t address) const {
    uintptr_t value = 0;
    return address % 8 == 0 && address >= 4096 && memory_.read(address, value) ? value : 0;
  }

  // The tensor in the at::Tensor at that address. `is_one`: there is an at::Tensor, be it without memory.
  std::optional<OperatorArgument> tensor_at(uintptr_t handle, bool& is_one) const {
    const uintptr_t implementation = word(handle);
    const uintptr_t begins = implementation ? word(implementation) : 0;
    is_one = begins != 0 && (begins == tensors_.implementation() || begins == undefined_);
    if (begins == 0 || begins != tensors_.implementation()) return std::nullopt;
    auto read = tensors_.read_handle(reinterpret_cast<const void*>(handle));
    int32_t type = -1, index = -1;
    if (!read || get_type_(reinterpret_cast<const void*>(handle), &type) ||
        get_index_(reinterpret_cast<const void*>(handle), &index))
      return std::nullopt;
    if (type != 0 && type != 1) return std::nullopt;
    OperatorArgument found;
    found.identity = implementation;
    found.device = type == 0 ? "cpu" : "cuda:" + std::to_string(index);
    found.tensor = std::move(*read);
    return found;
  }

  // The tensors of `count` handles that follow each other.
  void add_all(uintptr_t first, size_t count, size_t stride, std::vector<OperatorArgument>& found) const {
    for (size_t i = 0; i < std::min(count, kMostListed); ++i) {
      bool is_one = false;
      auto one = tensor_at(first + i * stride, is_one);
      if (!one) continue;
      one->element = static_cast<int>(i);
      found.push_back(std::move(*one));
    }
  }

  // c10::List: a counted object that holds a vector of IValues, of 16 bytes each, whose first word is the tensor.
  void add_list(uintptr_t list, std::vector<OperatorArgument>& found) const {
    const uintptr_t object = word(list);
    const uintptr_t begin = word(object + 16), end = word(object + 24);
    if (begin != 0 && end >= begin && (end - begin) % 16 == 0) add_all(begin, (end - begin) / 16, 16, found);
  }

 private:
  static uintptr_t table(const char* library, const char* symbol) {
    const void* found = platform().symbol ? platform().symbol(library, symbol) : nullptr;
    return found ? reinterpret_cast<uintptr_t>(found) + 2 * sizeof(void*) : 0;
  }

  python::SafeMemory memory_;
  TensorReader tensors_;
  uintptr_t undefined_ = table("libc10.so", "_ZTVN3c1019UndefinedTensorImplE");
  int32_t (*get_type_)(const void*, int32_t*) = nullptr;
  int32_t (*get_index_)(const void*, int32_t*) = nullptr;
};

// The values of a call's parameters: words that came in registers, and those behind the return address.
class Arguments {
 public:
  Arguments(const ArgumentReader& reader, const KeptArguments& kept, const stacks::SavedRegisters& saved,
            int first_register)
      : reader_(reader), kept_(kept), saved_(saved), next_(first_register) {}

  // The parameter's words; 0 for one that is not known. `places`: all that the first of them may be.
  std::vector<uintptr_t> take(const Passing& passing, std::vector<uintptr_t>& places) {
    std::vector<uintptr_t> words;
    const bool fits = passing.stack_words == 0 && next_ + passing.registers <= 6;
    const int count = passing.stack_words != 0 ? passing.stack_words : passing.registers;
    for (int i = 0; i < count; ++i) {
      const auto all = fits ? in_register(next_ + i) : std::vector<uintptr_t>{on_stack(stack_ + i)};
      words.push_back(all.empty() ? 0 : all.front());
      if (i == 0) places = all;
    }
    if (fits)
      next_ += passing.registers;
    else
      stack_ += count;
    return words;
  }

 private:
  std::vector<uintptr_t> in_register(int number) const {
    std::vector<uintptr_t> found;
    for (const ValuePlace& place : kept_[static_cast<size_t>(number)]) {
      const uintptr_t base = saved_.value[static_cast<size_t>(place.base)];
      const uintptr_t value = place.in_memory ? reader_.word(base + static_cast<intptr_t>(place.displacement)) : base;
      if (value != 0) found.push_back(value);
    }
    return found;
  }
  uintptr_t on_stack(int index) const {
    return saved_.caller_sp ? reader_.word(saved_.caller_sp + 8 * static_cast<uintptr_t>(index)) : 0;
  }

  const ArgumentReader& reader_;
  const KeptArguments& kept_;
  const stacks::SavedRegisters& saved_;
  int next_;
  int stack_ = 0;
};

// One reading of the call's words; nothing where a parameter that must be a tensor is none.
std::optional<std::vector<OperatorArgument>> read_as(const ArgumentReader& reader, Arguments arguments,
                                                     const std::vector<std::string_view>& types, size_t first) {
  std::vector<OperatorArgument> found;
  size_t missing = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const Passing passing = passing_of(types[i]);
    std::vector<uintptr_t> places;
    const std::vector<uintptr_t> words = arguments.take(passing, places);
    const size_t before = found.size();
    bool is_one = false;
    switch (passing.holds) {
      case Passing::Holds::other:
        break;
      case Passing::Holds::tensor: {
        // A place may have been given another value since: the first that still leads to a tensor counts.
        bool known = false;
        for (const uintptr_t word : places) {
          auto one = reader.tensor_at(word, is_one);
          // A tensor of another kind (sparse, nested) is one all the same, of which nothing is said.
          known = known || is_one || reader.word(reader.word(word)) != 0;
          if (!one) continue;
          found.push_back(std::move(*one));
          break;
        }
        if (!known) ++missing;
        break;
      }
      case Passing::Holds::optional_tensor:
        if ((reader.word(words[0] + 8) & 0xff) == 1)
          if (auto one = reader.tensor_at(words[0], is_one)) found.push_back(std::move(*one));
        break;
      case Passing::Holds::tensors:
        reader.add_all(words[0], words[1], 8, found);
        break;
      case Passing::Holds::list_of_tensors:
        reader.add_list(words[0], found);
        break;
      case Passing::Holds::list_reference: {  // the list itself, a boxed one, or what an iterator brought
        const auto tag = static_cast<uint32_t>(reader.word(words[0] + 16));
        if (tag == 0)
          reader.add_all(reader.word(words[0]), reader.word(words[0] + 8), 8, found);
        else if (tag == 1)
          reader.add_list(reader.word(words[0]), found);
        break;
      }
    }
    for (size_t n = before; n < found.size(); ++n) found[n].position = i - first;
  }
  if (missing > 0) return std::nullopt;
  return found;
}

std::vector<OperatorArgument> arguments_of(const ArgumentReader& reader, const stacks::NativeFrame& frame) {
  const auto* code =
      static_cast<const uint8_t*>(platform().symbol ? platform().symbol(kLibrary, frame.mangled.c_str()) : nullptr);
  const auto saved = stacks::registers_at(frame.address + 1);
  std::vector<std::string_view> types = parameter_types(frame.function);
  if (!code || !saved || types.empty()) return {};
  const auto at = reinterpret_cast<uintptr_t>(code);
  if (frame.address < at) return {};
  const KeptArguments kept = kept_arguments(code, std::min<size_t>(kPrologue, frame.address - at));
  const size_t first = types[0] == "c10::DispatchKeySet" ? 1 : 0;
  // A tensor that is returned is written where the first register says; what returns a reference has no such word.
  for (const int result : {1, 0})
    if (auto found = read_as(reader, Arguments(reader, kept, *saved, result), types, first)) return std::move(*found);
  return {};
}

}  // namespace

Schema parse_schema(std::string_view text) {
  Schema schema;
  const size_t open = text.find('(');
  std::string_view name = text.substr(0, open);
  if (name.starts_with("aten::")) name.remove_prefix(6);
  const size_t dot = name.find('.');
  schema.operation = name.substr(0, dot);
  if (dot != name.npos) schema.overload = name.substr(dot + 1);
  const size_t close = text.rfind(") ->");
  if (open == text.npos || close == text.npos || close < open) return schema;
  for (std::string_view part : parts(text.substr(open + 1, close - open - 1))) {
    if (part == "*") continue;
    part = trimmed(part.substr(0, part.find('=')));
    schema.parameters.emplace_back(part.substr(part.rfind(' ') + 1));
    schema.types.emplace_back(part.substr(0, part.rfind(' ')));
  }
  return schema;
}

Passing passing_of(std::string_view type) {
  using Holds = Passing::Holds;
  if (type == "at::Tensor const&" || type == "at::Tensor&") return {1, 0, Holds::tensor};
  if (type.ends_with('&')) {
    if (type.find("optional<at::Tensor>") != type.npos)
      return {1, 0, type.find("List") != type.npos ? Holds::list_of_tensors : Holds::optional_tensor};
    if (type.find("List<at::Tensor>") != type.npos || type.find("ListRef<at::OptionalTensorRef>") != type.npos)
      return {1, 0, Holds::list_of_tensors};
    if (type.find("IListRef<at::Tensor>") != type.npos) return {1, 0, Holds::list_reference};
    return {1, 0, Holds::other};
  }
  if (type == "c10::ArrayRef<at::Tensor>") return {2, 0, Holds::tensors};
  if (type == "c10::IListRef<at::Tensor>") return {1, 0, Holds::list_reference};  // no plain object: by its address
  if (type.starts_with("c10::ArrayRef<")) return {2, 0, Holds::other};
  if (type.find("OptionalArrayRef<") != type.npos || type.find("optional<c10::ArrayRef<") != type.npos ||
      type.find("optional<std::basic_string_view<") != type.npos ||
      type.find("optional<c10::basic_string_view<") != type.npos)
    return {0, 3, Holds::other};
  if (type.find("optional<long>") != type.npos || type.find("basic_string_view<") != type.npos)
    return {2, 0, Holds::other};
  if (type == "double" || type == "float") return {0, 0, Holds::other};
  return {1, 0, Holds::other};  // numbers, flags, and objects by their address; an optional double has one word for it
}

std::vector<OperatorCall> operator_calls(const std::vector<stacks::NativeFrame>& frames) {
  std::vector<OperatorCall> calls;
  const ArgumentReader reader;
  if (!reader.usable()) return calls;
  std::string last;
  for (const stacks::NativeFrame& frame : frames) {
    const std::string structure = operation_of(frame.function);
    if (structure.empty() || frame.mangled.empty()) continue;
    if (structure != last) {
      if (calls.size() == kMostOperators) break;
      Schema schema = schema_of(structure, parameter_types(frame.function));
      calls.push_back({std::move(schema.operation), std::move(schema.overload), std::move(schema.parameters), {}});
      last = structure;
    }
    // An operator is on the stack once for each of its dispatches: what one has given up another still keeps.
    OperatorCall& call = calls.back();
    for (OperatorArgument& each : arguments_of(reader, frame)) {
      const auto same = [&](const OperatorArgument& other) {
        return other.position == each.position && other.element == each.element;
      };
      if (std::none_of(call.tensors.begin(), call.tensors.end(), same)) call.tensors.push_back(std::move(each));
    }
    std::stable_sort(call.tensors.begin(), call.tensors.end(), [](const auto& a, const auto& b) {
      return std::pair(a.position, a.element) < std::pair(b.position, b.element);
    });
    for (OperatorArgument& each : call.tensors)
      if (each.position < call.parameters.size()) each.name = call.parameters[each.position];
  }
  return calls;
}

}  // namespace devtrace::evidence
