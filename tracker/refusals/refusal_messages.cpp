#include "tracker/refusals/refusal_messages.h"

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

// Says where indices could have been, not where they are.
constexpr std::string_view kNotNamed = "either on cpu";

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

constexpr std::string_view kNoKernel = "Could not run '";

std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t at = text.find(begin);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + begin.size());
  return text.substr(0, text.find(end));
}

// "… from the 'SparseCsrCUDA' backend. … only available for these backends: [Meta, SparseCsrCPU, …]"
bool has_kernel_for_cpu(std::string_view message) {
  std::string backend(between(message, "arguments from the '", "'"));
  const size_t cuda = backend.find("CUDA");
  if (cuda == std::string::npos) return false;
  backend.replace(cuda, 4, "CPU");
  std::string_view backends = between(message, "only available for these backends: [", "]");
  while (!backends.empty()) {
    const std::string_view one = up_to(backends, ",");
    if (one == backend) return true;
    backends.remove_prefix(std::min(backends.size(), one.size() + 2));
  }
  return false;
}

bool lacks_kernel(std::string_view message) {
  return message.starts_with(kNoKernel);
}

// "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor": pack_padded_sequence and its
// like. The same check refuses a CPU tensor of another type.
constexpr std::string_view kShouldBe = " argument should be a ", kButGot = " tensor, but got ";

bool wants_cpu(std::string_view message) {
  const size_t should = message.find(kShouldBe), got = message.find(kButGot);
  if (should == message.npos || got == message.npos || got < should) return false;
  return message.substr(should, got - should).find(" CPU ") != message.npos &&
         message.substr(got).find(" cuda:") != message.npos;
}

// What a message names only to show how devices are written.
constexpr std::pair<std::string_view, std::string_view> kExamples[] = {
    {"(e.g. ", ")"}, {"(for example ", ")"}, {"Expected one of ", " device type at start of device string"}};

size_t end_of_examples(std::string_view text) {
  for (const auto& [begin, end] : kExamples)
    if (text.starts_with(begin))
      if (const size_t at = text.find(end); at != text.npos) return at + end.size();
  return 0;
}

std::vector<std::string> devices_named(std::string_view message) {
  std::vector<std::string> devices;
  for (size_t at = 0; at < message.size();) {
    if (message.substr(at).starts_with(kNotNamed)) at += kNotNamed.size();
    at += end_of_examples(message.substr(at));
    if (at >= message.size()) break;
    const bool begins_word =
        at == 0 || (!word_character(message[at - 1]) && message[at - 1] != '.' && message[at - 1] != ':');
    auto [device, length] = begins_word ? device_at(message.substr(at)) : std::pair<std::string, size_t>{};
    if (length != 0 && std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
    at += std::max<size_t>(length, 1);
  }
  return devices;
}

// "the base weight is still on the meta device": in a message of the catalogue alone, as others say much of `meta`.
bool names_meta(std::string_view message) {
  for (const std::string_view words : {"meta device", "meta-device", "device meta", "meta tensor"})
    if (contains_ignoring_case(message, words)) return true;
  return false;
}

std::vector<std::string> devices_of_operands(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
      {"found at least two devices, ", "!"}, {"but got ", " (when checking"}, {"Input type (", ") should be the same"}};
  for (const auto& [begin, end] : kPhrases) {
    std::vector<std::string> devices = devices_named(between(message, begin, end));
    if (devices.size() == 2) return devices;
  }
  return {};
}

void read_checked_argument(std::string_view message, RefusalMessage& out) {
  // 2.8 and later: "but got index is on cuda:0, different from other tensors on cuda:1 (when checking argument in
  // method wrapper_…)"
  const size_t got = message.find("but got ");
  if (got != std::string_view::npos && message.find(" is on ", got) != std::string_view::npos)
    out.argument = word_after(message, "but got ");
  // up to 2.6: "(when checking argument for argument index in method wrapper_…)"
  if (out.argument.empty()) out.argument = word_after(message, "argument for argument ");
  out.method = word_after(message, "in method ");
  out.wants_cpu = wants_cpu(message);
  if (out.wants_cpu) out.argument = between(message, "'", "'");
}

}  // namespace

Likelihood judge(std::string_view message) {
  if (known_refusal(message)) return Likelihood::certain;
  for (std::string_view prefix : kNever)
    if (message.starts_with(prefix)) return Likelihood::none;
  if (wants_cpu(message)) return Likelihood::certain;
  if (lacks_kernel(message)) return has_kernel_for_cpu(message) ? Likelihood::possible : Likelihood::none;
  for (std::string_view phrase : kCertain)
    if (message.find(phrase) != std::string_view::npos) return Likelihood::certain;
  for (std::string_view word : kDeviceWords)
    if (contains_ignoring_case(message.substr(0, 4096), word)) return Likelihood::possible;
  return is_catalogued(message) ? Likelihood::possible : Likelihood::none;
}

RefusalMessage parse(std::string_view message, Likelihood likelihood) {
  RefusalMessage parsed;
  parsed.likelihood = likelihood;
  parsed.known = known_refusal(message);
  parsed.catalogued = is_catalogued(message);
  parsed.devices_named = devices_named(message);
  if (parsed.catalogued && names_meta(message)) parsed.devices_named.emplace_back("meta");
  parsed.devices_of_operands = devices_of_operands(message);
  read_checked_argument(message, parsed);
  if (lacks_kernel(message)) parsed.without_kernel = between(message, kNoKernel, "'");
  if (message.find(" device type for generator but found") != message.npos)
    parsed.generator_wanted = between(message, "Expected a '", "'");
  return parsed;
}

}  // namespace devtrace::refusals
