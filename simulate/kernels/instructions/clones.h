// Functions that are compiled once more for processors with wider vectors, and chosen when the library is loaded.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define IN_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define IN_CLONES
#endif
