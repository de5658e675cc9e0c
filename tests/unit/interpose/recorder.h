// The tracker's place taken by a recorder: what the hooks tell, as the tests compare it. The program is linked with the
// hooks themselves, in front of the stubs, so that each call of a CUDA function is one of its hook.
#pragma once

#include <vector>

#include "tracker/events.h"

namespace recorder {

struct Peers {
  int device;
  int peer;
  bool allowed;
  bool own;
  bool operator==(const Peers&) const = default;
};

inline std::vector<devtrace::events::Copy> copies;
inline std::vector<Peers> peers;
inline std::vector<int> devices;  // each change of the current one
inline std::vector<int> resets;

inline void clear() {
  copies.clear();
  peers.clear();
  devices.clear();
  resets.clear();
}

}  // namespace recorder
