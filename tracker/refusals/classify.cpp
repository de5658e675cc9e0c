#include "tracker/refusals/classify.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <mutex>
#include <span>

#include "tracker/base/spinlock.h"
#include "tracker/refusals/pattern.h"

namespace devtrace::refusals {
namespace {

// In the table's order. What follows `catalogued` is read of errors alone that may be refusals.
enum class Says { known, without_kernel, never, wants_cpu, certain, catalogued, left_out, meta, devices, names };

struct Pattern {
  Says says;
  std::string_view text;
  KnownRefusal known;
};
constexpr Pattern kPatterns[] = {
#define PATTERN(says, text, ...) {Says::says, text, {__VA_ARGS__}},
#include "tracker/refusals/patterns.inc"
#undef PATTERN
};
static_assert(std::ranges::is_sorted(kPatterns, {}, &Pattern::says));
static_assert(std::ranges::all_of(kPatterns, [](const Pattern& each) {
  return std::ranges::count(each.text, '{') <= static_cast<ptrdiff_t>(kMostHoles);
}));

// Of longer texts the beginning is enough to say that they speak of devices, and that they are the catalogue's.
constexpr size_t kEnough = 4096, kEnoughOfCatalogued = 1000;

bool digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c));
}

bool word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

std::string_view up_to(std::string_view text, std::string_view terminators) {
  return text.substr(0, text.find_first_of(terminators));
}

bool speaks_of_devices(std::string_view text) {
  const auto is_at = [&](size_t at, std::string_view word) {
    return std::ranges::equal(text.substr(at, word.size()), word, {}, [](char c) { return c | 0x20; });
  };
  for (size_t at = 0; at < std::min(text.size(), kEnough); ++at) {
    const char first = static_cast<char>(text[at] | 0x20);  // most begin no word
    if (first == 'c' && (is_at(at, "cuda") || is_at(at, "cpu"))) return true;
    if ((first == 'd' && is_at(at, "device")) || (first == 'g' && is_at(at, "gpu"))) return true;
  }
  return false;
}

// "cuda:1", "cpu", "CUDA"; empty when `text` is no device.
std::string device_of(std::string_view text) {
  std::string name;
  for (const char c : text) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string_view kind = std::string_view(name).substr(0, name.find(':'));
  if (kind.empty() || kind.size() > 16) return {};
  if (!std::ranges::all_of(kind, [](unsigned char c) { return std::isalpha(c); })) return {};
  if (kind.size() == name.size()) return name;
  const std::string_view index = std::string_view(name).substr(kind.size() + 1);
  return !index.empty() && index.size() <= 3 && std::ranges::all_of(index, digit) ? name : std::string();
}

// Digits, or one character of the index's value and no printable one.
std::string device_of_index(std::string_view text) {
  if (!text.empty() && text.size() <= 3 && std::ranges::all_of(text, digit)) return "cuda:" + std::string(text);
  if (text.size() == 1 && static_cast<unsigned char>(text[0]) < ' ') return "cuda:" + std::to_string(text[0]);
  return {};
}

// Nothing where a hole holds no device, or no operator.
std::optional<KnownMatch> known_match(const KnownRefusal& row, const Match& match) {
  constexpr size_t kLongest = 200;
  KnownMatch known{&row, std::string(row.at), std::string(row.wanted), std::string(row.operation)};
  for (const auto& [name, text] : match) {
    if (text.size() > kLongest) return std::nullopt;
    if (name.empty()) continue;
    if (name == "index") {
      if (std::from_chars(text.data(), text.data() + text.size(), known.gradient.emplace()).ec != std::errc())
        return {};
      continue;
    }
    std::string& field = name == "operation" ? known.operation : name.starts_with("at") ? known.at : known.wanted;
    if (name == "operation")
      field = text.find(' ') == text.npos ? text : "";
    else
      field = name.ends_with('#') ? device_of_index(text) : device_of(text);
    if (field.empty()) return std::nullopt;
  }
  return known;
}

std::optional<KnownMatch> stated(const events::Refused& refusal) {
  static constexpr KnownRefusal kNothingMore{};
  if (refusal.operation.empty()) return std::nullopt;
  return KnownMatch{&kNothingMore, std::string(refusal.at), std::string(refusal.wanted),
                    std::string(refusal.operation)};
}

// "… from the 'SparseCsrCUDA' backend. … only available for these backends: [Meta, SparseCsrCPU, …]"
bool has_kernel_for_cpu(std::string backend, std::string_view backends) {
  const size_t cuda = backend.find("CUDA");
  if (cuda == std::string::npos) return false;
  backend.replace(cuda, 4, "CPU");
  while (!backends.empty()) {
    const std::string_view one = up_to(backends, ",");
    if (one == backend) return true;
    backends.remove_prefix(std::min(backends.size(), one.size() + 2));
  }
  return false;
}

// The device named at the start of `text`, and how many characters it takes.
std::pair<std::string, size_t> device_at(std::string_view text) {
  if (text.starts_with("cuda:")) {
    size_t end = 5;
    while (end < text.size() && digit(text[end])) ++end;
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

std::vector<std::string> devices_in(std::string_view text) {
  std::vector<std::string> devices;
  for (size_t at = 0; (at = text.find_first_of("ct", at)) != text.npos;) {
    const char before = at == 0 ? ' ' : text[at - 1];
    const bool begins_word = !word_character(before) && before != '.' && before != ':';
    auto [device, length] = begins_word ? device_at(text.substr(at)) : std::pair<std::string, size_t>{};
    if (length != 0 && std::ranges::count(devices, device) == 0) devices.push_back(std::move(device));
    at += std::max<size_t>(length, 1);
  }
  return devices;
}

std::span<const Pattern> rows(Says says) {
  return {std::ranges::lower_bound(kPatterns, says, {}, &Pattern::says),
          std::ranges::upper_bound(kPatterns, says, {}, &Pattern::says)};
}

// Whether a row that says so matches, and is accepted.
template <class Accept>
bool any(Says says, std::string_view text, const Accept& accept) {
  Match match;
  for (const Pattern& row : rows(says))
    if (matches(row.text, text, match) && accept(row, match)) return true;
  return false;
}
bool any(Says says, std::string_view text) {
  return any(says, text, [](const Pattern&, const Match&) { return true; });
}

// As the catalogue writes it: a source may break its lines elsewhere.
bool is_catalogued(std::string_view message) {
  std::string text;
  text.reserve(kEnoughOfCatalogued);
  for (const char c : message.substr(0, kEnoughOfCatalogued)) {
    if (c != ' ' && (c < '\t' || c > '\r'))
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  return any(Says::catalogued, text);
}

// Also says of `out` what decides about it.
Likelihood judge(std::string_view message, RefusalMessage& out) {
  if (out.known) return Likelihood::certain;
  const auto is_known = [&](const Pattern& row, const Match& match) {
    out.known = known_match(row.known, match);
    return out.known.has_value();
  };
  if (any(Says::known, message, is_known)) return Likelihood::certain;
  const auto lacks_kernel = [&](const Pattern&, const Match& match) {
    if (!has_kernel_for_cpu(std::string(match["backend"]), match["backends"])) return false;
    out.without_kernel = match["operator"];
    return true;
  };
  if (any(Says::without_kernel, message, lacks_kernel)) return Likelihood::possible;
  if (any(Says::never, message)) return Likelihood::none;
  const auto wants_cpu = [&](const Pattern&, const Match& match) {
    out.argument = match["argument"];
    return out.wants_cpu = true;
  };
  if (any(Says::wants_cpu, message, wants_cpu) || any(Says::certain, message)) return Likelihood::certain;
  if (speaks_of_devices(message)) return Likelihood::possible;
  out.catalogued = is_catalogued(message);
  return out.catalogued ? Likelihood::possible : Likelihood::none;
}

// The message without what it names only as an example.
std::string without_examples(std::string_view message) {
  std::string text(message);
  for (const Pattern& row : rows(Says::left_out)) {
    std::string kept;
    std::string_view rest = text;
    for (Match match; matches(row.text, rest, match); rest.remove_prefix(match.length))
      kept.append(match.begin()->text) += ' ';
    if (!kept.empty()) text = kept.append(rest);
  }
  return text;
}

void read_devices(std::string_view message, RefusalMessage& out) {
  const std::string text = without_examples(message);
  out.devices_named = devices_in(text);
  if ((out.known || out.catalogued) && any(Says::meta, text)) out.devices_named.emplace_back("meta");
  any(Says::devices, text, [&](const Pattern&, const Match& match) {
    std::vector<std::string> devices = devices_in(std::prev(match.end())->text);
    if (devices.size() != 2) return false;
    out.devices_of_operands = std::move(devices);
    return true;
  });
}

void read_names(std::string_view message, RefusalMessage& out) {
  any(Says::names, message, [&](const Pattern&, const Match& match) {
    if (out.argument.empty()) out.argument = up_to(match["argument"], " ),.\n");
    if (out.method.empty()) out.method = match["method"];
    if (out.generator_wanted.empty()) out.generator_wanted = match["generator"];
    return false;
  });
}

RefusalMessage read(const events::Refused& refusal) {
  const std::string_view message = refusal.message;
  RefusalMessage out;
  out.known = stated(refusal);
  out.likelihood = judge(message, out);
  if (!refusal.method.empty()) out.likelihood = Likelihood::certain;
  if (out.likelihood == Likelihood::none) return out;
  if (!out.known && !out.catalogued) out.catalogued = is_catalogued(message);
  read_devices(message, out);
  read_names(message, out);
  return out;
}

// What was made of the last text: PyTorch's error becomes a Python exception, and a loop is refused again and again.
// Never waited for: a fork's child may find it held.
struct LastRead {
  std::string text;
  RefusalMessage message;
};
constinit SpinLock last_lock;
constinit LastRead* last = nullptr;  // never deleted: a refusal may come while the process ends
constexpr size_t kLongestKept = 4096;

}  // namespace

RefusalMessage classify(const events::Refused& refusal) {
  const bool text_alone = refusal.operation.empty() && refusal.method.empty();
  if (!text_alone || refusal.message.size() > kLongestKept || !last_lock.try_lock()) return read(refusal);
  const std::lock_guard hold(last_lock, std::adopt_lock);
  if (!last) last = new LastRead;
  if (last->text != refusal.message) *last = LastRead{std::string(refusal.message), read(refusal)};
  return last->message;
}

}  // namespace devtrace::refusals
