"""True values on simulated devices: every operator's result, computed by PyTorch's own CPU kernels.

libcuda.so.1 (install.cpp) imports this once, before the process's first use of CUDA, and calls install(). Each kernel that PyTorch
registered for CUDA tensors is then replaced by one that calls it first (checks, metadata, launches; copies and fills touch nothing). Then
it computes the result, in the same memory, with the same operator on the CPU.
"""

import os


def install(
    wrap,
    not_computed,
    within,
    wait,
    keep_kernel,
    with_keys,
    defer,
    around,
    give_up,
    unwatched,
    any_uncomputed,
    follow_uncomputed,
    mark_uncomputed,
    code_is_compiled,
):
    """What install.cpp offers: see there. Returns what it calls when Triton is imported, and when operators were registered."""
    import torch

    from . import compiled_graphs, deferred, graphs, native, registration, triton_kernels, tvm_functions, uncomputed

    registration.keep_kernels_by(keep_kernel, with_keys)
    uncomputed.install(any_uncomputed, follow_uncomputed, mark_uncomputed)
    registration.install(wrap, not_computed, wait)
    if os.environ.get("DEVTRACE_SIM_VALUES", "").startswith("small") and not native.started():
        import sys

        print(f"devtrace: --values small: devtrace has no kernels for PyTorch {torch.__version__}: all values are computed", file=sys.stderr)
    graphs.install(within, wait)
    # TorchScript's fuser would write kernels of its own, which nobody computes; without it the same operators run one by one.
    torch._C._jit_override_can_fuse_on_gpu(False)
    if os.environ.get("DEVTRACE_SIM_VERBOSE") == "1":
        import sys

        way = "most of them in C++" if native.started() else "all by way of Python"
        print(f"devtrace: values of {registration.installed} operators are computed, {way}", file=sys.stderr)
    compiled_graphs.install(around, unwatched, code_is_compiled)
    deferred.install(defer, give_up, unwatched)

    tvm_functions.install()
    return triton_kernels.install, registration.look
