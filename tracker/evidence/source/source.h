// Source text of Python frames.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "finding/finding.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

// A region of a source file, lines from 1, columns from 0 in bytes; end_column is past the end. Columns are -1 when
// unknown.
struct Region {
  int line = 0;
  int end_line = 0;
  int column = -1;
  int end_column = -1;
};

// The lines of a file, each without its end; of one inside of a zip archive, too. Empty when it cannot be read.
std::vector<std::string> lines_on_disk(const std::string& file);

// Lines that are shown with a line.
struct Margin {
  int before = 3, after = 3;
};

// Lines before `first` and after `last`, each cut where it is no longer read by anybody; indentation common to all is
// removed. Line 0: nothing is known.
finding::Around around(const std::vector<std::string>& lines, int first, int last, Margin margin = {});

// Lines of one file, from Python's linecache where it has them (notebooks, python -c), else from disk.
class Source {
 public:
  Source(const python::Api& api, const std::string& file);
  explicit Source(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  bool known() const { return !lines_.empty(); }
  const std::vector<std::string>& all() const { return lines_; }
  // The whole lines of the region's statement, of which one over more than 20 lines has its region's alone, at most
  // ten; indentation common to all is removed.
  std::string lines(const Region& region) const;
  // Number of the first of these.
  int first_line(const Region& region) const { return shown(region).line; }
  // The same with what stands around it.
  finding::Around around(const Region& region, Margin margin = {}) const;
  // The region's own text; whole lines where its columns are unknown. Without an end line, all
  // lines of its statement from its own on.
  std::string text(const Region& region) const;
  // What stands before and after the region on its first and its last line; empty where its columns are unknown.
  std::string before(const Region& region) const;
  std::string after(const Region& region) const;
  // The region of a method's call with what it is called on. Python tells one that goes on over lines from the method's
  // name on. The same where that cannot be read.
  Region with_receiver(const Region& region) const;
  // The region with an end line, that of its statement, for interpreters without column tables.
  Region closed(Region region) const;

 private:
  Region shown(const Region& region) const;
  const std::vector<int>& statements() const;

  std::vector<std::string> lines_;
  mutable std::vector<int> statements_;  // for each line, the first one of the statement that it is of
};

// Sources of several files, each read once. Under the GIL.
class SourceReader {
 public:
  explicit SourceReader(const python::Api& api) : api_(api) {}
  const Source& file(const std::string& name) const { return files_.try_emplace(name, api_, name).first->second; }
  std::string lines(const std::string& name, int line) const { return file(name).lines(Region{line, 0, -1, -1}); }
  int first_line(const std::string& name, int line) const { return file(name).first_line(Region{line, 0, -1, -1}); }
  finding::Around around(const std::string& name, int line) const { return file(name).around(Region{line, 0, -1, -1}); }

 private:
  const python::Api& api_;
  mutable std::map<std::string, Source> files_;
};

}  // namespace devtrace::evidence
