#include "tracker/evidence/source/zip_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace devtrace::evidence {
namespace {

std::string little(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value);
  return out;
}

// An archive of one uncompressed file behind a line of shell, as zipapp writes it: offsets are from the very beginning.
std::string archive(const std::string& name, const std::string& text, bool offsets_count_the_line = true) {
  const std::string line = "#!/usr/bin/env python3\n";
  const size_t base = offsets_count_the_line ? line.size() : 0;
  const std::string sizes = little(0, 4) + little(text.size(), 4) + little(text.size(), 4);
  const std::string names = little(name.size(), 2) + little(0, 2);
  std::string out = line + "PK\3\4" + little(20, 2) + little(0, 8) + sizes + names + name + text;
  const size_t directory = out.size();
  out +=
      "PK\1\2" + little(20, 2) + little(20, 2) + little(0, 8) + sizes + names + little(0, 10) + little(base, 4) + name;
  const size_t length = out.size() - directory;
  return out + "PK\5\6" + little(0, 4) + little(1, 2) + little(1, 2) + little(length, 4) +
         little(directory - line.size() + base, 4) + little(0, 2);
}

class ZipFile : public testing::Test {
 protected:
  ZipFile() : path_(testing::TempDir() + "devtrace-" + std::to_string(::getpid()) + ".pyz") {}
  ~ZipFile() override { ::unlink(path_.c_str()); }
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }
  std::optional<std::string> read(const std::string& member, size_t most = 1000) {
    return zip_member(path_ + "/" + member, most);
  }
  std::string path_;
};

TEST_F(ZipFile, GivesTheTextOfAFile) {
  for (const bool counted : {true, false}) {
    write(archive("package/module.py", "a = 1\nb = 2\n", counted));
    EXPECT_EQ(read("package/module.py"), "a = 1\nb = 2\n");
    EXPECT_EQ(read("module.py"), std::nullopt);
    EXPECT_EQ(read("package/module.py", 5), std::nullopt) << "too long";
  }
  EXPECT_EQ(zip_member("/nowhere/at/all.py", 1000), std::nullopt);
}

TEST_F(ZipFile, TakesWhateverIsThere) {
  const std::string whole = archive("m.py", "text\n");
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    write(whole.substr(0, cut));
    EXPECT_EQ(read("m.py"), std::nullopt) << cut;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char unusual : {'\0', '\x7F', '\xFF'}) {
      std::string bytes = whole;
      bytes[at] = unusual;
      write(bytes);
      if (const auto text = read("m.py")) {
        EXPECT_LE(text->size(), 1000u) << at;
      }
    }
  }
}

}  // namespace
}  // namespace devtrace::evidence
