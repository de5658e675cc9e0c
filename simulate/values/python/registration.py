"""Which operators are computed, and putting the computing kernel in front of PyTorch's own."""

import warnings

import torch

from . import compute, numbers

# Metadata, memory itself, or reading one element: the real kernel is already true.
LEFT_ALONE = {
    "aten::_local_scalar_dense", "aten::record_stream", "aten::resize_", "aten::set_", "aten::set_.source_Storage",
    "aten::set_.source_Storage_storage_offset", "aten::set_.source_Tensor", "aten::is_pinned", "aten::_pin_memory", "aten::is_set_to",
    "aten::empty.memory_format", "aten::empty_strided", "aten::_efficientzerotensor", "aten::_fused_sdp_choice", "aten::_nested_tensor_size",
    "aten::_cudnn_init_dropout_state", "aten::_use_cudnn_ctc_loss", "aten::_use_cudnn_ctc_loss.Tensor", "aten::_debug_has_internal_overlap",
}  # fmt: skip
# Communication is real: gloo's copies and sums happen in host memory.
NAMESPACES_LEFT_ALONE = {"c10d", "symm_mem", "_c10d_functional", "prims", "profiler", "debugprims", "inductor"}
# Registered for all backends at once, but they launch kernels of their own.
FOR_ALL_BACKENDS = ("aten::copy_", "aten::_assert_async", "aten::_assert_async.msg", "aten::convolution_backward")

installed = 0
_keep = []  # a registration lasts as long as its library object


def overload(name):
    qualified, _, overload_name = name.partition(".")
    namespace, _, packet = qualified.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload_name or "default")


def is_view(schema):
    return any(a.alias_info is not None and not a.alias_info.is_write for a in schema.arguments)


def wanted(name):
    return name not in LEFT_ALONE and name.partition("::")[0] not in NAMESPACES_LEFT_ALONE


def install(wrap, not_computed):
    compute.not_computed = not_computed
    names = [n for n in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA") if wanted(n)]
    names += [n for n in FOR_ALL_BACKENDS if n not in names and torch._C._dispatch_has_computed_kernel_for_dispatch_key(n, "CUDA")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that registered kernels are overridden is the point
        for name in names:
            replace(name, "CUDA", wrap)


def replace(name, key, wrap):
    global installed
    op = overload(name)
    if is_view(op._schema):
        return
    plan = compute.Plan(name, op)
    real = torch.library.get_kernel(name, key).call_boxed
    namespace, _, rest = name.partition("::")
    library = _library(namespace)
    # From 1: the first argument is the set of dispatch keys.
    tensors = tuple(i for i, a in enumerate(op._schema.arguments, 1) if str(a.type) in ("Tensor", "Optional[Tensor]"))
    library.impl(rest, key, wrap(real, plan.compute, plan.second_chance, tensors, numbers.wrapped, compute.Pending), True)
    installed += 1


_libraries = {}


def _library(namespace):
    if namespace not in _libraries:
        _libraries[namespace] = torch._C._dispatch_library("IMPL", namespace, "", __file__, 0)
    return _libraries[namespace]
