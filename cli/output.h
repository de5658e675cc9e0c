// What a subcommand writes: to standard output, or to a file that appears when it is whole.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace devtrace::cli {

class Output {
 public:
  // "" and "-" are standard output. Throws Failure when the file cannot be written; write and finish do, too.
  explicit Output(const std::string& file);
  ~Output();  // without finish: no trace of it is left
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  [[noreturn]] void failed(const char* what) const;
  std::string file_, part_;
  std::ofstream out_;
};

// A file that nobody had: in a folder where everybody may write, one of that name may be a link to another of ours.
// Empty, with errno, where none can be made.
std::string new_file(const std::string& name);

// The file with that text; none without a name. Throws as Output does.
void write_file(const std::string& file, std::string_view text);

// Standard output is a terminal that wants colours.
bool to_terminal();

}  // namespace devtrace::cli
