"""Who asks for a function by name gets the hook of it where he would have got CUDA's own function. Everywhere else he gets just what he
would have got without devtrace. Small C programs and libraries that only look like CUDA's; each runs bare and with devtrace preloaded.

Six of the faults that are looked for here, in test_lookup_moments.py and in test_entry_points.py, other tools' wrappers of dlsym have
had. They are recursion where a name looks like one's own, RTLD_NEXT relative to the wrapper, OpenMP's probing at `import torch`. And children of a
fork, WSL2's thin loader, originals in libraries opened RTLD_LOCAL."""

import re
import sys
import sysconfig
from pathlib import Path

import pytest
from c_programs import ROWS, both, build, cuda, functions, same  # noqa: F401 (a fixture)

# ---- a name that looks like ours


def test_names_that_only_look_like_ours(tmp_path):
    """cudnnGetVersion begins with cu, and cuLaunchKernelX with a whole name of the table: the library's own, called and not looked for again."""
    rows = {name for _, name in ROWS}
    names = {"cudnnGetVersion", "cusolverGetVersion", "cusparseGetVersion", "curandGetVersion", "cuda", "cu", "__cu", "__cudaX", "d", "dlsy", "dlsymx"}
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
    assert out.count("libcudnn.so.9:cudnnGetVersion 5\n") == 3 and out.count(" 5\n") == 3 * len(names)


def test_a_mathematics_library_in_a_file_of_another_name(tmp_path):
    """Linked into somebody's own library, which is opened for all: the call reaches it."""
    names = ["cublasSgemm_v2", "cublasCreate_v2", "cufftExecC2C"]
    build(tmp_path, "libown.so", functions(names, 5))
    program = build(tmp_path, "program", r"""
int main() {
  dlopen("libown.so", RTLD_LAZY | RTLD_GLOBAL);
  const char* names[] = {"cublasSgemm_v2", "cublasCreate_v2", "cufftExecC2C"};
  long none[20] = {0};
  for (int i = 0; i < 3; ++i) {
    int (*found)() = dlsym(RTLD_DEFAULT, names[i]);
    printf("%s %d\n", names[i], found ? found(none, none, none, none, none, none, none, none, none, none, none, none, none, none) : 0);
  }
}""")  # fmt: skip
    assert same(*both(tmp_path, [program])) == "".join(f"{name} 5\n" for name in names)


@pytest.mark.parametrize("opened", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_two_versions_of_a_mathematics_library(tmp_path, opened):
    """Each caller's handle is made, used and ended by the library that he is linked to: one's handle is none of the other's."""
    for version in (12, 13):
        text = "".join(f"int {name}(void* handle) {{ return {answer}; }}\n" for name, answer in (("cublasSgemm_v2", version), ("cublasDestroy_v2", version)))
        folder = tmp_path / str(version)
        folder.mkdir()
        text += f"int cublasCreate_v2(void** handle) {{ *handle = (void*){version}L; return 0; }}\n"
        (folder / "map").write_text(f"libcublas.so.{version} {{ *; }};\n")
        library = build(tmp_path, f"libcublas.so.{version}", text, f"-Wl,--version-script={folder / 'map'}")
        build(tmp_path, f"libcaller{version}.so", "int cublasSgemm_v2(), cublasCreate_v2(), cublasDestroy_v2();" + f"""
int use{version}(void) {{
  void* handle = 0;
  long none[20] = {{0}};
  int made = cublasCreate_v2(&handle);
  int used = cublasSgemm_v2(handle, none, none, none, none, none, none, none, none, none, none, none, none, none);
  return made * 1000000 + used * 10000 + cublasDestroy_v2(handle) * 100 + (int)(long)handle;
}}""", library)  # fmt: skip
    program = build(tmp_path, "program", rf"""
int main() {{
  int (*use12)() = dlsym(dlopen("libcaller12.so", RTLD_LAZY | {opened}), "use12");
  printf("%d\n", use12());
  int (*use13)() = dlsym(dlopen("libcaller13.so", RTLD_LAZY | {opened}), "use13");
  printf("%d %d %d\n", use13(), use12(), use13());
}}""")  # fmt: skip
    assert same(*both(tmp_path, [program])) == "121212\n131313 121212 131313\n"


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


