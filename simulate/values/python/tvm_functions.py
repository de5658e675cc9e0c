"""Functions of libraries that are called by Apache TVM's FFI, not as operators, and whose kernels are machine code: FlashInfer's sampling.

To add one: a function below, with the parameters of the library's. It is computed if a function of its name is called with as many arguments;
CUDA tensors are given as their CPU aliases, and it writes where the kernel would. Results are as random as the kernel's, not the same.
"""

import functools

import torch

from . import deferred, graphs, imported, uncomputed

FUNCTIONS = {}  # (name, number of arguments): function
WRITTEN = {"result", "samples", "valid"}  # parameters


def function(does):
    FUNCTIONS[does.__name__, does.__code__.co_argcount] = does
    return does


def install():
    """Before the first function of a module of TVM's is fetched."""
    imported.change({"tvm_ffi.module": watch})


def watch(module):
    real = module.Module.get_function
    names = {name for name, _ in FUNCTIONS}

    @functools.wraps(real)
    def get_function(self, name, *args, **kwargs):
        found = real(self, name, *args, **kwargs)
        return deferred.then(found, functools.partial(called, name)) if name in names else found

    module.Module.get_function = get_function


def called(name, *arguments):
    """The real one has launched its kernels: now their effect, or at each replay where they were captured."""
    graphs.now_or_at_replay(lambda: compute(name, arguments))


def compute(name, arguments):
    does = FUNCTIONS.get((name, len(arguments)), unknown)
    if deferred.attempt(name, lambda: does(*graphs.alias(arguments))) and uncomputed.any_uncomputed():
        named = list(zip(does.__code__.co_varnames, arguments))
        read, written = (uncomputed.ranges([value for name, value in named if (name in WRITTEN) == which]) for which in (False, True))
        uncomputed.follow(read, written, False)


def unknown(*arguments):
    raise TypeError(f"a function of that name with {len(arguments)} arguments is not known")


# -- FlashInfer's sampling: rows of probabilities or logits; a parameter is a value, or a tensor with one for each row


def each(values, value):
    return value if values is None else values.unsqueeze(-1)


def random(seeds, seed, offsets, offset):
    """One generator for all rows, which the first seed and offset decide."""
    seed, offset = (value if values is None else int(values.flatten()[0]) for values, value in ((seeds, seed), (offsets, offset)))
    return torch.Generator("cpu").manual_seed((int(seed) * 1_000_003 + int(offset)) % (1 << 63))


def kept_by_p(probs, p):
    """Of each row the likeliest that together have at least p, and what equals the last of them."""
    ordered = probs.sort(-1, descending=True)[0]
    last = (ordered.cumsum(-1) - ordered < p).sum(-1, keepdim=True).clamp(min=1) - 1
    return probs >= ordered.gather(-1, last)


def kept_by_k(values, k):
    """Of each row the k largest, and what equals the last of them."""
    k = torch.as_tensor(k, device="cpu").long().clamp(1, values.size(-1))
    return values >= values.sort(-1, descending=True)[0].gather(-1, (k - 1).expand(values.size(0), 1))


def renormed(probs, kept):
    probs = probs.float().where(kept, 0.0)
    return probs / probs.sum(-1, keepdim=True)


def draw(probs, samples, valid, indices, generator):
    drawn = probs if indices is None else probs[indices.long()]
    samples.copy_(torch.multinomial(drawn, 1, generator=generator).flatten())
    if valid is not None:
        valid.fill_(True)


@function
def softmax(workspace, logits, result, temperatures, temperature, enable_pdl):
    result.copy_((logits / each(temperatures, temperature)).softmax(-1))


@function
def sampling_from_logits(logits, samples, indices, deterministic, seeds, seed, offsets, offset):
    draw(logits.softmax(-1), samples, None, indices, random(seeds, seed, offsets, offset))


@function
def sampling_from_probs(probs, samples, valid, indices, deterministic, seeds, seed, offsets, offset):
    draw(probs, samples, valid, indices, random(seeds, seed, offsets, offset))


@function
def top_p_sampling_from_probs(probs, samples, valid, indices, ps, p, deterministic, seeds, seed, offsets, offset):
    draw(renormed(probs, kept_by_p(probs, each(ps, p))), samples, valid, indices, random(seeds, seed, offsets, offset))


@function
def top_k_sampling_from_probs(probs, samples, valid, indices, ks, k, deterministic, seeds, seed, offsets, offset):
    draw(renormed(probs, kept_by_k(probs, each(ks, k))), samples, valid, indices, random(seeds, seed, offsets, offset))


@function
def min_p_sampling_from_probs(probs, samples, valid, indices, ps, p, deterministic, seeds, seed, offsets, offset):
    kept = probs >= probs.amax(-1, keepdim=True) * each(ps, p)
    draw(renormed(probs, kept), samples, valid, indices, random(seeds, seed, offsets, offset))


@function
def top_k_top_p_sampling_from_probs(probs, samples, valid, indices, ks, k, ps, p, deterministic, seeds, seed, offsets, offset):
    kept = kept_by_k(probs, each(ks, k)) & kept_by_p(probs, each(ps, p))
    draw(renormed(probs, kept), samples, valid, indices, random(seeds, seed, offsets, offset))


@function
def top_p_renorm_probs(probs, result, ps, p, deterministic, workspace):
    result.copy_(renormed(probs, kept_by_p(probs, each(ps, p))))


@function
def top_k_renorm_probs(probs, result, ks, k, row_states):
    result.copy_(renormed(probs, kept_by_k(probs, each(ks, k))))


@function
def top_k_mask_logits(logits, result, ks, k, row_states):
    result.copy_(logits.masked_fill(~kept_by_k(logits, each(ks, k)), float("-inf")))
