"""Devices themselves: ordinals, streams, events, generators."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones

MISSING = "cuda:7"


@provokes("torch-cuda-error-invalid-device-ordinal", "torch.ones|aten::ones|aten::empty|torch.empty", MISSING)
def tensor_on_a_missing_device():
    return torch.ones(2, device=MISSING)


@provokes("torch-cuda-error-invalid-device-ordinal", "torch.cuda.set_device|set_device", MISSING)
def set_missing_device():
    torch.cuda.set_device(7)


@provokes("torch-cuda-error-invalid-device-ordinal", "torch.Tensor.to|aten::_to_copy|aten::empty_strided", MISSING)
def move_to_a_missing_device():
    return torch.ones(2).to(MISSING)


@provokes("torch-invalid-device-id", "torch.cuda.get_device_properties|get_device_properties", MISSING)
def properties_of_a_missing_device():
    return torch.cuda.get_device_properties(7)


@provokes("torch-invalid-device-id", "torch.cuda.can_device_access_peer|can_device_access_peer", MISSING)
def peers_of_a_missing_device():
    return torch.cuda.can_device_access_peer(7, 0)


@provokes("torch-invalid-peer-device-id", "torch.cuda.can_device_access_peer|can_device_access_peer", MISSING)
def missing_peer():
    return torch.cuda.can_device_access_peer(0, 7)


@provokes("torch-invalid-device-argument-did-you-call-init", "torch.cuda.memory_stats|torch.cuda.reset_peak_memory_stats|reset_peak_memory_stats", MISSING)
def memory_of_a_missing_device():
    torch.ones(1, device=ONE)
    return torch.cuda.reset_peak_memory_stats(7)


@provokes("torch-expected-a-cuda-device-but-got-2", "torch.cuda.device|torch.cuda.set_device|set_device", HOST)
def host_as_a_cuda_device():
    torch.cuda.set_device("cpu")


@provokes("torch-expected-a-cuda-device-but-got-2", "torch.cuda.synchronize|synchronize|torch.cuda.device", HOST)
def synchronize_the_host():
    torch.cuda.synchronize("cpu")


@provokes("torch-cufft_plan_cache-expected-device-index-but-got-device", "torch.backends.cuda.cufft_plan_cache|cuFFTPlanCacheManager.__getitem__", MISSING)
def plan_cache_of_a_missing_device():
    return torch.backends.cuda.cufft_plan_cache[7]


@provokes("torch-cufft_get_plan_cache_size-expected-device_index-but-got-device_index", "torch._cufft_get_plan_cache_size", MISSING)
def plan_cache_size_of_a_missing_device():
    return torch._cufft_get_plan_cache_size(7)


@provokes("torch-cufft_get_plan_cache_max_size-expected-device_index-but-got-device_index", "torch._cufft_get_plan_cache_max_size", MISSING)
def plan_cache_max_size_of_a_missing_device():
    return torch._cufft_get_plan_cache_max_size(7)


@provokes("torch-cufft_set_plan_cache_max_size-expected-device_index-but-got-device_index", "torch._cufft_set_plan_cache_max_size", MISSING)
def plan_cache_set_max_size_of_a_missing_device():
    return torch._cufft_set_plan_cache_max_size(7, 1)


@provokes("torch-cufft_clear_plan_cache-expected-device_index-but-got-device_index", "torch._cufft_clear_plan_cache", MISSING)
def plan_cache_clear_of_a_missing_device():
    return torch._cufft_clear_plan_cache(7)


@provokes("torch-event-device-does-not-match-recording-streams", "torch.cuda.Event.record|record", ONE, TWO, cut=True)
def event_recorded_on_another_device():
    event = torch.cuda.Event()
    event.record(torch.cuda.Stream(TWO))
    event.record(torch.cuda.Stream(ONE))


@provokes("torch-event-device-index-does-not-match-recording", "torch.Event.record|record", ONE, TWO, cut=True)
def generic_event_recorded_on_another_device():
    event = torch.Event(TWO)
    event.record(torch.Stream(TWO))
    event.record(torch.Stream(ONE))


@provokes("torch-event-device-type-does-not-match-recording", "torch.Event.record|record", ONE, HOST)
def generic_event_of_another_device_type():
    event = torch.Event(ONE)
    event.record(torch.Stream(HOST))


@provokes("torch-cuda-error-invalid-resource-handle", "torch.cuda.Event.elapsed_time|elapsed_time", ONE, TWO)
def elapsed_time_between_two_devices():
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record(torch.cuda.Stream(ONE))
    end.record(torch.cuda.Stream(TWO))
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    return begin.elapsed_time(end)


@provokes("torch-event-can-only-be-created-on-cuda", "torch.cuda.Event.from_ipc_handle|from_ipc_handle", HOST)
def event_of_the_host():
    return torch.cuda.Event.from_ipc_handle(torch.device(HOST), b"0" * 64)


@provokes("torch-device-id-must-be-non-negative", "torch.accelerator.set_stream|set_stream", HOST)
def stream_of_the_host():
    return torch.accelerator.set_stream(torch.Stream(HOST))


@provokes("torch-expected-a-device-type-for-generator-but", "torch.rand|aten::rand|aten::uniform_|aten::rand.generator", ONE, HOST)
def generator_of_the_host():
    return torch.rand(2, device=ONE, generator=torch.Generator())


@provokes("torch-expected-a-device-type-for-generator-but", "torch.rand|aten::rand|aten::uniform_", ONE, HOST)
def generator_of_a_device():
    return torch.rand(2, generator=torch.Generator(ONE))


@provokes("torch-expected-a-device-type-for-generator-but", "torch.randperm|aten::randperm|aten::random_", ONE, HOST)
def generator_of_a_permutation():
    return torch.randperm(3, generator=torch.Generator(ONE))


@provokes("torch-expected-a-device-type-for-generator-but", "torch.multinomial|aten::multinomial|aten::exponential_", ONE, HOST)
def generator_of_a_sample():
    return torch.multinomial(ones(2), 1, generator=torch.Generator())


@provokes("torch-device-type-not-an-accelerator", "torch.Generator", "meta")
def generator_of_meta():
    return torch.Generator("meta")


@provokes("torch-rng-state-must-be-a-torchbytetensor", "torch.Generator.set_state|torch.cuda.set_rng_state|set_state", ONE, HOST)
def generator_state_of_a_device():
    return torch.Generator().set_state(torch.Generator().get_state().to(ONE))


@provokes("torch-device-index-must-not-be-negative", "torch.device", ONE)
def negative_index():
    return torch.device("cuda", -2)
