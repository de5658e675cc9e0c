#include "binary/dwarf/inlined.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "binary/dwarf/line_files.h"
#include "binary/dwarf/split_files.h"
#include "binary/dwarf/unit.h"
#include "binary/elf/file.h"

namespace devtrace::dwarf {
namespace {

constexpr int kMostReferences = 8;
constexpr size_t kMostOpened = 64;  // units whose functions are kept

bool contains(const std::vector<Range>& ranges, uint64_t offset) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& one) { return one.first <= offset && offset < one.second; });
}

struct Function {
  Range range;
  uint64_t entry;
};

}  // namespace

struct Module::Skeleton {
  std::vector<Range> ranges;
  Unit unit;
  std::string comp_dir, dwo_name;
  std::optional<uint64_t> line_table;
};

// A split unit whose functions are known.
class Module::Opened {
 public:
  Opened(const std::string& module, const Skeleton& skeleton)
      : skeleton_(skeleton),
        file_(find_split_unit(module, skeleton.comp_dir, skeleton.dwo_name, skeleton.unit.dwo_id())),
        unit_(sections(), 0) {
    if (!file_ || !unit_.readable()) return;
    unit_.root();
    unit_.use_bases_of(skeleton.unit);
    if (!unit_.read_abbreviations()) return;
    uint64_t at = unit_.first_entry();
    while (const auto entry = unit_.entry_at(at)) {
      if (entry->tag != kSubprogram) continue;
      for (const Range& range : unit_.ranges_of(*entry)) functions_.push_back({range, entry->offset});
    }
  }

  uint64_t id() const { return skeleton_.unit.dwo_id(); }

  std::vector<InlinedCall> inlined_at(uint64_t offset) const {
    const auto function = std::find_if(functions_.begin(), functions_.end(), [&](const Function& one) {
      return one.range.first <= offset && offset < one.range.second;
    });
    std::vector<InlinedCall> calls;
    if (function == functions_.end()) return calls;
    uint64_t at = function->entry;
    int depth = 0;
    while (const auto entry = unit_.entry_at(at)) {
      if (entry->tag == kInlinedSubroutine && contains(unit_.ranges_of(*entry), offset))
        calls.push_back(call_of(*entry));
      if (entry->tag == 0)
        --depth;
      else if (entry->children)
        ++depth;
      if (depth <= 0) break;
    }
    return calls;
  }

 private:
  Sections sections() const {
    Sections all = file_.sections;
    const Sections& own = skeleton_.unit.sections();
    all.addr = own.addr;
    all.ranges = own.ranges;
    return all;
  }

  InlinedCall call_of(const DebugEntry& entry) const {
    InlinedCall call{name_of(entry, 0), {}, static_cast<int>(entry[At::kCallLine].number)};
    if (skeleton_.line_table)  // the skeleton's: a .dwo has none but for units of types
      call.file =
          file_of(skeleton_.unit.sections(), *skeleton_.line_table, entry[At::kCallFile].number, skeleton_.comp_dir);
    return call;
  }

  std::string name_of(const DebugEntry& entry, int references) const {
    if (const Value& linkage = entry[At::kLinkageName]) return std::string(unit_.text_of(linkage));
    for (const At at : {At::kAbstractOrigin, At::kSpecification}) {
      auto to = unit_.reference(entry[at]);
      if (!to || references == kMostReferences) continue;
      const auto other = unit_.entry_at(*to);
      if (!other) continue;
      if (std::string name = name_of(*other, references + 1); !name.empty()) return name;
    }
    return std::string(unit_.text_of(entry[At::kName]));
  }

  const Skeleton& skeleton_;
  const SplitUnit file_;
  Unit unit_;
  std::vector<Function> functions_;
};

Module::~Module() = default;
Module::Module(Module&&) noexcept = default;

Module::Module(const std::string& path) : path_(path), file_(std::make_unique<elf::File>(path)) {
  Sections all;
  all.addr = file_->bytes_of(".debug_addr");
  if (all.addr.empty()) {  // the addresses of every split unit are there: nothing is split
    file_.reset();
    return;
  }
  all.info = file_->bytes_of(".debug_info");
  all.abbrev = file_->bytes_of(".debug_abbrev");
  all.str = file_->bytes_of(".debug_str");
  all.str_offsets = file_->bytes_of(".debug_str_offsets");
  all.rnglists = file_->bytes_of(".debug_rnglists");
  all.line_str = file_->bytes_of(".debug_line_str");
  all.ranges = file_->bytes_of(".debug_ranges");
  all.line = file_->bytes_of(".debug_line");
  for (uint64_t at = 0; at < all.info.size();) {
    Unit unit(all, at);
    if (unit.next() <= at) break;
    at = unit.next();
    if (!unit.readable()) continue;
    const DebugEntry root = unit.root();
    if (!root[At::kDwoName] || (root.tag != kCompileUnit && root.tag != kSkeletonUnit)) continue;
    auto one =
        std::make_unique<Skeleton>(Skeleton{unit.ranges_of(root), unit, std::string(unit.text_of(root[At::kCompDir])),
                                            std::string(unit.text_of(root[At::kDwoName])), std::nullopt});
    if (root[At::kStmtList]) one->line_table = root[At::kStmtList].number;
    skeletons_.push_back(std::move(one));
  }
}

std::vector<InlinedCall> Module::inlined_at(uint64_t offset) {
  for (const auto& skeleton : skeletons_) {
    if (contains(skeleton->ranges, offset)) return opened(*skeleton).inlined_at(offset);
  }
  return {};
}

const Module::Opened& Module::opened(const Skeleton& skeleton) {
  for (const auto& unit : opened_) {
    if (unit->id() == skeleton.unit.dwo_id()) return *unit;
  }
  if (opened_.size() == kMostOpened) opened_.erase(opened_.begin());
  opened_.push_back(std::make_unique<Opened>(path_, skeleton));
  return *opened_.back();
}

namespace {
std::vector<Module>* modules = nullptr;  // never deleted: a finding may come while the process ends

}  // namespace

std::vector<InlinedCall> inlined_at(const std::string& module, uint64_t offset) {
  if (modules == nullptr) modules = new std::vector<Module>;
  for (Module& one : *modules) {
    if (one.path() == module) return one.inlined_at(offset);
  }
  modules->emplace_back(module);
  return modules->back().inlined_at(offset);
}

}  // namespace devtrace::dwarf
