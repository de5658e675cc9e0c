"""Between a device and the host's memory: NumPy, pinned memory, storages, files, DLPack."""

import io

import numpy
import torch

ONE, TWO = "cuda:0", "cuda:1"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)

# === tensor_numpy
# message: torch-cant-convert-device-type-tensor-to-numpy
# operation: torch.Tensor.numpy|numpy|torch.Tensor.__array__|__array__ on cuda:0, cpu
def tensor_numpy():
    return ones(2).numpy()

# === numpy_asarray
# message: torch-cant-convert-device-type-tensor-to-numpy
# operation: torch.Tensor.numpy|numpy|torch.Tensor.__array__|__array__|numpy.asarray|numpy.asarray on cuda:0, cpu
def numpy_asarray():
    return numpy.asarray(ones(2))

# === numpy_array_of_tensors
# message: torch-cant-convert-device-type-tensor-to-numpy
# operation: torch.Tensor.numpy|numpy|torch.Tensor.__array__|__array__|numpy.array on cuda:0, cpu
def numpy_array_of_tensors():
    return numpy.array([ones(()), ones(())])

# === numpy_function
# message: torch-cant-convert-device-type-tensor-to-numpy
# operation: torch.Tensor.numpy|numpy|torch.Tensor.__array__|__array__|numpy.mean on cuda:0, cpu
def numpy_function():
    return numpy.mean([ones(2), ones(2)])

# === numpy_of_a_meta_tensor
# message: torch-cant-convert-device-type-tensor-to-numpy
# operation: torch.Tensor.numpy|numpy on meta, cpu
def numpy_of_a_meta_tensor():
    return torch.ones(2, device="meta").numpy()

# === numpy_from_dlpack
# message: numpy-unsupported-device-in-dltensor
# operation: numpy.from_dlpack|from_dlpack|torch.Tensor.__dlpack__ on cuda:0, cpu
def numpy_from_dlpack():
    return numpy.from_dlpack(ones(2))

# === pin_memory
# message: torch-cannot-pin-only-dense-cpu-tensors-can
# operation: torch.Tensor.pin_memory|aten::_pin_memory|aten::pin_memory on cuda:0, cpu
def pin_memory():
    return ones(2).pin_memory()

# === pin_memory_of_a_storage
# message: torch-cannot-pin-only-cpu-memory-can-be
# operation: torch.UntypedStorage.pin_memory|torch.Storage.pin_memory|pin_memory on cuda:0, cpu
def pin_memory_of_a_storage():
    return ones(2).untyped_storage().pin_memory()

# === pinned_on_a_device
# message: torch-only-dense-cpu-tensors-can-be-pinned
# operation: torch.empty|aten::empty|aten::empty.memory_format on cuda:0
def pinned_on_a_device():
    return torch.empty(2, device=ONE, pin_memory=True)

# === pinned_from_a_file
# message: torch-tensors-constructed-from-a-file-cannot-be
# operation: torch.from_file|aten::from_file
def pinned_from_a_file():
    return torch.from_file("/dev/zero", size=2, pin_memory=True)

# === set_storage_of_another_device
# message: torch-attempted-to-set-the-storage-of-a
# operation: torch.Tensor.set_|aten::set_ on cuda:0, cuda:1
def set_storage_of_another_device():
    return ones(2).set_(ones(2, device=TWO).untyped_storage())

# === set_storage_of_the_host
# message: torch-attempted-to-set-the-storage-of-a
# operation: torch.Tensor.set_|aten::set_ on cuda:0, cpu
def set_storage_of_the_host():
    return ones(2).set_(torch.ones(2).untyped_storage())

# === set_tensor_of_another_device
# message: torch-attempted-to-set-the-storage-of-a
# operation: torch.Tensor.data|data|aten::set_data|torch.Tensor.set_ on cuda:0, cuda:1
def set_tensor_of_another_device():
    return ones(2).set_(ones(2, device=TWO))

# === load_of_a_device_that_is_not_there
# message: torch-attempting-to-deserialize-object-on-device-but
# operation: torch.load on cuda:7
def load_of_a_device_that_is_not_there():
    file = io.BytesIO()
    torch.save(ones(2), file)
    archive = file.getvalue().replace(b"cuda:0", b"cuda:7")
    return torch.load(io.BytesIO(archive))

# === load_without_a_device
# message: torch-attempting-to-deserialize-object-on-a-device
# operation: torch.load
def load_without_a_device():
    file = io.BytesIO()
    torch.save(ones(2), file)
    file.seek(0)
    torch.cuda.is_available = lambda: False
    return torch.load(file)

# === share_by_descriptor
# message: torch-share_fd-only-available-on-cpu
# operation: torch.UntypedStorage.share_memory_|_share_fd_cpu_|_share_fd_|torch.UntypedStorage._share_fd_cpu_ on cuda:0, cpu
def share_by_descriptor():
    return ones(2).untyped_storage()._share_fd_cpu_()

# === share_by_file
# message: torch-share_filename-only-available-on-cpu
# operation: torch.UntypedStorage._share_filename_cpu_|_share_filename_cpu_|_share_filename_ on cuda:0, cpu
def share_by_file():
    return ones(2).untyped_storage()._share_filename_cpu_()

# === share_between_processes
# message: torch-share_cuda-only-available-on-cuda
# operation: torch.UntypedStorage._share_cuda_|_share_cuda_ on cpu
def share_between_processes():
    return torch.ones(2).untyped_storage()._share_cuda_()

# === dlpack_of_another_device
# message: torch-cant-export-tensors-on-a-different-cuda
# operation: torch.Tensor.__dlpack__|__dlpack__|torch.from_dlpack on cuda:0, cuda:1
def dlpack_of_another_device():
    with torch.cuda.device(0):
        return ones(2, device=TWO).__dlpack__(stream=torch.cuda.current_stream(0).cuda_stream)

# === dlpack_without_a_copy
# message: torch-cannot-move-dlpack-tensor-from-device-to
# operation: torch.from_dlpack|from_dlpack on cuda:0, cuda:1
def dlpack_without_a_copy():
    return torch.from_dlpack(ones(2), device=TWO, copy=False)

# === cuda_array_interface
# message: torch-cant-get-cuda_array_interface-on-non-cuda-tensor
# operation: torch.Tensor.__cuda_array_interface__|__cuda_array_interface__ on cpu
def cuda_array_interface():
    return torch.ones(2).__cuda_array_interface__

# === asarray_without_a_copy
# message: torch-cant-alias-tensor-from-device-to
# operation: torch.asarray|asarray on cuda:0, cpu
def asarray_without_a_copy():
    return torch.asarray(torch.ones(2), device=ONE, copy=False)

# === storage_from_a_buffer_on_a_device
# message: torch-typedstoragefrom_buffer-not-available-for-device
# operation: torch.TypedStorage._from_buffer|_from_buffer|from_buffer on cuda:0
def storage_from_a_buffer_on_a_device():
    return torch.storage.TypedStorage._from_buffer(b"12345678", dtype=torch.float32, device=torch.device(ONE), byte_order="little")

# === cuda_storage_from_a_buffer
# message: torch-from_buffer-not-available-for-cuda-storage
# operation: torch.cuda.FloatStorage.from_buffer|from_buffer on cuda:0, cpu
def cuda_storage_from_a_buffer():
    return torch.cuda.FloatStorage.from_buffer(b"12345678", "little")

# === legacy_constructor
# message: torch-legacy-constructor-expects-device-type-but-device
# operation: torch.FloatTensor|FloatTensor|torch.Tensor.new on cuda:0, cpu
def legacy_constructor():
    return torch.FloatTensor([1.0], device=ONE)

# === legacy_new
# message: torch-legacy-constructor-expects-device-type-but-device
# operation: torch.Tensor.new|new on cuda:0, cpu
def legacy_new():
    return torch.ones(2).new(2, device=ONE)

# === pickled_storage
# message: torch-cannot-pickle-cuda-storage-try-pickling-a
# operation: torch.multiprocessing|ForkingPickler.dumps|reduce_storage on cuda:0
def pickled_storage():
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing  # noqa: F401

    return ForkingPickler.dumps(ones(2).untyped_storage())

# === pickled_meta_storage
# message: torch-cannot-pickle-meta-storage-try-pickling-a
# operation: torch.multiprocessing|ForkingPickler.dumps|reduce_storage on meta
def pickled_meta_storage():
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing  # noqa: F401

    return ForkingPickler.dumps(torch.ones(2, device="meta").untyped_storage())

# === cuda_of_the_host
# message: torch-invalid-device-must-be-cuda-device
# operation: torch.nn.Module.cuda|torch.Tensor.cuda|cuda on cpu
def cuda_of_the_host():
    return torch.ones(2).cuda("cpu")
