"""Several devices on purpose: DataParallel, broadcast and gather, FSDP, DistributedDataParallel, process groups."""

import os

import torch
import torch.cuda.comm

ONE, TWO = "cuda:0", "cuda:1"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)


def one_process(backend="gloo"):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)

# === data_parallel_of_another_device
# message: torch-module-must-have-its-parameters-and-buffers
# operation: torch.nn.DataParallel|DataParallel|torch.nn.DataParallel.forward|forward on cuda:0, cuda:1
def data_parallel_of_another_device():
    return torch.nn.DataParallel(torch.nn.Linear(2, 2, device=TWO), device_ids=[0, 1])(ones(2, 2))

# === data_parallel_of_the_host
# message: torch-module-must-have-its-parameters-and-buffers
# operation: torch.nn.DataParallel|DataParallel|torch.nn.DataParallel.forward|forward on cuda:0, cpu
def data_parallel_of_the_host():
    return torch.nn.DataParallel(torch.nn.Linear(2, 2), device_ids=[0, 1])(ones(2, 2))

# === functional_data_parallel
# message: torch-module-must-have-its-parameters-and-buffers
# operation: torch.nn.parallel.data_parallel|data_parallel on cuda:0, cuda:1
def functional_data_parallel():
    return torch.nn.parallel.data_parallel(torch.nn.Linear(2, 2, device=TWO), ones(2, 2), device_ids=[0, 1])

# === replicate_of_the_host
# message: torch-broadcast-function-not-implemented-for-cpu-tensors
# operation: torch.nn.parallel.replicate|replicate|Broadcast on cuda:0, cpu
def replicate_of_the_host():
    return torch.nn.parallel.replicate(torch.nn.Linear(2, 2), [0, 1])

# === gather_of_the_host
# message: torch-gather-function-not-implemented-for-cpu-tensors
# operation: torch.nn.parallel.gather|gather|Gather on cpu, cuda:0
def gather_of_the_host():
    return torch.nn.parallel.gather([torch.ones(2), torch.ones(2)], 0)

# === comm_gather_of_the_host
# message: torch-expected-all-input-tensors-to-be-cuda-tensors
# operation: torch.cuda.comm.gather|gather on cuda:0, cpu
def comm_gather_of_the_host():
    return torch.cuda.comm.gather([ones(2), torch.ones(2)], destination=0)

# === comm_gather_of_the_host_out
# message: torch-expected-all-input-tensors-to-be-cuda
# operation: torch.cuda.comm.gather|gather on cuda:0, cpu
def comm_gather_of_the_host_out():
    return torch.cuda.comm.gather([ones(2), torch.ones(2)], out=ones(4))

# === broadcast_to_a_negative_index
# message: torch-expected-non-negative-device-index-but-got
# operation: torch.cuda.comm.broadcast|broadcast|torch._C._broadcast on cuda:0
def broadcast_to_a_negative_index():
    return torch._C._broadcast(ones(2), [-1])

# === scatter_out_of_the_host
# message: torch-expected-all-output-tensors-to-be-cuda
# operation: torch.cuda.comm.scatter|scatter on cuda:0, cpu
def scatter_out_of_the_host():
    return torch.cuda.comm.scatter(ones(2), out=[torch.ones(1), ones(1)])

# === reduce_add_of_the_host
# message: torch-reduce_add-expects-all-inputs-to-be-on-gpus
# operation: torch.cuda.comm.reduce_add|reduce_add on cuda:0, cpu
def reduce_add_of_the_host():
    return torch.cuda.comm.reduce_add([torch.ones(2), ones(2)], 0)

# === reduce_add_to_another_device
# message: torch-reduce_add-expects-destination-to-be-on-the
# operation: torch.cuda.comm.reduce_add|reduce_add on cuda:0, cuda:1
def reduce_add_to_another_device():
    return torch.cuda.comm.reduce_add([ones(2), ones(2)], 1)

# === nccl_of_the_host
# message: torch-input-and-output-elements-have-to-be
# operation: torch.cuda.nccl.all_reduce|all_reduce|nccl on cpu
def nccl_of_the_host():
    return torch.cuda.nccl.all_reduce([torch.ones(2)])

# === nccl_output_of_another_device
# message: torch-input-and-output-must-be-on-the
# operation: torch.cuda.nccl.reduce|reduce|torch.cuda.nccl.all_gather|all_gather on cuda:0, cuda:1
def nccl_output_of_another_device():
    return torch.cuda.nccl.all_gather([ones(2)], [ones(2, device=TWO)])

# === ddp_of_two_devices
# message: torch-distributeddataparallel-device_ids-and-output_device-arguments-only-work
# operation: torch.nn.parallel.DistributedDataParallel|DistributedDataParallel|__init__ on cuda:0, cuda:1
def ddp_of_two_devices():
    one_process()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2, device=TWO))
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])

# === ddp_of_the_host_with_device_ids
# message: torch-distributeddataparallel-device_ids-and-output_device-arguments-only-work
# operation: torch.nn.parallel.DistributedDataParallel|DistributedDataParallel|__init__ on cpu
def ddp_of_the_host_with_device_ids():
    one_process()
    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), device_ids=[0])

# === ddp_of_two_device_types
# message: torch-distributeddataparallels-input-module-must-be-on-the
# operation: torch.nn.parallel.DistributedDataParallel|DistributedDataParallel|__init__ on cuda:0, cpu
def ddp_of_two_device_types():
    one_process()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2))
    return torch.nn.parallel.DistributedDataParallel(model)

# === fsdp_of_two_devices
# message: torch-fsdp-only-supports-single-device-modules-but
# operation: torch.distributed.fsdp.FullyShardedDataParallel|FullyShardedDataParallel|__init__ on cuda:0, cuda:1
def fsdp_of_two_devices():
    one_process()
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2, device=TWO))
    return FullyShardedDataParallel(model)

# === fsdp_of_another_device_id
# message: torch-inconsistent-compute-device-and-device_id-on-rank
# operation: torch.distributed.fsdp.FullyShardedDataParallel|FullyShardedDataParallel|__init__ on cuda:0, cuda:1
def fsdp_of_another_device_id():
    one_process()
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(torch.nn.Linear(2, 2, device=TWO), device_id=0)

# === fsdp_with_parts_on_the_host
# message: torch-to-support-a-module-with-both-cpu
# operation: torch.distributed.fsdp.FullyShardedDataParallel|FullyShardedDataParallel|__init__ on cuda:0, cpu
def fsdp_with_parts_on_the_host():
    one_process()
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2))
    return FullyShardedDataParallel(model)

# === fsdp_synchronised_on_the_host
# message: torch-the-module-has-cpu-parameters-or-buffers
# operation: torch.distributed.fsdp.FullyShardedDataParallel|FullyShardedDataParallel|__init__ on cpu
def fsdp_synchronised_on_the_host():
    one_process()
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(torch.nn.Linear(2, 2), sync_module_states=True)

# === nccl_collective_of_the_host
# message: torch-no-backend-type-associated-with-device-type
# operation: torch.distributed.all_reduce|all_reduce|c10d::allreduce_ on cpu
def nccl_collective_of_the_host():
    one_process("nccl")
    return torch.distributed.all_reduce(torch.ones(2))

# === process_group_without_an_index
# message: torch-please-use-a-device_id-with-index
# operation: torch.distributed.init_process_group|init_process_group on cuda:0
def process_group_without_an_index():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda"))

# === process_group_of_a_missing_device
# message: torch-device_id-is-out-of-range-please-use
# operation: torch.distributed.init_process_group|init_process_group on cuda:7
def process_group_of_a_missing_device():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1, device_id=7)

# === future_of_a_device_without_an_index
# message: torch-expected-devices-to-have-indices-got
# operation: torch.futures.Future on cuda:0
def future_of_a_device_without_an_index():
    return torch.futures.Future(devices=["cuda"])

# === future_of_two_device_types
# message: torch-expected-all-devices-to-be-of-the
# operation: torch.futures.Future on cuda:0, xpu:0
def future_of_two_device_types():
    return torch.futures.Future(devices=[ONE, "xpu:0"])

# === future_result_of_another_device
# message: torch-the-result-contained-tensors-residing-on-device
# operation: torch.futures.Future.set_result|set_result|torch.futures.Future on cuda:0, cuda:1
def future_result_of_another_device():
    future = torch.futures.Future(devices=[ONE])
    future.set_result(ones(2, device=TWO))
    return future.wait()

# === rpc_devices_of_the_host
# message: torch-set_devices-expect-a-list-of-cuda-devices
# operation: torch.distributed.rpc.TensorPipeRpcBackendOptions|TensorPipeRpcBackendOptions on cpu
def rpc_devices_of_the_host():
    from torch.distributed.rpc import TensorPipeRpcBackendOptions

    return TensorPipeRpcBackendOptions(devices=["cpu"])

# === rpc_device_map_to_one_device
# message: torch-device_map-only-supports-to-mapping-trying-to
# operation: torch.distributed.rpc.TensorPipeRpcBackendOptions|TensorPipeRpcBackendOptions on cuda:0, cuda:1
def rpc_device_map_to_one_device():
    from torch.distributed.rpc import TensorPipeRpcBackendOptions

    return TensorPipeRpcBackendOptions(device_maps={"other": {0: 1, 1: 1}})
