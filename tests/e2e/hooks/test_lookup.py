"""Who asks for a function by name gets the hook of it where he would have got CUDA's own function, and everywhere else just what he
would have got without devtrace. Small C programs and libraries that only look like CUDA's; each runs bare and with devtrace preloaded.

Six of these are faults that other tools' wrappers of dlsym have had: recursion where a name looks like one's own, RTLD_NEXT relative to
the wrapper, OpenMP's probing at `import torch`, children of a fork, WSL2's thin loader, originals in libraries opened RTLD_LOCAL."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import BUILD, LIBRARY, TOP, environment, execute
from test_launches import DRIVER

ROWS = re.findall(r'^HOOK\("(lib\w+\.so)", (\w+)\)$', (TOP / "interpose/linking/hooks.inc").read_text(), re.M)

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


# ---- a name that looks like ours


def test_names_that_only_look_like_ours(tmp_path):
    """cudnnCreate begins with cu, and cuLaunchKernelX with a whole name of the table: the library's own, called and not looked for again."""
    rows = {name for _, name in ROWS}
    names = {"cudnnCreate", "cublasCreate_v2", "cufftExecC2C", "curandGenerate", "cuda", "cu", "__cu", "__cudaX", "d", "dlsy", "dlsymx"}
    names |= {name[:-1] for name in rows} | {name + "x" for name in rows} | {name + "_" for name in rows}
    names = sorted(names - rows)
    build(tmp_path, "libcudnn.so.9", functions(names, 5) + "void* cudnn_finds(const char* n) { return dlsym(RTLD_DEFAULT, n); }")
    program = build(tmp_path, "program", r"""
int main(int argc, char** names) {
  void* library = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_GLOBAL);
  void* (*finds)(const char*) = dlsym(library, "cudnn_finds");
  FILE* list = fopen("names", "r");
  char name[500];
  while (fgets(name, sizeof name, list)) {
    name[strcspn(name, "\n")] = 0;
    int (*found[])() = {dlsym(library, name), finds(name), dlsym(RTLD_DEFAULT, name)};
    for (int i = 0; i < 3; ++i) printf("%s %s %d\n", name, whose(found[i]), found[i] ? found[i]() : 0);
  }
  printf("%s\n", whose(dlsym(library, "cudnnDestroy")));
}""")  # fmt: skip
    (tmp_path / "names").write_text("\n".join(names) + "\n")
    out = same(*both(tmp_path, [program]))
    assert out.count("libcudnn.so.9:cudnnCreate 5\n") == 3 and out.count(" 5\n") == 3 * len(names)


def test_libraries_that_only_look_like_cudas(tmp_path):
    """Originals are CUDA's, not those of a library whose file name begins like its, even if it came first."""
    names = ["cudaMalloc", "cuMemAlloc_v2"]
    likes = ["libcuda.soft.so", "libcudart.so_tools.so", "libcudart_extra.so", "libcudart-wrapper.so", "libcudart.sol.so"]
    for like in likes:
        build(tmp_path, like, functions(names, 13))
    build(tmp_path, "libcuda.so.1", functions(names[1:], 77))
    build(tmp_path, "libcudart-8d27a8b4.so.11.0", functions(names[:1], 77))  # so it is called in a wheel that brings its own
    program = build(tmp_path, "program", f"const char* likes[] = {{{', '.join(f'{chr(34)}{like}{chr(34)}' for like in likes)}}};" + r"""
int main() {
  for (int i = 0; i < 5; ++i) {
    void* like = dlopen(likes[i], RTLD_LAZY);
    int (*own)() = dlsym(like, "cudaMalloc"), (*own_too)() = dlsym(like, "cuMemAlloc_v2");
    printf("%s %d %s %d\n", whose(own), own(), whose(own_too), own_too());
  }
  int (*malloc_)(void**, size_t) = dlsym(dlopen("libcudart-8d27a8b4.so.11.0", RTLD_LAZY), "cudaMalloc");
  int (*alloc)(void**, size_t) = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuMemAlloc_v2");
  void* p = 0;
  printf("%d %d\n", malloc_(&p, 1), alloc(&p, 1));
  fprintf(stderr, "%s %s\n", whose(malloc_), whose(alloc));
}""")  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.code == traced.code == 0 and bare.out == traced.out, traced.out + traced.err
    assert traced.out.endswith("77 77\n") and traced.err == "libdevtrace.so:cudaMalloc libdevtrace.so:cuMemAlloc_v2\n"


# ---- RTLD_NEXT


WRAPPER = r"""
static int depth;
int cudaMalloc(void** p, size_t n) {
  if (++depth > 3) { printf("recursion\n"); exit(9); }
  int (*next)(void**, size_t) = dlsym(RTLD_NEXT, "cudaMalloc");
  int (*versioned)(void**, size_t) = dlvsym(RTLD_NEXT, "cudaMalloc", "libcudart.so.13");
  int answer = next ? next(p, n) : -1;
  --depth;
  if (versioned) printf("%d\n", versioned == next || strstr(whose(versioned), ":cudaMalloc") != 0);
  return 1000 + answer;
}
int who() {
  int (*next)() = dlsym(RTLD_NEXT, "who");
  return 10 + (next ? next() : 0);
}
"""
ASKS = "int who(); int cudaMalloc(void**, size_t); int main() { void* p; printf(\"%d %d\\n\", who(), cudaMalloc(&p, 1)); }"
LINKED = "int who() { return 1; }\n" + functions(["cudaMalloc"])


@pytest.mark.parametrize("order", ["wrapper behind", "wrapper before", "one on each side", "two behind", "two before"])
def test_next_is_next_to_who_asks(tmp_path, order):
    """A tool's wrapper finds what comes after the tool, not after devtrace (which would be the tool itself, again and again)."""
    one, two = (build(tmp_path, name, WRAPPER) for name in ("libwrapper1.so", "libwrapper2.so"))
    (tmp_path / "map").write_text("libcudart.so.13 { global: *; };")
    library = build(tmp_path, "libcudart.so.13", LINKED, f"-Wl,--version-script={tmp_path / 'map'}")
    program = build(tmp_path, "program", ASKS, library)
    before, after = {
        "wrapper behind": ([], [one]), "wrapper before": ([one], []), "one on each side": ([one], [two]),
        "two behind": ([], [one, two]), "two before": ([one, two], []),
    }[order]  # fmt: skip
    out = same(*both(tmp_path, [program], before, after))
    count = len(before) + len(after)
    assert out == "1\n" * count + f"{10 * count + 1} {1000 * count + 77}\n"


def test_next_is_nothing_where_nothing_comes(tmp_path):
    """A tool that was preloaded before devtrace is not told that there is CUDA; one that asks for a tool before it finds that."""
    asks = r"""void* next_of() { void* next = dlsym(RTLD_NEXT, "cudaMalloc"); const char* error = dlerror();
      printf("%s %s\n", whose(next), error ? strstr(error, "undefined") : "-"); return next; }"""
    one, two = build(tmp_path, "libone.so", asks), build(tmp_path, "libtwo.so", functions(["cudaMalloc"], 3))
    program = build(tmp_path, "program", "void* next_of(); int main() { next_of(); }", one)
    assert "nothing undefined symbol" in same(*both(tmp_path, [program], [one]))
    assert "libtwo.so:cudaMalloc" in same(*both(tmp_path, [program], [one, two]))


@pytest.mark.parametrize("way", ["dlsym", "cuGetProcAddress"])
def test_a_tool_between_devtrace_and_cuda(tmp_path, way):
    """It finds CUDA's function for its wrapper, not the hook, which would call the wrapper; everyone else finds the hook."""
    look = {
        "dlsym": 'return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuMemAlloc_v2");',
        "cuGetProcAddress": 'void* found; return cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, 0) ? 0 : found;',
    }[way]
    look = f"int cuGetProcAddress_v2(const char*, void**, int, unsigned long long, void*);\nstatic void* look() {{ {look} }}"
    (tmp_path / "map").write_text("{ global: cu*; local: *; };")
    driver = build(tmp_path, "libcuda.so.1", r"""
static int inside(void** p, size_t n) { return 77; }
int cuMemAlloc_v2(void** p, size_t n) { return 77; }
int cuGetProcAddress_v2(const char* n, void** f, int v, unsigned long long g, void* s) { *f = (void*)inside; return 0; }
""")  # fmt: skip
    tool = build(tmp_path, "libtool.so", look + r"""
int cuMemAlloc_v2(void** p, size_t n) {
  static int depth;
  if (++depth > 3) { printf("recursion\n"); exit(9); }
  int (*real)(void**, size_t) = look();
  int answer = 1000 + real(p, n);
  --depth;
  return answer;
}""", driver, f"-Wl,--version-script={tmp_path / 'map'}")  # fmt: skip
    program = build(tmp_path, "program", look + r"""
int cuMemAlloc_v2(void**, size_t);
int main() {
  void* p;
  int (*found)(void**, size_t) = look();
  printf("%d\n", cuMemAlloc_v2(&p, 1));
  fprintf(stderr, "%s %d\n", whose(found), found(&p, 1));
}""", driver)  # fmt: skip
    bare, traced = both(tmp_path, [program], after=[tool])
    assert bare.out == traced.out == "1077\n", traced.out
    assert bare.err.endswith(" 77\n") and traced.err == "libdevtrace.so:cuMemAlloc_v2 1077\n"


# ---- OpenMP's probing


PROBES = r"""
static const char* names[] = {"omp_get_max_threads", "omp_get_num_threads", "omp_set_num_threads", "GOMP_parallel", "GOMP_barrier",
  "__kmpc_fork_call", "__kmpc_global_thread_num", "kmp_set_blocktime", "omp_get_num_procs", "ompt_start_tool", "mkl_get_max_threads"};
__attribute__((visibility("default"))) void probe() {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    printf("%s: %s, %s, %s\n", names[i], whose(dlsym(RTLD_DEFAULT, names[i])), whose(dlsym(RTLD_NEXT, names[i])),
           whose(dlvsym(RTLD_DEFAULT, names[i], "OMP_1.0")));
  int (*threads)() = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
  printf("%d\n", threads() > 0);
}
"""


def test_openmp_is_found_as_the_asking_library_finds_it(tmp_path):
    """RTLD_DEFAULT goes on with the libraries that the asking one was opened with, RTLD_LOCAL as Python does: PyTorch's own libgomp."""
    gomp = next((Path(sysconfig.get_path("purelib")) / "torch/lib").glob("libgomp*.so*"))
    build(tmp_path, "libprobe.so", PROBES, gomp)
    program = build(tmp_path, "program", """int main() { ((void (*)())dlsym(dlopen("libprobe.so", RTLD_LAZY), "probe"))(); }""")
    out = same(*both(tmp_path, [program], env={"LD_LIBRARY_PATH": str(gomp.parent)}))
    assert re.search(r"omp_get_max_threads: libgomp\S*:omp_get_max_threads, libgomp", out) and out.endswith("\n1\n"), out


def test_import_torch_with_openmp_probed_behind_it(tmp_path):
    gomp = next((Path(sysconfig.get_path("purelib")) / "torch/lib").glob("libgomp*.so*"))
    build(tmp_path, "libprobe.so", PROBES, gomp)
    program = "import torch, ctypes; print(torch.ones(999).sum().item(), torch.get_num_threads(), flush=True); ctypes.CDLL('./libprobe.so').probe()"
    out = same(*both(tmp_path, [sys.executable, "-c", program], env={"LD_LIBRARY_PATH": str(gomp.parent)}))
    assert out.startswith("999.0 ") and out.endswith("\n1\n")


# ---- fork


FORKS = r"""
#include <link.h>
static volatile int stop;
static int show(struct dl_phdr_info* info, size_t size, void* data) { return 0; }
// As whoever unwinds a stack does; the child inherits the lock for ever.
static void* iterate(void* unused) {
  while (!stop) dl_iterate_phdr(show, 0);
  return 0;
}
static void* library;
static void* look(void* unused) {
  while (!stop) {
    dlsym(library, "cudaMalloc"); dlsym(RTLD_DEFAULT, "cudaFree"); dlsym(library, "cudaLaunchKernel"); dlsym(library, "missing");
    dlvsym(library, "cudaMemcpy", "nonsense"); dlerror();
  }
  return 0;
}
int main() {
  library = dlopen("libcudart.so.13", RTLD_LAZY);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], 0, i ? look : iterate, 0);
  int good = 0;
  for (int i = 0; i < 150; ++i) {
    pid_t child = fork();
    if (!child) {
      alarm(20);
      void* p;
      int (*allocate)(void**, size_t) = dlsym(library, "cudaMallocAsync");
      int (*set)(int) = dlsym(library, "cudaSetDevice");
      _exit(allocate(&p, 1) == 77 && set(1) == 77 && !dlsym(library, "missing") && dlerror() ? 3 : 4);
    }
    int status;
    waitpid(child, &status, 0);
    good += status == 3 << 8;
  }
  stop = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], 0);
  char* words[] = {"/bin/echo", "exec'd", 0};
  printf("%d\n", good);
  fflush(stdout);
  execv(words[0], words);
}
"""


def test_children_of_a_fork_look_up_while_other_threads_did(tmp_path, cuda):
    program = build(tmp_path, "program", FORKS, f"-Wl,-rpath,{cuda.parent}")
    assert same(*both(tmp_path, [program], timeout=120)) == "150\nexec'd\n"


# ---- WSL2


def exports(library: Path) -> list[str]:
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TW"})


@pytest.fixture(scope="module")
def wsl(tmp_path_factory):
    """The folder of the thin libcuda.so.1: it opens the driver, which lies elsewhere under a longer name, and asks it by dlsym."""
    top = tmp_path_factory.mktemp("wsl2")
    driver = top / "usr/lib/wsl/drivers/nv_dispi.inf_amd64/libcuda.so.1.1"
    driver.parent.mkdir(parents=True)
    driver.symlink_to(BUILD / "simulate/libcuda.so.1")
    names = [name for name in exports(BUILD / "simulate/libcuda.so.1") if name.startswith("cu")]
    jumps = "".join(
        f'__attribute__((visibility("hidden"))) void* real_{i}; __asm__(".globl {name}\\n.type {name}, @function\\n{name}: jmp *real_{i}(%rip)\\n");\n' for i, name in enumerate(names)
    )
    asks = "".join(f'  real_{i} = dlsym(driver, "{name}");\n' for i, name in enumerate(names))
    source = jumps + f'__attribute__((constructor)) static void open_driver() {{\n  void* driver = dlopen("{driver}", RTLD_NOW);\n{asks}}}\n'
    build(top / "usr/lib/wsl/lib", "libcuda.so.1", source)
    return top / "usr/lib/wsl/lib"


def test_wsl2s_thin_loader_comes_to_its_driver_and_is_seen(tmp_path, wsl):
    """Had its own dlsym been answered with hooks, each of its functions would call itself, by way of devtrace."""
    (tmp_path / "program.py").write_text(DRIVER + "print('launched:', launch(here, here, there), flush=True)\n")
    env = {"LD_LIBRARY_PATH": str(wsl), "DEVTRACE_SIM_GPUS": "2"}
    bare, traced = both(tmp_path, [sys.executable, "program.py"], env=env)
    assert (bare.code, bare.out) == (traced.code, traced.out) == (0, "launched: 0\n"), traced.err
    assert [finding["kind"] for finding in traced.findings] == ["remote-access"], traced.err


def test_wsl2s_driver_is_seen_through_cugetprocaddress(tmp_path, wsl):
    asked = """
found, status = P(), ctypes.c_int()
call("cuGetProcAddress_v2", b"cuLaunchKernel", ctypes.byref(found), 12000, ctypes.c_uint64(0), ctypes.byref(status))
function = ctypes.CFUNCTYPE(ctypes.c_int, P, U, U, U, U, U, U, U, P, P, P)(found.value)
arguments = values(here, here, there)
pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
print("launched:", function(touch, 1, 1, 1, 32, 1, 1, 0, None, ctypes.cast(pointers, P), None), flush=True)
"""
    (tmp_path / "program.py").write_text(DRIVER + asked)
    bare, traced = both(tmp_path, [sys.executable, "program.py"], env={"LD_LIBRARY_PATH": str(wsl), "DEVTRACE_SIM_GPUS": "2"})
    assert (bare.code, bare.out) == (traced.code, traced.out) == (0, "launched: 0\n"), traced.err
    assert [finding["kind"] for finding in traced.findings] == ["remote-access"], traced.err


# ---- RTLD_LOCAL


def test_originals_in_a_library_opened_rtld_local(tmp_path, cuda):
    """By handle, by version, and by RTLD_DEFAULT from a library that was opened with it; who could not see it still cannot."""
    build(tmp_path, "libextension.so", r"""
int cudaMalloc(void**, size_t);
int linked() { void* p; return cudaMalloc(&p, 1); }
void* by_default(const char* name) { return dlsym(RTLD_DEFAULT, name); }
""", cuda)  # fmt: skip
    program = build(tmp_path, "program", r"""
int main() {
  void* extension = dlopen("libextension.so", RTLD_NOW);
  void* runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  int (*linked)() = dlsym(extension, "linked");
  void* (*by_default)(const char*) = dlsym(extension, "by_default");
  void* p;
  int (*found[])(void**, size_t) = {dlsym(runtime, "cudaMalloc"), dlsym(extension, "cudaMalloc"), by_default("cudaMallocManaged")};
  printf("%d\n", linked());
  for (int i = 0; i < 3; ++i) printf("%d\n", found[i](&p, 1));
  void* unseen[] = {dlsym(RTLD_DEFAULT, "cudaMalloc"), dlsym(dlopen(0, RTLD_LAZY), "cudaMalloc"), dlsym(RTLD_NEXT, "cudaMalloc"), dlsym(extension, "cuMemAlloc_v2")};
  for (int i = 0; i < 4; ++i) printf("%s\n", whose(unseen[i]));
  for (int i = 0; i < 3; ++i) fprintf(stderr, "%s\n", whose(found[i]));
}""", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert (bare.code, bare.out) == (0, "77\n" * 4 + "nothing\n" * 4), bare.out
    assert (traced.code, traced.out) == (bare.code, bare.out), traced.out + traced.err
    assert traced.err == "libdevtrace.so:cudaMalloc\n" * 2 + "libdevtrace.so:cudaMallocManaged\n"


# ---- corners


def test_errno_and_dlerror_are_as_they_would_be(tmp_path, cuda):
    """An error that nobody has read yet survives the hooks' own first look for their originals, and success leaves none."""
    program = build(tmp_path, "program", r"""
static void say(const char* what, void* found) {
  const char* error = dlerror();
  printf("%s: %d %s, %d\n", what, found != 0, error ? error : "-", errno);
  errno = 42;
}
int main(int argc, char** words) {
  errno = 42;
  say("before CUDA, by default", dlsym(RTLD_DEFAULT, "cudaMalloc"));
  say("before CUDA, next", dlsym(RTLD_NEXT, "cudaMalloc"));
  say("before CUDA, with a version", dlvsym(RTLD_DEFAULT, "cudaMalloc", "libcudart.so.13"));
  void* runtime = dlopen("libcudart.so.13", RTLD_LAZY);
  say("found", dlsym(runtime, "cudaMalloc"));
  say("missing", dlsym(runtime, "cudaMallo"));
  say("after a miss", dlsym(runtime, "cudaFree"));
  say("not the runtime's", dlsym(runtime, "cuLaunchKernel"));
  int (*set)(int) = dlsym(runtime, "cudaSetDevice"), (*free_)(void*) = dlsym(runtime, "cudaFreeAsync");
  dlopen("no such library", RTLD_LAZY);
  set(1);
  free_(0);
  say("unread across calls", 0);
  dlsym(runtime, "missing");
  say("unread", dlsym(runtime, "cudaHostAlloc"));
}""", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    out = same(*both(tmp_path, [program]))
    assert "found: 1 -, 42" in out and "unread: 1 -, 42" in out
    assert "before CUDA, by default: 0 " in out and "unread across calls: 0 no such library" in out


@pytest.mark.parametrize(
    "call", ['dlsym(runtime, "")', "dlsym(runtime, 0)", 'dlvsym(runtime, 0, "v")', 'dlvsym(runtime, "free", 0)', 'dlvsym(runtime, "cudaMalloc", "")']
)
def test_null_and_nothing(tmp_path, cuda, call):
    """Ends as it would, be it with a crash."""
    program = build(
        tmp_path, "program",
        f'int main() {{ void* runtime = dlopen("libcudart.so.13", RTLD_LAZY); printf("%s\\n", whose({call})); fflush(stdout); }}', f"-Wl,-rpath,{cuda.parent}",
    )  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.code in (0, -11) and (traced.code, traced.out) == (bare.code, bare.out)


def test_versions_are_those_of_the_library(tmp_path):
    """dlvsym by the right version finds the hook, by another one nothing, whatever the handle; a library's other version is its own."""
    (tmp_path / "map").write_text("old { global: cudaFree; local: *; }; libcudart.so.13 { global: cudaMalloc; cudaFree; } old;")
    runtime = build(
        tmp_path, "libcudart.so.13",
        functions(["cudaMalloc", "free_new"]) + functions(["free_old"], 12) + '__asm__(".symver free_old, cudaFree@old\\n.symver free_new, cudaFree@@libcudart.so.13");',
        f"-Wl,--version-script={tmp_path / 'map'}",
    )  # fmt: skip
    program = build(tmp_path, "program", r"""
int main() {
  void* scopes[] = {dlopen("libcudart.so.13", RTLD_LAZY), RTLD_DEFAULT, dlopen(0, RTLD_LAZY)};
  void* p;
  for (int i = 0; i < 3; ++i) {
    int (*right)(void**, size_t) = dlvsym(scopes[i], "cudaMalloc", "libcudart.so.13"), (*newest)(void*) = dlsym(scopes[i], "cudaFree");
    int (*old)(void*) = dlvsym(scopes[i], "cudaFree", "old");
    printf("%d %d %s %d\n", right(&p, 1), newest(0), whose(dlvsym(scopes[i], "cudaMalloc", "libcudart.so.9")), i ? 12 : old(0));
    fprintf(stderr, "%s %s\n", whose(right), whose(newest));
  }
}""", runtime)  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert (bare.code, bare.out) == (0, "77 77 nothing 12\n" * 3), bare.out + bare.err
    assert (traced.code, traced.out) == (bare.code, bare.out)
    assert traced.err == "libdevtrace.so:cudaMalloc libdevtrace.so:cudaFree\n" * 3


def test_a_library_that_defines_cudas_names_itself(tmp_path, cuda):
    """As one does that has a static runtime: what it exports is its own affair, and so is what the program exports."""
    build(tmp_path, "libstatic.so", functions(["cudaMalloc", "cudaFree"], 5))
    program = build(tmp_path, "program", functions(["cudaFree"], 6) + r"""
int main() {
  void* own = dlopen("libstatic.so", RTLD_LAZY), *runtime = dlopen("libcudart.so.13", RTLD_LAZY);
  int (*found[])(void**, size_t) = {dlsym(own, "cudaMalloc"), dlsym(own, "cudaFree"), dlsym(RTLD_DEFAULT, "cudaFree"), dlsym(runtime, "cudaMalloc")};
  void* p;
  for (int i = 0; i < 4; ++i) printf("%d\n", found[i](&p, 1));
  for (int i = 0; i < 3; ++i) printf("%s\n", whose(found[i]));
}""", "-rdynamic", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    assert same(*both(tmp_path, [program])).startswith("5\n5\n6\n77\nlibstatic.so:cudaMalloc\n")


def test_a_program_that_takes_addresses_of_its_own(tmp_path, cuda):
    """A program at a fixed address answers for functions whose address it takes with places in itself: they lead to the hooks."""
    program = build(tmp_path, "program", r"""
int cudaMalloc(void**, size_t);
int (*volatile taken)(void**, size_t) = cudaMalloc;
int main() {
  int (*found)(void**, size_t) = dlsym(RTLD_DEFAULT, "cudaMalloc");
  void* p;
  printf("%d %d\n", found == taken, found(&p, 1));
}""", "-no-pie", "-fno-pie", cuda)  # fmt: skip
    assert same(*both(tmp_path, [program])) == "1 77\n"


def test_another_namespace_is_left_alone(tmp_path, cuda):
    program = build(tmp_path, "program", r"""
int main() {
  void* here = dlopen("libcudart.so.13", RTLD_LAZY);
  void* there = dlmopen(LM_ID_NEWLM, "libcudart.so.13", RTLD_LAZY);
  int (*a)(void**, size_t) = dlsym(here, "cudaMalloc"), (*b)(void**, size_t) = dlsym(there, "cudaMalloc");
  void* p;
  printf("%d %d %s\n", a(&p, 1), b(&p, 1), whose(b));
  fprintf(stderr, "%s\n", whose(a));
}""", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.out == traced.out == "77 77 libcudart.so.13:cudaMalloc\n" and traced.err == "libdevtrace.so:cudaMalloc\n", traced.err


MALLOC = r"""
static __thread int inside;
int armed = ARMED;
void* __libc_malloc(size_t);
void* malloc(size_t bytes) {
  if (!inside++ && armed) {
    void* library = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
    dlsym(RTLD_NEXT, "malloc"); dlsym(library ? library : RTLD_DEFAULT, "cudaMalloc"); dlsym(RTLD_DEFAULT, "missing"); dlerror();
  }
  --inside;
  return __libc_malloc(bytes);
}
"""


@pytest.mark.parametrize("from_the_start", [0, 1])
def test_a_malloc_that_looks_up(tmp_path, cuda, from_the_start):
    """dlsym allocates; an allocator that looks up calls it again from inside, the first time of all too."""
    allocator = build(tmp_path, "liballocator.so", MALLOC.replace("ARMED", str(from_the_start)))
    program = build(tmp_path, "program", r"""
extern int armed __attribute__((weak));
int main() {
  alarm(20);
  void* library = dlopen("libcudart.so.13", RTLD_LAZY), *p;
  const char* names[] = {"cudaMallocManaged", "missing", "cudaMalloc", "cudaHostAlloc"};
  armed = 1;
  for (int i = 0; i < 4; ++i) {
    int (*found)(void**, size_t) = dlsym(library, names[i]);
    printf("%d\n", found ? found(&p, 1) : 0);
  }
}""", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    for before, after in (([allocator], []), ([], [allocator])):
        assert same(*both(tmp_path, [program], before, after)) == "77\n0\n77\n77\n"


# A program's own dl_iterate_phdr, which finds the next one by dlsym, and counts.
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


def test_a_dl_iterate_phdr_that_looks_up(tmp_path, cuda):
    """devtrace goes by the program's, too."""
    program = build(tmp_path, "program", OWN_WALK + r"""
int main() {
  int (*found)(void**, size_t) = dlsym(dlopen("libcudart.so.13", RTLD_LAZY), "cudaMalloc");
  void* p;
  printf("%d\n", found(&p, 1));
}""", "-rdynamic", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    assert same(*both(tmp_path, [program])) == "77\n"


def test_many_threads_at_once(tmp_path, cuda):
    names = [name for library, name in ROWS if library == "libcudart.so"]
    program = build(tmp_path, "program", f"const char* names[] = {{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}}};" + r"""
enum { kNames = sizeof names / sizeof *names, kThreads = 32 };
static void *library, *found[kThreads][kNames];
static pthread_barrier_t gate;
static void* look(void* number) {
  void** mine = found[(long)number];
  pthread_barrier_wait(&gate);
  for (int times = 0; times < 200; ++times)
    for (int i = 0; i < kNames; ++i) {
      int which = (i + (long)number % 4) % kNames;
      void* now = dlsym(library, names[which]);
      if (mine[which] && mine[which] != now) printf("%s was something else before\n", names[which]);
      mine[which] = now;
    }
  return 0;
}
int main() {
  library = dlopen("libcudart.so.13", RTLD_LAZY);
  pthread_t threads[kThreads];
  pthread_barrier_init(&gate, 0, kThreads);
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], 0, look, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  for (int i = 1; i < kThreads; ++i)
    if (memcmp(found[0], found[i], sizeof found[0])) printf("thread %d saw something else\n", i);
  for (int i = 0; i < kNames; ++i) fprintf(stderr, "%s\n", whose(found[0][i]));
  printf("done\n");
}""", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.out == traced.out == "done\n" and traced.code == 0
    assert traced.err.split() == [f"libdevtrace.so:{name}" for name in names]


def test_before_any_constructor_has_run(tmp_path, cuda):
    """The program's preinit_array comes before the C library's own constructors, a dependency's constructor before devtrace's."""
    early = r"""
static int (*found)(void**, size_t);
static void look() { found = dlsym(dlopen("libcudart.so.13", RTLD_LAZY), "cudaMalloc"); dlsym(RTLD_NEXT, "cudaFree"); dlsym(RTLD_DEFAULT, "missing"); }
"""
    dependency = build(tmp_path, "libdependency.so", early + "__attribute__((constructor)) static void start() { look(); } int dependency() { void* p; return found(&p, 1); }", cuda)
    program = build(
        tmp_path, "program",
        early + "__attribute__((section(\".preinit_array\"), used)) static void (*start)() = look;\n"
        "int dependency(); int main() { void* p; printf(\"%d %d\\n\", found(&p, 1), dependency()); fprintf(stderr, \"%s\\n\", whose(found)); }",
        dependency, cuda,
    )  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.out == traced.out == "77 77\n" and traced.err == "libdevtrace.so:cudaMalloc\n", traced.err


def test_dlsym_itself_is_handed_out(tmp_path, cuda):
    """Who takes dlsym out of the C library by name, as programs without a linker do, is not blind to the hooks."""
    program = build(tmp_path, "program", r"""
int main() {
  void* libc = dlopen("libc.so.6", RTLD_LAZY);
  void* (*look)(void*, const char*) = dlsym(libc, "dlsym");
  void* (*versioned)(void*, const char*) = dlvsym(libc, "dlsym", "GLIBC_2.2.5");
  void* runtime = look(RTLD_DEFAULT, "nothing") ? 0 : dlopen("libcudart.so.13", RTLD_LAZY);
  int (*a)(void**, size_t) = look(runtime, "cudaMalloc"), (*b)(void**, size_t) = versioned(runtime, "cudaMalloc");
  void* p;
  printf("%d %d\n", a(&p, 1), b(&p, 1));
  fprintf(stderr, "%s %s\n", whose(a), whose(b));
}""", f"-Wl,-rpath,{cuda.parent}")  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.out == traced.out == "77 77\n" and traced.err == "libdevtrace.so:cudaMalloc libdevtrace.so:cudaMalloc\n", traced.err


# ---- CUDA's own look-ups


# A driver that answers with addresses which it does not export: a hook must be chosen by name, version and stream.
INSIDE = r"""
int answer() __attribute__((visibility("hidden")));
int answer() { return 77; }
int cuGetProcAddress(const char* n, void** f, int v, unsigned long long flags) { *f = (void*)answer; return 0; }
int cuGetProcAddress_v2(const char* n, void** f, int v, unsigned long long flags, void* s) { *f = (void*)answer; return 0; }
"""
OF_RUNTIME = r"""
int cudaRuntimeGetVersion(int* v) { *v = 12020; return 0; }
int answer() __attribute__((visibility("hidden")));
int answer() { return 77; }
int cudaGetDriverEntryPoint(const char* n, void** f, unsigned long long flags, void* s) { *f = (void*)answer; return 0; }
int cudaGetDriverEntryPoint_ptsz(const char* n, void** f, unsigned long long flags, void* s) { *f = (void*)answer; return 0; }
int cudaGetDriverEntryPointByVersion(const char* n, void** f, unsigned v, unsigned long long flags, void* s) { *f = (void*)answer; return 0; }
int cudaGetDriverEntryPointByVersion_ptsz(const char* n, void** f, unsigned v, unsigned long long flags, void* s) { *f = (void*)answer; return 0; }
"""
# name, version, flags (0 default, 1 legacy, 2 per thread) → the hook; None: what the driver answered
ENTRY_POINTS = {
    ("cuLaunchKernel", 12000, 0): "cuLaunchKernel", ("cuLaunchKernel", 12000, 1): "cuLaunchKernel",
    ("cuLaunchKernel", 12000, 2): "cuLaunchKernel_ptsz", ("cuLaunch", 12000, 0): "cuLaunch", ("cuLaunchKernelE", 12000, 0): None,
    ("cuGetProcAddress", 11030, 0): "cuGetProcAddress", ("cuGetProcAddress", 12000, 0): "cuGetProcAddress_v2",
    ("cuGraphAddNode", 12020, 0): "cuGraphAddNode", ("cuGraphAddNode", 12029, 0): "cuGraphAddNode",
    ("cuGraphAddNode", 12030, 0): "cuGraphAddNode_v2", ("cuGraphAddNode", 99000, 2): "cuGraphAddNode_v2",
    ("cuGraphAddNode", 12019, 0): None, ("cuCtxCreate", 12049, 0): "cuCtxCreate_v3", ("cuCtxCreate", 12050, 0): "cuCtxCreate_v4",
    ("cuCtxCreate", 11039, 0): "cuCtxCreate_v2",
    ("cuMemcpyBatchAsync", 12080, 2): "cuMemcpyBatchAsync_ptsz", ("cuMemcpyBatchAsync", 13000, 2): "cuMemcpyBatchAsync_v2_ptsz",
    ("cuMemcpyBatchAsync", 13000, 1): "cuMemcpyBatchAsync_v2", ("cuMemcpyBatchAsync", 12079, 0): None,
    ("cuMemcpyHtoD", 12000, 2): "cuMemcpyHtoD_v2_ptds", ("cuMemcpyHtoD", 12000, 0): "cuMemcpyHtoD_v2",
    ("cuMemAlloc", 12000, 0): "cuMemAlloc_v2", ("cuMemAlloc", 12000, 2): "cuMemAlloc_v2", ("cuMemAlloc", 3010, 0): None,
    ("cuMemAllo", 12000, 0): None, ("cuMemAllocX", 12000, 0): None, ("", 12000, 0): None, ("cudaMalloc", 12000, 0): None,
    ("cuStreamCreate", 12000, 0): None, ("cuMemAlloc_v2", 12000, 0): "cuMemAlloc_v2", ("dlsym", 12000, 0): None,
}  # fmt: skip


def test_entry_points_by_version_and_stream(tmp_path):
    names = [name for library, name in ROWS if library == "libcuda.so" and not name.startswith("cuGetProc")]
    driver = build(tmp_path, "libcuda.so.1", INSIDE + functions(names, 5))
    runtime = build(tmp_path, "libcudart.so.13", OF_RUNTIME)
    rows = "".join(f'{{"{name}", {version}, {flags}}},' for name, version, flags in ENTRY_POINTS)
    program = build(tmp_path, "program", f"struct {{ const char* name; int version, flags; }} rows[] = {{{rows}}};" + r"""
int cuGetProcAddress_v2(const char*, void**, int, unsigned long long, void*), cuGetProcAddress(const char*, void**, int, unsigned long long);
int cudaGetDriverEntryPoint(const char*, void**, unsigned long long, void*), cudaGetDriverEntryPoint_ptsz(const char*, void**, unsigned long long, void*);
int cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long, void*), cudaGetDriverEntryPointByVersion_ptsz(const char*, void**, unsigned, unsigned long long, void*);
int main() {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    void* found[4];
    errno = 42;
    cuGetProcAddress_v2(rows[i].name, found, rows[i].version, rows[i].flags, 0);
    cuGetProcAddress(rows[i].name, found + 1, rows[i].version, rows[i].flags);
    cudaGetDriverEntryPointByVersion(rows[i].name, found + 2, rows[i].version, rows[i].flags, 0);
    cudaGetDriverEntryPointByVersion_ptsz(rows[i].name, found + 3, rows[i].version, rows[i].flags ? rows[i].flags : 1, 0);
    if (errno != 42) printf("errno\n");
    for (int way = 0; way < 4; ++way) printf("%s ", whose(found[way]));
    printf("\n");
  }
  void* found;
  cudaGetDriverEntryPoint("cuGraphAddNode", &found, 0, 0); printf("%s\n", whose(found));
  cudaGetDriverEntryPoint("cuLaunchKernel", &found, 2, 0); printf("%s\n", whose(found));
  cudaGetDriverEntryPoint_ptsz("cuLaunchKernel", &found, 0, 0); printf("%s\n", whose(found));
  cudaGetDriverEntryPoint_ptsz("cuLaunchKernel", &found, 1, 0); printf("%s\n", whose(found));
  cudaGetDriverEntryPointByVersion_ptsz("cuLaunchKernel", &found, 12000, 0, 0); printf("%s\n", whose(found));
}""", runtime, driver)  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.code == traced.code == 0 and "libdevtrace" not in bare.out, traced.err
    lines = traced.out.splitlines()
    got = {row: {one.split(":")[1] if one.startswith("libdevtrace") else None for one in line.split()} for row, line in zip(ENTRY_POINTS, lines)}
    assert got == {row: {hook} for row, hook in ENTRY_POINTS.items()}
    ends = ["cuGraphAddNode", "cuLaunchKernel_ptsz", "cuLaunchKernel_ptsz", "cuLaunchKernel", "cuLaunchKernel_ptsz"]
    assert lines[len(ENTRY_POINTS):] == [f"libdevtrace.so:{name}" for name in ends]


def test_entry_points_by_exported_address(tmp_path):
    """What the driver answers is what it exports: the hook of just that. An ABI that is newer than every row stays the driver's own."""
    names = [name for library, name in ROWS if library == "libcuda.so" and not name.startswith("cuGetProc")] + ["cuLaunchKernel_v9"]
    table = "".join(f'if (!strcmp(n, "{name}")) {{ *f = (void*){name}; return 0; }}\n' for name in names)
    source = functions(names, 5) + f"int cuGetProcAddress_v2(const char* n, void** f, int v, unsigned long long g, void* s) {{ if (!n) return 1; {table} *f = (void*)cuLaunchKernel_v9; return 0; }}"
    driver = build(tmp_path, "libcuda.so.1", source)
    program = build(tmp_path, "program", f"const char* names[] = {{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}}};" + r"""
int cuGetProcAddress_v2(const char*, void**, int, unsigned long long, void*);
int main() {
  void* found;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) { cuGetProcAddress_v2(names[i], &found, 13000, 0, 0); printf("%s\n", whose(found)); }
  printf("%d\n", cuGetProcAddress_v2(0, &found, 13000, 0, 0));
}""", driver)  # fmt: skip
    bare, traced = both(tmp_path, [program])
    assert bare.code == traced.code == 0
    plain = {name for name in names if not re.search(r"_v\d|_pts|_ptd", name)}
    for name, line in zip(names[:-1], traced.out.splitlines()):
        if name in plain:
            assert line == f"libdevtrace.so:{name}"
    assert traced.out.endswith("libcuda.so.1:cuLaunchKernel_v9\n1\n")
