// A module's functions, decoded: what is run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binary/ptx/module.h"
#include "simulate/kernels/machine.h"

namespace devtrace::simulate::kernels {

enum class Special : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_ctarank,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_nctarank,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  total_smem_size,
  dynamic_smem_size,
  one,
  zero,
  workspace_high,
  workspace_low,
  clock,
  clock64,
  globaltimer,
};

// Arrays that are filled before a block begins.
struct Constant {
  enum class Kind : uint8_t { value, special, global, dynamic_shared, parameters };
  Kind kind = Kind::value;
  uint8_t bytes = 0;
  Slot slot = 0;
  uint64_t value = 0;  // special: which; global: what is added; parameters: the offset
  uint32_t index = 0;  // global: of ptx::Module::variables
};

// Where an argument lies: in a register, or in the frame's own memory of each lane.
struct Place {
  bool in_local = false;
  Slot slot = 0;
  uint32_t offset = 0, bytes = 0;
};

// Functions that PTX calls and the driver has.
enum class Builtin : uint8_t {
  none,
  vprintf,
  malloc,
  free,
  assertfail,
  // Of the device's runtime.
  buffer,     // for a launch's parameters: alignment, size
  buffer_of,  // kernel, grid, block, shared memory
  launch,     // kernel, buffer, grid, block, shared memory, stream
  launch_of,  // buffer, stream
  copy,
  set,
  allocate,
  release,
  device,
  attribute,
  condition,  // of a graph's node: handle, value
  make,       // a stream or an event
  success,    // what has nothing to do, as all is done one after the other
};
// none: no such function.
Builtin builtin_called(std::string_view name);
// By its name: a function of the device's runtime.
bool is_of_the_runtime(std::string_view name);

struct CallSite {
  uint32_t function = UINT32_MAX;  // of Program::codes
  Builtin builtin = Builtin::none;
  Slot pointer = kNoSlot;  // of a call by address
  std::vector<Place> arguments, results;
};

struct SharedVariable {
  std::string_view name;
  uint32_t begin = 0, bytes = 0;
};

struct Code {
  const ptx::Function* function = nullptr;
  std::vector<Step> steps;
  std::vector<Slot> more;
  std::vector<std::vector<uint32_t>> tables;
  std::vector<CallSite> calls;
  std::vector<Constant> constants;
  std::vector<Place> parameters, results;
  std::vector<uint32_t> offsets;                    // of an entry's parameters
  uint32_t register_units = 0, constant_units = 0;  // bytes a lane
  uint32_t local_bytes = 0;
  Slot local_base = kNoSlot;
  uint32_t static_shared = 0;  // bytes of its variables
  uint32_t shared_bytes = 0;   // dynamic shared memory follows
  std::vector<SharedVariable> shared_variables;
  uint32_t caches = 0;
  std::vector<std::string> refusals;  // what is not done, by Step::extra of a refusing step
};

// An address of a function: no address of memory.
constexpr uint64_t kFunctionAddress = uint64_t{1} << 62;

struct Program {
  ptx::Module module;
  std::vector<Code> codes;                                   // by the index of ptx::Module::functions
  std::unordered_map<std::string_view, uint32_t> functions;  // by name
  std::vector<bool> used_by_functions;                       // by variable: by some that are no entries
};

// Sets those of the module's variables that the function names.
void find_globals(const ptx::Function& function, std::vector<bool>* used);

// Null: the text is wrong, and *error says where.
std::shared_ptr<const Program> load(std::string ptx, std::string* error);

}  // namespace devtrace::simulate::kernels
