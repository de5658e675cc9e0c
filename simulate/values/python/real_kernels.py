"""PyTorch's own kernel of an operator, to be called once another one stands in its place."""

import torch

SPARE = "PrivateUse3"  # of the keys for backends that are not PyTorch's own, the one that nobody is known to use
FOR_ALL_BACKENDS = "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd"
_keep_kernel = _with_keys = None


def start(keep_kernel, with_keys):
    """keep_kernel(name, overload, from, to), see ../older_pytorch.h; with_keys(function, keys): see ../install.cpp."""
    global _keep_kernel, _with_keys
    _keep_kernel, _with_keys = keep_kernel, with_keys


def take(name, op, key):
    """To be called with a set of dispatch keys and the operator's arguments."""
    if hasattr(torch.library, "get_kernel"):  # since 2.9
        return torch.library.get_kernel(name, key).call_boxed
    qualified, _, overload = name.partition(".")
    keys = torch._C.DispatchKey.__members__
    spare = keys[key.replace("CUDA", SPARE)]
    for place in (key, *FOR_ALL_BACKENDS):
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, place):
            if _keep_kernel(qualified, overload, int(keys[place]), int(spare)):
                return _with_keys(op._handle.redispatch_boxed, torch._C.DispatchKeySet(spare))
            break
    raise RuntimeError(f"PyTorch {torch.__version__} does not give its kernels away, which 2.4 and later do")
