#include "binary/dwarf/unit.h"

namespace devtrace::dwarf {
namespace {

constexpr uint8_t kSkeletonType = 4, kSplitCompileType = 5, kTypeType = 2, kSplitTypeType = 6;
constexpr uint64_t kMostCodes = 1u << 16;

// DW_FORM_…
constexpr uint16_t kAddr = 0x01, kBlock2 = 0x03, kBlock4 = 0x04, kData2 = 0x05, kData4 = 0x06, kData8 = 0x07,
                   kString = 0x08, kBlock = 0x09, kBlock1 = 0x0a, kData1 = 0x0b, kFlag = 0x0c, kSdata = 0x0d,
                   kStrp = 0x0e, kUdata = 0x0f, kRefAddr = 0x10, kRef1 = 0x11, kRef2 = 0x12, kRef4 = 0x13, kRef8 = 0x14,
                   kRefUdata = 0x15, kSecOffset = 0x17, kExprloc = 0x18, kFlagPresent = 0x19, kStrx = 0x1a,
                   kAddrx = 0x1b, kRefSup4 = 0x1c, kStrpSup = 0x1d, kData16 = 0x1e, kLineStrp = 0x1f, kRefSig8 = 0x20,
                   kImplicitConst = 0x21, kLoclistx = 0x22, kRnglistx = 0x23, kRefSup8 = 0x24, kStrx1 = 0x25,
                   kStrx2 = 0x26, kStrx3 = 0x27, kStrx4 = 0x28, kAddrx1 = 0x29, kAddrx2 = 0x2a, kAddrx3 = 0x2b,
                   kAddrx4 = 0x2c, kGnuAddrIndex = 0x1f01, kGnuStrIndex = 0x1f02, kGnuRefAlt = 0x1f20,
                   kGnuStrpAlt = 0x1f21;

// DW_AT_… of the standard, and from 0x2000 on those of GNU for split DWARF 4.
struct AttributeName {
  uint16_t number;
  At at;
};
constexpr AttributeName kWanted[] = {
    {0x01, At::kSibling},
    {0x03, At::kName},
    {0x10, At::kStmtList},
    {0x11, At::kLowPc},
    {0x12, At::kHighPc},
    {0x1b, At::kCompDir},
    {0x31, At::kAbstractOrigin},
    {0x47, At::kSpecification},
    {0x55, At::kRanges},
    {0x58, At::kCallFile},
    {0x59, At::kCallLine},
    {0x6e, At::kLinkageName},
    {0x72, At::kStrOffsetsBase},
    {0x73, At::kAddrBase},
    {0x74, At::kRnglistsBase},
    {0x76, At::kDwoName},
    {0x2007, At::kLinkageName},
    {0x2130, At::kDwoName},
    {0x2131, At::kDwoId},
    {0x2132, At::kRangesBase},
    {0x2133, At::kAddrBase},
    {0x0b, At::kByteSize},
    {0x38, At::kDataMemberLocation},
    {0x49, At::kType},
};

std::optional<At> wanted(uint16_t name) {
  for (const AttributeName& each : kWanted)
    if (each.number == name) return each.at;
  return std::nullopt;
}

std::string_view text_at(std::string_view section, uint64_t offset) {
  return Cursor(section, offset).text();
}

}  // namespace

Unit::Unit(const Sections& sections, uint64_t offset) : sections_(sections), begin_(offset) {
  Cursor cursor(sections.info, offset);
  const uint64_t size = cursor.u32();
  if (cursor.failed() || size >= 0xfffffff0) return;
  end_ = cursor.at() + size;
  if (end_ > sections.info.size()) return;
  version_ = cursor.u16();
  uint8_t type = 0;
  uint8_t address_bytes = 0;
  if (version_ == 5) {
    type = cursor.u8();
    address_bytes = cursor.u8();
    abbreviations_at_ = cursor.u32();
    if (type == kSkeletonType || type == kSplitCompileType) dwo_id_ = cursor.u64();
  } else if (version_ == 4) {
    abbreviations_at_ = cursor.u32();
    address_bytes = cursor.u8();
  }
  entries_ = cursor.at();
  const bool of_types = type == kTypeType || type == kSplitTypeType;
  readable_ = !cursor.failed() && address_bytes == 8 && (version_ == 4 || version_ == 5) && !of_types;
}

bool Unit::read_abbreviation(Cursor& cursor, Abbreviation& into) {
  into.tag = static_cast<uint32_t>(cursor.uleb());
  into.children = cursor.u8() != 0;
  for (;;) {
    Attribute one{};
    const auto name = static_cast<uint16_t>(cursor.uleb());
    one.at = wanted(name);
    one.form = static_cast<uint16_t>(cursor.uleb());
    if (one.form == kImplicitConst) one.implicit = cursor.sleb();
    if (cursor.failed()) return false;
    if (name == 0 && one.form == 0) return true;
    into.attributes.push_back(one);
  }
}

DebugEntry Unit::root() {
  Cursor entries(sections_.info.substr(0, end_), entries_);
  const uint64_t code = entries.uleb();
  Cursor cursor(sections_.abbrev, abbreviations_at_);
  for (;;) {
    const uint64_t one = cursor.uleb();
    Abbreviation abbreviation;
    if (one == 0 || !read_abbreviation(cursor, abbreviation)) return {};
    if (one != code) continue;
    const auto found = entry_by(abbreviation, entries, entries_);
    if (!found) return {};
    const DebugEntry& entry = *found;
    if (entry[At::kAddrBase]) addr_base_ = entry[At::kAddrBase].number;
    if (entry[At::kStrOffsetsBase]) str_offsets_base_ = entry[At::kStrOffsetsBase].number;
    if (entry[At::kRnglistsBase]) rnglists_base_ = entry[At::kRnglistsBase].number;
    if (entry[At::kRangesBase]) ranges_base_ = entry[At::kRangesBase].number;
    if (entry[At::kDwoId]) dwo_id_ = entry[At::kDwoId].number;
    low_pc_ = address_of(entry[At::kLowPc]).value_or(0);
    return entry;
  }
}

bool Unit::read_abbreviations() {
  Cursor cursor(sections_.abbrev, abbreviations_at_);
  while (const uint64_t code = cursor.uleb()) {
    if (code > kMostCodes) return false;
    if (abbreviations_.size() <= code) abbreviations_.resize(code + 1);
    abbreviations_[code] = {};
    if (!read_abbreviation(cursor, abbreviations_[code])) return false;
  }
  return !cursor.failed();
}

void Unit::use_bases_of(const Unit& skeleton) {
  split_ = true;
  addr_base_ = skeleton.addr_base_;
  ranges_base_ = skeleton.ranges_base_;
  low_pc_ = skeleton.low_pc_;
  // Each has a header in front, where DWARF 4 has none; nothing in a split unit says so.
  str_offsets_base_ = version_ == 5 ? 8 : 0;
  rnglists_base_ = 12;
}

std::optional<DebugEntry> Unit::entry_at(uint64_t& at) const {
  if (at < entries_ || at >= end_) return std::nullopt;
  Cursor cursor(sections_.info.substr(0, end_), at);
  const uint64_t offset = at, code = cursor.uleb();
  if (cursor.failed()) return std::nullopt;
  if (code == 0) {
    at = cursor.at();
    DebugEntry end;
    end.offset = offset;
    return end;
  }
  if (code >= abbreviations_.size() || abbreviations_[code].tag == 0) return std::nullopt;
  auto found = entry_by(abbreviations_[code], cursor, offset);
  at = cursor.at();
  return found;
}

std::optional<DebugEntry> Unit::entry_by(const Abbreviation& abbreviation, Cursor& cursor, uint64_t offset) const {
  DebugEntry entry;
  entry.offset = offset;
  entry.tag = abbreviation.tag;
  entry.children = abbreviation.children;
  for (const Attribute& attribute : abbreviation.attributes) {
    Value value;
    if (!read_value(cursor, attribute, value)) return std::nullopt;
    if (attribute.at) entry.values[static_cast<size_t>(*attribute.at)] = value;
  }
  return entry;
}

bool Unit::read_value(Cursor& cursor, const Attribute& attribute, Value& into) const {
  into.form = attribute.form;
  switch (attribute.form) {
    case kFlagPresent:
      into.number = 1;
      break;
    case kImplicitConst:
      into.number = static_cast<uint64_t>(attribute.implicit);
      break;
    case kData1:
    case kFlag:
    case kRef1:
    case kStrx1:
    case kAddrx1:
      into.number = cursor.u8();
      break;
    case kData2:
    case kRef2:
    case kStrx2:
    case kAddrx2:
      into.number = cursor.u16();
      break;
    case kStrx3:
    case kAddrx3:
      into.number = cursor.fixed(3);
      break;
    case kData4:
    case kStrp:
    case kRefAddr:
    case kRef4:
    case kSecOffset:
    case kRefSup4:
    case kStrpSup:
    case kLineStrp:
    case kStrx4:
    case kAddrx4:
    case kGnuRefAlt:
    case kGnuStrpAlt:
      into.number = cursor.u32();
      break;
    case kAddr:
    case kData8:
    case kRef8:
    case kRefSig8:
    case kRefSup8:
      into.number = cursor.u64();
      break;
    case kData16:
      cursor.skip(16);
      break;
    case kSdata:
      into.number = static_cast<uint64_t>(cursor.sleb());
      break;
    case kUdata:
    case kRefUdata:
    case kStrx:
    case kAddrx:
    case kLoclistx:
    case kRnglistx:
    case kGnuAddrIndex:
    case kGnuStrIndex:
      into.number = cursor.uleb();
      break;
    case kString:
      into.text = cursor.text();
      break;
    case kBlock1:
      cursor.skip(cursor.u8());
      break;
    case kBlock2:
      cursor.skip(cursor.u16());
      break;
    case kBlock4:
      cursor.skip(cursor.u32());
      break;
    case kBlock:
    case kExprloc:
      cursor.skip(cursor.uleb());
      break;
    default:
      return false;  // a form of a later DWARF: how long it is, nobody here knows
  }
  return !cursor.failed();
}

std::string_view Unit::text_of(const Value& value) const {
  switch (value.form) {
    case kString:
      return value.text;
    case kStrp:
      return text_at(sections_.str, value.number);
    case kLineStrp:
      return text_at(sections_.line_str, value.number);
    case kStrx:
    case kStrx1:
    case kStrx2:
    case kStrx3:
    case kStrx4:
    case kGnuStrIndex: {
      if (value.number > sections_.str_offsets.size() / 4) return {};
      Cursor offsets(sections_.str_offsets, str_offsets_base_ + 4 * value.number);
      const uint64_t offset = offsets.u32();
      return offsets.failed() ? std::string_view() : text_at(sections_.str, offset);
    }
    default:
      return {};
  }
}

std::optional<uint64_t> Unit::reference(const Value& value) const {
  uint64_t offset = 0;
  switch (value.form) {
    case kRef1:
    case kRef2:
    case kRef4:
    case kRef8:
    case kRefUdata:
      offset = begin_ + value.number;
      break;
    case kRefAddr:
      offset = value.number;
      break;
    default:
      return std::nullopt;
  }
  if (offset < entries_ || offset >= end_) return std::nullopt;
  return offset;
}

uint64_t Unit::indexed_address(uint64_t index) const {
  if (index > sections_.addr.size() / 8) return 0;
  return Cursor(sections_.addr, addr_base_ + 8 * index).u64();
}

std::optional<uint64_t> Unit::address_of(const Value& value) const {
  switch (value.form) {
    case kAddr:
      return value.number;
    case kAddrx:
    case kAddrx1:
    case kAddrx2:
    case kAddrx3:
    case kAddrx4:
    case kGnuAddrIndex:
      return indexed_address(value.number);
    default:
      return std::nullopt;
  }
}

std::vector<Range> Unit::ranges_of(const DebugEntry& entry) const {
  if (const Value& ranges = entry[At::kRanges]) {
    if (version_ < 5) return old_range_list(ranges.number + (split_ ? ranges_base_ : 0));
    if (ranges.form != kRnglistx) return range_list(ranges.number);
    if (ranges.number > sections_.rnglists.size() / 4) return {};
    Cursor offsets(sections_.rnglists, rnglists_base_ + 4 * ranges.number);
    const uint64_t offset = offsets.u32();
    return offsets.failed() ? std::vector<Range>() : range_list(rnglists_base_ + offset);
  }
  const auto low = address_of(entry[At::kLowPc]);
  const Value& high = entry[At::kHighPc];
  if (!low || !high) return {};
  const uint64_t end = address_of(high).value_or(*low + high.number);
  if (end <= *low) return {};
  return {{*low, end}};
}

// DW_RLE_…
std::vector<Range> Unit::range_list(uint64_t offset) const {
  std::vector<Range> ranges;
  uint64_t base = low_pc_;
  Cursor cursor(sections_.rnglists, offset);
  while (!cursor.at_end()) {
    uint64_t from = 0, to = 0;
    switch (cursor.u8()) {
      case 1:
        base = indexed_address(cursor.uleb());
        continue;
      case 2:
        from = indexed_address(cursor.uleb());
        to = indexed_address(cursor.uleb());
        break;
      case 3:
        from = indexed_address(cursor.uleb());
        to = from + cursor.uleb();
        break;
      case 4:
        from = base + cursor.uleb();
        to = base + cursor.uleb();
        break;
      case 5:
        base = cursor.u64();
        continue;
      case 6:
        from = cursor.u64();
        to = cursor.u64();
        break;
      case 7:
        from = cursor.u64();
        to = from + cursor.uleb();
        break;
      default:
        return ranges;
    }
    if (!cursor.failed() && from < to) ranges.emplace_back(from, to);
  }
  return ranges;
}

std::vector<Range> Unit::old_range_list(uint64_t offset) const {
  std::vector<Range> ranges;
  uint64_t base = low_pc_;
  Cursor cursor(sections_.ranges, offset);
  while (!cursor.at_end()) {
    const uint64_t from = cursor.u64(), to = cursor.u64();
    if (cursor.failed() || (from == 0 && to == 0)) break;
    if (from == ~uint64_t{0})
      base = to;
    else if (from < to)
      ranges.emplace_back(base + from, base + to);
  }
  return ranges;
}

}  // namespace devtrace::dwarf
