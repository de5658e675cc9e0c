#include "tracker/refusals/recent_messages.h"

#include <algorithm>
#include <cctype>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tracker/base/spinlock.h"
#include "tracker/python/python_api.h"

namespace devtrace::refusals {
namespace {

constexpr size_t kShortest = 16, kLongest = 300;  // of a text that is told again in others

// Of a C++ error Python is told what stands before a NUL: some messages have an index as a character.
std::string_view first_line(std::string_view message) {
  message = message.substr(0, message.find('\0'));
  return message.substr(0, message.find('\n')).substr(0, kLongest);
}

// "torch.cuda.FloatTensor" for "CUDAFloatType"; empty for every other word.
std::string python_type(std::string_view word) {
  std::string name = "torch.";
  if (!word.ends_with("Type")) return {};
  word.remove_suffix(4);
  for (const auto& [prefix, package] : {std::pair{"Sparse", "sparse."}, {"CUDA", "cuda."}, {"CPU", ""}}) {
    if (!word.starts_with(prefix)) continue;
    word.remove_prefix(std::string_view(prefix).size());
    if (word.empty()) return {};
    name += package;
    if (prefix[0] != 'C') continue;
    return name.append(word) + "Tensor";
  }
  return {};
}

// As PyTorch words a C++ error for Python: with Python's names for the types of tensors.
std::string for_python(std::string_view message) {
  std::string text;
  while (!message.empty()) {
    size_t end = 0;
    while (end < message.size() && std::isalnum(static_cast<unsigned char>(message[end]))) ++end;
    const std::string_view word = message.substr(0, end);
    const std::string type = python_type(word);
    text += type.empty() ? std::string(word) : type;
    message.remove_prefix(end);
    if (message.empty()) break;
    text += message[0];
    message.remove_prefix(1);
  }
  return text;
}

SpinLock lock;
RecentMessages* recent = nullptr;  // under lock; leaked: hooks run after static destructors

RecentMessages& current() {
  if (!recent) recent = new RecentMessages;
  return *recent;
}

bool runs_in(const std::vector<stacks::PythonFrame>& frames, const stacks::PythonFrame& function) {
  return std::any_of(frames.begin(), frames.end(), [&](const stacks::PythonFrame& each) {
    return each.file == function.file && each.function == function.function;
  });
}

}  // namespace

void RecentMessages::add(std::string_view message, bool in_python, stacks::StackId stack) {
  const std::string text = in_python ? std::string(first_line(message)) : for_python(first_line(message));
  if (text.size() < kShortest) return;
  for (Entry& entry : entries_) {
    if (entry.text != text || entry.in_python != in_python) continue;
    entry.stack = stack;
    entry.found = false;
    return;
  }
  entries_[next_] = {text, in_python, stack, false};
  next_ = (next_ + 1) % entries_.size();
}

bool RecentMessages::repeats(std::string_view message, How how) const {
  const std::string_view own = first_line(message);
  for (const Entry& entry : entries_) {
    if (entry.text.empty() || message.find(entry.text) == message.npos) continue;
    if (own != entry.text || how == How::while_handling || (how == How::in_python && !entry.in_python)) return true;
  }
  return false;
}

void RecentMessages::found(std::string_view message) {
  const std::string in_python(first_line(message)), in_cpp = for_python(first_line(message));
  for (Entry& entry : entries_)
    if (!entry.text.empty() && entry.text == (entry.in_python ? in_python : in_cpp)) entry.found = true;
}

stacks::StackId RecentMessages::raised_at(std::string_view handled) const {
  const std::string_view text = first_line(handled);
  for (const Entry& entry : entries_)
    if (entry.found && entry.text == text) return entry.stack;
  return 0;
}

namespace recent_messages {

Repetition repetition_of(const events::Refused& refusal) {
  using How = RecentMessages::How;
  const bool in_python = refusal.raised == events::Raised::in_python;
  const python::Api* const api = in_python ? python::api() : nullptr;
  const std::optional<std::string> handled = api ? python::handled_exception(*api) : std::nullopt;
  const How how = !in_python ? How::thrown : handled ? How::while_handling : How::in_python;
  const stacks::StackId here = stacks::capture_python();
  stacks::StackId before = 0;
  {
    const std::lock_guard hold(lock);
    if (refusal.raised != events::Raised::checked && current().repeats(refusal.message, how)) return Repetition::same;
    if (handled) before = current().raised_at(*handled);
    current().add(refusal.message, in_python, here);
  }
  if (before == 0 || here == 0) return Repetition::none;
  const std::vector<stacks::PythonFrame> frames = stacks::resolve(here);
  return !frames.empty() && runs_in(stacks::resolve(before), frames[0]) ? Repetition::rephrased : Repetition::none;
}

void was_found(const events::Refused& refusal) {
  const std::lock_guard hold(lock);
  current().found(refusal.message);
}

void before_fork() {
  lock.lock();
}

void after_fork(bool child) {
  if (child) recent = nullptr;  // the parent's findings are the parent's
  lock.unlock();
}

}  // namespace recent_messages
}  // namespace devtrace::refusals
