#include "binary/dwarf/members.h"

#include <optional>

#include "binary/dwarf/unit.h"
#include "binary/elf/file.h"

namespace devtrace::dwarf {
namespace {

constexpr uint32_t kArray = 0x01, kClass = 0x02, kMember = 0x0d, kStructure = 0x13, kTypedef = 0x16,
                   kInheritance = 0x1c, kConst = 0x26, kVolatile = 0x35;
constexpr int kMostReferences = 16;
constexpr size_t kMostBytes = 64 << 20;  // of entries: more takes too long

bool is_structure(const DebugEntry& entry) {
  return entry.tag == kStructure || entry.tag == kClass;
}

// `Params<float>` of `ns::Params<float>`.
std::string_view without_namespaces(std::string_view type) {
  int nested = 0;
  size_t begin = 0;
  for (size_t i = 0; i + 1 < type.size(); ++i) {
    if (type[i] == '<') ++nested;
    if (type[i] == '>') --nested;
    if (nested == 0 && type[i] == ':' && type[i + 1] == ':') begin = i + 2;
  }
  return type.substr(begin);
}

class Types {
 public:
  explicit Types(const Unit& unit) : unit_(unit) {}

  // Its own name first: `.data`, `[2].data`.
  std::string within(uint64_t entry, uint64_t offset, int references = 0) const {
    const auto type = resolved(entry, references);
    if (!type || references >= kMostReferences) return {};
    if (is_structure(*type)) return in_structure(*type, offset, references + 1);
    if (type->tag != kArray) return {};
    const auto element = unit_.reference((*type)[At::kType]);
    const uint64_t size = element ? size_of(*element) : 0;
    if (size == 0) return {};
    return "[" + std::to_string(offset / size) + "]" + within(*element, offset % size, references + 1);
  }

 private:
  // Behind names and qualifiers of it.
  std::optional<DebugEntry> resolved(uint64_t at, int references) const {
    auto entry = unit_.entry_at(at);
    for (; entry && references < kMostReferences; ++references) {
      if (entry->tag != kTypedef && entry->tag != kConst && entry->tag != kVolatile) return entry;
      auto next = unit_.reference((*entry)[At::kType]);
      if (!next) return std::nullopt;
      entry = unit_.entry_at(*next);
    }
    return std::nullopt;
  }

  uint64_t size_of(uint64_t at) const {
    const auto type = resolved(at, 0);
    return type ? (*type)[At::kByteSize].number : 0;
  }

  // The last member that begins there or before it.
  std::string in_structure(const DebugEntry& structure, uint64_t offset, int references) const {
    uint64_t at = structure.offset;
    auto entry = unit_.entry_at(at);
    if (!entry || !entry->children) return {};
    std::optional<DebugEntry> found;
    for (int depth = 1; depth > 0 && (entry = unit_.entry_at(at));) {
      const bool part = entry->tag == kInheritance || (entry->tag == kMember && (*entry)[At::kDataMemberLocation]);
      const auto begin = [](const DebugEntry& one) { return one[At::kDataMemberLocation].number; };
      if (depth == 1 && part && begin(*entry) <= offset && (!found || begin(*entry) > begin(*found))) found = entry;
      if (entry->tag == 0)
        --depth;
      else if (entry->children)
        ++depth;
    }
    if (!found) return {};
    const auto type = unit_.reference((*found)[At::kType]);
    if (!type) return {};
    const uint64_t rest = offset - (*found)[At::kDataMemberLocation].number;
    const std::string_view name = unit_.text_of((*found)[At::kName]);
    return (name.empty() ? "" : "." + std::string(name)) + within(*type, rest, references);
  }

  const Unit& unit_;
};

}  // namespace

std::string member_at(const std::string& module, std::string_view type, uint64_t offset) {
  const elf::File file(module);
  Sections all;
  all.info = file.bytes_of(".debug_info");
  all.abbrev = file.bytes_of(".debug_abbrev");
  all.str = file.bytes_of(".debug_str");
  all.str_offsets = file.bytes_of(".debug_str_offsets");
  all.line_str = file.bytes_of(".debug_line_str");
  if (all.info.size() > kMostBytes) return {};
  const std::string_view name = without_namespaces(type);
  std::string found;
  for (uint64_t next = 0; next < all.info.size();) {
    Unit unit(all, next);
    if (unit.next() <= next) break;
    next = unit.next();
    if (!unit.readable()) continue;
    unit.root();
    if (!unit.read_abbreviations()) continue;
    uint64_t at = unit.first_entry();
    while (const auto entry = unit.entry_at(at)) {
      if (!is_structure(*entry) || !entry->children || unit.text_of((*entry)[At::kName]) != name) continue;
      std::string member = Types(unit).within(entry->offset, offset);
      if (member.empty()) continue;
      if (!found.empty() && found != member) return {};  // two of one name
      found = std::move(member);
    }
  }
  return found.starts_with('.') ? found.substr(1) : found;
}

}  // namespace devtrace::dwarf
