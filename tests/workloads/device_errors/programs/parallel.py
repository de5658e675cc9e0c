"""Several devices on purpose: DataParallel, broadcast and gather, FSDP, DistributedDataParallel, process groups."""

import os

import torch
import torch.cuda.comm

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones

PARALLEL = "torch.nn.DataParallel|DataParallel|torch.nn.DataParallel.forward|forward"


@provokes("torch-module-must-have-its-parameters-and-buffers", PARALLEL, ONE, TWO)
def data_parallel_of_another_device():
    return torch.nn.DataParallel(torch.nn.Linear(2, 2, device=TWO), device_ids=[0, 1])(ones(2, 2))


@provokes("torch-module-must-have-its-parameters-and-buffers", PARALLEL, ONE, HOST)
def data_parallel_of_the_host():
    return torch.nn.DataParallel(torch.nn.Linear(2, 2), device_ids=[0, 1])(ones(2, 2))


@provokes("torch-module-must-have-its-parameters-and-buffers", "torch.nn.parallel.data_parallel|data_parallel", ONE, TWO)
def functional_data_parallel():
    return torch.nn.parallel.data_parallel(torch.nn.Linear(2, 2, device=TWO), ones(2, 2), device_ids=[0, 1])


@provokes("torch-broadcast-function-not-implemented-for-cpu-tensors", "torch.nn.parallel.replicate|replicate|Broadcast", ONE, HOST)
def replicate_of_the_host():
    return torch.nn.parallel.replicate(torch.nn.Linear(2, 2), [0, 1])


@provokes("torch-gather-function-not-implemented-for-cpu-tensors", "torch.nn.parallel.gather|gather|Gather", HOST, ONE)
def gather_of_the_host():
    return torch.nn.parallel.gather([torch.ones(2), torch.ones(2)], 0)


@provokes("torch-expected-all-input-tensors-to-be-cuda-tensors", "torch.cuda.comm.gather|gather", ONE, HOST)
def comm_gather_of_the_host():
    return torch.cuda.comm.gather([ones(2), torch.ones(2)], destination=0)


@provokes("torch-expected-all-input-tensors-to-be-cuda", "torch.cuda.comm.gather|gather", ONE, HOST)
def comm_gather_of_the_host_out():
    return torch.cuda.comm.gather([ones(2), torch.ones(2)], out=ones(4))


@provokes("torch-expected-non-negative-device-index-but-got", "torch.cuda.comm.broadcast|broadcast|torch._C._broadcast", ONE)
def broadcast_to_a_negative_index():
    return torch._C._broadcast(ones(2), [-1])


@provokes("torch-expected-all-output-tensors-to-be-cuda", "torch.cuda.comm.scatter|scatter", ONE, HOST)
def scatter_out_of_the_host():
    return torch.cuda.comm.scatter(ones(2), out=[torch.ones(1), ones(1)])


@provokes("torch-reduce_add-expects-all-inputs-to-be-on-gpus", "torch.cuda.comm.reduce_add|reduce_add", ONE, HOST)
def reduce_add_of_the_host():
    return torch.cuda.comm.reduce_add([torch.ones(2), ones(2)], 0)


@provokes("torch-reduce_add-expects-destination-to-be-on-the", "torch.cuda.comm.reduce_add|reduce_add", ONE, TWO)
def reduce_add_to_another_device():
    return torch.cuda.comm.reduce_add([ones(2), ones(2)], 1)


@provokes("torch-input-and-output-elements-have-to-be", "torch.cuda.nccl.all_reduce|all_reduce|nccl", HOST)
def nccl_of_the_host():
    return torch.cuda.nccl.all_reduce([torch.ones(2)])


@provokes("torch-input-and-output-must-be-on-the", "torch.cuda.nccl.reduce|reduce|torch.cuda.nccl.all_gather|all_gather", ONE, TWO)
def nccl_output_of_another_device():
    return torch.cuda.nccl.all_gather([ones(2)], [ones(2, device=TWO)])


def one_process(backend="gloo"):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)


@provokes("torch-distributeddataparallel-device_ids-and-output_device-arguments-only-work", "torch.nn.parallel.DistributedDataParallel|DistributedDataParallel|__init__", ONE, TWO)
def ddp_of_two_devices():
    one_process()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2, device=TWO))
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])


@provokes("torch-distributeddataparallel-device_ids-and-output_device-arguments-only-work", "torch.nn.parallel.DistributedDataParallel|DistributedDataParallel|__init__", HOST)
def ddp_of_the_host_with_device_ids():
    one_process()
    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), device_ids=[0])


@provokes("torch-distributeddataparallels-input-module-must-be-on-the", "torch.nn.parallel.DistributedDataParallel|DistributedDataParallel|__init__", ONE, HOST)
def ddp_of_two_device_types():
    one_process()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2))
    return torch.nn.parallel.DistributedDataParallel(model)


@provokes("torch-fsdp-only-supports-single-device-modules-but", "torch.distributed.fsdp.FullyShardedDataParallel|FullyShardedDataParallel|__init__", ONE, TWO)
def fsdp_of_two_devices():
    one_process()
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2, device=TWO))
    return FullyShardedDataParallel(model)


@provokes("torch-inconsistent-compute-device-and-device_id-on-rank", "torch.distributed.fsdp.FullyShardedDataParallel|FullyShardedDataParallel|__init__", ONE, TWO)
def fsdp_of_another_device_id():
    one_process()
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(torch.nn.Linear(2, 2, device=TWO), device_id=0)


@provokes("torch-to-support-a-module-with-both-cpu", "torch.distributed.fsdp.FullyShardedDataParallel|FullyShardedDataParallel|__init__", ONE, HOST)
def fsdp_with_parts_on_the_host():
    one_process()
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2))
    return FullyShardedDataParallel(model)


@provokes("torch-the-module-has-cpu-parameters-or-buffers", "torch.distributed.fsdp.FullyShardedDataParallel|FullyShardedDataParallel|__init__", HOST)
def fsdp_synchronised_on_the_host():
    one_process()
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(torch.nn.Linear(2, 2), sync_module_states=True)


@provokes("torch-no-backend-type-associated-with-device-type", "torch.distributed.all_reduce|all_reduce|c10d::allreduce_", HOST)
def nccl_collective_of_the_host():
    one_process("nccl")
    return torch.distributed.all_reduce(torch.ones(2))


@provokes("torch-please-use-a-device_id-with-index", "torch.distributed.init_process_group|init_process_group", ONE)
def process_group_without_an_index():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda"))


@provokes("torch-device_id-is-out-of-range-please-use", "torch.distributed.init_process_group|init_process_group", "cuda:7")
def process_group_of_a_missing_device():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1, device_id=7)


@provokes("torch-expected-devices-to-have-indices-got", "torch.futures.Future", ONE)
def future_of_a_device_without_an_index():
    return torch.futures.Future(devices=["cuda"])


@provokes("torch-expected-all-devices-to-be-of-the", "torch.futures.Future", ONE, "xpu:0")
def future_of_two_device_types():
    return torch.futures.Future(devices=[ONE, "xpu:0"])


@provokes("torch-the-result-contained-tensors-residing-on-device", "torch.futures.Future.set_result|set_result|torch.futures.Future", ONE, TWO)
def future_result_of_another_device():
    future = torch.futures.Future(devices=[ONE])
    future.set_result(ones(2, device=TWO))
    return future.wait()


@provokes("torch-set_devices-expect-a-list-of-cuda-devices", "torch.distributed.rpc.TensorPipeRpcBackendOptions|TensorPipeRpcBackendOptions", HOST)
def rpc_devices_of_the_host():
    from torch.distributed.rpc import TensorPipeRpcBackendOptions

    return TensorPipeRpcBackendOptions(devices=["cpu"])


@provokes("torch-device_map-only-supports-to-mapping-trying-to", "torch.distributed.rpc.TensorPipeRpcBackendOptions|TensorPipeRpcBackendOptions", ONE, TWO)
def rpc_device_map_to_one_device():
    from torch.distributed.rpc import TensorPipeRpcBackendOptions

    return TensorPipeRpcBackendOptions(device_maps={"other": {0: 1, 1: 1}})
