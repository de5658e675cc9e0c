"""What a check says: one thing done on cuda:0 and on the CPU. CHECKS: all that were read, by name."""

import copy

import torch

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def same(have, want, **tolerance):
    torch.testing.assert_close(have.detach().cpu(), want.detach().cpu(), **tolerance)


def both(function, *tensors, **tolerance):
    """function's results on both devices are equal, and so are the gradients of its sum."""
    ends = []
    for device in ("cpu", "cuda:0"):
        given = [t.detach().clone().to(device).requires_grad_(t.is_floating_point()) for t in tensors]
        out = function(*given)
        wanted = [t for t in given if t.requires_grad]
        grads = torch.autograd.grad(out.sum(), wanted, allow_unused=True) if out.requires_grad else []
        ends.append([out, *[g for g in grads if g is not None]])
    for want, have in zip(*ends):
        same(have, want, **tolerance)


def module_both(module, *inputs, **tolerance):
    """The same module and weights on both devices: outputs, weights' gradients, buffers."""
    on_gpu = copy.deepcopy(module).to("cuda:0")
    want, have = module(*inputs), on_gpu(*[i.to("cuda:0") for i in inputs])
    want, have = (o[0] if isinstance(o, tuple) else o for o in (want, have))
    same(have, want, **tolerance)
    want.pow(2).sum().backward()
    have.pow(2).sum().backward()
    for (_name, w), (_, h) in zip(module.named_parameters(), on_gpu.named_parameters()):
        same(h.grad, w.grad, **tolerance)
    for (_name, w), (_, h) in zip(module.named_buffers(), on_gpu.named_buffers()):
        same(h, w, **tolerance)


X = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
