"""CUDA's library of device functions (libdevice) for Triton's interpreter, which has none."""

import inspect
import math

# By the name in libdevice without `__nv_` and the type's letter; what is not here is NumPy's function of the same name.
NAMES = {
    "acos": "arccos", "asin": "arcsin", "atan": "arctan", "acosh": "arccosh", "asinh": "arcsinh", "atanh": "arctanh", "atan2": "arctan2",
    "pow": "power", "fast_pow": "power", "abs": "abs", "rint": "rint", "nearbyint": "rint", "max": "maximum", "min": "minimum", "fmax": "fmax",
    "fmin": "fmin", "isnan": "isnan", "isinf": "isinf", "finite": "isfinite", "isfinited": "isfinite", "signbit": "signbit",
    "fast_exp": "exp", "fast_log": "log", "fast_log2": "log2", "fast_log10": "log10", "fast_sin": "sin", "fast_cos": "cos", "fast_tan": "tan",
    "sqrt_rn": "sqrt", "fsqrt_rn": "sqrt", "dsqrt_rn": "sqrt", "fdiv_rn": "divide", "ddiv_rn": "divide", "fast_fdivide": "divide",
}  # fmt: skip


def functions(np):
    """Those that NumPy has not under one name."""
    each = {name: np.vectorize(getattr(math, name), otypes=[np.float64]) for name in ("erf", "erfc", "lgamma", "gamma")}
    each["tgamma"] = each.pop("gamma")
    each["rsqrt"] = each["frsqrt_rn"] = lambda x: 1 / np.sqrt(x)
    each["fma"] = lambda x, y, z: x * y + z
    each["round"] = lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)
    each["llrint"] = np.rint
    each["exp10"] = lambda x: np.power(10.0, x)
    return each


def find(np, symbol):
    name = symbol.removeprefix("__nv_")
    own = functions(np)
    for candidate in (name, name[:-1] if name[-1] in "fd" else name):
        if candidate in own:
            return own[candidate]
        function = getattr(np, NAMES.get(candidate, candidate), None)
        if function is not None:
            return function
    raise NotImplementedError(f"{symbol} of libdevice")


def patch(interpreter, builder, scope):
    """For as long as `scope` lasts."""
    from triton.language.extra import libdevice as front
    from triton.language.extra.cuda import libdevice

    np, semantic = interpreter.np, interpreter.interpreter_semantic

    def elementwise(library, path, symbol, arguments, result, pure):
        function, dtype = find(np, symbol), result.scalar
        with np.errstate(all="ignore"):
            data = function(*(argument.data for argument in arguments))
        return interpreter.TensorHandle(np.asarray(data).astype(interpreter._get_np_dtype(dtype)), dtype)

    scope.set_attr(builder, "create_extern_elementwise", elementwise)
    for name, member in inspect.getmembers(libdevice):
        if not interpreter.tl.core.is_builtin(member):
            continue

        def call(*args, _own=member, **kwargs):
            return _own(*args, **kwargs, _semantic=semantic)

        scope.set_attr(libdevice, name, call)
        if hasattr(front, name):
            scope.set_attr(front, name, call)


def imported_by_name(names):
    """Of a kernel's globals, the functions that it took out of their module (`from ….libdevice import rsqrt`): while patch() lasts, ours."""
    from triton.language.extra import libdevice as front
    from triton.language.extra.cuda import libdevice

    modules = front.__name__, libdevice.__name__
    taken = {name: value.__name__ for name, value in names.items() if getattr(value, "__module__", None) in modules and hasattr(value, "__name__")}
    return {name: getattr(libdevice, own) for name, own in taken.items() if hasattr(libdevice, own)}
