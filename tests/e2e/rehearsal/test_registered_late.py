"""Operators that a program brings after its first use of CUDA, and kernels of operators that nobody has defined."""

import pytest
from conftest import start
from helpers.cpp_programs import build_torch

LIBRARY = """
#include <torch/library.h>
#include <ATen/ATen.h>
at::Tensor on_cuda(const at::Tensor& x) { return at::empty_like(x); }
at::Tensor on_cpu(const at::Tensor& x) { return x * 2; }
std::vector<at::Tensor> some_on_cuda(const at::Tensor& x) { return {at::empty_like(x), at::Tensor()}; }
std::vector<at::Tensor> some_on_cpu(const at::Tensor& x) { return {x * 5, at::Tensor()}; }
TORCH_LIBRARY(brought, m) { m.def("doubled(Tensor x) -> Tensor"); m.def("some(Tensor x) -> Tensor[]"); }
TORCH_LIBRARY_IMPL(brought, CUDA, m) { m.impl("doubled", on_cuda); m.impl("some", some_on_cuda); }
TORCH_LIBRARY_IMPL(brought, CPU, m) { m.impl("doubled", on_cpu); m.impl("some", some_on_cpu); }
"""

LATE = """
import sys, threading, torch
nobody = torch.library.Library("nobody", "IMPL")
nobody.impl("defined_this", lambda x: x, "CUDA")
x = torch.arange(3.0, device="cuda")
print("own", (x + 1).tolist())

late = torch.library.Library("late", "DEF")
late.define("tripled(Tensor x) -> Tensor")
late.impl("tripled", torch.empty_like, "CUDA")
late.impl("tripled", lambda x: x * 3, "CPU")
print("of Python", torch.ops.late.tripled(x).tolist())
computed = sys.modules["_devtrace_values.registration"]
before = computed.installed
late.impl("tripled", torch.empty_like, "Meta")
print("replaced anew", computed.installed - before)

@torch.library.custom_op("late::squared", mutates_args=())
def squared(x: torch.Tensor) -> torch.Tensor:
    return x * x
print("composite", squared(x).tolist())

torch.ops.load_library(sys.argv[1])
print("of a library", torch.ops.brought.doubled(x).tolist())
print("with an undefined one", torch.ops.brought.some(x)[0].tolist())

again = torch.library.Library("aten", "IMPL")
again.impl("neg", lambda x: x + 100, "CUDA")
print("the program's own", (-x).tolist())
"""


@pytest.mark.parametrize("way", ["", "python"])
def test_they_are_computed_all_the_same(way, tmp_path):
    library = build_torch(LIBRARY, "-shared", "-fPIC")
    (tmp_path / "program.py").write_text(LATE)
    outcome = start([tmp_path / "program.py", library], tmp_path, env={"DEVTRACE_SIM_VALUES": way} if way else None, fresh=True)
    assert outcome.out.splitlines() == [
        "own [1.0, 2.0, 3.0]",
        "of Python [0.0, 3.0, 6.0]",
        "replaced anew 0",  # what stands in the kernel's place would be taken for the kernel
        "composite [0.0, 1.0, 4.0]",
        "of a library [0.0, 2.0, 4.0]",
        "with an undefined one [0.0, 5.0, 10.0]",
        "the program's own [100.0, 101.0, 102.0]",
    ], outcome.err
    assert outcome.code == 0 and "not computed" not in outcome.err
