"""Triton's kernels, computed by Triton's own interpreter (what TRITON_INTERPRET=1 runs), after they were compiled and launched as on hardware.

Triton is not imported for this: install.cpp calls install() once it is there. What the interpreter cannot do is not computed, and listed.
"""

import contextlib
import ctypes
import dataclasses
import functools
import os
import sys
import time
import types

from . import bfloat16, deferred, graphs, libdevice, uncomputed

SLOW = 5.0  # seconds after which a line says why
_slow = set()
_rewritten = {}
_inside = False  # one interpreter at a time, as its grid is a global


class IllegalAddress(Exception):
    """On hardware error 700; here it would end the process."""


def install():
    """Puts itself behind every launch of Triton's; false: Triton is not yet imported to the end."""
    driver, jit = sys.modules.get("triton.backends.nvidia.driver"), sys.modules.get("triton.runtime.jit")
    launcher, function = getattr(driver, "CudaLauncher", None), getattr(jit, "JITFunction", None)
    if launcher is None or function is None:
        return False
    if os.environ.get("DEVTRACE_SIM_TRITON") != "0" and not os.environ.get("TRITON_INTERPRET") == "1":
        run, real = function.run.__code__, launcher.__call__

        # A property, for what it returns is called without a frame of ours: that is the program's line, and its tensors' names.
        def launch(self):
            own, caller = real.__get__(self), sys._getframe(1)
            # What torch.compile launches comes another way, and is computed as a graph.
            found = caller.f_locals if caller.f_code is run else {}
            if "bound_args" not in found or _inside:
                return own
            return deferred.then(own, functools.partial(launched, found["self"], dict(found["bound_args"])))

        launcher.__call__ = property(launch)
    return True


def launched(kernel, arguments, *call):
    """The launch was accepted: now its effect, or at each replay where it was captured."""
    graphs.now_or_at_replay(lambda: compute(kernel, arguments, call[:3]))


def compute(kernel, arguments, grid):
    name, began = kernel.fn.__name__, time.monotonic()
    deferred.attempt(name, lambda: interpret(kernel, arguments, grid))
    took = time.monotonic() - began
    if took > SLOW and name not in _slow:
        _slow.add(name)
        print(f"devtrace: kernel {name} took {took:.0f} s in Triton's interpreter (DEVTRACE_SIM_TRITON=0 leaves such kernels uncomputed)", file=sys.stderr)


def interpret(kernel, arguments, grid):
    from triton.runtime import interpreter

    constants = {p.name for p in kernel.params if p.is_constexpr}
    memory = Memory(interpreter, arguments.values())
    with _language(interpreter, memory):
        function = _function(interpreter, kernel)
        given = {name: value if name in constants else _argument(interpreter, value) for name, value in arguments.items()}
        builder = interpreter.interpreter_builder
        builder.set_grid_dim(*grid)
        for x in range(grid[0]):
            for y in range(grid[1]):
                for z in range(grid[2]):
                    builder.set_grid_idx(x, y, z)
                    function(**given)


def _argument(interpreter, value):
    """As a compiled kernel gets it: the interpreter leaves a float as it is."""
    if not isinstance(value, float):
        return interpreter._implicit_cvt(value)
    dtype = interpreter.tl.float32
    return interpreter.tl.tensor(interpreter.TensorHandle(interpreter.np.array([value], dtype=interpreter.np.float32), dtype), dtype)


def _function(interpreter, kernel):
    """A kernel's function, or that of one which it calls, as the interpreter runs it; the program's own names stay as they are."""
    own = kernel.fn
    made = _rewritten.get(own)
    if made is None:

        class Rewriter(interpreter.FunctionRewriter):
            def _compile_and_exec(self, tree):
                names = {**own.__globals__, "interpreter_semantic": interpreter.interpreter_semantic}
                names |= libdevice.imported_by_name(names)
                names |= dict(zip(own.__code__.co_freevars, (cell.cell_contents for cell in own.__closure__ or ())))
                found = {}
                exec(compile(tree, filename=self.filename, mode="exec"), names, found)
                return found[own.__name__]

        made = _rewritten[own] = Rewriter(own).rewrite_ast()
    return made


@contextlib.contextmanager
def _language(interpreter, memory):
    """Triton's language, interpreted; put back afterwards, as the next kernel is compiled."""
    global _inside
    from triton.runtime.jit import JITFunction

    tl, core = interpreter.tl, interpreter.tl.core
    scope = interpreter._patch_lang(types.SimpleNamespace(__globals__={"tl": tl, "core": core}))
    _inside = True
    try:
        # Kernels call each other, and the language's own functions that are written in it.
        scope.set_attr(JITFunction, "__call__", lambda self, *args, **kwargs: _function(interpreter, self)(*args, **kwargs))
        for name, member in list(vars(core.tensor).items()):
            if isinstance(member, JITFunction):
                scope.set_attr(core.tensor, name, lambda self, *args, _own=member, **kwargs: _own(self, *args, **kwargs))
        # As Triton's own says it, NumPy 2.4 refuses it: a number is an array of one there.
        scope.set_attr(core.tensor, "__index__", lambda self: int(self.handle.data.item()))
        builder = interpreter.interpreter_builder
        # As kernels are compiled: they wrap around, and nothing is spent on looking whether they do.
        if getattr(builder.options, "sanitize_overflow", False):
            scope.set_attr(builder, "options", dataclasses.replace(builder.options, sanitize_overflow=False))
        remember_shapes(core, scope)
        libdevice.patch(interpreter, builder, scope)
        bfloat16.patch(interpreter, builder, scope)
        memory.patch(builder, scope)
        yield
    finally:
        scope.restore()
        _inside = False


def remember_shapes(core, scope):
    """Each value's shape is a tuple of constants, for which the interpreter makes a type anew, and its name."""
    real = getattr(core, "_type_for_tuple_values", None)
    if real is None:  # before 3.6
        return
    known = {}

    def type_of(values, *rest):
        if rest or not all(type(value) is core.constexpr and type(value.value) is int for value in values):
            return real(values, *rest)
        shape = tuple(value.value for value in values)
        if shape not in known:
            known[shape] = real(values)
        return known[shape]

    scope.set_attr(core, "_type_for_tuple_values", type_of)


class Memory:
    """What a kernel reads and writes: only what somebody allocated, so that a bad address does not end the process."""

    def __init__(self, interpreter, arguments):
        self.np, self.driver = interpreter.np, ctypes.CDLL("libcuda.so.1")
        self.begin = self.end = 0
        # As little computed as what it was given.
        self.read = uncomputed.ranges(arguments) if uncomputed.any_uncomputed() else ()

    def check(self, pointers, mask, size):
        active = pointers[mask] if mask is not None else pointers
        if not active.size:
            return active
        low, high = int(active.min()), int(active.max()) + size
        if not self.begin <= low <= high <= self.end:
            base, length = ctypes.c_uint64(), ctypes.c_size_t()
            if self.driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), ctypes.c_uint64(low)) or high > base.value + length.value:
                raise IllegalAddress(f"0x{low:x} to 0x{high:x}")
            self.begin, self.end = base.value, base.value + length.value
        return active

    def written(self, active, size):
        if not self.read or not active.size:
            return
        low, length = int(active.min()), int(active.max()) - int(active.min()) + size
        if length == active.size * size:
            uncomputed.follow(self.read, (low, length), False)
        else:
            uncomputed.follow(self.read, tuple(int(n) for pointer in active.ravel() for n in (pointer, size)), False)

    def patch(self, builder, scope):
        load, store, cas, rmw = (getattr(builder, "create_" + name) for name in ("masked_load", "masked_store", "atomic_cas", "atomic_rmw"))

        def size_of(handle):
            return max(1, handle.get_element_ty().primitive_bitwidth // 8)

        def checked_load(pointers, mask, *rest):
            self.check(pointers.data, mask.data, size_of(pointers))
            return load(pointers, mask, *rest)

        def checked_store(pointers, value, mask, *rest):
            active = self.check(pointers.data, mask.data, size_of(pointers))
            result = store(pointers, value, mask, *rest)
            self.written(active, size_of(pointers))
            return result

        def checked_cas(pointers, *rest):
            self.check(pointers.data, None, size_of(pointers))
            return cas(pointers, *rest)

        def checked_rmw(operation, pointers, value, mask, *rest):
            self.check(pointers.data, mask.data, size_of(pointers))
            return rmw(operation, pointers, value, mask, *rest)

        for name, function in (("masked_load", checked_load), ("masked_store", checked_store), ("atomic_cas", checked_cas), ("atomic_rmw", checked_rmw)):
            scope.set_attr(builder, "create_" + name, function)
