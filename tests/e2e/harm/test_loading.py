"""Loaded beside others that stand before the C library's functions, and beside libraries that come and go."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from c_programs import DRIVER, RUNTIME, WITH_CUDA, both, build, same
from conftest import DEVTRACE, LIBRARY, environment, execute, only

COMPILERS = [
    ("gcc", "thread"), ("gcc", "undefined"), ("clang", "thread"), ("clang", "memory"), ("clang", "address"), ("clang", "undefined"),
]  # fmt: skip


@pytest.mark.parametrize("compiler, sanitizer", COMPILERS)
def test_programs_with_a_sanitizer_begin(tmp_path, compiler, sanitizer):
    """Their functions stand before the C library's, and ask dlsym for the real ones before they are ready themselves."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    source = tmp_path / "program.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("end"); return 0; }\n')
    made = subprocess.run([compiler, f"-fsanitize={sanitizer}", "-o", tmp_path / "program", source], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(made.stderr[-200:])
    outcome = execute([tmp_path / "program"], tmp_path, environment(None, {"LD_PRELOAD": str(LIBRARY)}), 60)
    assert (outcome.code, outcome.out, outcome.err) == (0, "end\n", "")


# Each finds the real function with dlsym, and cannot work before.
WRAPPERS = {
    "strcmp": "int strcmp(const char* a, const char* b) { return ((int (*)(const char*, const char*))real)(a, b); }",
    "memcmp": "int memcmp(const void* a, const void* b, size_t n) { return ((int (*)(const void*, const void*, size_t))real)(a, b, n); }",
    "strlen": "size_t strlen(const char* a) { return ((size_t (*)(const char*))real)(a); }",
}


@pytest.mark.parametrize("options", ["", "backend=interpose:verbose=0:log_path=none.jsonl"])
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_of_what_compares_texts(tmp_path, name, where, options):
    if (name, where) == ("strlen", "before"):
        pytest.skip("every constructor of the C++ library calls strlen: such a wrapper is its own trouble")
    wrapper = build(tmp_path, "libwrapper.so", f"""
static void* real;
__attribute__((constructor)) static void find(void) {{ real = dlsym(RTLD_NEXT, "{name}"); }}
{WRAPPERS[name]}
""", "-fno-builtin", "-O0")  # fmt: skip
    program = build(tmp_path, "program", 'int main() { puts("end"); return 0; }')
    same(*both(tmp_path, [program], **{where: [wrapper]}, env={"DEVTRACE_OPTIONS": options}))


COPY = r"""
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMalloc(void**, size_t);
int main() {
  void *a, *b;
  cudaMalloc(&a, 100);
  cudaMalloc(&b, 100);
  cudaMemcpy(a, b, 100, 1);
  puts("end");
}
"""


def test_a_library_behind_us_that_ends_first(tmp_path):
    """A fake clock's functions are called no more when it has come to its end; the log's last lines are written later."""
    wrapper = build(tmp_path, "libends.so", r"""
#include <sys/stat.h>
#include <sys/syscall.h>
static int over;
__attribute__((destructor)) static void end(void) { over = 1; }
int fstat(int file, struct stat* status) { if (over) __builtin_trap(); return syscall(SYS_fstat, file, status); }
int close(int file) { if (over) __builtin_trap(); return syscall(SYS_close, file); }
ssize_t write(int file, const void* bytes, size_t count) { if (over) __builtin_trap(); return syscall(SYS_write, file, bytes, count); }
""")  # fmt: skip
    program = build(tmp_path, "program", COPY, *WITH_CUDA)
    libraries = [LIBRARY, wrapper, DRIVER, RUNTIME]
    outcome = execute([program], tmp_path, environment(None, {"LD_PRELOAD": ":".join(map(str, libraries))}), 60)
    assert (outcome.code, outcome.out) == (0, "end\n"), outcome.err
    assert [record["record"] for record in outcome.records][-1] == "end"


EMBEDS = r"""
int cudaMalloc(void**, size_t);
static void* none;
static void (*keep)(void*);
static void* allocate(void) { void* address; cudaMalloc(&address, 100); keep(none); return none; }
static struct { const char* name; void* function; int flags; const char* text; } definition = {"allocate", allocate, 4, 0};
int main(int count, char** arguments) {
  void* address;
  cudaMalloc(&address, 100);  // the log begins before there is a Python
  void* python = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!python) return puts(dlerror()), 3;
  *(int*)dlsym(python, "Py_NoSiteFlag") = 1;  // what site imports would keep the library
  ((void (*)(int))dlsym(python, "Py_InitializeEx"))(0);
  none = dlsym(python, "_Py_NoneStruct");
  keep = dlsym(python, "Py_IncRef");
  usleep(200000);  // a Python is looked for now and then
  cudaMalloc(&address, 100);
  int ran = 0;
  if (strcmp(arguments[2], "nothing")) {
    void* module = ((void* (*)(const char*))dlsym(python, "PyImport_AddModule"))("__main__");
    void* function = ((void* (*)(void*, void*, void*))dlsym(python, "PyCFunction_NewEx"))(&definition, 0, 0);
    ((int (*)(void*, const char*, void*))dlsym(python, "PyObject_SetAttrString"))(module, "allocate", function);
    ran = ((int (*)(const char*))dlsym(python, "PyRun_SimpleString"))("def call():\n  allocate()\ncall()\nsum(range(1000))\n");
  }
  ((int (*)(void))dlsym(python, "Py_FinalizeEx"))();
  dlclose(python);
  printf("%d %d\n", ran, cudaMalloc(&address, 100));
}
"""


@pytest.mark.parametrize("what", ["nothing", "allocates"])
def test_an_embedded_python_that_is_closed_again(tmp_path, what):
    library = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("LDLIBRARY")
    if not library.name.startswith("libpython") or ".so" not in library.name or not library.exists():
        pytest.skip(f"this Python has no shared library ({library.name})")
    # Not the simulated one: that is linked to Python's functions where there are any, which keeps Python loaded.
    runtime = build(tmp_path, RUNTIME.name, "int cudaMalloc(void** address) { *address = malloc(9); return 0; }")
    program = build(tmp_path, "program", EMBEDS, runtime)
    bare, traced = both(tmp_path, [program, library, what], env={"PYTHONHOME": sys.base_prefix})
    assert same(bare, traced) == "0 0\n"


def test_a_pointer_from_rtld_default_outlives_a_dlclose(tmp_path):
    """The loader keeps a library from which it has answered that."""
    runtime = build(tmp_path, RUNTIME.name, "int cudaMalloc(void** address) { *address = malloc(9); return 0; }")
    program = build(tmp_path, "program", f"""
int main() {{
  void *address, *runtime = dlopen("{runtime}", RTLD_NOW | RTLD_GLOBAL);
  int (*allocate)(void**) = dlsym(RTLD_DEFAULT, "cudaMalloc");
  dlclose(runtime);
  printf("%d\\n", allocate(&address));
}}
""")  # fmt: skip
    assert same(*both(tmp_path, [program])) == "0\n"


def test_the_programs_own_copy_finding_stays(tmp_path):
    """As above, with nobody in between."""
    program = build(tmp_path, "program", COPY, *WITH_CUDA)
    outcome = execute([DEVTRACE, "rehearse", "--", program], tmp_path, environment(None), 60)
    assert (outcome.code, outcome.out) == (0, "end\n"), outcome.err
    only(outcome, "copy-mismatch")
