// Which handles are alive, so that a stale or foreign one gets the driver's error and not a crash.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <unordered_set>

namespace devtrace::simulate {

template <typename T>
class Handles {
 public:
  void add(T* handle) {
    std::unique_lock lock(mutex_);
    live_.insert(handle);
  }
  // False when it was not alive.
  bool remove(T* handle) {
    std::unique_lock lock(mutex_);
    return live_.erase(handle) == 1;
  }
  bool has(T* handle) const {
    std::shared_lock lock(mutex_);
    return live_.count(handle) == 1;
  }
  template <typename F>
  void for_each(F f) const {
    std::shared_lock lock(mutex_);
    for (T* handle : live_) f(handle);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_set<T*> live_;
};

// One set a type, never destroyed: exit handlers of other libraries still call in.
template <typename T>
Handles<T>& handles() {
  static auto* set = new Handles<T>;
  return *set;
}

}  // namespace devtrace::simulate
