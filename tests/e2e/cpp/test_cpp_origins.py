"""Where memory came from in C++ programs: every function of CUDA's that gives it, with debug information, without, and stripped."""

import shutil
import subprocess
import textwrap

import pytest
from conftest import only
from cpp_programs import build, line_of, own, run, stripped
from pages import browser, page  # noqa: F401 (fixtures)

# One allocation each, and then a copy that states a wrong direction at it, which is told with where it came from.
ALLOCATIONS = {
    "cudaMalloc": "cudaMalloc(&memory, 4096);",
    "cudaMallocAsync": "cudaMallocAsync(&memory, 4096, nullptr);",
    "cudaMallocPitch": "size_t pitch; cudaMallocPitch(&memory, &pitch, 4096, 1);",
    "cudaMalloc3D": "cudaPitchedPtr all; cudaMalloc3D(&all, cudaExtent{4096, 1, 1}); memory = all.ptr;",
    "cuMemAlloc": "CUdeviceptr at; cuMemAlloc(&at, 4096); memory = (void*)at;",
    "cuMemMap": """
        CUmemAllocationProp what{}; what.type = CU_MEM_ALLOCATION_TYPE_PINNED; what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
        CUmemGenericAllocationHandle handle; CUdeviceptr at; CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        cuMemCreate(&handle, 2 << 20, &what, 0); cuMemAddressReserve(&at, 2 << 20, 0, 0, 0);
        cuMemMap(at, 2 << 20, 0, handle, 0); cuMemSetAccess(at, 2 << 20, &access, 1); memory = (void*)at;""",
}
# What may be said to be the host's or a device's contradicts no copy; it is told as the other end of a copy that is wrong.
SHARED = {
    "cudaMallocManaged": "cudaMallocManaged(&memory, 4096, 1);",
    "cudaMallocHost": "cudaMallocHost(&memory, 4096);",
    "cudaHostAlloc": "cudaHostAlloc(&memory, 4096, 0);",
    "cudaHostRegister": "static char own[4096]; memory = own; cudaHostRegister(memory, 4096, 0);",
}
PROGRAM = """
#include <cuda.h>
#include <cuda_runtime_api.h>
static char host[4096];

__attribute__((noinline)) static void* grid() {{
  void* memory = nullptr;
  {statement}
  asm volatile("" ::: "memory");
  return memory;
}}

__attribute__((noinline)) static void upload(void* to, const void* from) {{
  cudaMemcpy(to, from, 4096, cudaMemcpyDeviceToHost);  // WRONG
  asm volatile("" ::: "memory");
}}

int main() {{
  cudaSetDevice(1);
  void* field = grid();  // CALLS
  upload({ends});
}}
"""


def source_of(function):
    if function in ALLOCATIONS:
        return PROGRAM.format(statement=ALLOCATIONS[function].strip(), ends="field, host")
    return PROGRAM.format(statement=SHARED[function], ends="host, field").replace("static char host[4096];", "static char* host;").replace(
        "cudaSetDevice(1);", "cudaSetDevice(1); cudaMalloc((void**)&host, 4096);")


def odd_origin(finding, role="destination"):
    return next(one for one in finding["operands"] if one["role"] == role)["created"]


@pytest.mark.parametrize("function", [*ALLOCATIONS, *SHARED])
def test_every_function_that_gives_memory(tmp_path, function):
    source = source_of(function)
    finding = only(run(build(tmp_path, source, "-g", "-O1"), folder=tmp_path), "copy-mismatch")
    place = own(finding)[0]
    assert (place["function"].split("(")[0], place["line"]) == ("upload", line_of(source, "// WRONG"))
    assert place["source"].startswith("cudaMemcpy(to, from")
    created = odd_origin(finding, "destination" if function in ALLOCATIONS else "source")
    frames = own(created)
    assert created["call"] == function and created["python"] == []
    assert [frame["function"].split("(")[0] for frame in frames] == ["grid", "main"]
    assert frames[1]["line"] == line_of(source, "// CALLS")


def test_without_debug_information(tmp_path):
    program = build(tmp_path, source_of("cudaMalloc"), "-O1")
    finding = only(run(program, folder=tmp_path), "copy-mismatch")
    frames = own(odd_origin(finding))
    assert [frame["function"].split("(")[0] for frame in frames] == ["grid", "main"]
    assert all("file" not in frame and frame["offset"].startswith("0x") for frame in frames)
    finding = only(run(stripped(program), folder=tmp_path), "copy-mismatch")
    frames = own(odd_origin(finding))
    assert odd_origin(finding)["call"] == "cudaMalloc"
    assert len(frames) >= 2 and all("function" not in frame for frame in frames), "a stripped program has no names"


def test_inlined_functions_are_named(tmp_path):
    source = source_of("cudaMalloc").replace("__attribute__((noinline)) static", "__attribute__((always_inline)) static inline")
    finding = only(run(build(tmp_path, source, "-g", "-O2"), folder=tmp_path), "copy-mismatch")
    assert [(frame["function"].split("(")[0], frame.get("inlined", False)) for frame in own(finding)] == [("upload", True), ("main", False)]
    assert [frame["function"].split("(")[0] for frame in own(odd_origin(finding))] == ["grid", "main"]


def test_debug_information_in_a_file_of_its_own(tmp_path):
    program = build(tmp_path, source_of("cudaMalloc"), "-g", "-O1")
    subprocess.run(["objcopy", "--only-keep-debug", program, tmp_path / "program.debug"], check=True)
    subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={tmp_path / 'program.debug'}", program], check=True)
    finding = only(run(program, folder=tmp_path), "copy-mismatch")
    assert own(finding)[0]["line"] == line_of(source_of("cudaMalloc"), "// WRONG")


SPLIT = """
#include <cuda_runtime_api.h>
static char host[4096];

template <class Element>
struct Grid {
  Element* field = nullptr;
  inline __attribute__((always_inline)) void make(int cells) {
    cudaMalloc((void**)&field, cells * sizeof(Element));  // MAKES
    asm volatile("" ::: "memory");
  }
};

namespace {
inline __attribute__((always_inline)) void upload(void* to, const void* from) {
  cudaMemcpy(to, from, 4096, cudaMemcpyDeviceToHost);  // WRONG
  asm volatile("" ::: "memory");
}
inline __attribute__((always_inline)) void step(Grid<float>& grid) {
  if (grid.field) upload(grid.field, host);  // UPLOADS
}
}

__attribute__((noinline)) void unrelated(int n) {
  for (int i = 0; i < n; ++i) asm volatile("" ::: "memory");
}

int main(int count, char**) {
  cudaSetDevice(1);
  unrelated(count);
  Grid<float> grid;
  grid.make(1024);  // CALLS
  auto all = [&]() __attribute__((always_inline)) { step(grid); };  // STEPS
  all();  // BEGINS
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("dwarf", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize("where", ["beside", "packed", "moved", "gone", "another build's"])
def test_split_debug_information(tmp_path, compiler, dwarf, where, monkeypatch):
    """Lines stay in the program. Which functions were inlined stands in .dwo files, or all of them in a .dwp."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    monkeypatch.chdir(tmp_path)  # beside what is compiled lie the .dwo files
    split = ["-g", "-gsplit-dwarf", dwarf, "-O1"]
    program = build(tmp_path, SPLIT, *split, compiler=compiler)
    files = list(tmp_path.glob("*.dwo"))
    assert files, f"{compiler} has split nothing"
    if where == "packed":
        if (compiler, dwarf) == ("g++", "-gdwarf-5"):
            pytest.skip("no tool of Debian 12's packs these: binutils' knows no DWARF 5, LLVM 14's does not come to an end")
        tool = {"-gdwarf-4": "dwp", "-gdwarf-5": "llvm-dwp"}[dwarf]
        if not shutil.which(tool):
            pytest.skip(f"no {tool}")
        subprocess.run([tool, "-o", f"{program}.dwp", *files], check=True)
    if where == "moved":
        (tmp_path / "elsewhere").mkdir()
        program = program.rename(tmp_path / "elsewhere" / program.name)
        for each in files:
            each.rename(tmp_path / "elsewhere" / each.name)
    elif where == "another build's":
        others = tmp_path / "others"
        others.mkdir()
        monkeypatch.chdir(others)
        build(others, SPLIT.replace("upload", "download"), *split, compiler=compiler)
        for each in others.glob("*.dwo"):
            each.rename(files[0])
    elif where != "beside":
        for each in files:
            each.unlink()
    finding = only(run(program, folder=tmp_path), "copy-mismatch")
    frames = [(frame["function"].removeprefix("(anonymous namespace)::").split("(")[0], frame["line"], frame.get("inlined", False)) for frame in own(finding)]
    lines = [line_of(SPLIT, mark) for mark in ("// WRONG", "// UPLOADS", "// STEPS", "// BEGINS")]
    made = [(frame["function"].split("(")[0], frame["line"]) for frame in own(odd_origin(finding))]
    if where in ("gone", "another build's"):
        assert frames == [("main", lines[0], False)] and made == [("main", line_of(SPLIT, "// MAKES"))]
        return
    assert [line for _, line, _ in frames] == lines and [inlined for *_, inlined in frames] == [True, True, True, False]
    assert [name.split("::")[-1] for name, *_ in frames] == ["upload", "step", "operator", "main"]
    assert made == [("Grid<float>::make", line_of(SPLIT, "// MAKES")), ("main", line_of(SPLIT, "// CALLS"))]
    assert all(frame["source"] for frame in own(finding)), "files are found where they lie"


def test_the_page_and_the_text_say_it(tmp_path, page):  # noqa: F811
    outcome = run(build(tmp_path, source_of("cudaMalloc"), "-g", "-O1"), folder=tmp_path)
    for part in ("at upload (program.cpp:", "created on cuda:1 by cudaMalloc in grid (program.cpp:", "called by main (program.cpp:", "4.0 KiB"):
        assert part in outcome.err, part
    assert "a tensor" not in outcome.err and "unknown place" not in outcome.err
    page.open(outcome.pages[0])
    assert page.text(".where").splitlines()[1:] == ["upload (program.cpp:14)", "cudaMemcpy(to, from, 4096, cudaMemcpyDeviceToHost);  // WRONG"]
    assert "cudaMemcpyDefault" in page.text(".fix") and "− cudaMemcpy(to, from, 4096, cudaMemcpyDeviceToHost);" in page.text(".fix")
    told = page.text("main")
    for part in ("cuda:1 by cudaMalloc program.cpp:8", "to: created", "grid program.cpp:8", "main program.cpp:20", "4.0 KiB"):
        assert part in told, told


@pytest.mark.parametrize("every, expected", [(0, 0), (1, 8), (4, 2)])
def test_sampled_or_off(tmp_path, every, expected):
    """Eight allocations, each then copied from in a wrong direction by a function of its own."""
    source = "#include <cuda_runtime_api.h>\nstatic char host[64];\ntemplate <int n> __attribute__((noinline)) void wrong(void* p) { cudaMemcpy(p, host, 64 + n, cudaMemcpyDeviceToHost); }\n" + textwrap.dedent("""
        int main() {
          void* all[8];
          for (void*& each : all) cudaMalloc(&each, 4096);
          wrong<0>(all[0]); wrong<1>(all[1]); wrong<2>(all[2]); wrong<3>(all[3]);
          wrong<4>(all[4]); wrong<5>(all[5]); wrong<6>(all[6]); wrong<7>(all[7]);
        }
        """)
    outcome = run(build(tmp_path, source, "-O1"), folder=tmp_path, options=f"allocation_stacks={every}")
    assert len(outcome.findings) == 8
    assert sum("native" in odd_origin(finding) for finding in outcome.findings) == expected


def test_who_chose_the_device(tmp_path):
    source = """
#include <cuda_runtime_api.h>
static char host[64];
int main() {
  void* memory;
  cudaSetDevice(1);  // FIRST
  cudaSetDevice(0);
  cudaSetDevice(1);  // SECOND
  cudaMalloc(&memory, 4096);
  cudaMemcpy(memory, host, 64, cudaMemcpyDeviceToHost);
}
"""
    finding = only(run(build(tmp_path, source, "-g"), folder=tmp_path), "copy-mismatch")
    changes = [(change["device"], own(change)[0]["line"]) for change in finding["device_changes"]]
    assert changes == [("cuda:1", line_of(source, "FIRST")), ("cuda:0", 7), ("cuda:1", line_of(source, "SECOND"))]
    assert own(odd_origin(finding)["device_choice"])[0]["line"] == line_of(source, "SECOND")
