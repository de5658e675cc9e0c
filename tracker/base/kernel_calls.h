// System calls made by this code itself. Where the C library's function of that name is somebody else's (a fake clock,
// a recorder of files), it may not be ready yet, or its library may have ended already: ours run before and after it.
#pragma once

#include <sys/syscall.h>

namespace devtrace {

// What the kernel answers: below 0 an error's number.
template <class A = long, class B = long, class C = long, class D = long>
inline long kernel_call(long number, A first = {}, B second = {}, C third = {}, D fourth = {}) {
  long answer;
  register long r10 __asm__("r10") = (long)fourth;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"((long)first), "S"((long)second), "d"((long)third), "r"(r10)
                   : "rcx", "r11", "memory");
  return answer;
}

}  // namespace devtrace
