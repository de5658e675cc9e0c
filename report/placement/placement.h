// Where the program's models lie, as the reports show it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/record/json_access.h"

namespace devtrace::report {

// The log's `placement` records, taken one by one: of those of one `id` the last holds.
class Placement {
 public:
  struct Tensor {
    std::string name, kind, device;
    uint64_t bytes = 0;
    bool again = false;  // the same tensor as one before, under another name
  };
  struct Root {
    std::string name, variable;
    std::vector<Tensor> tensors;
    uint64_t left_out = 0;
  };

  void take(const Json& record);
  // The log goes on with another program of the same process, which counts its ids anew.
  void begin_anew() { by_id_.clear(); }
  bool empty() const { return by_id_.empty(); }

  // Without those that turned out to be a part of another. Where several of one class lived at once, and each was held
  // by a variable of another name, `name` says which: "Net (teacher)".
  std::vector<Root> roots() const;

 private:
  std::map<int64_t, Root> by_id_;
  size_t tensors_ = 0;
};

// What of a root lies on one device.
struct PlacementRow {
  std::string device;
  uint64_t tensors = 0, bytes = 0;
  struct Group {
    std::string name;  // "model.layers.0-15"; empty: all of it
    uint64_t tensors = 0, bytes = 0;
    std::vector<size_t> members;  // indexes into the root's tensors
  };
  std::vector<Group> groups;
};
// In order of appearance.
std::vector<PlacementRow> rows_of(const Placement::Root& root);

// "224 tensors"; "all of it" for an empty name; "Net" or "Net (teacher)".
std::string tensors(uint64_t count);
std::string group_words(const std::string& name);

// Short tables, ending in '\n'; empty when nothing is known.
std::string placement_text(const Placement& placement);
std::string placement_markdown(const Placement& placement);

}  // namespace devtrace::report
