// Opens a library and calls it: <library> <owner of the memory>; with "-" it is linked to it.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" [[gnu::weak]] int devices_at_load();
extern "C" [[gnu::weak]] int launch(int owner);

int main(int, char** argv) {
  int (*at_load)() = devices_at_load;
  int (*start)(int) = launch;
  if (std::strcmp(argv[1], "-") != 0) {
    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::puts(dlerror()), 1;
    at_load = reinterpret_cast<int (*)()>(dlsym(library, "devices_at_load"));
    start = reinterpret_cast<int (*)(int)>(dlsym(library, "launch"));
  }
  std::printf("%d devices at load\n", at_load());
  std::printf("launch: %d\n", start(std::atoi(argv[2])));
}
