"""Mistakes of multi-GPU programs in C++ (tests/workloads/device_mistakes): what is found, the operands' names, and the line to change.

The printed fixes compile and leave no finding; the repaired programs have none. docs/evidence/cpp.md says what the first run gave. All programs
but Thrust's are one translation unit: nvcc takes seconds for each.
"""

import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, TOP, Outcome
from cpp_programs import kept, line_of, own, repaired, run
from nvcc_programs import NVCC, needs_nvcc

pytestmark = [needs_nvcc, pytest.mark.xdist_group("device_mistakes")]

PROGRAMS = TOP / "tests/workloads/device_mistakes"
# Of each the kind, the operands' names, and how the fix begins.
FOUND = {
    "params_member": ("remote-access", ["p.srcPtr", "p.dstPtr"], "p.srcPtr = make(worker, p.count);"),
    "device_member": ("remote-access", ["data_", "part"], "cudaSetDevice(device_);"),
    "pointer_table": ("remote-access", ["sums", "device_rows", "device_rows[0]"], "cudaSetDevice(worker);"),
    "worker_threads": ("wrong-current-device", ["shard.x", "shard.y"], "cudaSetDevice(shard.device);"),
    "blas_handle": ("handle-mismatch", ["context.blas", "a", "b", "c"], "cudaSetDevice(device);"),
    "mapped_memory": ("wrong-current-device", ["values"], "cuMemSetAccess(address, bytes, access, 1);  // CAUSE\nCUmemAccessDesc opened = {{CU_MEM_LOCATION_TYPE_DEVICE, {reader}}"),
    "event_stream": ("handle-mismatch", ["done[i]", "streams[i]"], "cudaSetDevice(i);"),
    "one_way_peer": ("remote-access", ["right", "left"], "cudaDeviceEnablePeerAccess(peer, 0);  // CAUSE\ncudaSetDevice(peer);\ncudaDeviceEnablePeerAccess(device, 0);"),
    "driver_context": ("wrong-current-device", ["values"], "cuCtxSetCurrent(contexts[1]);"),
    "memcpy_peer": ("copy-mismatch", ["src", "dst"], "cudaMemcpyPeerAsync(dst, dst_device, src, src_device, bytes, stream);"),
    "constant_symbol": ("unset-variable", ["coefficients"], "int devices_ = 0, device_before = 0;"),
    "texture": ("remote-access", ["out", "texture"], "cudaSetDevice(device);"),
    "graph_node": ("remote-access", ["output", "input"], "cudaSetDevice(device);"),
    "launch_ex": ("remote-access", ["layer.query", "cosines"], "cudaSetDevice(layer.device);"),
    "pool_memory": ("wrong-current-device", ["buffers[i]"], "cudaMallocAsync(&buffers[i], count * sizeof(float), streams[i]);"),
    "sparse_descriptor": ("handle-mismatch", ["sparse", "matrix", "vector", "result", "buffer"], "cudaSetDevice(device);"),
    "ring_peers": ("remote-access", ["buffers_[rank]", "buffers_[rank - 1]"], "if (possible) {\nint opened_from = 0;"),
    "staged_rows": ("remote-access", ["table", "table[0]"], "cudaSetDevice(device_);"),
    "buffer_template": ("handle-mismatch", ["blas", "matrix", "input.get()", "result"], "cudaSetDevice(device);\nBuffer"),
    "filter_threads": ("unset-variable", ["weights"], "int devices = 0, device_before = 0;"),
    "mapped_arena": ("wrong-current-device", ["values"], "cuMemSetAccess(address_, bytes_, &access, 1);"),
    "lane_events": ("handle-mismatch", ["lane.done", "lane.stream"], "cudaSetDevice(lane.device);"),
    "device_guard": ("wrong-current-device", ["values"], "cudaSetDevice(previous_);"),
}
# Without a mistake.
GOOD = ["own_entry"]
# What only the kernel's own accesses show.
COMPUTED = ["constant_symbol", "filter_threads", "texture"]
HEADERS = ["cstring", "functional", "thread", "vector", "cuda.h", "cuda_runtime.h", "cublas_v2.h", "cusparse.h"]
COMMAND = [NVCC, "-std=c++17", "-g", "-w", "-arch=sm_80", "-cudart", "shared", f"-L{BUILD}/simulate"]


def source_of(name: str, right: bool = False) -> str:
    """The program with its mistake, or repaired: one of the two is in the text, as in a user's file."""
    kept_lines, stack = [], []
    for line in (PROGRAMS / f"{name}.cu").read_text().splitlines():
        if line in ("#ifdef REPAIRED", "#ifndef REPAIRED"):
            stack.append((line == "#ifdef REPAIRED") == right)
        elif line == "#else":
            stack[-1] = not stack[-1]
        elif line == "#endif":
            stack.pop()
        elif all(stack):
            kept_lines.append(line)
    return "\n".join(kept_lines) + "\n"


def build(folder: Path, sources: dict[str, str]) -> Path:
    for name, source in sources.items():
        (folder / f"{name}.cu").write_text(source)
    parts = [f"#include <{header}>" for header in HEADERS]
    parts += [f'namespace {name} {{\n#include "{name}.cu"\n}}' for name in sources]
    parts += ["int main(int, char** words) {"]
    parts += [f'if (!std::strcmp(words[1], "{name}")) return {name}::main();' for name in sources]
    (folder / "all.cu").write_text("\n".join([*parts, "return 99;", "}", ""]))
    subprocess.run(list(map(str, [*COMMAND, "-o", folder / "all", folder / "all.cu", "-lcublas", "-lcusparse", "-lcuda"])), check=True)
    return folder / "all"


class Programs:
    def __init__(self, folder: Path, sources: dict[str, str]):
        self.program = build(folder, sources)

    def run(self, name: str, folder: Path) -> Outcome:
        return run(self.program, name, folder=folder, flags=["--kernels"] if name in COMPUTED else [])


def errors(outcome: Outcome) -> list[dict]:
    """Not the notes of accesses that the program has allowed."""
    return [finding for finding in outcome.findings if finding["severity"] == "error"]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    return Programs(tmp_path_factory.mktemp("wrong"), {name: source_of(name) for name in FOUND})


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return Programs(tmp_path_factory.mktemp("right"), {name: source_of(name, True) for name in [*FOUND, *GOOD]})


@pytest.fixture(scope="module")
def findings(wrong, tmp_path_factory):
    folder = tmp_path_factory.mktemp("findings")
    return {name: errors(wrong.run(name, folder)) for name in FOUND}


@pytest.mark.parametrize("name", FOUND)
def test_found_with_every_name_and_the_line_to_change(findings, name):
    kind, names, fix = FOUND[name]
    source = source_of(name)
    (finding,) = findings[name]
    assert finding["kind"] == kind and own(finding)[0]["line"] == line_of(source, "FOUND")
    assert [operand["name"] for operand in finding["operands"]] == names
    cause = finding["cause"]
    assert cause["fix"].startswith(fix) and Path(cause["file"]).name == f"{name}.cu"
    assert cause["line"] == line_of(source, "CAUSE")


def test_every_printed_fix_compiles_and_leaves_no_finding(findings, tmp_path):
    fixed = Programs(tmp_path, {name: repaired(source_of(name), findings[name][0]) for name in FOUND})
    for name in FOUND:
        outcome = fixed.run(name, tmp_path)
        assert (outcome.code, errors(outcome)) == (0, []), (name, outcome.err)


def test_repaired_programs_have_no_finding(right, tmp_path):
    for name in [*FOUND, *GOOD]:
        outcome = right.run(name, tmp_path)
        assert (outcome.code, errors(outcome)) == (0, []), (name, outcome.err)


def test_a_kernel_of_thrusts_is_shown_as_the_line_that_called_it(tmp_path):
    source = source_of("thrust_vector")
    outcome = run(kept("thrust_vector.cu", source, COMMAND), folder=tmp_path)
    (finding,) = outcome.findings
    assert own(finding)[0]["line"] == line_of(source, "FOUND")
    assert {operand["name"]: operand["device"] for operand in finding["operands"]} == {"inputs": "cuda:1", "weights": "cuda:0"}
    assert finding["cause"]["line"] == line_of(source, "CAUSE") and finding["cause"]["fix"].startswith("cudaSetDevice(device);")
