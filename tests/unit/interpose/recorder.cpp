#include "tests/unit/interpose/recorder.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tracker/base/thread_state.h"
#include "tracker/interface/platform.h"

namespace devtrace::events {

void block_given(const void*, size_t, Device) {}
void block_taken(const void*) {}
void pool_object_made(const void*, size_t) {}
void pool_object_gone(const void*) {}
bool wants_blocks() {
  return false;
}
void allocated(const void*, size_t, Device, MemoryKind) {}
void freed(const void*) {}
void unmapped(const void*, size_t) {}
void device_reset(int ordinal) {
  recorder::resets.push_back(ordinal);
}
const Kernel* known_kernel(const void*) {
  return nullptr;
}
const Kernel* kernel_described(const void*, std::string, const std::vector<device::Parameter>&) {
  return nullptr;
}
void kernels_unloaded() {}
void launched(const Launch&) {}
bool passes(const void*, const void* const*) {
  return false;
}
void launch_refused(const Launch&) {}
void variable_set(const void*, size_t, Device) {}
void kernel_ran(const KernelRun&) {}
uint32_t call_site() {
  return 0;
}
bool wants_launches() {
  return false;
}
void library_handle_made(LibraryHandle, const char*) {}
void library_handle_gone(LibraryHandle) {}
void event_refused(const LibraryCall&, int) {}
void rank_joins(const Rank&) {}
void rank_joined(const Rank&, const void*) {}
void ranks_refused(const Rank*, size_t, Twice) {}
void rank_left(const void*) {}
void rank_split(const void*, int, const Rank&, const void*) {}
void collective_called(const char*, const void*, const Collective&) {}
void copied(const Copy& copy) {
  recorder::copies.push_back(copy);
}
void copy_planned(const void*, const Copy&) {}
bool copy_is_planned(const void*) {
  return false;
}
void graph_node_gone(const void*) {}
void graph_ready(const void*, const GraphCopy*, size_t) {}
void graph_copy_changed(const void*, const void*, const Copy&) {}
void graph_child_changed(const void*, const void*, const GraphCopy*, size_t) {}
void graph_node_enabled(const void*, const void*, bool) {}
void graph_gone(const void*) {}
void graph_launched(const void*) {}
bool wants_copies() {
  return true;
}
void peers_changed(int device, int peer, bool allowed, bool own) {
  recorder::peers.push_back({device, peer, allowed, own});
}
void range_opened(const void*, size_t) {}
void device_changed(int ordinal, const void*) {
  thread_state::set_device(ordinal);
  recorder::devices.push_back(ordinal);
}
void refused(const Refused&) {}

}  // namespace devtrace::events

int main(int argc, char** argv) {
  ::setenv("DEVTRACE_SIM_GPUS", "2", 1);
  ::setenv("DEVTRACE_SIM_PEER", "0-1", 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  devtrace::Platform answers;
  answers.simulated = [] { return false; };
  devtrace::set_platform(answers);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
