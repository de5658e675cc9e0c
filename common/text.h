// Text from a user's program, made safe for where it is shown. Names, messages and source lines may hold anything.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

namespace devtrace {

// The same text with every byte that is not part of well-formed UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view bytes);

// For a terminal or a text file: control characters (a title change, a cleared screen) and the marks that reorder
// bidirectional text are written as \x1b or \u202e. A tab becomes a space, a line feed stays only if `lines`.
std::string printable(std::string_view text, bool lines = false);

// For HTML text and quoted attributes.
std::string html_escaped(std::string_view text);

// For JSON inside <script>: `<`, `>`, `&` and the line separators U+2028 and U+2029 as \u escapes, so that nothing in
// it ends the element or opens a comment.
std::string script_escaped(std::string_view json);

// One word of a shell's command line.
std::string shell_quoted(const std::string& word);

// At most `limit` characters (not bytes), the middle left out for "…" when there are more: both ends of a path or a
// name tell more.
std::string shortened(std::string_view text, size_t limit);

// Number of characters: bytes that begin one.
size_t length(std::string_view text);

// Source code without the indentation of its first line and without trailing blanks; further lines keep theirs relative
// to it.
std::string dedented(std::string_view source);

// Without the white space around it.
inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// Of a file of a package that is installed: the path from the package on. Empty for another file.
inline std::string_view within_packages(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"})
    if (const size_t at = file.rfind(folder); at != file.npos) return file.substr(at + folder.size());
  return {};
}

// How many characters of white space a line begins with.
inline size_t indentation(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

}  // namespace devtrace
