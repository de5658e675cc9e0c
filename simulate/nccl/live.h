// What handles stand for, as long as it lives.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace devtrace::simulate::nccl {

template <class Handle, class T>
class Live {
 public:
  Handle add(std::shared_ptr<T> object) {
    auto* const handle = reinterpret_cast<Handle>(object.get());
    const std::lock_guard lock(mutex_);
    objects_[handle] = std::move(object);
    return handle;
  }
  // Null: there is none.
  std::shared_ptr<T> find(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(handle);
    return at == objects_.end() ? nullptr : at->second;
  }
  std::shared_ptr<T> remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    auto node = objects_.extract(handle);
    return node ? std::move(node.mapped()) : nullptr;
  }
  template <class F>
  void remove_if(F f) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [&](const auto& each) { return f(*each.second); });
  }
  template <class F>
  bool any_of(F f) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(objects_, [&](const auto& each) { return f(*each.second); });
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Handle, std::shared_ptr<T>> objects_;
};

}  // namespace devtrace::simulate::nccl
