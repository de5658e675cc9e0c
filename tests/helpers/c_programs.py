"""Small C programs and libraries that only look like CUDA's; each runs bare and with devtrace preloaded."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, LIBRARY, TOP, environment, execute

ROWS = re.findall(r'^HOOK\("(lib\w+\.so)", (\w+)\)$', (TOP / "interpose/linking/hooks.inc").read_text(), re.M)

# The stand-ins that programs are linked with: DEVTRACE_TEST_CUDA=12 takes the runtime of `make simulate-cuda12`.
RUNTIME = BUILD / "simulate" / {"13": "libcudart.so.13", "12": "cuda12/libcudart.so.12"}[os.environ.get("DEVTRACE_TEST_CUDA", "13")]
DRIVER = BUILD / "simulate/libcuda.so.1"
WITH_CUDA = [str(RUNTIME), str(DRIVER)]  # no paths, which would be searched at the start too

COMMON = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
// The file and the symbol of an address.
static inline const char* whose(void* address) {
  static __thread char text[8][200];
  static __thread int turn;
  Dl_info info;
  if (!address) return "nothing";
  if (!dladdr(address, &info)) return "nobody's";
  const char* slash = strrchr(info.dli_fname, '/');
  turn = (turn + 1) % 8;
  snprintf(text[turn], sizeof text[turn], "%s:%s", slash ? slash + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "?");
  return text[turn];
}
"""


def build(folder: Path, name: str, source: str, *flags) -> Path:
    """A program, or with a name ending in .so or .so.N a shared library. `flags` stand behind the source, libraries among them."""
    output = folder / name
    output.parent.mkdir(parents=True, exist_ok=True)
    shared = ["-shared", "-fPIC", f"-Wl,-soname,{output.name}"] if ".so" in output.name else []
    subprocess.run(
        ["gcc", "-x", "c", "-O1", "-w", *shared, "-o", output, "-", "-x", "none", "-Wl,--no-as-needed", *flags,
         *(f"-Wl,-rpath,{place}" for place in [folder, *(flag.parent for flag in flags if isinstance(flag, Path))]), "-ldl", "-pthread"],
        input=COMMON + source, text=True, check=True,
    )
    return output


def both(folder: Path, command, before=(), after=(), env=None, timeout=60):
    """The outcomes without and with devtrace, which is preloaded between the libraries `before` and `after`."""
    outcomes = []
    for library in ([], [LIBRARY]):
        preload = ":".join(map(str, [*before, *library, *after]))
        variables = {**(env or {}), **({"LD_PRELOAD": preload} if preload else {})}
        outcomes.append(execute(command, folder, environment(None, variables), timeout))
    return outcomes


def same(bare, traced, code=0):
    """Both ended as they should and said the same, but for a blank behind a name that is not there. Returns what was said."""
    assert bare.code == code, f"without devtrace:\n{bare.out}{bare.err}"
    text = [re.sub(r"undefined symbol: (\w+) *", r"undefined symbol: \1", one.out + one.err) for one in (bare, traced)]
    assert (traced.code, text[1]) == (code, text[0]), f"{traced.code}\n{traced.out[-2000:]}{traced.err[-2000:]}"
    return bare.out


# A runtime and a driver of which every function answers with a number of its own.
def functions(names, answer=77):
    return "".join(f"int {name}() {{ return {answer}; }}\n" for name in names)


@pytest.fixture(scope="module")
def cuda(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda")
    runtime = build(folder, "libcudart.so.13", functions([name for library, name in ROWS if library == "libcudart.so"]))
    return runtime


OWN_WALK = r"""
#include <link.h>
static int walks;
int dl_iterate_phdr(int (*look)(struct dl_phdr_info*, size_t, void*), void* data) {
  static int (*next)(int (*)(struct dl_phdr_info*, size_t, void*), void*);
  ++walks;
  if (!next) next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
  return next(look, data);
}
"""
