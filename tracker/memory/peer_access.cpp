#include "tracker/memory/peer_access.h"

namespace devtrace::memory::peer_access {

namespace detail {
constinit std::atomic<uint8_t> pairs[kDevices][kDevices]{};
}

void changed(int device, int peer, bool allowed, bool own) {
  if (device < 0 || device >= kDevices || peer < 0 || peer >= kDevices || device == peer) return;
  auto& pair = detail::pairs[device][peer];
  // What the program declared stays declared when PyTorch finds the access there, or asks for it again.
  if (!allowed)
    pair.store(0, std::memory_order_relaxed);
  else
    pair.fetch_or(own ? detail::kAllowed | detail::kDeclared : detail::kAllowed, std::memory_order_relaxed);
}

}  // namespace devtrace::memory::peer_access
