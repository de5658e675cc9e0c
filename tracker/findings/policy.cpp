#include "tracker/findings/policy.h"

#include <algorithm>

#include "common/access_note.h"
#include "common/format.h"
#include "tracker/base/message.h"
#include "tracker/base/process_start.h"
#include "tracker/evidence/origins/stacks.h"
#include "tracker/interface/platform.h"
#include "tracker/memory/peer_access.h"

namespace devtrace::findings {
namespace {

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// A launch function of the runtime calls the driver's: neither is who launches.
bool is_cuda(const stacks::NativeFrame& frame) {
  const std::string_view file = file_name(frame.module);
  return file.starts_with("libcudart.so") || file.starts_with("libcuda.so") || file.starts_with("libdevtrace.so");
}

}  // namespace

bool Matcher::matches(const RemoteAccess& access) const {
  if (!kernel.empty() && !pattern_matches(kernel, access.kernel) && !pattern_matches(kernel, access.demangled))
    return false;
  if (!library.empty()) {
    const auto launcher = std::find_if_not(access.native.begin(), access.native.end(), is_cuda);
    if (launcher == access.native.end() || !pattern_matches(library, file_name(launcher->module))) return false;
  }
  if (function.empty()) return true;
  for (const stacks::NativeFrame& frame : access.native) {
    if (evidence::evaluates_python(frame)) return false;
    if (pattern_matches(function, frame.function) || pattern_matches(function, frame.mangled)) return true;
  }
  return false;
}

namespace policy {
namespace {

// To excuse more, or to make a note of it: a row. The patterns of a row must all match (policy.h says how); the first
// row that does decides.
struct Row {
  Matcher matcher;
  Verdict verdict;
  const char* reason;
};
constexpr auto kExcused = Verdict::excused;
constexpr char kNccl[] = "NCCL moves data between devices";
constexpr char kNvshmem[] = "NVSHMEM's symmetric heap spans devices";
constexpr char kSymmetric[] = "PyTorch's symmetric memory spans devices";
constexpr char kMp[] = "cuBLASMp works on several devices at once";
constexpr char kAllReduce[] = "the all-reduce of vLLM and SGLang reads its peers' memory";
constexpr char kCopy[] = "PyTorch copies between devices that can reach each other with a kernel";
constexpr Row kRows[] = {
    {{.kernel = "nccl"}, kExcused, kNccl},
    {{.library = "^libnccl*.so"}, kExcused, kNccl},
    {{.kernel = "nvshmem"}, kExcused, kNvshmem},
    {{.library = "^libnvshmem"}, kExcused, kNvshmem},
    {{.kernel = "symm_mem"}, kExcused, kSymmetric},
    {{.kernel = "multimem_all_reduce"}, kExcused, kSymmetric},
    {{.kernel = "one_shot_all_reduce"}, kExcused, kSymmetric},
    {{.kernel = "two_shot_all_reduce"}, kExcused, kSymmetric},
    {{.function = "^c10d::symmetric_memory::"}, kExcused, kSymmetric},
    {{.kernel = "cublasmp"}, kExcused, kMp},
    {{.library = "^libcublasMp"}, kExcused, kMp},
    {{.library = "^libcusolverMg"}, kExcused, "cuSOLVER-Mg works on several devices at once"},
    {{.kernel = "cross_device_reduce"}, kExcused, kAllReduce},
    {{.kernel = "direct_copy_kernel"}, kExcused, kCopy},
    // With a conversion of type, a conjugation or a negation: by kernels that others use as well.
    {{.function = "^at::native::copy_("}, kExcused, kCopy},
};

// The program asked for every access that the kernel makes use of. PyTorch's own asking, for its copies, is told apart
// where it happens (peers_changed).
std::string declared(Device device, const std::vector<Device>& owners) {
  std::string peers;
  for (const Device& owner : owners) {
    if (owner == device) continue;
    if (!memory::peer_access::declared(device, owner)) return {};
    if (peers.find(owner.name()) == peers.npos) peers += (peers.empty() ? "" : ", ") + owner.name();
  }
  return peers;
}

// Permission from before devtrace was attached was not seen. Where the devices cannot reach each other there was none.
std::string permitted_before(Device device, const std::vector<Device>& owners) {
  if (process_start::attached() == 0) return {};
  std::string peers;
  for (const Device& owner : owners) {
    if (owner == device || memory::peer_access::declared(device, owner)) continue;
    if (!owner.is_cuda() || (platform().peer_possible && !platform().peer_possible(device.index, owner.index)))
      return {};
    if (peers.find(owner.name()) == peers.npos) peers += (peers.empty() ? "" : ", ") + owner.name();
  }
  return peers;
}

}  // namespace

bool may_reach_other_devices(std::string_view kernel) {
  for (const Row& row : kRows)
    if (row.verdict == kExcused && row.matcher.by_kernel_only() && row.matcher.matches({.kernel = kernel})) {
      if (verbose())
        explain("policy: no launch of %.*s is looked at: %s", static_cast<int>(kernel.size()), kernel.data(),
                row.reason);
      return true;
    }
  return false;
}

Decision on_remote_access(const RemoteAccess& access, Device device, const std::vector<Device>& owners) {
  for (const Row& row : kRows)
    if (row.matcher.matches(access)) {
      if (verbose())
        explain("policy: %.*s on %s is excused: %s", static_cast<int>(access.demangled.size()), access.demangled.data(),
                device.name().c_str(), row.reason);
      return {row.verdict, row.reason};
    }
  if (const std::string peers = declared(device, owners); !peers.empty())
    return {Verdict::note, fmt::format("the program itself enabled access from {} to {}", device.name(), peers)};
  if (const std::string peers = permitted_before(device, owners); !peers.empty())
    return {Verdict::note,
            fmt::format("{} from {} to {} before devtrace was attached", kAccessNotKnown, device.name(), peers)};
  return {};
}

bool apply(const Decision& decision, finding::Finding& finding) {
  if (decision.verdict == Verdict::note) {
    finding.severity = "note";
    finding.note = decision.reason;
  }
  return decision.verdict != Verdict::excused;
}

}  // namespace policy
}  // namespace devtrace::findings
