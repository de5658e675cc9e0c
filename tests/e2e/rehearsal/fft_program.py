"""cuFFT's transforms set against numpy: says a line for each that differs. Run by test_computed_libraries.py."""

import ctypes

import numpy as np
from device_arrays import Array, Library, check, runtime

fft = Library("libcufft.so.12")
random = np.random.default_rng(7)
C2C, R2C, C2R, Z2Z, D2Z, Z2D = 0x29, 0x2A, 0x2C, 0x69, 0x6A, 0x6C
FORWARD, INVERSE = -1, 1


def numbers(kind, *shape):
    values = random.standard_normal(shape)
    if np.issubdtype(kind, np.complexfloating):
        values = values + 1j * random.standard_normal(shape)
    return values.astype(kind)


def rows(values):
    """As C has them: the last dimension closest."""
    return Array(np.ascontiguousarray(values).ravel())


def plan(name, *arguments):
    made = ctypes.c_int()
    getattr(fft, name)(ctypes.byref(made), *arguments)
    return made


# On two devices.
class Parts(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int), ("count", ctypes.c_int), ("devices", ctypes.c_int * 64), ("data", ctypes.c_void_p * 64), ("size", ctypes.c_size_t * 64)]


class Descriptor(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int), ("parts", ctypes.POINTER(Parts))]


def on_two_devices(shape):
    p, work = ctypes.c_int(), np.zeros(2, np.uint64)
    fft.cufftCreate(ctypes.byref(p))
    fft.cufftXtSetGPUs(p, 2, np.arange(2, dtype=np.int32))
    getattr(fft, f"cufftMakePlan{len(shape)}d")(p, *shape, C2C, *([1] if len(shape) == 1 else []), work)
    values, back = numbers(np.complex64, *shape), np.zeros(shape, np.complex64)
    descriptor = ctypes.POINTER(Descriptor)()
    fft.cufftXtMalloc(p, ctypes.byref(descriptor), 2)
    parts = descriptor.contents.parts.contents
    check("parts", [parts.count, *parts.devices[:2], sum(parts.size[:2])], [2, 0, 1, values.nbytes])
    fft.cufftXtMemcpy(p, descriptor, values, 0)
    fft.cufftXtExecDescriptorC2C(p, descriptor, descriptor, FORWARD)
    fft.cufftXtMemcpy(p, back, descriptor, 1)
    check(f"{shape} on two devices", back, np.fft.fftn(values), 1e-4)
    fft.cufftXtExecDescriptorC2C(p, descriptor, descriptor, INVERSE)
    fft.cufftXtMemcpy(p, back, descriptor, 1)
    check(f"{shape} on two devices and back", back, values * values.size, 1e-3)
    fft.cufftXtFree(descriptor)
    fft.cufftDestroy(p)


# Before anything else has been done on the second device.
for shape in ((16,), (6, 8)):
    on_two_devices(shape)

SHAPES = [(1,), (8,), (12,), (7,), (97,), (1, 6), (4, 1), (4, 6), (5, 9), (2, 3, 4), (3, 4, 5)]
for shape in SHAPES:
    axes, many = tuple(range(-len(shape), 0)), f"cufftPlan{len(shape)}d"
    half = (*shape[:-1], shape[-1] // 2 + 1)
    for complex_type, real_type, both, to_complex, to_real, letters in ((np.complex64, np.float32, C2C, R2C, C2R, "CCR"), (np.complex128, np.float64, Z2Z, D2Z, Z2D, "ZZD")):
        z, r = letters[0], letters[2]
        batch = [1] if len(shape) == 1 else []
        values = numbers(complex_type, *shape)
        place, result = rows(values), rows(np.zeros(shape, complex_type))
        p = plan(many, *shape, both, *batch)
        getattr(fft, f"cufftExec{z}2{z}")(p, place, result, FORWARD)
        check(f"{z}2{z} {shape}", result.get().reshape(shape), np.fft.fftn(values), 1e-4)
        getattr(fft, f"cufftExec{z}2{z}")(p, result, result, INVERSE)
        check(f"{z}2{z} {shape}, back in its place", result.get().reshape(shape), values * values.size, 1e-3)
        fft.cufftDestroy(p)
        real = numbers(real_type, *shape)
        place, result = rows(real), rows(np.zeros(half, complex_type))
        p, q = plan(many, *shape, to_complex, *batch), plan(many, *shape, to_real, *batch)
        getattr(fft, f"cufftExec{r}2{z}")(p, place, result)
        check(f"{r}2{z} {shape}", result.get().reshape(half), np.fft.rfftn(real), 1e-4)
        getattr(fft, f"cufftExec{z}2{r}")(q, result, place)
        check(f"{z}2{r} {shape}", place.get().reshape(shape), real * real.size, 1e-3)
        padded = np.zeros((*shape[:-1], 2 * half[-1]), real_type)
        padded[..., : shape[-1]] = real
        place = rows(padded)
        getattr(fft, f"cufftExec{r}2{z}")(p, place, place)
        check(f"{r}2{z} {shape} in its place", place.get().view(complex_type).reshape(half), np.fft.rfftn(real), 1e-4)

# Several transforms at once: closely, and with gaps of the program's own.
values = numbers(np.complex64, 3, 8)
place = rows(values)
p = plan("cufftPlan1d", 8, C2C, 3)
fft.cufftExecC2C(p, place, place, FORWARD)
check("three at once", place.get().reshape(3, 8), np.fft.fft(values), 1e-4)
values = numbers(np.complex64, 6, 5, 4)
sizes, embed = (np.array(v, np.int32) for v in ((3, 4), (5, 4)))
place, result = rows(values), rows(np.zeros((6, 12), np.complex64))
p = plan("cufftPlanMany", 2, sizes, embed, 1, 20, sizes, 1, 12, C2C, 6)
fft.cufftExecC2C(p, place, result, FORWARD)
check("rows that are left out", result.get().reshape(6, 3, 4), np.fft.fftn(values[:, :3], axes=(1, 2)), 1e-4)
values = numbers(np.complex64, 8, 5)
place, one = rows(values), np.array([8], np.int32)
p = plan("cufftPlanMany", 1, one, one, 5, 1, one, 5, 1, C2C, 5)
fft.cufftExecC2C(p, place, place, INVERSE)
check("by columns", place.get().reshape(8, 5), np.fft.ifft(values, axis=0) * 8, 1e-4)

# In the order of its stream.
stream = ctypes.c_void_p()
runtime.cudaStreamCreateWithFlags(ctypes.byref(stream), 1)
fft.cufftSetStream(p, stream)
fft.cufftExecC2C(p, place, place, FORWARD)
runtime.cudaStreamSynchronize(stream)
check("by columns and back", place.get().reshape(8, 5), values * 8, 1e-3)
print("done")
