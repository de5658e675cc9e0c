#include "binary/dwarf/split_files.h"

namespace devtrace::dwarf {
namespace {

std::string_view part(std::string_view section, const Contribution& where) {
  if (where.offset > section.size() || where.size > section.size() - where.offset) return {};
  return section.substr(where.offset, where.size);
}

SplitUnit opened(const std::string& path) {
  SplitUnit unit{std::make_unique<elf::File>(path), {}};
  Sections& all = unit.sections;
  all.info = unit.file->bytes_of(".debug_info.dwo");
  all.abbrev = unit.file->bytes_of(".debug_abbrev.dwo");
  all.str = unit.file->bytes_of(".debug_str.dwo");
  all.str_offsets = unit.file->bytes_of(".debug_str_offsets.dwo");
  all.rnglists = unit.file->bytes_of(".debug_rnglists.dwo");
  if (all.info.empty() || all.abbrev.empty()) return {};  // sections of a closed file are nobody's
  return unit;
}

SplitUnit in_package(const std::string& path, uint64_t id) {
  SplitUnit unit = opened(path);
  if (!unit) return unit;
  const PackagedUnit parts = find_in_index(unit.file->bytes_of(".debug_cu_index"), id);
  if (!parts.found) return {};
  Sections& all = unit.sections;
  all.info = part(all.info, parts.info);
  all.abbrev = part(all.abbrev, parts.abbrev);
  all.str_offsets = part(all.str_offsets, parts.str_offsets);
  all.rnglists = part(all.rnglists, parts.rnglists);
  return unit;
}

// A file of its own may hold units of types beside it.
SplitUnit in_file(const std::string& path, uint64_t id) {
  SplitUnit found = opened(path);
  if (!found) return found;
  const std::string_view info = found.sections.info;
  for (uint64_t at = 0; at < info.size();) {
    Unit unit(found.sections, at);
    if (unit.readable()) {
      unit.root();
      if (unit.dwo_id() == id) {
        found.sections.info = info.substr(at, unit.next() - at);
        return found;
      }
    }
    if (unit.next() <= at) break;
    at = unit.next();
  }
  return {};
}

}  // namespace

SplitUnit find_split_unit(const std::string& module, std::string_view comp_dir, std::string_view name, uint64_t id) {
  if (SplitUnit found = in_package(module + ".dwp", id)) return found;
  if (name.empty()) return {};
  const std::string stated =
      name.starts_with('/') || comp_dir.empty() ? std::string(name) : std::string(comp_dir) + "/" + std::string(name);
  if (SplitUnit found = in_file(stated, id)) return found;
  const size_t folder = module.rfind('/'), last = name.rfind('/');
  if (folder == std::string::npos) return {};
  const std::string_view own_name = last == std::string_view::npos ? name : name.substr(last + 1);
  return in_file(module.substr(0, folder + 1) + std::string(own_name), id);
}

PackagedUnit find_in_index(std::string_view index, uint64_t id) {
  // DW_SECT_… of DWARF 5, and GNU's of before, which differ in the last.
  constexpr uint32_t kInfo = 1, kAbbrev = 3, kStrOffsets = 6, kRnglists = 8;
  Cursor header(index);
  const uint32_t version = header.u32() & 0xffff;
  const uint64_t columns = header.u32(), units = header.u32(), slots = header.u32();
  const uint64_t size = index.size();
  if (header.failed() || (version != 2 && version != 5) || slots > size || columns > 16 || units > size) return {};
  const uint64_t ids = header.at(), rows = ids + 8 * slots, names = rows + 4 * slots, offsets = names + 4 * columns,
                 sizes = offsets + 4 * columns * units;
  const auto word = [&](uint64_t at) { return Cursor(index, at).u32(); };
  for (uint64_t slot = 0; slot < slots; ++slot) {
    const uint64_t row = word(rows + 4 * slot);
    if (row == 0 || row > units || Cursor(index, ids + 8 * slot).u64() != id) continue;
    PackagedUnit unit{true, {}, {}, {}, {}};
    for (uint64_t column = 0; column < columns; ++column) {
      const uint64_t cell = 4 * ((row - 1) * columns + column);
      const Contribution where{word(offsets + cell), word(sizes + cell)};
      switch (word(names + 4 * column)) {
        case kInfo:
          unit.info = where;
          break;
        case kAbbrev:
          unit.abbrev = where;
          break;
        case kStrOffsets:
          unit.str_offsets = where;
          break;
        case kRnglists:
          if (version == 5) unit.rnglists = where;
          break;
        default:
          break;
      }
    }
    return unit;
  }
  return {};
}

}  // namespace devtrace::dwarf
