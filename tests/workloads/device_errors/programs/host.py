"""Between a device and the host's memory: NumPy, pinned memory, storages, files, DLPack."""

import io

import numpy
import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones

NUMPY = "torch.Tensor.numpy|numpy|torch.Tensor.__array__|__array__"


@provokes("torch-cant-convert-device-type-tensor-to-numpy", NUMPY, ONE, HOST)
def tensor_numpy():
    return ones(2).numpy()


@provokes("torch-cant-convert-device-type-tensor-to-numpy", f"{NUMPY}|numpy.asarray|numpy.asarray", ONE, HOST)
def numpy_asarray():
    return numpy.asarray(ones(2))


@provokes("torch-cant-convert-device-type-tensor-to-numpy", f"{NUMPY}|numpy.array", ONE, HOST)
def numpy_array_of_tensors():
    return numpy.array([ones(()), ones(())])


@provokes("torch-cant-convert-device-type-tensor-to-numpy", f"{NUMPY}|numpy.mean", ONE, HOST)
def numpy_function():
    return numpy.mean([ones(2), ones(2)])


@provokes("torch-cant-convert-device-type-tensor-to-numpy", "torch.Tensor.numpy|numpy", "meta", HOST)
def numpy_of_a_meta_tensor():
    return torch.ones(2, device="meta").numpy()


@provokes("numpy-unsupported-device-in-dltensor", "numpy.from_dlpack|from_dlpack|torch.Tensor.__dlpack__", ONE, HOST)
def numpy_from_dlpack():
    return numpy.from_dlpack(ones(2))


@provokes("torch-cannot-pin-only-dense-cpu-tensors-can", "torch.Tensor.pin_memory|aten::_pin_memory|aten::pin_memory", ONE, HOST)
def pin_memory():
    return ones(2).pin_memory()


@provokes("torch-cannot-pin-only-cpu-memory-can-be", "torch.UntypedStorage.pin_memory|torch.Storage.pin_memory|pin_memory", ONE, HOST)
def pin_memory_of_a_storage():
    return ones(2).untyped_storage().pin_memory()


@provokes("torch-only-dense-cpu-tensors-can-be-pinned", "torch.empty|aten::empty|aten::empty.memory_format", ONE)
def pinned_on_a_device():
    return torch.empty(2, device=ONE, pin_memory=True)


@provokes("torch-tensors-constructed-from-a-file-cannot-be", "torch.from_file|aten::from_file")
def pinned_from_a_file():
    return torch.from_file("/dev/zero", size=2, pin_memory=True)


@provokes("torch-attempted-to-set-the-storage-of-a", "torch.Tensor.set_|aten::set_", ONE, TWO)
def set_storage_of_another_device():
    return ones(2).set_(ones(2, device=TWO).untyped_storage())


@provokes("torch-attempted-to-set-the-storage-of-a", "torch.Tensor.set_|aten::set_", ONE, HOST)
def set_storage_of_the_host():
    return ones(2).set_(torch.ones(2).untyped_storage())


@provokes("torch-attempted-to-set-the-storage-of-a", "torch.Tensor.data|data|aten::set_data|torch.Tensor.set_", ONE, TWO)
def set_tensor_of_another_device():
    return ones(2).set_(ones(2, device=TWO))


@provokes("torch-attempting-to-deserialize-object-on-device-but", "torch.load", "cuda:7")
def load_of_a_device_that_is_not_there():
    file = io.BytesIO()
    torch.save(ones(2), file)
    archive = file.getvalue().replace(b"cuda:0", b"cuda:7")
    return torch.load(io.BytesIO(archive))


@provokes("torch-attempting-to-deserialize-object-on-a-device", "torch.load")
def load_without_a_device():
    file = io.BytesIO()
    torch.save(ones(2), file)
    file.seek(0)
    torch.cuda.is_available = lambda: False
    return torch.load(file)


@provokes("torch-share_fd-only-available-on-cpu", "torch.UntypedStorage.share_memory_|_share_fd_cpu_|_share_fd_|torch.UntypedStorage._share_fd_cpu_", ONE, HOST)
def share_by_descriptor():
    return ones(2).untyped_storage()._share_fd_cpu_()


@provokes("torch-share_filename-only-available-on-cpu", "torch.UntypedStorage._share_filename_cpu_|_share_filename_cpu_|_share_filename_", ONE, HOST)
def share_by_file():
    return ones(2).untyped_storage()._share_filename_cpu_()


@provokes("torch-share_cuda-only-available-on-cuda", "torch.UntypedStorage._share_cuda_|_share_cuda_", HOST)
def share_between_processes():
    return torch.ones(2).untyped_storage()._share_cuda_()


@provokes("torch-cant-export-tensors-on-a-different-cuda", "torch.Tensor.__dlpack__|__dlpack__|torch.from_dlpack", ONE, TWO)
def dlpack_of_another_device():
    with torch.cuda.device(0):
        return ones(2, device=TWO).__dlpack__(stream=torch.cuda.current_stream(0).cuda_stream)


@provokes("torch-cannot-move-dlpack-tensor-from-device-to", "torch.from_dlpack|from_dlpack", ONE, TWO)
def dlpack_without_a_copy():
    return torch.from_dlpack(ones(2), device=TWO, copy=False)


@provokes("torch-cant-get-cuda_array_interface-on-non-cuda-tensor", "torch.Tensor.__cuda_array_interface__|__cuda_array_interface__", HOST)
def cuda_array_interface():
    return torch.ones(2).__cuda_array_interface__


@provokes("torch-cant-alias-tensor-from-device-to", "torch.asarray|asarray", ONE, HOST)
def asarray_without_a_copy():
    return torch.asarray(torch.ones(2), device=ONE, copy=False)


@provokes("torch-typedstoragefrom_buffer-not-available-for-device", "torch.TypedStorage._from_buffer|_from_buffer|from_buffer", ONE)
def storage_from_a_buffer_on_a_device():
    return torch.storage.TypedStorage._from_buffer(b"12345678", dtype=torch.float32, device=torch.device(ONE), byte_order="little")


@provokes("torch-from_buffer-not-available-for-cuda-storage", "torch.cuda.FloatStorage.from_buffer|from_buffer", ONE, HOST)
def cuda_storage_from_a_buffer():
    return torch.cuda.FloatStorage.from_buffer(b"12345678", "little")


@provokes("torch-legacy-constructor-expects-device-type-but-device", "torch.FloatTensor|FloatTensor|torch.Tensor.new", ONE, HOST)
def legacy_constructor():
    return torch.FloatTensor([1.0], device=ONE)


@provokes("torch-legacy-constructor-expects-device-type-but-device", "torch.Tensor.new|new", ONE, HOST)
def legacy_new():
    return torch.ones(2).new(2, device=ONE)


@provokes("torch-cannot-pickle-cuda-storage-try-pickling-a", "torch.multiprocessing|ForkingPickler.dumps|reduce_storage", ONE)
def pickled_storage():
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing  # noqa: F401

    return ForkingPickler.dumps(ones(2).untyped_storage())


@provokes("torch-cannot-pickle-meta-storage-try-pickling-a", "torch.multiprocessing|ForkingPickler.dumps|reduce_storage", "meta")
def pickled_meta_storage():
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing  # noqa: F401

    return ForkingPickler.dumps(torch.ones(2, device="meta").untyped_storage())


@provokes("torch-invalid-device-must-be-cuda-device", "torch.nn.Module.cuda|torch.Tensor.cuda|cuda", HOST)
def cuda_of_the_host():
    return torch.ones(2).cuda("cpu")
