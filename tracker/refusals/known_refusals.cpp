#include "tracker/refusals/known_refusals.h"

#include <algorithm>
#include <cctype>

namespace devtrace::refusals {
namespace {

constexpr char kNumpy[] = "torch.Tensor.numpy", kLoad[] = "torch.load";
constexpr char kPin[] = "torch.Tensor.pin_memory", kEvent[] = "torch.cuda.Event.record";
constexpr char kGrad[] = "torch.Tensor.grad";
constexpr char kNotPinned[] = "cannot pin '{}' only ";

// To know one more: a row. The first that matches decides.
constexpr KnownRefusal kRows[] = {
    {"can't convert {at} device type tensor to numpy", kNumpy, "", "cpu", "", ""},
    {"can't convert {at} tensor to numpy", kNumpy, "", "cpu", "", ""},  // up to 1.9
    {"Attempting to deserialize object on CUDA device {at#} but ", kLoad, "", "", "", "", true},
    {"Attempting to deserialize object on a CUDA device but ", kLoad, "cuda", "cpu", "", "", true},
    {"module must have its parameters and buffers on device {wanted} (device_ids[0]) but found one of them on device: "
     "{at}",
     "", "", "", "t", "module"},
    {"Broadcast function not implemented for CPU tensors", "", "cpu", "cuda", "inputs", ""},
    {"Gather function not implemented for CPU tensors", "", "cpu", "cuda", "inputs", ""},
    {"reduce_add expects all inputs to be on GPUs, but input {} is on CPU", "", "cpu", "cuda", "inp", "inputs"},
    {"cannot pin 'torch.{at}.{}Tensor' only ", kPin, "", "cpu", "", ""},
    {"cannot pin 'torch.storage.{}' only ", "torch.UntypedStorage.pin_memory", "", "cpu", "", ""},
    {kNotPinned, kPin, "cuda", "cpu", "", ""},
    {"batch_sizes should always be on CPU", "torch.nn.utils.rnn.PackedSequence", "cuda", "cpu", "batch_sizes",
     "batch_sizes"},
    {"Attempted to set the storage of a tensor on device \"{wanted}\" to a storage on different device \"{at}\"",
     "torch.Tensor.set_", "", "", "", "source"},
    {"Cannot copy out of meta tensor", "", "meta", "", "", ""},
    {"Tensor.item() cannot be called on meta tensors", "torch.Tensor.item", "meta", "", "", ""},
    {"Tensor on device {at} is not on the expected device {wanted}!", "", "", "", "", ""},
    {"Attempting to copy from device {at} to device {wanted}, but cross-device copies are not allowed!", "", "", "", "",
     ""},
    {"Unhandled FakeTensor Device Propagation for {operation}, found two different devices {wanted}, {at}", "", "", "",
     "", ""},
    {"Can't export tensors on a different CUDA device index. Expected: {at#}. Current device: {wanted#}.",
     "torch.Tensor.__dlpack__", "", "", "self", ""},
    {"CUDA error: invalid device ordinal", "", "", "", "", "", true, true},
    {"CUDA error: invalid resource handle", "", "", "", "", "", true, false, true},
    {"Invalid device id", "", "", "", "", "", true, true},
    {"Invalid peer device id", "", "", "", "", "", true, true},
    {"Invalid device argument {at#}: did you call init?", "", "", "", "", "", true, true},
    {"cufft_{}: expected 0 <= device_index < {}, but got device_index={at#}", "", "", "", "", "", true, true},
    {"cufft_plan_cache: expected 0 <= device index < {}, but got device with index {at#}", "", "", "", "", "", true,
     true},
    {"Event device type {wanted} does not match recording stream's device type {at}.", "torch.Event.record", "", "", "",
     "stream"},
    {"Event device {wanted#} does not match recording stream's device {at#}", kEvent, "", "", "", "stream"},
    {"Event device index {wanted#} does not match recording stream's device index {at#}", kEvent, "", "", "", "stream"},
    {"device type {wanted} does not match device type of out parameter ({at})", "", "", "", "", "out"},
    {"Expected out tensor to have device {wanted}, but got {at} instead", "", "", "", "", "out"},
    {"invalid gradient at index {} - expected device {wanted} but got {at}", "", "", "", "", "gradient"},
    {"Function {operation} returned an invalid gradient at index {} - expected device {wanted} but got {at}", "", "",
     "", "", "gradient"},
    {"attempting to assign a gradient with device type '{at}' to a tensor with device type '{wanted}'", kGrad, "", "",
     "", "grad"},
    {"attempting to assign a gradient located on device with index '", kGrad, "", "", "", "grad"},
    {"Input and parameter tensors are not at the same device, found input tensor at {at} and parameter tensor at "
     "{wanted}",
     "", "", "", "", "input"},
    {"Expected scalars to be on CPU, got {at} instead", "", "", "cpu", "", "scalars"},
    {"_share_fd_: only available on CPU", "", "", "cpu", "", ""},
    {"_share_filename_: only available on CPU", "", "", "cpu", "", ""},
    {"tensor_split: if indices_or_sections is a tensor it must be on the CPU, but received one on {at}", "", "", "cpu",
     "", "indices_or_sections"},
    {"cannot repeat_interleave a meta tensor without output_size", "", "meta", "", "", ""},
    {"from_buffer: Not available for CUDA storage", "", "", "cpu", "", "", true},
    {"FSDP parameters should be materialized from {at} device before training", "", "", "cuda", "", ""},
    {"{} is on the meta device, we need a `value` to put in on {wanted}.", "", "meta", "", "", ""},
    {"You can't save the model since some parameters are on the meta device", "", "meta", "", "", ""},
    {"You are using `from_pretrained` with a meta device context manager", "", "meta", "", "", "", true},
    {"Pointer argument (at {}) cannot be accessed from Triton (cpu tensor?)", "", "cpu", "cuda", "", ""},
    {"Pointer argument cannot be accessed from Triton (cpu tensor?)", "", "cpu", "cuda", "", ""},
};

bool digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c));
}

// "cuda:1", "cpu", "CUDA"; empty when `text` is no device.
std::string device(std::string_view text) {
  std::string name;
  for (const char c : text) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string_view kind = std::string_view(name).substr(0, name.find(':'));
  if (kind.empty() || kind.size() > 16) return {};
  if (!std::all_of(kind.begin(), kind.end(), [](unsigned char c) { return std::isalpha(c); })) return {};
  if (kind.size() == name.size()) return name;
  const std::string_view index = std::string_view(name).substr(kind.size() + 1);
  return !index.empty() && index.size() <= 3 && std::all_of(index.begin(), index.end(), digit) ? name : std::string();
}

// As a character of that value, and no printable one.
bool is_index(char c) {
  return static_cast<unsigned char>(c) < ' ';
}

std::string device_of_index(std::string_view text) {
  if (!text.empty() && text.size() <= 3 && std::all_of(text.begin(), text.end(), digit))
    return "cuda:" + std::string(text);
  if (text.size() == 1 && is_index(text[0])) return "cuda:" + std::to_string(text[0]);
  return {};
}

bool take(std::string_view name, std::string_view text, KnownMatch& out) {
  if (name.empty()) return true;
  if (name == "operation") {
    out.operation = text;
    return !text.empty() && text.size() < 200 && text.find(' ') == text.npos;
  }
  std::string& target = name.starts_with("at") ? out.at : out.wanted;
  target = name.ends_with('#') ? device_of_index(text) : device(text);
  return !target.empty();
}

// Where nothing follows in the pattern, a device ends with its own characters.
size_t end_of_device(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == ':')) ++end;
  return end == 0 && !text.empty() && is_index(text[0]) ? 1 : end;
}

bool matches(std::string_view pattern, std::string_view message, KnownMatch& out) {
  while (!pattern.empty()) {
    const size_t brace = pattern.find('{');
    const std::string_view literal = pattern.substr(0, brace);
    if (!message.starts_with(literal)) return false;
    message.remove_prefix(literal.size());
    if (brace == pattern.npos) return true;
    const size_t close = pattern.find('}', brace);
    const std::string_view name = pattern.substr(brace + 1, close - brace - 1);
    pattern.remove_prefix(close + 1);
    const std::string_view next = pattern.substr(0, pattern.find('{'));
    const size_t end = next.empty() ? end_of_device(message) : message.find(next);
    if (end == message.npos || end > 200 || !take(name, message.substr(0, end), out)) return false;
    message.remove_prefix(end);
  }
  return true;
}

constexpr std::string_view kCatalogued[] = {
#include "tracker/refusals/catalogued_messages.inc"
};

bool begins_with(std::string_view message, std::string_view pattern) {
  constexpr std::string_view kHole = "…";
  while (true) {
    const size_t hole = pattern.find(kHole);
    const std::string_view literal = pattern.substr(0, hole);
    if (!message.starts_with(literal)) return false;
    if (hole == pattern.npos) return true;
    message.remove_prefix(literal.size());
    pattern.remove_prefix(hole + kHole.size());
    const size_t next = message.find(pattern.substr(0, pattern.find(kHole)));
    if (next == message.npos) return false;
    message.remove_prefix(next);
  }
}

}  // namespace

bool is_catalogued(std::string_view message) {
  // As the catalogue writes it: a source may break its lines elsewhere.
  constexpr size_t kEnough = 1000;
  std::string text;
  for (const char c : message.substr(0, kEnough)) {
    const bool space = std::isspace(static_cast<unsigned char>(c));
    if (!space)
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  return std::any_of(std::begin(kCatalogued), std::end(kCatalogued),
                     [&](std::string_view pattern) { return begins_with(text, pattern); });
}

std::optional<KnownMatch> known_refusal(std::string_view message) {
  for (const KnownRefusal& row : kRows) {
    KnownMatch match{&row, std::string(row.at), std::string(row.wanted), std::string(row.operation)};
    if (matches(row.pattern, message, match)) return match;
  }
  return std::nullopt;
}

std::optional<KnownMatch> stated_refusal(const events::Refused& refusal) {
  static constexpr KnownRefusal kNothingMore{};
  if (refusal.operation.empty()) return std::nullopt;
  return KnownMatch{&kNothingMore, std::string(refusal.at), std::string(refusal.wanted),
                    std::string(refusal.operation)};
}

}  // namespace devtrace::refusals
