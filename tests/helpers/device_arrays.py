"""Arrays in memory of devices and calls of CUDA's libraries, by ctypes: for programs that set a library's results against numpy's.

No CUDA package is imported: what is called is what a C++ program would be linked with.
"""

import ctypes

import numpy

COPY_TO_DEVICE, COPY_TO_HOST = 1, 2


class Library:
    """A library's functions; each call has to return 0."""

    def __init__(self, file: str):
        self._library = ctypes.CDLL(file)

    def status(self, name: str, *arguments) -> int:
        return getattr(self._library, name)(*map(passed, arguments))

    def __getattr__(self, name: str):
        def call(*arguments):
            status = self.status(name, *arguments)
            assert status == 0, f"{name} returned {status}"

        return call

    def handle(self, name: str, *arguments) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        getattr(self, name)(ctypes.byref(made), *arguments)
        return made


def passed(argument):
    """A Python float is a double's address, as scalars are given; a numpy number or array, its own."""
    if isinstance(argument, float):
        return ctypes.byref(ctypes.c_double(argument))
    if isinstance(argument, (numpy.ndarray, numpy.generic)):
        kept = numpy.ascontiguousarray(argument) if isinstance(argument, numpy.generic) else argument
        return kept.ctypes.data_as(ctypes.c_void_p)
    if isinstance(argument, Array):
        return argument.address
    return argument


runtime = Library("libcudart.so.13")


class Array:
    """A numpy array's copy on the current device, by columns as BLAS has it."""

    def __init__(self, values):
        self.host = numpy.array(values, order="F")
        self.address = ctypes.c_void_p()
        runtime.cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(max(self.host.nbytes, 16)))
        runtime.cudaMemcpy(self.address, self.host, ctypes.c_size_t(self.host.nbytes), COPY_TO_DEVICE)

    def get(self) -> numpy.ndarray:
        runtime.cudaMemcpy(self.host, self.address, ctypes.c_size_t(self.host.nbytes), COPY_TO_HOST)
        return self.host.copy(order="F")


def table(arrays) -> Array:
    """Of their addresses."""
    return Array(numpy.array([one.address.value for one in arrays], dtype=numpy.uint64))


def check(name: str, found, expected, tolerance: float = 1e-5):
    """A line where it is not as expected."""
    found, expected = numpy.asarray(found), numpy.asarray(expected)
    if found.shape != expected.shape or not numpy.allclose(found, expected, rtol=tolerance, atol=tolerance):
        print(f"{name}: {found.ravel()[:6]} in the place of {expected.ravel()[:6]}")


# What cuBLAS, cuSOLVER and cuSPARSE call the same.
TYPES = {"S": numpy.float32, "D": numpy.float64, "C": numpy.complex64, "Z": numpy.complex128}
N, T, C = 0, 1, 2
LOWER, UPPER = 0, 1
random = numpy.random.default_rng(7)


def numbers(kind, *shape):
    values = random.standard_normal(shape)
    if numpy.issubdtype(kind, numpy.complexfloating):
        values = values + 1j * random.standard_normal(shape)
    return values.astype(kind)


def op(which, m):
    return {N: m, T: m.T, C: m.conj().T}[which]
