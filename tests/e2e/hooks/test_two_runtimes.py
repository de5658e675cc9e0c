"""Two CUDA runtimes in one process, each with its own callers: every call ends in the runtime in which it would have ended without
devtrace, and both are seen. Small C plugins, each linked to its own runtime: libraries that only look like CUDA's, and the stubs."""

import re
import sysconfig
from pathlib import Path

import pytest
from c_programs import OWN_WALK, ROWS, both, build, functions, same
from conftest import BUILD

NAMES = [name for library, name in ROWS if library == "libcudart.so"]
FIRST, SECOND = 12, 13

# A wrapper that ends in the call leaves no frame behind by which its library could be known.
PLUGIN = r"""
int cudaMalloc(void**, size_t);
int cudaFree(void*);
int cudaMemcpyAsync();
int cudaLaunchKernel();
void** __cudaRegisterFatBinary(void*);
void __cudaUnregisterFatBinary(void**);
int PREFIX_malloc(void** p, size_t n) { return cudaMalloc(p, n); }
int PREFIX_malloc_here(void** p, size_t n) { int answer = cudaMalloc(p, n); __asm__ volatile(""); return answer + 0 * (answer == 99); }
int PREFIX_free(void* p) { volatile int answer = cudaFree(p); return answer; }
int PREFIX_copy() { volatile int answer = cudaMemcpyAsync(0, 0, 0L, 0, 0); return answer; }
int PREFIX_register() { volatile long handle = (long)__cudaRegisterFatBinary(0); return handle; }
int PREFIX_by_default() { int (*found)(void*) = dlsym(RTLD_DEFAULT, "cudaFree"); volatile int answer = found ? found(0) : -1; return answer; }
"""
PROGRAM = r"""
static void* plugins[2];
static int call(int plugin, const char* what) {
  char name[100];
  void* p = 0;
  snprintf(name, sizeof name, "%s_%s", plugin ? "b" : "a", what);
  int (*function)(void**, size_t) = dlsym(plugins[plugin], name);
  return function(&p, 1);
}
int main(int argc, char** words) {
  const char* what[] = {"malloc", "malloc_here", "free", "copy", "register", "by_default"};
  for (int i = 0; i < 2; ++i) {
    plugins[i] = dlopen(words[1 + i], RTLD_NOW);
    if (!plugins[i]) { printf("%s\n", dlerror()); return 1; }
    if (argc > 3) call(i, "malloc_here"), call(i, "free");  // before the next is there
  }
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < sizeof what / sizeof *what; ++i)
      if (argc <= 4 || strcmp(words[4], what[i])) printf("%s %d %d\n", what[i], call(0, what[i]), call(1, what[i]));
  return 0;
}
"""


def runtime(folder: Path, file: str, answer: int, version: str | None) -> Path:
    flags = []
    if version:
        (folder / f"{file}.map").write_text(f"{version} {{ global: *; }};")
        flags = [f"-Wl,--version-script={folder / f'{file}.map'}"]
    return build(folder, file, functions(NAMES, answer), *flags)


def plugins(folder: Path, *runtimes: Path) -> list[Path]:
    return [build(folder, f"libplugin_{name}.so", PLUGIN.replace("PREFIX", name), library, "-O2") for name, library in zip("ab", runtimes)]


def said(first: int, second: int, default=None, without=()) -> str:
    lines = [f"{what} {first} {second}\n" for what in ("malloc", "malloc_here", "free", "copy", "register") if what not in without]
    return "".join(lines + [f"by_default {default or first} {default or second}\n"]) * 3


@pytest.mark.parametrize("late", [[], ["late"]])
@pytest.mark.parametrize("order", [1, -1])
def test_each_plugin_calls_the_runtime_it_is_linked_to(tmp_path, order, late):
    """Also if the second comes after functions of the first have been called."""
    one, two = [runtime(tmp_path, f"libcudart.so.{n}", n, f"libcudart.so.{n}") for n in (FIRST, SECOND)][::order]
    program = build(tmp_path, "program", PROGRAM)
    out = same(*both(tmp_path, [program, *plugins(tmp_path, one, two), *late]))
    assert out == said(*(FIRST, SECOND)[::order])


def test_a_program_that_is_linked_to_one_itself(tmp_path):
    """Its runtime comes first for everybody who states no version; a plugin's functions have one."""
    one, two = [runtime(tmp_path, f"libcudart.so.{n}", n, f"libcudart.so.{n}") for n in (FIRST, SECOND)]
    program = build(tmp_path, "program", "int cudaMalloc(void**, size_t);\n" + PROGRAM.replace("int main(", "int start(") + """
int main(int argc, char** words) { void* p; printf("%d\\n", cudaMalloc(&p, 1)); return start(argc, words); }""", two)  # fmt: skip
    out = same(*both(tmp_path, [program, *plugins(tmp_path, one, two)]))
    assert out == f"{SECOND}\n" + said(FIRST, SECOND, default=SECOND)


def test_runtimes_without_versions(tmp_path):
    """The loader goes by what the caller's library was opened with, and so does devtrace where there is a frame to go by."""
    one, two = [runtime(tmp_path, f"libcudart.so.{n}", n, None) for n in (FIRST, SECOND)]
    program = build(tmp_path, "program", PROGRAM)
    out = same(*both(tmp_path, [program, *plugins(tmp_path, one, two), "early", "malloc"]))
    assert out == said(FIRST, SECOND, without=["malloc"])


def test_two_copies_of_one_runtime(tmp_path):
    """As two wheels bring them that were packed with libraries of their own."""
    one, two = [runtime(tmp_path, file, n, "libcudart.so.12") for n, file in ((FIRST, "libcudart.so.12"), (SECOND, "libcudart-8d27a8b4.so.12.4.127"))]
    program = build(tmp_path, "program", PROGRAM)
    out = same(*both(tmp_path, [program, *plugins(tmp_path, one, two), "early", "malloc"]))
    assert out == said(FIRST, SECOND, without=["malloc"])


def test_a_plugin_of_a_plugin(tmp_path):
    """What is opened together shares what it needs: a library that is linked to no runtime calls that of who opened it."""
    one, two = [runtime(tmp_path, f"libcudart.so.{n}", n, None) for n in (FIRST, SECOND)]
    inner = [build(tmp_path, f"libinner_{name}.so", PLUGIN.replace("PREFIX", name), "-O2") for name in "ab"]
    outer = [build(tmp_path, f"libouter_{name}.so", "", library, between) for name, library, between in zip("ab", inner, (one, two))]
    program = build(tmp_path, "program", PROGRAM)
    out = same(*both(tmp_path, [program, *outer, "early", "malloc"]))
    assert out == said(FIRST, SECOND, without=["malloc"])


def two_of_one_version(folder: Path) -> list[Path]:
    """As PyTorch loads them where LD_LIBRARY_PATH leads to one and its wheels bring the other."""
    folders = [folder / name for name in ("system", "wheels")]
    for each in folders:
        each.mkdir()
    return [runtime(each, "libcudart.so.13", n, "libcudart.so.13") for each, n in zip(folders, (FIRST, SECOND))]


def test_a_call_does_not_go_through_the_list_of_what_is_loaded(tmp_path):
    """Which of two it means is found once for each function and caller: a hundred calls walk no more often than one."""
    one, two = two_of_one_version(tmp_path)
    # The one is there by its name when the second is opened by its path.
    program = build(tmp_path, "program", OWN_WALK + r"""
int main(int argc, char** words) {
  void* plugin = dlopen(words[1], RTLD_NOW);
  if (!plugin || !dlopen(words[2], RTLD_NOW)) { printf("%s\n", dlerror()); return 1; }
  int (*of_frame)(void**, size_t) = dlsym(plugin, "a_malloc_here"), (*without)(void**, size_t) = dlsym(plugin, "a_malloc");
  void* p;
  for (int round = 0; round < 100; ++round) {
    if (round == 1) walks = 0;
    if (of_frame(&p, 1) != 12 || without(&p, 1) != 12) return 2;
  }
  fprintf(stderr, "%d walks\n", walks);
}""", "-rdynamic")  # fmt: skip
    _, traced = both(tmp_path, [program, *plugins(tmp_path, one, two)[:1], two])
    assert traced.code == 0, (traced.code, traced.out, traced.err)
    assert traced.err == "0 walks\n"


def test_a_plugin_where_another_lay_before(tmp_path):
    """The next to be opened may lie where one was closed, and mean the other runtime."""
    runtimes = [runtime(tmp_path, f"libcudart.so.{n}", n, None) for n in (FIRST, SECOND)]
    program = build(tmp_path, "program", r"""
int main(int argc, char** words) {
  dlopen(words[3], RTLD_NOW), dlopen(words[4], RTLD_NOW);
  for (int i = 0; i < 6; ++i) {
    void* plugin = dlopen(words[1 + i % 2], RTLD_NOW);
    void* p;
    int (*function)(void**, size_t) = dlsym(plugin, i % 2 ? "b_malloc_here" : "a_malloc_here");
    printf("%d\n", function(&p, 1));
    fprintf(stderr, "%p\n", (void*)function);
    dlclose(plugin);
  }
}""")  # fmt: skip
    bare, traced = both(tmp_path, [program, *plugins(tmp_path, *runtimes), *runtimes])
    assert bare.out == f"{FIRST}\n{SECOND}\n" * 3, bare.out + bare.err
    assert traced.out == bare.out
    assert len(set(traced.err.split())) == 1, "they do not lie in one place: the test shows nothing"


def test_functions_looked_up_in_one_runtime_are_its_own(tmp_path):
    """Whoever calls them: by the program here, which is linked to the other."""
    one, two = [runtime(tmp_path, f"libcudart.so.{n}", n, f"libcudart.so.{n}") for n in (FIRST, SECOND)]
    program = build(tmp_path, "program", r"""
int cudaFree(void*);
int main() {
  int (*early)(void**, size_t) = dlsym(dlopen("libcudart.so.12", RTLD_NOW), "cudaMalloc");
  void* p;
  printf("%d %d\n", early(&p, 1), cudaFree(0));
  const char* names[] = {"cudaMalloc", "cudaFree", "cudaMemcpy"};
  for (int i = 0; i < 3; ++i)
    for (int n = 12; n <= 13; ++n) {
      char file[50], version[50];
      sprintf(file, "libcudart.so.%d", n);
      void* library = dlopen(file, RTLD_NOW);
      int (*found)(void**, size_t) = dlsym(library, names[i]), (*versioned)(void**, size_t) = dlvsym(library, names[i], file);
      int (*by_default)(void**, size_t) = dlvsym(RTLD_DEFAULT, names[i], file);
      printf("%d %d %d\n", found(&p, 1), versioned(&p, 1), by_default ? by_default(&p, 1) : -1);
      fprintf(stderr, "%s\n", whose(found));
    }
  printf("%d %d\n", early(&p, 1), cudaFree(0));
}""", two)  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert re.fullmatch(r"12 13\n(12 12 \S+\n13 13 13\n){3}12 13\n", bare.out), bare.out + bare.err
    assert traced.out == bare.out, traced.out + traced.err
    assert traced.err == "".join(f"libdevtrace.so:{name}\n" * 2 for name in ("cudaMalloc", "cudaFree", "cudaMemcpy"))


# ---- the stubs


CUDA = r"""
#include <cuda_runtime_api.h>
int PREFIX_version() { int version = 0; cudaRuntimeGetVersion(&version); return version / 1000; }
// The error is the one runtime's that made it.
int PREFIX_error() { cudaSetDevice(99); return cudaGetLastError(); }
void* PREFIX_allocate(int device) { void* p = 0; cudaSetDevice(device); return cudaMalloc(&p, 1 << 20) ? 0 : p; }
int PREFIX_free(void* p) { return cudaFree(p); }
int PREFIX_copy(void* to, void* from) { return cudaMemcpyPeer(to, 0, from, 0, 1 << 20); }
int PREFIX_move(void* to, void* from) { return cudaMemcpyPeer(to, 0, from, 1, 1 << 20); }

// What nvcc would have made of a kernel.
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
void __cudaRegisterFatBinaryEnd(void**);
static const char text[] = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry PREFIX_touch(.param .u64 data)\n{\n"
  "  .reg .b64 %rd<4>;\n  .reg .b32 %r<2>;\n  ld.param.u64 %rd1, [data];\n  ld.global.u32 %r1, [%rd1];\n  ret;\n}\n";
static struct { int magic, version; const void* data; void* more; } wrapper = {0x466243b1, 1, text, 0};
static char stub;
__attribute__((constructor)) static void start() {
  void** binary = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(binary, &stub, "PREFIX_touch", "PREFIX_touch", -1, 0, 0, 0, 0, 0);
  __cudaRegisterFatBinaryEnd(binary);
}
int PREFIX_launch(void* p) { void* arguments[] = {&p}; return cudaLaunchKernel(&stub, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0, 0); }
"""


@pytest.fixture
def stub_libraries():
    if not (BUILD / "simulate/cuda12/libcudart.so.12").exists():
        pytest.skip("no CUDA 12 stubs: make simulate-cuda12")
    include = Path(sysconfig.get_path("purelib")) / "nvidia/cu13/include"
    return include, [BUILD / "simulate/cuda12/libcudart.so.12", BUILD / "simulate/libcudart.so.13"]


def test_what_both_allocate_and_copy_is_seen(tmp_path, stub_libraries):
    include, runtimes = stub_libraries
    libraries = [
        build(tmp_path, f"libplugin_{name}.so", CUDA.replace("PREFIX", name), library, f"-I{include}", f"-Wl,-rpath-link,{BUILD / 'simulate'}") for name, library in zip("ab", runtimes)
    ]  # fmt: skip
    program = build(tmp_path, "program", r"""
static int (*version[2])(), (*error[2])(), (*free_[2])(void*), (*copy[2])(void*, void*), (*move[2])(void*, void*), (*launch[2])(void*);
static void* (*allocate[2])(int);
static void* look(void* library, int i, const char* what) {
  char name[50];
  sprintf(name, "%c_%s", "ab"[i], what);
  return dlsym(library, name);
}
int main(int argc, char** words) {
  for (int i = 0; i < 2; ++i) {
    void* library = dlopen(words[1 + i], RTLD_NOW);
    if (!library) { printf("%s\n", dlerror()); return 1; }
    version[i] = look(library, i, "version"), error[i] = look(library, i, "error"), allocate[i] = look(library, i, "allocate");
    free_[i] = look(library, i, "free"), copy[i] = look(library, i, "copy"), move[i] = look(library, i, "move"), launch[i] = look(library, i, "launch");
    printf("%d %d\n", version[i](), error[i]());
  }
  void* there[2], *here[2];
  for (int i = 0; i < 2; ++i) there[i] = allocate[i](1), here[i] = allocate[i](0);
  for (int i = 0; i < 2; ++i) printf("%d %d %d\n", move[i](here[i], there[!i]), copy[i](here[i], there[!i]), error[i]());
  for (int i = 0; i < 2; ++i) printf("%d %d\n", launch[i](here[i]), launch[i](there[!i]));
  for (int i = 0; i < 2; ++i) printf("%d %d\n", free_[i](there[i]), free_[i](here[i]));
}""")  # fmt: skip
    env = {"LD_LIBRARY_PATH": str(BUILD / "simulate"), "DEVTRACE_SIM_GPUS": "2"}
    bare, traced = both(tmp_path, [program, *libraries], env=env)
    assert (bare.code, bare.out.splitlines()[:2]) == (0, ["12 101", "13 101"]), bare.out + bare.err
    assert (traced.code, traced.out) == (bare.code, bare.out), traced.out + traced.err
    found = {(finding["kind"], finding["operation"]) for finding in traced.findings}
    # One that is launched on the current device with memory of the other only.
    assert found == {("copy-mismatch", "cudaMemcpyPeer"), ("wrong-current-device", "a_touch"), ("wrong-current-device", "b_touch")}, traced.err
    assert traced.records[-1]["findings"] == 4, traced.err
    moved = [record for record in traced.records if record["record"] == "traffic" and record["from"] == "cuda:1"]
    assert sum(record["copies"] for record in moved) >= 2, moved
