"""bfloat16 for Triton's interpreter, which keeps it as the 16 bits that lie in memory and adds, multiplies and compares those.

Here a value of bfloat16 is a float32 of NumPy's that was rounded to it; its bits are made where it is stored, and read where it is loaded.
"""

def bits_of(np, values):
    """Rounded to the nearest, ties to even; a NaN stays one."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def values_of(np, bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def patch(interpreter, builder, scope):
    """For as long as `scope` lasts. Before Memory.patch, which stands in front of loads and stores."""
    np, tl, native, handle = interpreter.np, interpreter.tl, interpreter._interpreter, interpreter.TensorHandle
    dtype_of, checked = interpreter._get_np_dtype, handle.__post_init__
    load, store, cas, rmw, bitcast, fabs, fp_to_fp, cast = (
        getattr(builder, name)
        for name in ("create_masked_load", "create_masked_store", "create_atomic_cas", "create_atomic_rmw", "create_bitcast", "create_fabs",
                     "create_fp_to_fp", "cast_impl")
    )  # fmt: skip

    def is_bfloat16(dtype):
        return dtype.scalar == tl.bfloat16

    known = {}  # asked for each value

    def np_dtype(dtype):
        found = known.get(dtype.name)
        if found is None:
            found = known[dtype.name] = np.dtype(np.float32) if is_bfloat16(dtype) else dtype_of(dtype)
        return found

    def rounded(self):
        if not is_bfloat16(self.dtype):
            checked(self)
        elif self.data.dtype.kind == "f":  # else what a comparison answers
            self.data = values_of(np, bits_of(np, self.data))

    def masked_load(pointers, mask, other, *rest):
        if pointers.get_element_ty() != tl.bfloat16:
            return load(pointers, mask, other, *rest)
        given = bits_of(np, other.data) if other is not None else np.zeros(pointers.data.shape, np.uint16)
        return handle(values_of(np, native.load(pointers.data, mask.data, given, np.dtype(np.uint16))), tl.bfloat16)

    def masked_store(pointers, value, mask, *rest):
        if pointers.get_element_ty() != tl.bfloat16:
            return store(pointers, value, mask, *rest)
        return native.store(pointers.data, bits_of(np, value.data), mask.data)

    def no_atomics(function, pointers_at):
        def checked_for_type(*arguments):
            if arguments[pointers_at].get_element_ty() == tl.bfloat16:
                raise NotImplementedError("atomics on bfloat16")
            return function(*arguments)

        return checked_for_type

    def cast_impl(source, to):
        if not (is_bfloat16(source.dtype) or is_bfloat16(to)):
            return cast(source, to)
        return handle(source.data.astype(np_dtype(to)), to.scalar)

    def converted(source, to, rounding):
        if is_bfloat16(source.dtype):
            source = handle(source.data, tl.float32)
        if not is_bfloat16(to):
            return source if to.scalar == source.dtype.scalar else fp_to_fp(source, to, rounding)
        if source.dtype.scalar != tl.float32:
            source = fp_to_fp(source, tl.float32, None)
        if rounding == interpreter._ir.ROUNDING_MODE.RTZ:
            source = handle((source.data.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32), tl.float32)
        return handle(source.data, tl.bfloat16)

    def same_bits(source, to):
        if is_bfloat16(source.dtype):
            data = bits_of(np, source.data)
            return handle(values_of(np, data) if is_bfloat16(to) else data.view(np_dtype(to)), to.scalar)
        return handle(values_of(np, source.data.view(np.uint16)), to.scalar) if is_bfloat16(to) else bitcast(source, to)

    def absolute(value):
        return handle(np.abs(value.data), tl.bfloat16) if is_bfloat16(value.dtype) else fabs(value)

    scope.set_attr(interpreter, "_get_np_dtype", np_dtype)
    scope.set_attr(handle, "__post_init__", rounded)
    for name, function in {
        "create_masked_load": masked_load, "create_masked_store": masked_store, "create_atomic_cas": no_atomics(cas, 0),
        "create_atomic_rmw": no_atomics(rmw, 1), "create_bitcast": same_bits, "create_int_to_ptr": same_bits, "create_ptr_to_int": same_bits,
        "create_fabs": absolute, "create_fp_to_fp": converted, "cast_impl": cast_impl,
        "get_bf16": lambda value: handle(np.array([value], dtype=np.float32), tl.bfloat16),
    }.items():  # fmt: skip
        scope.set_attr(builder, name, function)
