"""One operator's result from the CPU, into the memory of the result that the CUDA kernel made."""

import torch

from . import memory, randomness
from .specials import SPECIALS

Tensor = torch.Tensor
CPU = torch.device("cpu")
not_computed = None  # set by registration.install

# What the CPU computes in when it has no kernel for a type; the result is rounded.
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
LACKS_KERNEL = ("not implemented for", "Unsupported dtype", "not supported", "does not support", "unsupported")
BAD_INDEX = ("out of range", "out of bounds", "index out of")


class Pending(tuple):
    """A result that has yet to be allocated: (function, arguments, keyword arguments, what to call with it); see bring_in.cpp."""


class Unable(Exception):
    """The CPU cannot compute this; the reason."""


def reason(error):
    lines = str(error).splitlines()
    return lines[0][:150] if lines else type(error).__name__


class Plan:
    """How one operator is computed; made once."""

    def __init__(self, name, op):
        self.name = name
        schema = op._schema
        self.special = SPECIALS.get(name)
        self.cpu = op._op if torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU") else None
        self.parameters = [a.name for a in schema.arguments]
        self.places = {n: i for i, n in enumerate(self.parameters, 1)}
        self.outs = [a.name for a in schema.arguments if a.is_out]
        self.mutates = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
        # For each result: is it one of the arguments that the operator writes to?
        self.written = [r.alias_info is not None and r.alias_info.is_write for r in schema.returns]
        self.grows = torch.Tag.dynamic_output_shape in op.tags
        self.generator = next((a.name for a in schema.arguments if str(a.type) == "Optional[Generator]"), None)
        self.random = self.generator is not None or torch.Tag.nondeterministic_seeded in op.tags
        self.second_chance = self.without_real if self.grows and not self.mutates else None

    # -- arguments

    def convert(self, value, narrow):
        """A CUDA tensor's alias; `narrow`: None, or the list of (alias, its copy in a wider type)."""
        if isinstance(value, Tensor):
            if value.layout != torch.strided:
                raise Unable(f"a {value.layout} operand")
            if value.is_cuda:
                value = memory.alias(value)
                if narrow is not None and value.dtype in WIDER:
                    wide = value.to(WIDER[value.dtype])
                    narrow.append((value, wide))
                    return wide
            return value
        if isinstance(value, (list, tuple)):
            return [self.convert(v, narrow) for v in value]
        if isinstance(value, torch.device):
            return CPU
        if narrow is not None and isinstance(value, torch.dtype):
            return WIDER.get(value, value)
        return value

    def call(self, result, args, kwargs, narrow=None):
        args = [self.convert(a, narrow) for a in args[1:]]
        kwargs = {k: self.convert(v, narrow) for k, v in kwargs.items() if k != "pin_memory"} if kwargs else {}
        if self.special:
            return self.special(result, *args, **kwargs)
        if self.random:
            device = randomness.device_of(result)
            if device is not None:
                return randomness.call(self, args, kwargs, device)
        return self.cpu(*args, **kwargs)

    # -- results

    def value(self, result, args, kwargs):
        if self.cpu is None and self.special is None:
            raise Unable("the CPU has no such operator")
        try:
            return self.call(result, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:
            if not any(text in str(error) for text in LACKS_KERNEL):
                raise
            narrow = []
            try:
                value = self.call(result, args, kwargs, narrow)
            except (RuntimeError, NotImplementedError) as second:
                if any(text in str(second) for text in LACKS_KERNEL):
                    raise Unable(reason(error)) from None
                raise
            if self.mutates:
                for own, wide in narrow:
                    own.copy_(wide)
            return value

    def compute(self, result, args, kwargs):
        try:
            value = self.value(result, args, kwargs)
        except Unable as unable:
            not_computed(self.name, str(unable))
            return result
        except NotImplementedError as error:
            not_computed(self.name, reason(error))
            return result
        return self.store(result, value)

    def without_real(self, error, args, kwargs):
        """The real kernel failed, on a size that no kernel wrote: the result as the CPU has it, on the operands' device."""
        device = randomness.device_of(args[1:])
        tensors = [a for a in args[1:] if isinstance(a, Tensor)]
        if device is None or any(t.device != device for t in tensors if t.dim()):
            raise error
        value = self.value(None, args, kwargs)
        blank = torch.empty(0, device=device)
        if isinstance(value, Tensor):
            return keep(blank.to(value.dtype), value)
        return self.keep_all([blank.to(v.dtype) for v in value], value)

    def store(self, result, value):
        """Puts the CPU's value where the result is; returns what the operator returns."""
        if isinstance(result, Tensor):
            if self.written and self.written[0]:
                if self.special and self.outs:
                    memory.alias(result).copy_(value)
                return result
            return keep(result, value)
        if isinstance(result, (tuple, list)) and isinstance(value, (tuple, list)):
            return self.keep_all(result, value)
        return result if result is None or isinstance(result, (tuple, list)) else value

    def keep_all(self, results, values):
        one_list = len(self.written) != len(results) or len(self.written) == 1
        written = [False] * len(results) if one_list else self.written
        done = []

        def go_on(_=None):
            while len(done) < len(results):
                i = len(done)
                if written[i]:
                    done.append(results[i])
                    continue
                kept = keep(results[i], values[i])
                if isinstance(kept, Pending):

                    def finish(made, then=kept[3]):
                        done.append(then(made))
                        return go_on()

                    return Pending((*kept[:3], finish))
                done.append(kept)
            return list(done) if one_list else tuple(done)

        return go_on()


def keep(result, value):
    """Writes one CPU value into one real result."""
    if not isinstance(result, Tensor):
        return result if value is None or isinstance(value, Tensor) else value
    if not isinstance(value, Tensor):
        return result
    if result.shape == value.shape:
        (memory.alias(result) if result.is_cuda else result).copy_(value)
        return result

    def fill(made):
        memory.alias(made).copy_(value)
        return made

    # Its shape depends on values, which the CUDA kernel did not have.
    return Pending((torch.empty_strided, (value.shape, value.stride()), {"dtype": result.dtype, "device": result.device}, fill))
