// Python's frames, variables and objects in memory that is damaged: nothing outside what is mapped may be touched. The
// input is a list of changes to a small heap: a thread with frames, each with its code, and one object of each sort
// they can hold.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tracker/python/line_table.h"
#include "tracker/python/objects/objects.h"
#include "tracker/python/objects/string_decoder.h"
#include "tracker/python/objects/variables.h"

// Nobody asks for this process's Python here.
namespace devtrace::python::detail {
std::atomic<const PythonReader*> published = nullptr;
const PythonReader* find_and_try() {
  return nullptr;
}
}  // namespace devtrace::python::detail

namespace {

using namespace devtrace::python;

constexpr size_t kBytes = 16384;  // what lies in front of them and behind them cannot be read

// Where each thing lies in the heap. Types are first: what they say of their instances decides how these are read.
enum Place : size_t {
  kStrType = 0,
  kCodeType = 512,
  kCellType = 1024,
  kTupleType = 1536,
  kListType = 2048,
  kDictType = 2560,
  kIntType = 3072,
  kBytesType = 3584,
  kClass = 4096,
  kThread = 4608,
  kFrames = 5120,
  kCode = 6656,
  kNames = 7680,
  kName = 7936,
  kDict = 8192,
  kKeys = 8448,
  kList = 9472,
  kItems = 9728,
  kInt = 9984,
  kKinds = 10240,
  kInstance = 10752,
  kCell = 11264,
};
constexpr size_t kFrameBytes = 256, kFrameCount = 4;

class Heap {
 public:
  Heap() {
    void* const all = ::mmap(nullptr, kBytes + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = static_cast<char*>(all) + kPage;
    ::mprotect(memory_, kBytes, PROT_READ | PROT_WRITE);
  }

  uintptr_t at(size_t place) const { return reinterpret_cast<uintptr_t>(memory_) + place; }

  void lay_out(const Layout& layout, const ObjectLayout& objects) {
    std::memset(memory_, 0, kBytes);
    header_ = layout.extra_header;
    const auto type = [&](size_t place, uint64_t flags) { word(place + header_ + kTypeFlags, flags); };
    type(kTupleType, kTupleFlag);
    type(kListType, kListFlag);
    type(kDictType, kDictFlag);
    type(kIntType, kIntFlag);
    type(kClass, kHeapTypeFlag | kManagedDictFlag | kInlineValuesFlag);
    word(kClass + header_ + kTypeBasicSize, 64);
    word(kClass + objects.cached_keys, at(kKeys));

    size_t top = kFrames;
    if (layout.holder_top == kAbsent) {
      word(kThread + layout.thread_top, at(top));
    } else {
      word(kThread + layout.thread_top, at(kThread) + 256);
      word(kThread + 256 + static_cast<size_t>(layout.holder_top), at(top));
    }
    for (size_t i = 0; i < kFrameCount; ++i, top += kFrameBytes) {
      word(top + layout.frame_previous, i + 1 < kFrameCount ? at(top + kFrameBytes) : 0);
      word(top + layout.frame_code, at(kCode));
      if (layout.instruction == Instruction::pointer)
        word(top + layout.frame_instruction, at(kCode) + layout.code_instructions + 4);
      word(top + objects.frame_dict, at(kDict));
      word(top + objects.frame_globals, at(kDict));
      const std::array<Place, 5> held = {kDict, kList, kInt, kInstance, kCell};
      for (size_t slot = 0; slot < held.size() && objects.frame_locals + 8 * slot < kFrameBytes; ++slot)
        word(top + objects.frame_locals + 8 * slot, at(held[slot]));
    }
    is_a(kCode, kCodeType);
    word(kCode + layout.code_filename, at(kName));
    word(kCode + layout.code_name, at(kName));
    word(kCode + objects.code_names, at(kNames));
    for (const int16_t names : {objects.code_cells, objects.code_frees})
      if (names != kAbsent) word(kCode + static_cast<size_t>(names), at(kNames));
    if (objects.code_kinds != kAbsent) word(kCode + static_cast<size_t>(objects.code_kinds), at(kKinds));
    const uint32_t optimized = kOptimized;
    std::memcpy(memory_ + kCode + objects.code_flags, &optimized, sizeof optimized);

    is_a(kNames, kTupleType);
    word(kNames + header_ + kVarSize, 5);
    for (size_t i = 0; i < 5; ++i) word(kNames + objects.tuple_items + 8 * i, at(kName));
    is_a(kName, kStrType);
    word(kName + header_ + kStrLength, 3);
    word(kName + header_ + kStrState, 0x19u << layout.str_kind);  // compact, ASCII, one byte a character
    std::memcpy(memory_ + kName + layout.ascii_payload, "abc", 3);
    is_a(kDict, kDictType);
    word(kDict + header_ + kDictKeys, at(kKeys));
    memory_[kKeys + 9] = 3;
    if (!objects.small_keys) word(kKeys + 8, 8);
    word(kKeys + objects.keys_entries, 2);
    is_a(kList, kListType);
    word(kList + header_ + kVarSize, 3);
    word(kList + header_ + kListItems, at(kItems));
    for (size_t i = 0; i < 3; ++i) word(kItems + 8 * i, at(kInt));
    is_a(kInt, kIntType);
    word(kInt + header_ + kIntSize, objects.minor >= kTaggedInts ? 8 : 1);
    is_a(kKinds, kBytesType);
    is_a(kInstance, kClass);
    is_a(kCell, kCellType);
    word(kCell + header_ + kCellContents, at(kList));
  }

  // Each change: which 64-bit word, how, and what it becomes.
  void change(const uint8_t* data, size_t size) {
    constexpr size_t kChange = 5;
    for (; size >= kChange; data += kChange, size -= kChange) {
      uint16_t where, what;
      std::memcpy(&where, data, sizeof where);
      std::memcpy(&what, data + 3, sizeof what);
      const size_t place = where % (kBytes / 8) * 8;
      uint64_t value = what;
      switch (data[2] % 5) {
        case 0:
          break;
        case 1:
          value = at(what % kBytes);
          break;
        case 2:
          value = uint64_t{what} << 48 | what;
          break;
        case 3:
          value = 0 - uint64_t{what};
          break;
        default:
          value = uint64_t{what} << 20;
      }
      word(place, value);
    }
  }

 private:
  static constexpr size_t kPage = 4096;
  void word(size_t place, uint64_t value) {
    if (place + sizeof value <= kBytes) std::memcpy(memory_ + place, &value, sizeof value);
  }
  void is_a(size_t object, size_t type) { word(object + kObjectType + header_, at(type)); }

  char* memory_;
  uint16_t header_ = 0;
};

void read_object(const Objects& objects, uintptr_t object, int depth) {
  objects.text(object);
  objects.integer(object);
  objects.size_of_instances(objects.type_of(object));
  if (depth == 0) return;
  size_t seen = 0;  // a ring of lists of a thousand items each would never end
  constexpr size_t kMost = 4;
  objects.for_each_item(object, [&](size_t, uintptr_t item) {
    if (++seen <= kMost) read_object(objects, item, depth - 1);
  });
  const auto entry = [&](const std::string&, uintptr_t value) {
    if (++seen <= kMost) read_object(objects, value, depth - 1);
  };
  objects.for_each_entry(object, entry);
  objects.for_each_attribute(object, entry);
}

PythonReader reader_of(const Heap& heap, const Layout& layout) {
  PythonReader reader{};
  reader.layout = layout;
  reader.code_type = heap.at(kCodeType);
  const auto type = [&](Place place) { return reinterpret_cast<PyObject*>(heap.at(place)); };
  reader.api.PyUnicode_Type = type(kStrType);
  reader.api.PyCell_Type = type(kCellType);
  return reader;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static Heap heap;
  const int minor = 9 + data[0] % 7;
  const Layout* const layout = layout_of(minor, minor >= 13 && data[1] & 1);
  const ObjectLayout& of_objects = *object_layout_of(*layout);
  heap.lay_out(*layout, of_objects);
  heap.change(data + 2, size - 2);

  const PythonReader reader = reader_of(heap, *layout);
  const Objects objects(reader, of_objects);
  std::vector<RawFrame> stack;
  walk(*layout, objects.memory(), reader.code_type, heap.at(kThread), [&](const RawFrame& frame) {
    if (stack.size() < kFrameCount) stack.push_back(frame);
  });
  for (size_t i = 0; i < stack.size(); ++i)
    for (const Scope scope : {Scope::own, Scope::global})
      for_each_variable_of(objects, of_objects, reader, stack[i], i, scope,
                           [](const Objects& all, const Variable& one) { read_object(all, one.object, 2); });

  // Tables and texts that were copied out of it.
  const std::vector<uint8_t> table(data + 2, data + size);
  for (const LineTable form : {LineTable::lnotab, LineTable::pairs, LineTable::varints})
    for (const int64_t offset : {int64_t{-1}, int64_t{0}, int64_t{data[0]}, INT64_MAX})
      line_at(form, table.data(), table.size(), data[1], offset);
  char text[64];
  for (const unsigned width : {1u, 2u, 4u}) {
    std::vector<uint32_t> characters((size + 1) / sizeof(uint32_t));
    std::copy(data + 2, data + size, reinterpret_cast<uint8_t*>(characters.data()));
    to_utf8(characters.data(), characters.size() * sizeof(uint32_t) / width, width, text, sizeof text);
  }
  std::array<uint64_t, 128> runtime{};
  std::memcpy(runtime.data(), data, std::min(size, sizeof runtime));
  const char* why = nullptr;
  Layout described = *layout;
  apply_debug_offsets(runtime.data(), described, &why);
  return 0;
}
