#include "binary/dwarf/line_files.h"

#include <vector>

namespace devtrace::dwarf {
namespace {

struct File {
  std::string_view name;
  uint64_t directory = 0;
};

std::string joined(std::string_view directory, std::string_view name) {
  if (directory.empty() || name.starts_with('/')) return std::string(name);
  return std::string(directory) + "/" + std::string(name);
}

// DWARF 5: a list of forms, then as many entries as it says.
std::vector<File> table(Cursor& cursor, const Sections& sections) {
  constexpr uint64_t kPath = 1, kDirectoryIndex = 2;
  std::vector<std::pair<uint64_t, uint64_t>> format(cursor.u8());
  for (auto& [content, form] : format) {
    content = cursor.uleb();
    form = cursor.uleb();
  }
  std::vector<File> files;
  const uint64_t count = cursor.uleb();
  if (format.empty()) return {};  // entries of no bytes would have no end
  while (files.size() < count && !cursor.at_end()) {
    File file;
    for (const auto& [content, form] : format) {
      std::string_view text;
      uint64_t number = 0;
      switch (form) {
        case 0x08:
          text = cursor.text();
          break;
        case 0x0e:
          text = Cursor(sections.str, cursor.u32()).text();
          break;
        case 0x1f:
          text = Cursor(sections.line_str, cursor.u32()).text();
          break;
        case 0x0b:
          number = cursor.u8();
          break;
        case 0x05:
          number = cursor.u16();
          break;
        case 0x06:
          number = cursor.u32();
          break;
        case 0x07:
          number = cursor.u64();
          break;
        case 0x0f:
          number = cursor.uleb();
          break;
        case 0x1e:
          cursor.skip(16);
          break;
        case 0x09:
          cursor.skip(cursor.uleb());
          break;
        default:
          return {};
      }
      if (content == kPath) file.name = text;
      if (content == kDirectoryIndex) file.directory = number;
    }
    if (cursor.failed()) return {};
    files.push_back(file);
  }
  return files;
}

// Before: names that end with an empty one, counted from 1.
void old_tables(Cursor& cursor, std::vector<File>& directories, std::vector<File>& files) {
  directories.push_back({});
  files.push_back({});
  for (std::string_view name = cursor.text(); !name.empty(); name = cursor.text()) directories.push_back({name, 0});
  for (std::string_view name = cursor.text(); !name.empty(); name = cursor.text()) {
    files.push_back({name, cursor.uleb()});
    cursor.uleb();
    cursor.uleb();
  }
}

}  // namespace

std::string file_of(const Sections& sections, uint64_t offset, uint64_t index, std::string_view comp_dir) {
  Cursor cursor(sections.line, offset);
  if (cursor.u32() >= 0xfffffff0) return {};
  const int version = cursor.u16();
  if (version < 2 || version > 5) return {};
  if (version == 5) cursor.skip(2);
  cursor.u32();                       // the header's size
  cursor.skip(version >= 4 ? 5 : 4);  // of instructions, and of what they count
  const uint8_t operations = cursor.u8();
  cursor.skip(operations == 0 ? 0 : operations - 1);
  std::vector<File> directories, files;
  if (version == 5) {
    directories = table(cursor, sections);
    files = table(cursor, sections);
  } else {
    old_tables(cursor, directories, files);
  }
  if (cursor.failed() || index >= files.size() || files[index].name.empty()) return {};
  const File& file = files[index];
  const std::string_view directory =
      file.directory < directories.size() ? directories[file.directory].name : std::string_view();
  return joined(comp_dir, joined(directory, file.name));
}

}  // namespace devtrace::dwarf
