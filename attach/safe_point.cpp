#include "attach/safe_point.h"

#include <sys/syscall.h>

#include <algorithm>
#include <iterator>

namespace devtrace::attach {
namespace {

// What programs wait in. None of the allocator's own but futex, whose frames tell.
constexpr long kWaits[] = {
    SYS_read,        SYS_pread64,         SYS_readv,         SYS_write,     SYS_ppoll,           SYS_pselect6,
    SYS_epoll_pwait, SYS_accept,          SYS_accept4,       SYS_recvfrom,  SYS_recvmsg,         SYS_recvmmsg,
    SYS_sendto,      SYS_sendmsg,         SYS_connect,       SYS_nanosleep, SYS_clock_nanosleep, SYS_wait4,
    SYS_waitid,      SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_futex,     SYS_ioctl,           SYS_io_getevents,
    SYS_sched_yield, SYS_epoll_pwait2,
#ifdef SYS_poll  // older calls, which arm64 never had
    SYS_poll,        SYS_select,          SYS_epoll_wait,    SYS_pause,
#endif
};

constexpr const char* kAllocates[] = {
    "malloc",        "free",           "calloc",       "realloc",      "memalign",       "posix_memalign",
    "aligned_alloc", "valloc",         "pvalloc",      "reallocarray", "malloc_trim",    "malloc_usable_size",
    "mallinfo",      "mallinfo2",      "malloc_stats", "malloc_info",  "pthread_create", "pthread_exit",
    "pthread_join",  "fork",           "vfork",        "_Fork",        "dlopen",         "dlmopen",
    "dlclose",       "dl_iterate_phdr"};

// Up to glibc 2.33 threads and dlopen are in files of their own.
constexpr const char* kCLibrary[] = {"libc.so", "libc-", "libpthread.so", "libpthread-", "libdl.so", "libdl-"};

bool holds(const std::vector<Range>& ranges, uintptr_t address) {
  return std::ranges::any_of(ranges, [&](const Range& range) { return range.holds(address); });
}

void add(std::vector<Range>& to, const std::vector<Range>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

UnsafeCode unsafe_code(const process::RemoteMemory& memory, const std::vector<LoadedObject>& objects) {
  UnsafeCode unsafe;
  for (const LoadedObject& object : objects) {
    const std::string file = object.file();
    const RemoteObject symbols(memory, object.start);
    const bool c_library = std::ranges::any_of(kCLibrary, [&](const char* name) { return file.starts_with(name); });
    if (file.starts_with("ld-")) {
      add(unsafe.never, object.code);
    } else if (c_library) {
      add(unsafe.c_library, object.code);
    } else if (object.path == "[vdso]") {
      add(unsafe.c_library, object.code);  // an allocator may ask it for the time
    }
    const bool own_allocator = !c_library && symbols.symbol("malloc").begin != 0;
    if (own_allocator && file.find(".so") != file.npos) add(unsafe.never, object.code);
    if (c_library || own_allocator)
      for (const char* name : kAllocates)
        if (const Range function = symbols.symbol(name); function.begin != 0) unsafe.never.push_back(function);
  }
  return unsafe;
}

bool is_safe(const StoppedThread& thread, const UnsafeCode& unsafe) {
  if (holds(unsafe.never, thread.instruction)) return false;
  if (thread.system_call >= 0) {
    if (std::ranges::find(kWaits, thread.system_call) == std::end(kWaits)) return false;
  } else if (holds(unsafe.c_library, thread.instruction)) {
    return false;
  }
  return std::ranges::none_of(thread.stack, [&](uintptr_t word) { return holds(unsafe.never, word); });
}

}  // namespace devtrace::attach
