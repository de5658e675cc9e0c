// A unit of DWARF 4 or 5: its header, and its entries with the attributes that lead to inlined functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "binary/dwarf/cursor.h"

namespace devtrace::dwarf {

// What a unit refers to. Of a split unit the first five are the .dwo's or .dwp's, the others the program's.
struct Sections {
  std::string_view info, abbrev, str, str_offsets, rnglists;
  std::string_view line_str, addr, ranges, line;
};

// The attributes that are read. All others are passed over.
enum class At : uint8_t {
  kSibling,
  kName,
  kStmtList,
  kLowPc,
  kHighPc,
  kCompDir,
  kAbstractOrigin,
  kSpecification,
  kRanges,
  kCallFile,
  kCallLine,
  kLinkageName,
  kStrOffsetsBase,
  kAddrBase,
  kRnglistsBase,
  kDwoName,
  kDwoId,
  kRangesBase,
  kByteSize,
  kDataMemberLocation,
  kType,
  kCount
};

struct Value {
  uint16_t form = 0;  // 0: the entry does not have it
  uint64_t number = 0;
  std::string_view text;  // of DW_FORM_string
  explicit operator bool() const { return form != 0; }
};

struct DebugEntry {
  uint64_t offset = 0;  // in the unit's section
  uint32_t tag = 0;     // 0: the end of a list of children
  bool children = false;
  std::array<Value, static_cast<size_t>(At::kCount)> values{};
  const Value& operator[](At at) const { return values[static_cast<size_t>(at)]; }
};

constexpr uint32_t kCompileUnit = 0x11, kInlinedSubroutine = 0x1d, kSubprogram = 0x2e, kSkeletonUnit = 0x4a;

using Range = std::pair<uint64_t, uint64_t>;  // from, to

class Unit {
 public:
  // The unit at `offset`; next() is behind it even where it cannot be read. 64-bit DWARF, which only `-gdwarf64` makes,
  // is not read.
  Unit(const Sections& sections, uint64_t offset);

  bool readable() const { return readable_; }
  uint64_t next() const { return end_; }
  int version() const { return version_; }

  // Reads the unit's first entry: no more of the abbreviations than that takes. What it says of where the unit's
  // strings, addresses and ranges begin counts from then on.
  DebugEntry root();
  // Before entries below the root are read.
  bool read_abbreviations();
  // Of a split unit: where its skeleton's addresses and ranges begin, which is said there alone.
  void use_bases_of(const Unit& skeleton);

  // The entry at `at`, and `at` behind it; nothing at the unit's end, or where the bytes make no sense.
  std::optional<DebugEntry> entry_at(uint64_t& at) const;

  std::string_view text_of(const Value& value) const;
  std::vector<Range> ranges_of(const DebugEntry& entry) const;
  // Where the entry lies that `value` refers to; nothing for one of another unit.
  std::optional<uint64_t> reference(const Value& value) const;

  uint64_t first_entry() const { return entries_; }
  uint64_t dwo_id() const { return dwo_id_; }
  std::string_view line_table() const { return sections_.line; }
  const Sections& sections() const { return sections_; }

 private:
  struct Attribute {
    std::optional<At> at;  // nothing: one that nobody asks for
    uint16_t form;
    int64_t implicit;
  };
  struct Abbreviation {
    uint32_t tag = 0;
    bool children = false;
    std::vector<Attribute> attributes;
  };

  static bool read_abbreviation(Cursor& cursor, Abbreviation& into);
  std::optional<DebugEntry> entry_by(const Abbreviation& abbreviation, Cursor& cursor, uint64_t offset) const;
  bool read_value(Cursor& cursor, const Attribute& attribute, Value& into) const;
  std::optional<uint64_t> address_of(const Value& value) const;
  uint64_t indexed_address(uint64_t index) const;
  std::vector<Range> range_list(uint64_t offset) const;
  std::vector<Range> old_range_list(uint64_t offset) const;

  Sections sections_;
  uint64_t begin_, end_ = ~uint64_t{0}, entries_ = 0, abbreviations_at_ = 0;
  int version_ = 0;
  bool readable_ = false, split_ = false;
  std::vector<Abbreviation> abbreviations_;  // by code
  uint64_t dwo_id_ = 0;
  uint64_t str_offsets_base_ = 0, addr_base_ = 0, rnglists_base_ = 0, ranges_base_ = 0, low_pc_ = 0;
};

}  // namespace devtrace::dwarf
