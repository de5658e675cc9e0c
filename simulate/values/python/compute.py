"""One operator's result from the CPU, into the memory of the result that the CUDA kernel made."""

import torch

from . import exceptions, graphs, memory, native, nested, randomness, sequences, sparse, stand_ins, substitutes, uncomputed, wider

Tensor = torch.Tensor
CPU = torch.device("cpu")
STRIDED = torch.strided
not_computed = wait = None  # set by registration.install; wait: for streams that run behind the host (--async)


# Of one size whatever the values, and cheap enough for a copy of the result to count.
INTO_PLACE = {
    "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::cat", "aten::_softmax", "aten::_log_softmax", "aten::cumsum",
    "aten::gather", "aten::sum.dim_IntList", "aten::mean.dim",
}  # fmt: skip


PLAIN = {int, float, bool, type(None), torch.dtype, torch.memory_format, torch.layout, str}


class Pending(tuple):
    """A result that has yet to be allocated: (function, arguments, keyword arguments, what to call with it); see install.cpp."""


class Unable(Exception):
    """The CPU cannot compute this; the reason."""


class Context:
    """One call: the real results, and its random numbers."""

    def __init__(self, real, state):
        self.real = real
        _, self.generator, self.place, self.written, self.replaced, self.after = state or (None,) * 6
        self.used = None

    def draw(self):
        """The CPU generator to draw from."""
        self.used = randomness.generator_at(self.place)
        return self.used[0]

    def seed(self):
        """One number for the whole call."""
        return randomness.seed_at(self.place)


def reason(error):
    lines = str(error).splitlines()
    return lines[0][:150] if lines else type(error).__name__


def is_empty(result):
    """Whether there is nothing to compute."""
    return all(isinstance(r, Tensor) and not r.numel() for r in (result if isinstance(result, (tuple, list)) else (result,)))


def all_defined(results):
    """A list of tensors as PyTorch takes it back: what is undefined in one comes as None, which it refuses."""
    device = next((r.device for r in results if r is not None), CPU)
    return [torch.empty(0, device=device) if r is None else r for r in results]


class Plan:
    """How one operator is computed; made once."""

    def __init__(self, name, op, key):
        self.name = name
        schema = op._schema
        self.substitute = substitutes.SUBSTITUTES.get(name)
        on_cpu = (key.replace("CUDA", "CPU"), "CPU")
        has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
        self.cpu = op._op if any(has(name, k) for k in on_cpu) else None
        self.special = sequences.SPECIALS.get(name) or (stand_ins.of(name, schema) if self.cpu is None else None)
        self.places = {a.name: i for i, a in enumerate(schema.arguments, 1)}
        self.outs = [a.name for a in schema.arguments if a.is_out]
        self.writes = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        # For each result: is it one of the arguments that the operator writes to?
        self.written = [r.alias_info is not None and r.alias_info.is_write for r in schema.returns]
        self.generator = next((a.name for a in schema.arguments if str(a.type) == "Optional[Generator]"), None)
        self.random = self.generator is not None or torch.Tag.nondeterministic_seeded in op.tags
        self.nested_too = name in exceptions.NESTED_TOO
        self.nested_too_when = exceptions.NESTED_TOO_WHEN.get(name)
        self.grows = torch.Tag.dynamic_output_shape in op.tags
        grows = self.grows or name in exceptions.MAY_FAIL
        self.second_chance = self.without_real if grows and not self.writes else None
        # The real kernel may be one of several operators that look at each other's values; what has no second effect is tried again.
        self.again = exceptions.may_be_for_values if not self.random and self.writes == self.outs else None
        # Kernels with several results ask which of their tensors share a storage.
        self.alias = memory.apart if len(self.outs) > 1 else memory.alias
        # A sparse argument that is written to may get other indices from the real kernel.
        self.replaces = [n for n in self.writes if n not in self.outs] if key != "CUDA" else []
        self.simple = self.cpu is not None and not self.special and len(self.written) == 1 and str(schema.returns[0].type) == "Tensor"
        self.is_pointwise = torch.Tag.pointwise in op.tags
        self.out_name = self.out_overload(op) if self.is_pointwise or name in INTO_PLACE else None
        self.out = getattr(op._overloadpacket, self.out_name)._op if self.out_name else None
        # Only pointwise kernels of the CPU may write into a given place themselves: others forget strides, or make it larger for a while.
        self.functional = None
        if self.outs and self.writes == self.outs and not (self.is_pointwise or self.special or self.generator or self.random):
            self.out_name = self.same_arguments(op, [])
            self.functional = getattr(op._overloadpacket, self.out_name)._op if self.out_name else None
        self.before = self.look if self.random or self.nested_too or self.nested_too_when or self.replaces else None
        # One dense result and nothing special about it.
        fits = self.simple and not (self.random or self.nested_too_when or self.replaces or self.grows or self.second_chance)
        self.slow = name in wider.SLOW
        self.plain = fits and not self.nested_too and not self.slow
        self.native = self.natively(schema)

    def natively(self, schema):
        """What ../torch does of it."""
        dense = all(str(r.type) in ("Tensor", "List[Tensor]") for r in schema.returns)
        if self.cpu is None or self.special or self.replaces or not dense or (self.outs and not self.simple):
            return native.GATE
        if self.random:
            grows = self.nested_too or self.nested_too_when or self.second_chance or self.grows
            return native.GATE if grows or self.generator is None else native.RANDOM
        if self.nested_too_when:
            return native.NOT_MASKS if self.nested_too_when is exceptions.reads_indices else native.GATE
        if self.second_chance or self.grows:
            return native.GROWS if self.second_chance else native.GATE
        return native.NESTED_TOO if self.nested_too else native.PLAIN

    def out_overload(self, op):
        """The overload that writes into a given tensor, called like `op` with an out= more; None when there is none."""
        return None if self.writes or not self.simple else self.same_arguments(op, ["out"])

    @staticmethod
    def same_arguments(op, outs):
        """The overload that is called like `op`, with these out= arguments."""
        own = [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]
        for name in op._overloadpacket.overloads():
            arguments = getattr(op._overloadpacket, name)._schema.arguments
            if [a.name for a in arguments if a.is_out] == outs and [(a.name, str(a.type)) for a in arguments if not a.is_out] == own:
                return name
        return None

    def kernels(self):
        """(compute, second_chance, before), for wrap."""
        return (quick(self) if self.plain else self.compute), self.second_chance, self.before

    # -- before the real kernel

    def look(self, args, kwargs):
        """(whether nested operators are computed, generator, its position, [(argument's alias, its values)], {place: sparse argument},
        the generator's position afterwards where only a graph knows it)."""
        generator = place = written = replaced = None
        if self.random:
            generator = randomness.cuda_generator(args[1:], kwargs or {})
            place = randomness.position(generator) if generator is not None else None
        nested_too = self.nested_too
        if self.nested_too_when and self.nested_too_when(args, kwargs or {}):
            nested_too = True
            wait()
            places = (args[self.places[n]] for n in self.writes)
            written = [(a, a.clone()) for a in map(memory.place, places)]
        if self.replaces:
            wait()
            given = {self.places[n]: args[self.places[n]] for n in self.replaces if self.places[n] < len(args)}
            replaced = {i: sparse.copy(a) for i, a in given.items() if isinstance(a, Tensor) and a.layout is not STRIDED}
        return nested_too, generator, place, written, replaced, None

    # -- arguments

    def convert(self, value, widened):
        """A CUDA tensor's alias; `widened`: None, or the types to widen and what was (wider.Widened)."""
        if isinstance(value, Tensor):
            if value.is_cuda:
                if value.layout is not STRIDED:
                    made = sparse.alias(value)
                    if made is None:
                        raise Unable(f"a {value.layout} operand")
                    return made if widened is None else widened.sparse(made)
                if value.is_nested:
                    return nested.alias(value)
                value = self.alias(value)
            return value if widened is None else widened.tensor(value)
        if isinstance(value, (list, tuple)):
            return [self.convert(v, widened) for v in value]
        if isinstance(value, torch.device):
            return CPU
        if widened is not None and isinstance(value, torch.dtype):
            return widened.types.get(value, value)
        return value

    def call(self, context, args, kwargs, widened=None, function=None):
        """`function`: in the operator's place."""
        if context.replaced:
            args = [context.replaced.get(i, a) for i, a in enumerate(args)]
        if widened is None:
            args = [self.convert(a, None) for a in args[1:]]
        else:
            args = [self.convert(a, None if name in wider.PLACES else widened) for name, a in zip(self.places, args[1:])]
        outs = {k: kwargs[k] for k in self.outs if isinstance(kwargs.get(k), Tensor)} if kwargs else {}
        if self.functional and not function:
            named = {k: self.convert(v, widened) for k, v in kwargs.items() if k not in outs}
            return self.put(outs, self.apply(context, args, named, widened, self.functional))
        kwargs = {k: self.convert(v, None if k in outs else widened) for k, v in kwargs.items() if k != "pin_memory"} if kwargs else {}
        apart = {k: kwargs[k] for k, out in outs.items() if not self.is_plain(kwargs[k]) or (widened and out.dtype in widened.types)}
        for name, place in apart.items():
            dtype = widened.types.get(place.dtype, place.dtype) if widened else place.dtype
            kwargs[name] = torch.empty(place.shape, dtype=dtype, device="cpu")
        value = self.apply(context, args, kwargs, widened, function)
        if apart:
            for name, place in apart.items():
                if place.numel() and kwargs[name].shape != place.shape:
                    raise Unable(f"on the CPU {name} is of shape {list(kwargs[name].shape)}")
                if place.numel():
                    place.copy_(kwargs[name])
        return value

    def put(self, outs, values):
        """What an operator with out= returns: its values, in `outs`."""
        places = [memory.place(out) for out in outs.values()]
        for place, value in zip(places, values if isinstance(values, (tuple, list)) else (values,)):
            if not place.numel() or not value.numel():  # what is kept for a backward may be empty on one of the devices
                continue
            if value.shape != place.shape:
                raise Unable(f"on the CPU the result is of shape {list(value.shape)}")
            place.copy_(value)
        return places[0] if len(places) == 1 else tuple(places)

    def is_plain(self, out):
        """Whether the CPU's kernel may write there itself: some forget strides, others make an out= larger for a while, none takes a conjugated one."""
        return out.layout is not STRIDED or (self.is_pointwise and out.is_contiguous() and not out.is_conj() and not out.is_neg())

    def apply(self, context, args, kwargs, widened, function):
        if widened is not None and "half_to_float" in self.places:  # the input is float by now
            args[self.places["half_to_float"] - 1] = False
        if function:
            return function(*args, **kwargs)
        if context.place is not None:
            return self.call_random(context, args, kwargs)
        if self.special:
            return self.special(context, *args, **kwargs)
        return self.cpu(*args, **kwargs)

    def call_random(self, context, args, kwargs):
        if self.special:
            value = self.special(context, *args, **kwargs)
        elif self.generator:
            place = self.places[self.generator] - 1
            if place < len(args):
                args[place] = context.draw()
            else:
                kwargs[self.generator] = context.draw()
            value = self.cpu(*args, **kwargs)
        else:
            # Without a parameter for it the operator draws from the default one.
            default = torch.default_generator
            before = default.get_state()
            draw = context.draw()
            default.set_state(draw.get_state())
            try:
                value = self.cpu(*args, **kwargs)
                draw.set_state(default.get_state())
            finally:
                default.set_state(before)
        if context.used and context.used[1] < randomness.MIRRORED:
            randomness.drawn(context.after or randomness.position(context.generator), *context.used)
        return value

    # -- results

    def value(self, context, args, kwargs):
        if self.cpu is None and self.special is None:
            raise Unable("the CPU has no such operator")
        if context.written:
            for own, before in context.written:
                own.copy_(before)
        if self.slow:
            widened = wider.Widened(wider.IN_FLOAT)
            try:
                return self.call(context, args, kwargs, widened)
            except RuntimeError:
                pass  # told by what follows
        try:
            return self.call(context, args, kwargs)
        except RuntimeError as error:
            return self.otherwise(error, context, args, kwargs)

    def otherwise(self, error, context, args, kwargs):
        """The CPU's operator raised `error`, though the real one took these arguments: for the types, or for the values that it saw."""
        if self.substitute and not isinstance(error, NotImplementedError):
            try:
                return self.call(context, args, kwargs, function=self.substitute)
            except RuntimeError:
                pass
        types, last = wider.of(error, wider.NARROW), error
        while types:
            widened = wider.Widened(types)
            try:
                value = self.call(context, args, kwargs, widened)
            except RuntimeError as again:
                if not widened.any:
                    break
                last, more = again, wider.of(again, types)
                if more == types:
                    break
                types = more
                continue
            if self.writes:
                widened.write_back()
            return value
        if not wider.is_about_types(last):
            raise last if wider.is_about_types(error) else error
        raise Unable(reason(error)) from None

    def compute(self, result, args, kwargs, state):
        if isinstance(result, list) and any(r is None for r in result):
            result = all_defined(result)
        if graphs.recording is not None and graphs.captured(self.compute, result, args, kwargs, state):
            return result
        try:
            if self.grows and self.outs:
                self.fill_growing(args, kwargs)
                return result
            value = self.value(Context(result, state), args, kwargs)
        except (Unable, NotImplementedError) as error:
            if not is_empty(result):
                not_computed(self.name, reason(error))
                uncomputed.mark(self, result, args, kwargs)
            return result
        return self.store(result, value)

    def fill_growing(self, args, kwargs):
        """out= of a size that depends on values: an alias must not be resized, so the CPU fills tensors of its own."""
        fresh = {n: torch.empty(0, dtype=kwargs[n].dtype, device="cpu") for n in self.outs}
        self.cpu(*(self.convert(a, None) for a in args[1:]), **{**{k: self.convert(v, None) for k, v in kwargs.items()}, **fresh})
        for name, made in fresh.items():
            kwargs[name].resize_(made.shape)
            memory.alias(kwargs[name]).copy_(made)

    def without_real(self, error, args, kwargs, state):
        """The real kernel failed, on a size that no kernel wrote: the result as the CPU has it, on the operands' device."""
        if exceptions.is_refused(error):
            raise error
        device = randomness.device_of(args[1:])
        tensors = [a for a in args[1:] if isinstance(a, Tensor)]
        if device is None or any(t.device != device for t in tensors if t.dim()):
            raise error
        value = self.value(Context(None, state), args, kwargs)
        if isinstance(value, Tensor):
            return keep(torch.empty(0, dtype=value.dtype, device=device), value)
        return self.keep_all([torch.empty(0, dtype=v.dtype, device=device) for v in value], value)

    def store(self, result, value):
        """Puts the CPU's value where the result is; returns what the operator returns."""
        if isinstance(result, Tensor):
            if self.written and self.written[0]:
                self.keep_written(result, value)
                return result
            return keep(result, value)
        if isinstance(result, (tuple, list)) and isinstance(value, (tuple, list)):
            return self.keep_all(result, value)
        return result if result is None or isinstance(result, (tuple, list)) else value

    def keep_written(self, result, value):
        """An argument that the operator wrote to has its value already, but for operators written by hand and sparse ones."""
        if result.layout is not STRIDED:
            if value.layout is not STRIDED:
                sparse.overwrite(result, value)
        elif self.special and self.outs:
            memory.alias(result).copy_(value)

    def keep_all(self, results, values):
        one_list = len(self.written) != len(results) or len(self.written) == 1
        written = [False] * len(results) if one_list else self.written
        return self.keep_rest(results, values, written, one_list, [])

    # Not a function within keep_all that calls itself: such a one and what it holds, the results, wait for the garbage collector.
    def keep_rest(self, results, values, written, one_list, done):
        while len(done) < len(results):
            i = len(done)
            kept = results[i] if written[i] else keep(results[i], values[i])
            if isinstance(kept, Pending):

                def finish(made, then=kept[3]):
                    return self.keep_rest(results, values, written, one_list, [*done, then(made)])

                return Pending((*kept[:3], finish))
            done.append(kept)
        return done if one_list else tuple(done)


def quick(plan):
    """compute() for the many operators with one dense result and nothing special about them; the general way stands behind it."""
    alias, general, cpu, out = memory.alias, plan.compute, plan.cpu, plan.out
    written, outs = plan.written[0], plan.outs

    def converted(value):
        if isinstance(value, Tensor):
            return alias(value) if value.is_cuda else value
        if isinstance(value, (list, tuple)):
            return [converted(v) for v in value]
        return CPU if isinstance(value, torch.device) else value

    def compute(result, args, kwargs, state):
        if graphs.recording is not None and graphs.captured(compute, result, args, kwargs, state):
            return result
        try:
            call = [(alias(a) if a.is_cuda else a) if type(a) is Tensor else a if type(a) in PLAIN else converted(a) for a in args[1:]]
            named = {k: converted(v) for k, v in kwargs.items() if k != "pin_memory"} if kwargs else {}
            if written:
                if all(plan.is_plain(named[name]) for name in outs):
                    cpu(*call, **named)
                    return result
                return general(result, args, kwargs, state)
            place = alias(result) if result.is_cuda else result
            if out is not None:
                out(*call, **named, out=place)
                return result
            value = cpu(*call, **named)
            if value.shape == place.shape:
                place.copy_(value)
                return result
        except (RuntimeError, NotImplementedError):
            pass
        return general(result, args, kwargs, state)

    compute.plan = plan
    return compute


def keep(result, value):
    """Writes one CPU value into one real result."""
    if not isinstance(result, Tensor):
        return result if value is None or isinstance(value, Tensor) else value
    if not isinstance(value, Tensor):
        return result
    if result.layout is not STRIDED or value.layout is not STRIDED:
        return sparse.on_device(value, result.device)
    if value.is_nested:
        nested.overwrite(result, value)
        return result
    if result.shape == value.shape:
        memory.place(result).copy_(value)
        return result

    def fill(made):
        memory.alias(made).copy_(value)
        return made

    # Its shape depends on values, which the CUDA kernel did not have.
    return Pending((torch.empty_strided, (value.shape, value.stride()), {"dtype": result.dtype, "device": result.device}, fill))
