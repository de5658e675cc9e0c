"""Programs of the tests of hardware that g++ builds: by each test for itself, or before (`gpu_compiled.py FOLDER` builds all) for a machine that
has no compiler."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
STATIC = Path(sysconfig.get_path("purelib")) / "nvidia/cu13/lib/libcudart_static.a"
# What tells on stdout: launches, and what the device says in the end.
WITHOUT_COMPILER = '''
#include <cuda_runtime_api.h>
#include <cstdio>
#include <cstdlib>
#define CHECK(call) if (const cudaError_t code = (call); code != cudaSuccess) { std::printf("%s: %s\\n", #call, cudaGetErrorString(code)); return 3; }
const char* kText = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry touch(.param .u64 first) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [first];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  st.global.u32 [%rd2], %r1;
  ret;
})";
int main(int count, char**) {
  void* memory = nullptr;
  cudaLibrary_t library;
  cudaKernel_t kernel;
  CHECK(cudaMalloc(&memory, 4096));
  CHECK(cudaLibraryLoadData(&library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cudaLibraryGetKernel(&kernel, library, "touch"));
  if (count > 1) memory = std::malloc(1 << 20);
  void* arguments[] = {&memory};
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0, nullptr));
  std::printf("launched %d\\n", cudaDeviceSynchronize());
}
'''
# Linked between a static runtime and the process (--wrap=dlsym): says whose function the runtime gets under each name.
OBSERVER = r"""
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <cstdio>
#include <cstring>
extern "C" {
void* __real_dlsym(void*, const char*);
static int (*ask)(const char*, void**, int, unsigned long long, void*);
static void tell(const char* way, const char* name, void* found) {
  Dl_info info{};
  if (found && dladdr(found, &info)) std::printf("%s %s %s %s\n", way, name, strrchr(info.dli_fname, '/') + 1, info.dli_saddr == found ? info.dli_sname : "?");
}
static int observe(const char* name, void** found, int version, unsigned long long flags, void* status) {
  const int code = ask(name, found, version, flags, status);
  if (code != 0 || !*name) return code;
  tell("entry", name, *found);
  if (strcmp(name, "cuGetProcAddress") == 0 && version >= 12000) *found = reinterpret_cast<void*>(observe);  // from here on it asks this one
  return code;
}
void* __wrap_dlsym(void* handle, const char* name) {
  void* const found = __real_dlsym(handle, name);
  if (found) tell("dlsym", name, found);
  if (strcmp(name, "cuGetProcAddress_v2") != 0) return found;
  ask = reinterpret_cast<decltype(ask)>(found);
  return reinterpret_cast<void*>(observe);
}
}
int main() {
  int count = 0;
  cudaGetDeviceCount(&count);
}
"""
# Stands behind devtrace: what a hook calls is counted here. Without the hook nobody comes by.
COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static long entered;
__attribute__((visibility("hidden"), used)) void* enter(const char* name) {
  static void* driver;
  if (!driver) driver = dlopen("libcuda.so.1", RTLD_LAZY);
  ++entered;
  return dlsym(driver, name);
}
long launches_counted() { return entered; }
#define COUNT(name) __asm__(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" \
  "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $8, %rsp\nlea .L" #name "(%rip), %rdi\ncall enter\n" \
  "add $8, %rsp\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\njmp *%rax\n.popsection\n" \
  ".pushsection .rodata\n.L" #name ": .asciz \"" #name "\"\n.popsection\n");
COUNT(cuLaunchKernel)
COUNT(cuLaunchKernelEx)
COUNT(cuLaunchKernel_ptsz)
COUNT(cuLaunchKernelEx_ptsz)
"""

RUNTIME = ["-std=c++17", "-I", TOP / ".cache/cuda/include", STATIC, "-ldl", "-lrt", "-lpthread"]
# By the name of what is built: the source, its language, and what follows on g++'s command line.
PROGRAMS = {
    "launches": (WITHOUT_COMPILER, "c++", RUNTIME),
    "observer": (OBSERVER, "c++", ["-Wl,--wrap=dlsym", *RUNTIME]),
    "libcounter.so": (COUNTER, "c", ["-O1", "-w", "-shared", "-fPIC", "-ldl"]),
}


def build(folder: Path, name: str) -> Path:
    source, language, flags = PROGRAMS[name]
    file = folder / f"{name}.{'c' if language == 'c' else 'cpp'}"
    file.write_text(source)
    subprocess.run(["g++" if language == "c++" else "gcc", file, "-o", folder / name, *flags], check=True)
    return folder / name


def compiled(folder: Path, name: str) -> Path:
    import pytest
    from conftest import BUILD

    if (before := BUILD / "prebuilt" / name).exists():
        return before
    if PROGRAMS[name][2][-1] == "-lpthread" and not STATIC.exists():
        pytest.skip("the wheels have no libcudart_static.a")
    if not shutil.which("g++"):
        pytest.skip("no g++, and the program was not built before")
    return build(folder, name)


if __name__ == "__main__":
    for name in PROGRAMS:
        build(Path(sys.argv[1]), name)
