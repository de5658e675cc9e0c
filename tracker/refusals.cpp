#include "tracker/refusals.h"

#include <algorithm>
#include <cctype>

namespace devtrace::refusals {
namespace {

// Phrases of PyTorch's device checks, over all versions read. A message with one of them is a refusal whatever the
// operands look like.
constexpr std::string_view kCertain[] = {
    "on the same device",  // all the checks of the dispatcher, TensorIterator, index_put, masked_*, block_diag, …
    "on same device",      //
    "to be in the same device",     //
    "indices should be either on",  // check_indices_on_cpu_or_selfdevice
    "tensors to be on the same CUDA device",
    "device type for generator but found",  // check_generator
};

// Errors that speak of devices and are never about mixing them. Looked for at the start of the message.
constexpr std::string_view kNever[] = {
    "CUDA out of memory", "CUDA error",         "CUDA driver error", "Found no NVIDIA driver",
    "No CUDA GPUs",       "CUDA unknown error", "cuDNN error",
};

constexpr std::string_view kDeviceWords[] = {"device", "cuda", "cpu", "gpu"};

bool word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

bool contains_ignoring_case(std::string_view text, std::string_view lower_case_word) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return std::search(text.begin(), text.end(), lower_case_word.begin(), lower_case_word.end(), same) != text.end();
}

std::string_view up_to(std::string_view text, std::string_view terminators) {
  return text.substr(0, text.find_first_of(terminators));
}

// The device named at the start of `text`, and how many characters it takes.
std::pair<std::string, size_t> device_at(std::string_view text) {
  if (text.starts_with("cuda:")) {
    size_t end = 5;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    if (end > 5) return {std::string(text.substr(0, end)), end};
  }
  if (text.starts_with("cpu") && (text.size() == 3 || !word_character(text[3]))) return {"cpu", 3};
  if (text.starts_with("cuda") && (text.size() == 4 || !word_character(text[4]))) return {"cuda", 4};
  if (text.starts_with("torch.")) {
    const std::string_view type = up_to(text, " )(,;");
    if (type.ends_with("Tensor")) return {type.starts_with("torch.cuda.") ? "cuda" : "cpu", type.size()};
  }
  return {};
}

std::string word_after(std::string_view message, std::string_view phrase) {
  const size_t at = message.find(phrase);
  if (at == std::string_view::npos) return {};
  return std::string(up_to(message.substr(at + phrase.size()), " ),.\n"));
}

}  // namespace

Likelihood judge(std::string_view message) {
  for (std::string_view prefix : kNever)
    if (message.starts_with(prefix)) return Likelihood::none;
  for (std::string_view phrase : kCertain)
    if (message.find(phrase) != std::string_view::npos) return Likelihood::certain;
  for (std::string_view word : kDeviceWords)
    if (contains_ignoring_case(message.substr(0, 4096), word)) return Likelihood::possible;
  return Likelihood::none;
}

std::vector<std::string> devices_named(std::string_view message) {
  std::vector<std::string> devices;
  for (size_t at = 0; at < message.size();) {
    const bool begins_word =
        at == 0 || (!word_character(message[at - 1]) && message[at - 1] != '.' && message[at - 1] != ':');
    auto [device, length] = begins_word ? device_at(message.substr(at)) : std::pair<std::string, size_t>{};
    if (length != 0 && std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    at += std::max<size_t>(length, 1);
  }
  return devices;
}

Checked checked_argument(std::string_view message) {
  Checked checked;
  // 2.8 and later: "but got index is on cuda:0, different from other tensors on cuda:1 (when checking argument in
  // method wrapper_…)"
  const size_t got = message.find("but got ");
  if (got != std::string_view::npos && message.find(" is on ", got) != std::string_view::npos)
    checked.argument = word_after(message, "but got ");
  // up to 2.6: "(when checking argument for argument index in method wrapper_…)"
  if (checked.argument.empty()) checked.argument = word_after(message, "argument for argument ");
  checked.method = word_after(message, "in method ");
  return checked;
}

}  // namespace devtrace::refusals
