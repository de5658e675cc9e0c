#include "tracker/python/objects/objects.h"

#include <algorithm>

#include "tracker/python/objects/string_decoder.h"

namespace devtrace::python {

uintptr_t Objects::pointer(uintptr_t address) const {
  return field<uintptr_t>(address, 0);
}

std::optional<int64_t> Objects::integer(uintptr_t object) const {
  constexpr int kDigitBits = 30;
  if (!(flags_of_type(type_of(object)) & kIntFlag)) return std::nullopt;
  const auto size = field<int64_t>(object + kIntSize + header(), 0);
  const bool tagged = layout_.minor >= kTaggedInts;
  const bool negative = tagged ? (size & 3) == 2 : size < 0;
  const uint64_t digits = tagged ? static_cast<uint64_t>(size) >> 3 : static_cast<uint64_t>(negative ? -size : size);
  if (digits > 3) return std::nullopt;
  uint64_t value = 0;
  for (uint64_t i = 0; i < digits; ++i) {
    const auto digit = field<uint32_t>(object + kIntDigits + header() + i * sizeof(uint32_t), 0);
    if (i == 2 && digit >> 4) return std::nullopt;
    value |= uint64_t{digit} << (i * kDigitBits);
  }
  if (tagged && (size & 3) == 1) return 0;
  return static_cast<int64_t>(negative ? 0 - value : value);
}

std::string Objects::text(uintptr_t object) const {
  constexpr size_t kMost = 200;
  if (type_of(object) != reinterpret_cast<uintptr_t>(reader_.api.PyUnicode_Type)) return {};
  const auto length = field<int64_t>(object + kStrLength + header(), 0);
  const auto state = field<uint32_t>(object + kStrState + header(), 0);
  const uint32_t form = state >> reader_.layout.str_kind;
  const unsigned width = form & 7;
  const bool compact = form >> 3 & 1;
  const bool ascii = form >> 4 & 1;
  if (length <= 0 || !compact || (width != 1 && width != 2 && width != 4)) return {};
  const size_t count = std::min<size_t>(static_cast<size_t>(length), kMost);
  char characters[4 * kMost];
  if (!memory_.copy(object + (ascii ? reader_.layout.ascii_payload : reader_.layout.compact_payload), characters,
                    count * width))
    return {};
  std::string out(4 * count, '\0');
  out.resize(to_utf8(characters, count, width, out.data(), out.size()));
  return out;
}

void Objects::for_each_item(uintptr_t sequence, const Item& visit) const {
  const uint64_t flags = flags_of_type(type_of(sequence));
  uintptr_t items = 0;
  if (flags & kTupleFlag) items = sequence + layout_.tuple_items;
  if (flags & kListFlag) items = pointer(sequence + kListItems + header());
  const auto count = field<int64_t>(sequence + kVarSize + header(), 0);
  if (items == 0 || count <= 0) return;
  for (size_t i = 0; i < std::min(static_cast<size_t>(count), kMostItems); ++i)
    if (const uintptr_t value = pointer(items + i * sizeof(uintptr_t))) visit(i, value);
}

void Objects::for_each_entry(uintptr_t dict, const Entry& visit) const {
  if (!(flags_of_type(type_of(dict)) & kDictFlag)) return;
  for_each_key(pointer(dict + kDictKeys + header()), pointer(dict + kDictValues + header()), visit);
}

// A table of indices, then the entries in the order in which they were made. A split dict keeps its values apart.
void Objects::for_each_key(uintptr_t keys, uintptr_t values, const Entry& visit) const {
  if (keys == 0) return;
  size_t index_bytes = 0;
  bool text_only = false;
  if (layout_.small_keys) {
    const auto logarithm = field<uint8_t>(keys + kKeysIndexBytes, 0);
    if (logarithm > 40) return;
    index_bytes = size_t{1} << logarithm;
    text_only = field<uint8_t>(keys + kKeysKind, 0) != 0;  // no hash is kept with keys that are all str
  } else {
    const auto size = field<uint64_t>(keys + 8, 0);
    index_bytes = size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8);
  }
  const size_t entry_bytes = text_only ? 16 : 24;
  const uintptr_t first = keys + layout_.keys_indices + index_bytes + (text_only ? 0 : 8);
  const auto count = field<int64_t>(keys + layout_.keys_entries, 0);
  if (count <= 0) return;
  for (size_t i = 0; i < std::min(static_cast<size_t>(count), kMostItems); ++i) {
    const uintptr_t entry = first + i * entry_bytes;
    const uintptr_t value = values ? pointer(values + layout_.values + i * sizeof(uintptr_t)) : pointer(entry + 8);
    if (value == 0) continue;
    if (const std::string key = text(pointer(entry)); !key.empty()) visit(key, value);
  }
}

uintptr_t Objects::shared_keys(uintptr_t type) const {
  return flags_of_type(type) & kHeapTypeFlag ? pointer(type + layout_.cached_keys) : 0;
}

void Objects::for_each_attribute(uintptr_t object, const Entry& visit) const {
  constexpr uintptr_t kWord = sizeof(uintptr_t);
  const uintptr_t type = type_of(object);
  const uint64_t flags = flags_of_type(type);
  if (type == 0 || flags & kTypeFlag) return;  // a class's attributes are no instance's
  if (layout_.instances == Instances::dict_offset || !(flags & kManagedDictFlag)) {
    const auto offset = field<int64_t>(type + kTypeDictOffset + header(), 0);
    if (offset > 0) for_each_entry(pointer(object + static_cast<uintptr_t>(offset)), visit);
    return;
  }
  const uintptr_t before = pointer(object - layout_.before_object);
  switch (layout_.instances) {
    case Instances::two_pointers:
      if (const uintptr_t values = pointer(object - layout_.before_object - kWord))
        return for_each_key(shared_keys(type), values, visit);
      return for_each_entry(before, visit);
    case Instances::tagged_pointer:
      if (before & 1) return for_each_key(shared_keys(type), before + 1, visit);
      return for_each_entry(before, visit);
    case Instances::inline_values:
      if (before != 0) return for_each_entry(before, visit);
      if (flags & kInlineValuesFlag) for_each_key(shared_keys(type), object + size_of_instances(type), visit);
      return;
    case Instances::dict_offset:
      return;
  }
}

}  // namespace devtrace::python
