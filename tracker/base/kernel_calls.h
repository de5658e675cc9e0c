// System calls made by this code itself. Where the C library's function of that name is somebody else's (a fake clock,
// a recorder of files), it may not be ready yet. Or its library may have ended already. Ours run before and after it.
#pragma once

#include <sys/syscall.h>

namespace devtrace {

// What the kernel answers: below 0 an error's number.
template <class A = long, class B = long, class C = long, class D = long>
inline long kernel_call(long number, A first = {}, B second = {}, C third = {}, D fourth = {}) {
#ifdef __x86_64__
  long answer;
  register long r10 __asm__("r10") = (long)fourth;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"((long)first), "S"((long)second), "d"((long)third), "r"(r10)
                   : "rcx", "r11", "memory");
  return answer;
#else
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = (long)first;
  register long x1 __asm__("x1") = (long)second;
  register long x2 __asm__("x2") = (long)third;
  register long x3 __asm__("x3") = (long)fourth;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
#endif
}

}  // namespace devtrace
