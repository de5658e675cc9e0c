#include "tracker/session.h"

#include <unistd.h>

#include <atomic>
#include <iterator>

#include "tracker/base/files.h"
#include "tracker/base/options.h"
#include "tracker/base/process_start.h"
#include "tracker/base/static_guards.h"
#include "tracker/base/thread_state.h"
#include "tracker/copy/graph_copies.h"
#include "tracker/copy/traffic.h"
#include "tracker/findings/findings.h"
#include "tracker/launch/kernels.h"
#include "tracker/log/log.h"
#include "tracker/memory/device_history.h"
#include "tracker/memory/devices_in_use.h"
#include "tracker/memory/library_descriptors.h"
#include "tracker/memory/library_handles.h"
#include "tracker/memory/live_memory.h"
#include "tracker/memory/opened_access.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/pointer_tables.h"
#include "tracker/memory/pooled_memory.h"
#include "tracker/memory/provenance.h"
#include "tracker/placement/memory_use.h"
#include "tracker/placement/placement.h"
#include "tracker/preexisting/allocator_snapshot.h"
#include "tracker/ranks/ranks.h"
#include "tracker/refusals/recent_messages.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::session {
namespace {

// A vfork's child is told apart by its pid.
std::atomic<pid_t> own_pid{0};

// Whether this is the process that started, or a fork's child that was told so: no vfork's child.
bool is_own_process() {
  return own_pid.load() == ::getpid();
}

void write_rest() {
  copy::traffic::write_rest();
  placement::write_rest();
  placement::write_memory();
}

struct HeldOverFork {
  void (*before)();
  void (*after)(bool child);
};

// Of what does the same in both processes.
template <void (*after)()>
void in_both(bool) {
  after();
}

// The order of locks: whoever holds one may take those below it, never one above. `make lint` compares the table in
// docs/internals/hot-path.md.
constexpr HeldOverFork kOrder[] = {
    {findings::before_fork, findings::after_fork},
    {copy::graph_copies::before_fork, in_both<copy::graph_copies::after_fork>},
    {copy::traffic::before_fork, copy::traffic::after_fork},
    {placement::before_fork, placement::after_fork},
    {log::before_fork, log::after_fork},
    {memory::ownership::before_fork, in_both<memory::ownership::after_fork>},
    {launch::kernels::before_fork, in_both<launch::kernels::after_fork>},
    {[] {
       if (platform().before_fork) platform().before_fork();
     },
     [](bool child) {
       if (platform().after_fork) platform().after_fork(child);
     }},
    {memory::provenance::before_fork, in_both<memory::provenance::after_fork>},
    {memory::pooled_memory::before_fork, in_both<memory::pooled_memory::after_fork>},
    {memory::library_handles::before_fork, in_both<memory::library_handles::after_fork>},
    {memory::library_descriptors::before_fork, in_both<memory::library_descriptors::after_fork>},
    {memory::pointer_tables::before_fork, in_both<memory::pointer_tables::after_fork>},
    {memory::opened_access::before_fork, in_both<memory::opened_access::after_fork>},
    {stacks::before_fork, in_both<stacks::after_fork>},
    {refusals::recent_messages::before_fork, refusals::recent_messages::after_fork},
};

void after_fork(bool child) {
  for (auto each = std::rbegin(kOrder); each != std::rend(kOrder); ++each) each->after(child);
}

}  // namespace

void start(const Platform& platform) {
  own_pid.store(::getpid());
  process_start::note();
  files::note_stderr();
  set_platform(platform);
  findings::set_exit_writer(write_rest);
}

void attached() {
  thread_state::set_detached(true);
  thread_state::forget_devices();
  memory::device_history::forget_all();
  memory::ownership::forget_all();
  memory::ownership::prepare();
  memory::provenance::forget_all();
  memory::pooled_memory::forget_all();
  memory::library_handles::forget_all();
  memory::library_descriptors::forget_all();
  memory::pointer_tables::forget_all();
  memory::opened_access::forget_all();
  memory::devices_in_use::forget_all();
  launch::kernels::forget_all();
  process_start::note_attached();
  thread_state::set_detached(false);
}

size_t look_at_preexisting() {
  const size_t blocks = options().provenance ? preexisting::learn_blocks() : 0;
  placement::look_now();
  return blocks;
}

void pytorch_loaded() noexcept {
  const ReentrancyGuard inside;
  try {
    log::pytorch_loaded();
  } catch (...) {
  }
}

void detached() noexcept {
  thread_state::set_detached(true);
  const ReentrancyGuard inside;
  try {
    findings::flush();
  } catch (...) {
  }
}

void before_fork() {
  for (const HeldOverFork& each : kOrder) each.before();
}

void after_fork_in_parent() {
  after_fork(false);
}

void after_fork_in_child() {
  static_guards::after_fork_in_child();
  own_pid.store(::getpid());
  process_start::note();
  thread_state::forget_after_fork();
  const bool had_log = log::is_open();
  memory::live_memory::forget_all();
  ranks::forget_in_child();
  after_fork(true);
  if (!had_log) read_options_anew();  // else it goes on as its parent did
}

void finish(int status) noexcept {
  if (!is_own_process()) return;
  placement::look_last();
  const ReentrancyGuard inside;
  try {
    if (platform().before_end) platform().before_end();
    findings::finish(status);
  } catch (...) {
  }
}

int exit_code(int status) {
  const bool changed = status == 0 && findings::faults() > 0 && options().error_exitcode > 0 && is_own_process();
  return changed ? options().error_exitcode : status;
}

}  // namespace devtrace::session
