// Python objects read as memory, without the GIL. Another thread may change or free what is read. So every address is
// tried before it is used, every count has a limit, and what does not look right is nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tracker/python/objects/object_layout.h"
#include "tracker/python/python_reader.h"
#include "tracker/python/safe_memory.h"

namespace devtrace::python {

class Objects {
 public:
  // Both outlive it.
  Objects(const PythonReader& reader, const ObjectLayout& layout) : reader_(reader), layout_(layout) {}

  bool usable() const { return memory_.usable(); }
  const SafeMemory& memory() const { return memory_; }

  // 0 for what cannot be read.
  uintptr_t pointer(uintptr_t address) const;
  uintptr_t type_of(uintptr_t object) const { return object == 0 ? 0 : pointer(object + kObjectType + header()); }
  uint64_t flags_of_type(uintptr_t type) const { return type == 0 ? 0 : pointer(type + kTypeFlags + header()); }
  // Of a type: the address of its name's characters, and the size of its instances.
  uintptr_t name_of_type(uintptr_t type) const { return type == 0 ? 0 : pointer(type + kTypeName + header()); }
  size_t size_of_instances(uintptr_t type) const { return type == 0 ? 0 : pointer(type + kTypeBasicSize + header()); }
  // Of a tuple or list: how many items it has.
  size_t length(uintptr_t sequence) const { return pointer(sequence + kVarSize + header()); }

  // What objects' heads have besides the usual 16 bytes.
  uintptr_t header() const { return reader_.layout.extra_header; }

  // Is it a str? Then its text, at most 200 characters of it; empty otherwise.
  std::string text(uintptr_t object) const;

  // Is it an int of 64 bits, with a sign or without? Then these.
  std::optional<int64_t> integer(uintptr_t object) const;

  using Entry = std::function<void(const std::string& key, uintptr_t value)>;
  using Item = std::function<void(size_t index, uintptr_t value)>;
  // Items of a list or tuple, at most kMostItems.
  void for_each_item(uintptr_t sequence, const Item& visit) const;
  // Entries of a dict whose keys are str, at most kMostItems.
  void for_each_entry(uintptr_t dict, const Entry& visit) const;
  // Attributes that an instance itself has.
  void for_each_attribute(uintptr_t object, const Entry& visit) const;

  static constexpr size_t kMostItems = 1024;

 private:
  template <class T>
  T field(uintptr_t address, T otherwise) const {
    T value;
    return memory_.read(address, value) ? value : otherwise;
  }
  void for_each_key(uintptr_t keys, uintptr_t values, const Entry& visit) const;
  uintptr_t shared_keys(uintptr_t type) const;

  const PythonReader& reader_;
  const ObjectLayout& layout_;
  SafeMemory memory_;
};

}  // namespace devtrace::python
