#include "tracker/stacks/stack_depot.h"

#include <cstring>

#include "tracker/stacks/hash.h"

namespace devtrace::stacks {

uint32_t StackDepot::add_text(std::string_view content, Arena& arena) {
  const uint64_t hash = hash_bytes(content.data(), content.size());
  if (const uint32_t known = text_index_.find(hash, [&](uint32_t number) { return text(number) == content; })) {
    return known;
  }
  char* bytes = nullptr;
  if (!content.empty()) {
    bytes = static_cast<char*>(arena.allocate(content.size(), 1));
    if (bytes == nullptr) return 0;
    std::memcpy(bytes, content.data(), content.size());
  }
  const uint32_t number = texts_.add({bytes, static_cast<uint32_t>(content.size())}, arena);
  if (number == 0) return 0;
  const auto hash_of = [this](uint32_t n) { return hash_bytes(texts_[n].bytes, texts_[n].size); };
  return text_index_.add(hash, number, arena, hash_of) ? number : 0;
}

uint32_t StackDepot::add_frame(std::string_view file, std::string_view function, int line, Arena& arena) {
  const FrameItem item{add_text(file, arena), add_text(function, arena), line};
  if (item.file == 0 || item.function == 0) return 0;
  const auto hash_item = [](const FrameItem& f) {
    return hash_pair(uint64_t{f.file} << 32 | f.function, static_cast<uint64_t>(f.line));
  };
  const uint64_t hash = hash_item(item);
  const auto same = [&](uint32_t number) {
    const FrameItem& other = frames_[number];
    return other.file == item.file && other.function == item.function && other.line == item.line;
  };
  if (const uint32_t known = frame_index_.find(hash, same)) return known;
  const uint32_t number = frames_.add(item, arena);
  if (number == 0) return 0;
  return frame_index_.add(hash, number, arena, [&](uint32_t n) { return hash_item(frames_[n]); }) ? number : 0;
}

// torch.nn.Module.__call__'s, whatever class is called.
bool StackDepot::calls_module(const FrameItem& frame) const {
  return text(frame.file).ends_with("torch/nn/modules/module.py") && text(frame.function).ends_with("_call_impl");
}

uint32_t StackDepot::add_call(uint32_t caller, uint32_t frame, Arena& arena) {
  DEVTRACE_ASSERT(caller <= nodes_.count() && frame != 0 && frame <= frames_.count());
  const auto hash_node = [](const Node& node) { return hash_pair(node.caller, node.frame); };
  const Node node{caller, frame, in_module_call(caller) || calls_module(frames_[frame])};
  const uint64_t hash = hash_node(node);
  const auto same = [&](uint32_t number) { return nodes_[number].caller == caller && nodes_[number].frame == frame; };
  if (const uint32_t known = node_index_.find(hash, same)) return known;
  const uint32_t number = nodes_.add(node, arena);
  if (number == 0) return 0;
  return node_index_.add(hash, number, arena, [&](uint32_t n) { return hash_node(nodes_[n]); }) ? number : 0;
}

void StackDepot::count_stack(uint32_t stack, Arena& arena) {
  while (is_stack_.count() < stack)
    if (is_stack_.add(false, arena) == 0) return;
  bool& counted = is_stack_.at(stack);
  if (counted) return;
  counted = true;
  stacks_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace devtrace::stacks
