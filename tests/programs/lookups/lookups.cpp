// Looks functions up by name, millions of times, and says what that left behind or how long each kind took.
//
//   lookups COUNT          whether memory or open files have grown in the second half
//   lookups COUNT times    nanoseconds of processor time a look-up: <kind> <nanoseconds>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

struct Kind {
  const char* what;
  const char* library;  // null: by default
  const char* symbol;
};
const Kind kKinds[] = {
    {"found", "libc.so.6", "malloc"},
    {"found by default", nullptr, "free"},
    {"missing", "libc.so.6", "nonsense"},
    {"like CUDA's", nullptr, "cudnnCreate"},
    {"CUDA's, by default", nullptr, "cudaMalloc"},
    {"CUDA's", "libcudart.so.13", "cudaMalloc"},
};

// Of its own, not of files: those come and go as the kernel pleases.
long kilobytes_held() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Anonymous:")) return std::stol(line.substr(10));
  std::abort();
}

long open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

void* opened(const Kind& kind) {
  return kind.library ? dlopen(kind.library, RTLD_LAZY | RTLD_LOCAL) : RTLD_DEFAULT;
}

void look(const Kind& kind, void* handle, long times) {
  for (long i = 0; i < times; ++i) {
    dlsym(handle, kind.symbol);
    dlerror();
  }
}

}  // namespace

int main(int count, char** words) {
  const long times = count > 1 ? std::atol(words[1]) : 0;
  if (times < 100) return 2;
  if (count > 2) {
    for (const Kind& kind : kKinds) {
      void* const handle = opened(kind);
      if (kind.library && !handle) continue;
      look(kind, handle, 1000);
      const std::clock_t start = std::clock();
      look(kind, handle, times);
      std::printf("%s: %.1f\n", kind.what,
                  1e9 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / static_cast<double>(times));
    }
    return 0;
  }
  long kilobytes = 0, files = 0;
  for (int tenth = 0; tenth < 10; ++tenth) {
    for (const Kind& kind : kKinds)
      if (void* const handle = opened(kind); handle || !kind.library)
        look(kind, handle, times / 10 / std::ssize(kKinds));
    if (tenth < 5) {  // an allocator has taken by then what it keeps
      files = open_files();
      kilobytes = kilobytes_held();
    }
  }
  std::printf("memory grew: %s\n", kilobytes_held() - kilobytes > 32 ? "yes" : "no");
  std::printf("open files grew: %s\n", open_files() > files ? "yes" : "no");
}
