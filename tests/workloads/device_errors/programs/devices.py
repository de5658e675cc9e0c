"""Devices themselves: ordinals, streams, events, generators."""

import torch

ONE, TWO, HOST = "cuda:0", "cuda:1", "cpu"
MISSING = "cuda:7"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)

# === tensor_on_a_missing_device
# message: torch-cuda-error-invalid-device-ordinal
# operation: torch.ones|aten::ones|aten::empty|torch.empty on cuda:7
def tensor_on_a_missing_device():
    return torch.ones(2, device=MISSING)

# === set_missing_device
# message: torch-cuda-error-invalid-device-ordinal
# operation: torch.cuda.set_device|set_device on cuda:7
def set_missing_device():
    torch.cuda.set_device(7)

# === move_to_a_missing_device
# message: torch-cuda-error-invalid-device-ordinal
# operation: torch.Tensor.to|aten::_to_copy|aten::empty_strided on cuda:7
def move_to_a_missing_device():
    return torch.ones(2).to(MISSING)

# === properties_of_a_missing_device
# message: torch-invalid-device-id
# operation: torch.cuda.get_device_properties|get_device_properties on cuda:7
def properties_of_a_missing_device():
    return torch.cuda.get_device_properties(7)

# === peers_of_a_missing_device
# message: torch-invalid-device-id
# operation: torch.cuda.can_device_access_peer|can_device_access_peer on cuda:7
def peers_of_a_missing_device():
    return torch.cuda.can_device_access_peer(7, 0)

# === missing_peer
# message: torch-invalid-peer-device-id
# operation: torch.cuda.can_device_access_peer|can_device_access_peer on cuda:7
def missing_peer():
    return torch.cuda.can_device_access_peer(0, 7)

# === memory_of_a_missing_device
# message: torch-invalid-device-argument-did-you-call-init
# operation: torch.cuda.memory_stats|torch.cuda.reset_peak_memory_stats|reset_peak_memory_stats on cuda:7
def memory_of_a_missing_device():
    torch.ones(1, device=ONE)
    return torch.cuda.reset_peak_memory_stats(7)

# === host_as_a_cuda_device
# message: torch-expected-a-cuda-device-but-got-2
# operation: torch.cuda.device|torch.cuda.set_device|set_device on cpu
def host_as_a_cuda_device():
    torch.cuda.set_device("cpu")

# === synchronize_the_host
# message: torch-expected-a-cuda-device-but-got-2
# operation: torch.cuda.synchronize|synchronize|torch.cuda.device on cpu
def synchronize_the_host():
    torch.cuda.synchronize("cpu")

# === plan_cache_of_a_missing_device
# message: torch-cufft_plan_cache-expected-device-index-but-got-device
# operation: torch.backends.cuda.cufft_plan_cache|cuFFTPlanCacheManager.__getitem__ on cuda:7
def plan_cache_of_a_missing_device():
    return torch.backends.cuda.cufft_plan_cache[7]

# === plan_cache_size_of_a_missing_device
# message: torch-cufft_get_plan_cache_size-expected-device_index-but-got-device_index
# operation: torch._cufft_get_plan_cache_size on cuda:7
def plan_cache_size_of_a_missing_device():
    return torch._cufft_get_plan_cache_size(7)

# === plan_cache_max_size_of_a_missing_device
# message: torch-cufft_get_plan_cache_max_size-expected-device_index-but-got-device_index
# operation: torch._cufft_get_plan_cache_max_size on cuda:7
def plan_cache_max_size_of_a_missing_device():
    return torch._cufft_get_plan_cache_max_size(7)

# === plan_cache_set_max_size_of_a_missing_device
# message: torch-cufft_set_plan_cache_max_size-expected-device_index-but-got-device_index
# operation: torch._cufft_set_plan_cache_max_size on cuda:7
def plan_cache_set_max_size_of_a_missing_device():
    return torch._cufft_set_plan_cache_max_size(7, 1)

# === plan_cache_clear_of_a_missing_device
# message: torch-cufft_clear_plan_cache-expected-device_index-but-got-device_index
# operation: torch._cufft_clear_plan_cache on cuda:7
def plan_cache_clear_of_a_missing_device():
    return torch._cufft_clear_plan_cache(7)

# === event_recorded_on_another_device
# message: torch-event-device-does-not-match-recording-streams
# operation: torch.cuda.Event.record|record on cuda:0, cuda:1
# cut: yes
def event_recorded_on_another_device():
    event = torch.cuda.Event()
    event.record(torch.cuda.Stream(TWO))
    event.record(torch.cuda.Stream(ONE))

# === generic_event_recorded_on_another_device
# message: torch-event-device-index-does-not-match-recording
# operation: torch.Event.record|record on cuda:0, cuda:1
# cut: yes
def generic_event_recorded_on_another_device():
    event = torch.Event(TWO)
    event.record(torch.Stream(TWO))
    event.record(torch.Stream(ONE))

# === generic_event_of_another_device_type
# message: torch-event-device-type-does-not-match-recording
# operation: torch.Event.record|record on cuda:0, cpu
def generic_event_of_another_device_type():
    event = torch.Event(ONE)
    event.record(torch.Stream(HOST))

# === elapsed_time_between_two_devices
# message: torch-cuda-error-invalid-resource-handle
# operation: torch.cuda.Event.elapsed_time|elapsed_time on cuda:0, cuda:1
def elapsed_time_between_two_devices():
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record(torch.cuda.Stream(ONE))
    end.record(torch.cuda.Stream(TWO))
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    return begin.elapsed_time(end)

# === event_of_the_host
# message: torch-event-can-only-be-created-on-cuda
# operation: torch.cuda.Event.from_ipc_handle|from_ipc_handle on cpu
def event_of_the_host():
    return torch.cuda.Event.from_ipc_handle(torch.device(HOST), b"0" * 64)

# === stream_of_the_host
# message: torch-device-id-must-be-non-negative
# operation: torch.accelerator.set_stream|set_stream on cpu
def stream_of_the_host():
    return torch.accelerator.set_stream(torch.Stream(HOST))

# === generator_of_the_host
# message: torch-expected-a-device-type-for-generator-but
# operation: torch.rand|aten::rand|aten::uniform_|aten::rand.generator on cuda:0, cpu
def generator_of_the_host():
    return torch.rand(2, device=ONE, generator=torch.Generator())

# === generator_of_a_device
# message: torch-expected-a-device-type-for-generator-but
# operation: torch.rand|aten::rand|aten::uniform_ on cuda:0, cpu
def generator_of_a_device():
    return torch.rand(2, generator=torch.Generator(ONE))

# === generator_of_a_permutation
# message: torch-expected-a-device-type-for-generator-but
# operation: torch.randperm|aten::randperm|aten::random_ on cuda:0, cpu
def generator_of_a_permutation():
    return torch.randperm(3, generator=torch.Generator(ONE))

# === generator_of_a_sample
# message: torch-expected-a-device-type-for-generator-but
# operation: torch.multinomial|aten::multinomial|aten::exponential_ on cuda:0, cpu
def generator_of_a_sample():
    return torch.multinomial(ones(2), 1, generator=torch.Generator())

# === generator_of_meta
# message: torch-device-type-not-an-accelerator
# operation: torch.Generator on meta
def generator_of_meta():
    return torch.Generator("meta")

# === generator_state_of_a_device
# message: torch-rng-state-must-be-a-torchbytetensor
# operation: torch.Generator.set_state|torch.cuda.set_rng_state|set_state on cuda:0, cpu
def generator_state_of_a_device():
    return torch.Generator().set_state(torch.Generator().get_state().to(ONE))

# === negative_index
# message: torch-device-index-must-not-be-negative
# operation: torch.device on cuda:0
def negative_index():
    return torch.device("cuda", -2)
