"""devtrace fix with a program that is compiled: edits are made, built and run in a copy of its folder."""

import subprocess

from conftest import DEVTRACE, environment, execute
from cpp_programs import CUDA, SIMULATED

SOURCE = """
#include <cuda_runtime_api.h>

static void gather(void* dst, int dst_device, const void* src, int src_device, size_t bytes) {
  cudaMemcpyPeer(dst, src_device, src, dst_device, bytes);
}

int main() {
  float *part, *whole;
  cudaSetDevice(1);
  cudaMalloc((void**)&part, 4096);
  cudaSetDevice(0);
  cudaMalloc((void**)&whole, 4096);
  gather(whole, 0, part, 1, 4096);
  cudaEvent_t done[2];
  cudaStream_t streams[2];
  for (int i = 0; i < 2; ++i) {
    cudaEventCreate(&done[i]);
  }
  for (int i = 0; i < 2; ++i) {
    cudaSetDevice(i);
    cudaStreamCreate(&streams[i]);
    if (cudaEventRecord(done[i], streams[i]) != cudaSuccess) return 1;
  }
  return cudaDeviceSynchronize();
}
"""
REPAIRED = SOURCE.replace("(dst, src_device, src, dst_device", "(dst, dst_device, src, src_device").replace(
    "    cudaEventCreate", "    cudaSetDevice(i);\n    cudaEventCreate")
COMPILE = f"g++ -g -o app app.cpp -isystem {CUDA}/include {SIMULATED}/libcudart.so.13 {SIMULATED}/libcuda.so.1 -Wl,--allow-shlib-undefined"


def project(folder, makefile="Makefile"):
    (folder / "app.cpp").write_text(SOURCE)
    (folder / makefile).write_text(f"app: app.cpp\n\t{COMPILE}\n")
    subprocess.run(["make", "-f", makefile], cwd=folder, check=True)
    return (folder / "app").read_bytes()


def fix(folder, *options):
    return execute([DEVTRACE, "fix", "--no-html", *options, "--", "./app"], folder, environment(None), 120)


def test_two_mistakes_one_patch(tmp_path):
    built = project(tmp_path)
    outcome = fix(tmp_path)
    assert outcome.code == 0, outcome.out + outcome.err
    assert "verified: with this change the program ran to its end in rehearsal; 2 findings before, 0 after" in outcome.out
    assert (tmp_path / "app.cpp").read_text() == SOURCE and (tmp_path / "app").read_bytes() == built, "all was done in copies"
    subprocess.run(["patch", "-p1", "-i", "devtrace.patch"], cwd=tmp_path, check=True)
    assert (tmp_path / "app.cpp").read_text() == REPAIRED


def test_the_build_that_is_given(tmp_path):
    project(tmp_path, "rules.mk")
    outcome = fix(tmp_path, "--build", "make -f rules.mk", "--apply")
    assert outcome.code == 0 and (tmp_path / "app.cpp").read_text() == REPAIRED, outcome.out + outcome.err


def test_a_build_that_fails(tmp_path):
    project(tmp_path)
    outcome = fix(tmp_path, "--build", "echo no compiler; exit 3")
    assert outcome.code == 2 and "no compiler" in outcome.err, outcome.out + outcome.err
    assert not (tmp_path / "devtrace.patch").exists()
