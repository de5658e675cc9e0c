"""CUDA's own ways to come by a function give its hook, too: cuGetProcAddress, cudaGetDriverEntryPoint, WSL2's thin loader."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from c_programs import ROWS, both, build, functions
from conftest import BUILD
from kernel_programs import DRIVER

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
    ("cuStreamQuery", 12000, 0): None, ("cuMemAlloc_v2", 12000, 0): "cuMemAlloc_v2", ("dlsym", 12000, 0): None,
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
