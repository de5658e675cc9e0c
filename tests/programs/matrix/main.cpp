// Every way to launch × every way to allocate × every place of a pointer among a kernel's parameters, in one process. A
// plain C++ program that is linked to the CUDA runtime and the driver, without Python and without a compiler for
// devices: its kernel is PTX text.
//
//   matrix inject WAY   one pointer of each launch leads to the other device's memory
//   matrix inject-through WAY   the same with originals that are really called: who tells from within them is not heard
//                       otherwise. That the log had grown is then asked when they have returned.
//   matrix clean WAY    all is where it belongs, and everything is really launched
//
// WAY: how it comes by CUDA's functions (ways.cpp). A line each: case <launch> <allocation> <place> <0 or 1: on the
// other device> <0 or 1: the log had grown when the original was entered> <result> <originals entered>. `matrix list`
// names the functions of libcudart and libcuda that are gone through, `matrix ways` the ways.
#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "tests/programs/matrix/allocation.h"
#include "tests/programs/matrix/launch.h"
#include "tests/programs/matrix/stage.h"

namespace matrix {
namespace {

template <class Row>
std::vector<Row> joined(std::vector<Row> rows, const std::vector<Row>& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

// A variable of the shim's.
template <class Value>
Value& shims(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  check(found ? 0 : 1, name);
  return *static_cast<Value*>(found);
}

long log_size() {
  static const auto path = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "devtrace_log_path"));
  struct stat facts {};
  return path && stat(path(), &facts) == 0 ? static_cast<long>(facts.st_size) : 0;
}

void go_through(bool inject, bool call_originals) {
  long& matrix_entered = shims<long>("matrix_entered");
  long& matrix_size_at_entry = shims<long>("matrix_size_at_entry");
  int& matrix_swallow = shims<int>("matrix_swallow");
  const auto launches = joined(plain_launches(), graph_nodes());
  for (const Allocation& allocation : joined(device_memory(), shared_memory())) {
    use(inject ? 1 : 0);
    void* const memory = allocation.make(inject ? 1 : 0);
    use(0);
    for (const Launch& launch : launches)
      for (const char* place : kPlaces) {
        Arguments arguments = arguments_with(place, here, memory);
        const long before = log_size();
        const long entered = matrix_entered;
        // A graph's nodes are only added, never launched, so their originals may run.
        matrix_swallow = inject && !call_originals && !std::strstr(launch.name, "Graph");
        matrix_size_at_entry = -1;
        const int result = run(launch, arguments);
        matrix_swallow = 0;
        const long after = call_originals ? log_size() : matrix_size_at_entry;
        std::printf("case %s %s %s %d %d %d %ld\n", launch.name, allocation.name, place, inject && !allocation.shared,
                    after > before, result, matrix_entered - entered);
      }
  }
}

}  // namespace
}  // namespace matrix

int main(int count, char** words) {
  using namespace matrix;
  const std::string_view mode = count > 1 ? words[1] : "", wanted = count > 2 ? words[2] : "";
  if (mode == "list") {
    for (const Launch& launch : joined(plain_launches(), graph_nodes())) std::printf("%s\n", launch.name);
    for (const Allocation& allocation : joined(device_memory(), shared_memory())) std::printf("%s\n", allocation.name);
    return 0;
  }
  for (const Way& way : ways()) {
    if (mode == "ways") std::printf("%s\n", way.name);
    const bool inject = mode.starts_with("inject"), through = mode == "inject-through";
    if (way.name != wanted || (!inject && mode != "clean")) continue;
    way.fill();
    prepare();
    go_through(inject, through);
    CHECK(cuda.cudaDeviceSynchronize());
    std::printf("done\n");
    return 0;
  }
  return mode == "ways" ? 0 : 2;
}
