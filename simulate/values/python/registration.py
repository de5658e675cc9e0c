"""Which operators are computed, and putting the computing kernel in front of PyTorch's own."""

import functools
import sys
import warnings

import torch

from . import compute, exceptions, native, nested, numbers, uncomputed

KEYS = ("CUDA", "SparseCUDA", "SparseCsrCUDA")
# Metadata, memory itself, or reading one element: the real kernel is already true.
LEFT_ALONE = {
    "aten::_local_scalar_dense", "aten::record_stream", "aten::resize_", "aten::set_", "aten::set_.source_Storage",
    "aten::set_.source_Storage_storage_offset", "aten::set_.source_Tensor", "aten::is_pinned", "aten::_pin_memory", "aten::is_set_to",
    "aten::empty.memory_format", "aten::empty_strided", "aten::_efficientzerotensor", "aten::_fused_sdp_choice",
    "aten::_cudnn_init_dropout_state", "aten::_use_cudnn_ctc_loss", "aten::_use_cudnn_ctc_loss.Tensor", "aten::_use_miopen_ctc_loss",
    "aten::_use_miopen_ctc_loss.Tensor", "aten::_debug_has_internal_overlap",
    # made of operators that are computed each, the sizes of a result out of their values
    "aten::_nested_tensor_from_mask", "aten::_nested_tensor_from_mask_left_aligned",
    # of sparse tensors
    "aten::_sparse_coo_tensor_with_dims", "aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::_coalesced_", "aten::copy_sparse_to_sparse_",
    "aten::_sparse_compressed_tensor_with_dims", "aten::empty_like", "aten::resize_as_sparse_", "aten::sparse_resize_",
    "aten::sparse_resize_and_clear_", "aten::clone", "aten::_to_copy", "aten::zero_",
}  # fmt: skip
# ... of which these are computed for dense tensors.
NOT_LEFT_ALONE = {("aten::zero_", "CUDA")}
# Communication is real: gloo's copies and sums happen in host memory.
NAMESPACES_LEFT_ALONE = {"c10d", "symm_mem", "_c10d_functional", "prims", "profiler", "debugprims", "inductor"}
# PyTorch's own. Another's operator for which there is no CPU kernel is made of operators and kernels, which are computed each.
OWN_NAMESPACES = {"aten", "quantized", "quantization"}
# Registered for all backends at once, but they launch kernels of their own or choose an algorithm by backend.
FOR_ALL_BACKENDS = (
    "aten::copy_", "aten::_assert_async", "aten::_assert_async.msg", "aten::convolution", "aten::convolution_backward",
    "aten::mode.values", "aten::conj_physical_",
)  # fmt: skip

SPARE = "PrivateUse3"  # of the keys for backends that are not PyTorch's own, the one that nobody is known to use
IN_PLACE_OF_CUDA = "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd"

installed = 0
_keep_kernel = _with_keys = _wrap = None
_libraries = {}  # a registration lasts as long as its library object
_settled = set()  # (operator, key) that are replaced, or never will be


def overload(name):
    """None for a kernel whose operator nobody has defined, which nobody can call either."""
    qualified, _, overload_name = name.partition(".")
    namespace, _, packet = qualified.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), packet, None), overload_name or "default", None)


def left_alone(name, key, schema):
    if name in LEFT_ALONE and (name, key) not in NOT_LEFT_ALONE or name.partition("::")[0] in NAMESPACES_LEFT_ALONE:
        return True
    if any(a.alias_info is not None and not a.alias_info.is_write for a in schema.arguments):  # a view
        return True
    # Questions about a sparse tensor's form.
    return key != "CUDA" and all(str(r.type) in ("int", "bool") for r in schema.returns)


def keep_kernels_by(keep_kernel, with_keys):
    """keep_kernel(name, overload, from, to), see ../functions.h; with_keys(function, keys): see ../install.cpp."""
    global _keep_kernel, _with_keys
    _keep_kernel, _with_keys = keep_kernel, with_keys


def real_kernel(name, op, key):
    """PyTorch's own, for when another one stands in its place: to be called with a set of dispatch keys and the operator's arguments."""
    if hasattr(torch.library, "get_kernel"):  # since 2.9
        return torch.library.get_kernel(name, key).call_boxed
    qualified, _, overload = name.partition(".")
    keys = torch._C.DispatchKey.__members__
    spare = keys[key.replace("CUDA", SPARE)]
    for place in (key, *IN_PLACE_OF_CUDA):
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, place):
            if _keep_kernel(qualified, overload, int(keys[place]), int(spare)):
                return _with_keys(op._handle.redispatch_boxed, torch._C.DispatchKeySet(spare))
            break
    raise RuntimeError(f"PyTorch {torch.__version__} does not give its kernels away, which 2.4 and later do")


def install(wrap, not_computed, wait):
    global _wrap
    compute.not_computed, compute.wait, _wrap = not_computed, wait, wrap
    native.start()
    look()
    watch_python()
    if not native.listen():
        watch_loading()


def look():
    """Replaces what is registered and is not replaced yet; again when operators were defined since (../install.cpp)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that registered kernels are overridden is the point
        for key in KEYS:
            for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
                consider(name, key)
        for name in nested.OWN_KERNELS:
            consider(name, "NestedTensorCUDA")
        registered = set(torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"))
        for name in FOR_ALL_BACKENDS:
            if name not in registered and torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CUDA"):
                consider(name, "CUDA")


def watch_python():
    """Kernels that Python registers from now on are seen at once: their operator may be called next, and nothing of CUDA before."""
    real = torch.library.Library.impl

    @functools.wraps(real)
    def impl(library, op_name, fn, dispatch_key="", *args, **kwargs):
        done = real(library, op_name, fn, dispatch_key, *args, **kwargs)
        name = f"{library.ns}::{op_name.rpartition('::')[2]}" if isinstance(op_name, str) else op_name.name()
        if name.partition("::")[0] not in OWN_NAMESPACES:  # in place of one of PyTorch's, the program wants its own
            if (dispatch_key or library.dispatch_key) == "CUDA":  # else what stands there is ours already, or was not replaced
                _settled.discard((name, "CUDA"))
            if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    consider(name, "CUDA")
        return done

    torch.library.Library.impl = impl


def watch_loading():
    """Where nobody hears of definitions: the way in which most libraries of operators are opened."""
    real = torch.ops.load_library

    @functools.wraps(real)
    def load_library(path):
        real(path)
        look()

    torch.ops.load_library = load_library


def consider(name, key):
    """One that cannot be replaced costs that one."""
    if (name, key) in _settled:
        return
    try:
        if replace(name, key):
            _settled.add((name, key))
    except Exception as error:
        _settled.add((name, key))
        print(f"devtrace: values of operator {name} are not computed: {compute.reason(error)}", file=sys.stderr)


def replace(name, key):
    """False where that may yet be different, as a kernel of the CPU's may come later."""
    global installed
    op = overload(name)
    if op is None:
        return False
    if left_alone(name, key, op._schema):
        return True
    plan = compute.Plan(name, op, key)
    if plan.cpu is None and not plan.special and name.partition("::")[0] not in OWN_NAMESPACES:
        return False
    # Of sparse operands those that give a result of its own, and are nothing special.
    quick = key == "CUDA" or key == "SparseCUDA" and plan.native == native.PLAIN and not plan.writes
    begun = native.before(name, key, plan.native) if quick and name not in exceptions.INSTEAD else None
    real = real_kernel(name, op, key)
    if name in exceptions.INSTEAD:
        real = exceptions.INSTEAD[name](op, real)
    # From 1: the first argument is the set of dispatch keys.
    tensors = tuple(i for i, a in enumerate(op._schema.arguments, 1) if str(a.type) in ("Tensor", "Optional[Tensor]"))
    kernel = _wrap(real, *plan.kernels(), tensors, numbers.wrapped, compute.Pending, plan.again, uncomputed.Follow(plan))
    namespace, _, rest = name.partition("::")
    if namespace not in _libraries:
        _libraries[namespace] = torch._C._dispatch_library("IMPL", namespace, "", __file__, 0)
    _libraries[namespace].impl(rest, key, kernel, True)
    native.after(begun, plan.out_name, plan.again is not None)
    installed += 1
    return True
