"""cuRAND's quasirandom numbers set against SciPy's: says a line for each that differs. Run by test_computed_libraries.py."""

import ctypes

import numpy as np
from device_arrays import Array, Library, check, runtime
from scipy.special import ndtri
from scipy.stats import poisson, qmc

curand = Library("libcurand.so.10")
SOBOL32, SCRAMBLED32, SOBOL64, SCRAMBLED64, XORWOW = 201, 202, 203, 204, 101
NOT_MULTIPLE, TYPE_ERROR, OUT_OF_RANGE = 105, 103, 104


def generator(kind, dimensions=1, offset=0, host=False):
    made = ctypes.c_void_p()
    getattr(curand, "curandCreateGeneratorHost" if host else "curandCreateGenerator")(ctypes.byref(made), kind)
    if dimensions > 1:
        curand.curandSetQuasiRandomGeneratorDimensions(made, ctypes.c_uint(dimensions))
    if offset:
        curand.curandSetGeneratorOffset(made, ctypes.c_ulonglong(offset))
    return made


def drawn(name, made, kind, count, *more):
    to = Array(np.zeros(count, kind))
    getattr(curand, name)(made, to, ctypes.c_size_t(count), *more)
    return to.get()


def words(dimensions, points):
    """The first 32 bits, by dimension, from the first point, which is zero, in the order of Gray's code."""
    return (qmc.Sobol(dimensions, scramble=False, bits=32).random(points) * 2.0**32).astype(np.uint64).T.ravel()


def same(name, found, expected):
    check(name, found, expected, 0)


DIMENSIONS, POINTS = 300, 64
expected = words(DIMENSIONS, POINTS)
COUNT = DIMENSIONS * POINTS
got = drawn("curandGenerate", generator(SOBOL32, DIMENSIONS), np.uint32, COUNT)
same("32 bits", got, expected)
got = drawn("curandGenerateLongLong", generator(SOBOL64, DIMENSIONS), np.uint64, COUNT)
same("64 bits, the first 32 of them", got >> np.uint64(32), expected)
far = words(3000, 16)
same("many dimensions", drawn("curandGenerate", generator(SOBOL32, 3000), np.uint32, 3000 * 16), far)

# One after the other, and from an offset on.
parts = generator(SOBOL32, 3)
two = [drawn("curandGenerate", parts, np.uint32, 3 * 8).reshape(3, 8) for _ in range(2)]
same("in parts", np.hstack(two), words(3, 16).reshape(3, 16))
same("from an offset", drawn("curandGenerate", generator(SOBOL32, 3, offset=5), np.uint32, 9).reshape(3, 3), words(3, 16).reshape(3, 16)[:, 5:8])

uniform = expected.astype(np.float64) / 2**32
check("uniform", drawn("curandGenerateUniform", generator(SOBOL32, DIMENSIONS), np.float32, COUNT), (uniform + 2.0**-33).astype(np.float32), 1e-7)
check("uniform, double", drawn("curandGenerateUniformDouble", generator(SOBOL32, DIMENSIONS), np.float64, COUNT), uniform + 2.0**-32, 1e-12)
middle = ndtri(uniform + 2.0**-33)
check("normal", drawn("curandGenerateNormal", generator(SOBOL32, DIMENSIONS), np.float32, COUNT, ctypes.c_float(3), ctypes.c_float(2)), 3 - 2 * middle, 1e-5)
check("normal, double", drawn("curandGenerateNormalDouble", generator(SOBOL32, 3), np.float64, 3, ctypes.c_double(3), ctypes.c_double(2)), 3 - 2 * ndtri(np.full(3, 2.0**-33)), 1e-9)
check("log-normal", drawn("curandGenerateLogNormalDouble", generator(SOBOL32, DIMENSIONS), np.float64, COUNT, ctypes.c_double(1), ctypes.c_double(0.5)), np.exp(1 - 0.5 * middle), 1e-8)
same("Poisson", drawn("curandGeneratePoisson", generator(SOBOL32, DIMENSIONS), np.uint32, COUNT, ctypes.c_double(7.5)), poisson.ppf(uniform + 2.0**-32, 7.5).astype(np.uint32))

# Scrambled: each half of the line, each quarter and so on has as many points, in each dimension; and the first point is not zero.
for kind, name, type_, shift in (SCRAMBLED32, "curandGenerate", np.uint32, 26), (SCRAMBLED64, "curandGenerateLongLong", np.uint64, 58):
    points = drawn(name, generator(kind, 50), type_, 50 * 64).reshape(50, 64)
    same(f"{kind} is even", np.sort(points >> type_(shift), axis=1), np.tile(np.arange(64, dtype=type_), (50, 1)))
    same(f"{kind} is shifted", np.all(points[:, 0] == 0), False)
    same(f"{kind} differs", np.array_equal(points[1], points[2]), False)

# The tables for kernels.
for bits, type_ in (32, np.uint32), (64, np.uint64):
    table = ctypes.c_void_p()
    getattr(curand, f"curandGetDirectionVectors{bits}")(ctypes.byref(table), 101 if bits == 32 else 103)
    vectors = np.ctypeslib.as_array(ctypes.cast(table, ctypes.POINTER(np.ctypeslib.as_ctypes_type(type_))), (DIMENSIONS, bits))
    sequence = np.zeros((DIMENSIONS, POINTS), np.uint64)
    for i in range(1, POINTS):
        sequence[:, i] = sequence[:, i - 1] ^ vectors[:, (~(i - 1) & i).bit_length() - 1]
    same(f"direction vectors of {bits} bits", sequence.ravel() >> np.uint64(bits - 32), expected)
    constants = ctypes.c_void_p()
    getattr(curand, f"curandGetScrambleConstants{bits}")(ctypes.byref(constants))
    first = np.ctypeslib.as_array(ctypes.cast(constants, ctypes.POINTER(np.ctypeslib.as_ctypes_type(type_))), (50,))
    points = drawn("curandGenerate" if bits == 32 else "curandGenerateLongLong", generator(SCRAMBLED32 if bits == 32 else SCRAMBLED64, 50), type_, 50)
    same(f"constants of {bits} bits", points, first)

# What is refused.
pair = generator(SOBOL32, 2)
to = Array(np.zeros(9, np.uint32))
same("no whole points", curand.status("curandGenerate", pair, to, ctypes.c_size_t(9)), NOT_MULTIPLE)
same("64 bits of 32", curand.status("curandGenerateLongLong", pair, to, ctypes.c_size_t(2)), TYPE_ERROR)
same("a seed", curand.status("curandSetPseudoRandomGeneratorSeed", pair, ctypes.c_ulonglong(1)), TYPE_ERROR)
same("no dimensions", curand.status("curandSetQuasiRandomGeneratorDimensions", pair, ctypes.c_uint(0)), OUT_OF_RANGE)
same("dimensions of pseudorandom ones", curand.status("curandSetQuasiRandomGeneratorDimensions", generator(XORWOW), ctypes.c_uint(2)), TYPE_ERROR)
host = np.zeros(6, np.uint32)
curand.curandGenerate(generator(SOBOL32, 2, host=True), host, ctypes.c_size_t(6))
same("on the host", host, words(2, 4).reshape(2, 4)[:, :3].ravel())
runtime.cudaDeviceSynchronize()
print("done")
