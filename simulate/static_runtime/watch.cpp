// When: after an object is mapped and before any of its code runs, at the start and in each dlopen; its constructors
// register kernels. No file is changed, and no call reaches NVIDIA's runtime.
//
// At the start this library's constructor is the first of all (-z initfirst). For what is opened later there is the
// function that the loader calls for debuggers when its list has changed (r_brk of <link.h>). It does nothing, and a
// jump at its beginning leads here. Not LD_AUDIT, which is made for this: glibc 2.36 then ends in realloc() when a
// process of many libraries with thread-local storage opens one more. Not a hook of dlopen: it could only come before
// or after.
#include <link.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>
#include <vector>

#include "simulate/static_runtime/patch_runtime.h"
#include "simulate/static_runtime/redirect.h"

namespace devtrace::simulate::static_runtime {
namespace {

// What was looked at, as far as it is still loaded. Only changed with the loader's lock, and by the constructor.
std::vector<const link_map*>* g_known;
const char* g_program = "";

bool is_known(const link_map* object) {
  for (const link_map* one : *g_known)
    if (one == object) return true;
  return false;
}

// Where one object was closed, the next may have its place in the list: so those that went are forgotten first.
void look() {
  std::vector<const link_map*> loaded;
  const link_map* const first = _r_debug.r_map;
  for (const link_map* one = first; one; one = one->l_next) {
    if (!is_known(one)) patch_runtime(first, *one, g_program);
    loaded.push_back(one);
  }
  *g_known = std::move(loaded);
}

// In the place of the loader's function. Before objects are unmapped it says RT_DELETE, afterwards RT_CONSISTENT.
void list_changed() {
  if (_r_debug.r_state == r_debug::RT_CONSISTENT) look();
}

// Whether the function does nothing: `ret`, with the mark of a jump's target in front where the loader is built so. And
// whether there is room for a jump up to where the next function may begin.
bool does_nothing(const void* function) {
  const uint8_t kMarked[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xc3};
  constexpr uintptr_t kAlignment = 16;
  const bool nothing =
      *static_cast<const uint8_t*>(function) == 0xc3 || !std::memcmp(function, kMarked, sizeof kMarked);
  return nothing && reinterpret_cast<uintptr_t>(function) % kAlignment == 0;
}

[[gnu::constructor]] void start(int, char** arguments, char**) {
  g_known = new std::vector<const link_map*>;
  if (arguments && arguments[0]) g_program = arguments[0];
  look();
  // Another function, or a debugger's breakpoint in it: what is opened later stays as it is.
  const uintptr_t function = _r_debug.r_brk;
  if (!function || !does_nothing(reinterpret_cast<const void*>(function))) return;
  redirect({{function, reinterpret_cast<const void*>(list_changed)}}, Code::in_use);
}

}  // namespace
}  // namespace devtrace::simulate::static_runtime
