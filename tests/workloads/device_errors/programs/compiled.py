"""torch.compile, FakeTensor, the reference implementations in Python, custom operators."""

import torch

ONE, TWO = "cuda:0", "cuda:1"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)

# === fake_tensor_propagation
# message: torch-unhandled-faketensor-device-propagation-for-found-two
# operation: aten::add|aten.add.Tensor|torch.add on cuda:0, cuda:1
def fake_tensor_propagation():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return ones(2) + ones(2, device=TWO)

# === compiled_function
# message: torch-unhandled-faketensor-device-propagation-for-found-two
# operation: aten::add|aten.add.Tensor|torch.add|add on cuda:0, cuda:1
def compiled_function():
    @torch.compile(backend="eager")
    def both(left, right):
        return left + right

    return both(ones(2), ones(2, device=TWO))

# === compiled_matmul
# message: torch-unhandled-faketensor-device-propagation-for-found-two
# operation: aten::mm|aten::matmul|aten.mm.default|mm on cuda:0, cuda:1
def compiled_matmul():
    @torch.compile(backend="eager", fullgraph=True)
    def both(left, right):
        return left @ right

    return both(ones(2, 2), ones(2, 2, device=TWO))

# === reference_add
# message: torch-tensor-on-device-is-not-on-the
# operation: torch._refs.add|aten::add|prims::add|add on cuda:0, cuda:1
def reference_add():
    import torch._refs

    return torch._refs.add(ones(2), ones(2, device=TWO))

# === reference_out
# message: torch-attempting-to-copy-from-device-to-device
# operation: torch._refs.add|aten::add|add on cuda:0, cuda:1
def reference_out():
    import torch._refs

    return torch._refs.add(ones(2), ones(2), out=ones(2, device=TWO))

# === reference_copysign
# message: torch-expected-divisor-b-to-be-on-the
# operation: torch._refs.copysign|copysign on cuda:0, cpu
def reference_copysign():
    import torch._refs

    return torch._refs.copysign(2.0, ones(2)) if False else torch._refs.copysign(ones(2), torch.ones(2))

# === reference_tensor_split
# message: torch-tensor_split-if-indices_or_sections-is-a-tensor-it
# operation: torch._refs.tensor_split|tensor_split on cuda:0, cpu
def reference_tensor_split():
    import torch._refs

    return torch._refs.tensor_split(ones(4), torch.tensor([1], device=ONE))

# === reference_block_diag
# message: torch-input-tensors-must-all-be-on-the
# operation: torch._refs.block_diag|block_diag on cuda:0, cuda:1
def reference_block_diag():
    import torch._refs

    return torch._refs.block_diag(ones(2, 2), ones(2, 2, device=TWO))

# === reference_masked_fill
# message: torch-expected-value-to-be-on-same-device
# operation: torch._refs.masked_fill|masked_fill on cuda:0, cuda:1
def reference_masked_fill():
    import torch._refs

    return torch._refs.masked_fill(ones(2), ones(2) > 0, torch.tensor(1.0, device=TWO))

# === reference_meshgrid
# message: torch-meshgrid-expects-all-tensors-to-have-the-same
# operation: torch._refs.meshgrid|meshgrid on cuda:0, cuda:1
def reference_meshgrid():
    import torch._refs

    return torch._refs.meshgrid([ones(2), ones(2, device=TWO)], indexing="ij")

# === reference_stft
# message: torch-stft-input-and-window-must-be-on-the
# operation: torch._refs.stft|stft on cuda:0, cuda:1
def reference_stft():
    import torch._refs

    return torch._refs.stft(ones(64), 16, window=ones(16, device=TWO), return_complex=True)

# === reference_istft
# message: torch-istft-input-and-window-must-be-on-the
# operation: torch._refs.istft|istft on cuda:0, cuda:1
def reference_istft():
    import torch._refs

    return torch._refs.istft(torch.stft(ones(64), 16, window=ones(16), return_complex=True), 16, window=ones(16, device=TWO))

# === compared_metadata
# message: torch-devices-and-are-not-equal
# operation: torch._prims_common.compare_tensor_meta|compare_tensor_meta on cuda:0, cuda:1
def compared_metadata():
    import torch._prims_common

    return torch._prims_common.compare_tensor_meta(ones(2), ones(2, device=TWO))

# === compiled_grid_sample
# message: torch-unhandled-faketensor-device-propagation-for-found-two
# operation: grid_sampler|aten::grid_sampler_2d|torch.nn.functional.grid_sample on cuda:0, cuda:1
def compiled_grid_sample():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def sample(values, grid):
        return torch.nn.functional.grid_sample(values, grid, align_corners=False)

    return sample(ones(1, 1, 2, 2), ones(1, 2, 2, 2, device=TWO))

# === fake_solve
# message: torch-unhandled-faketensor-device-propagation-for-found-two
# operation: aten::linalg_solve|linalg_solve|aten::_linalg_solve_ex on cuda:0, cuda:1
def fake_solve():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.linalg.solve(torch.eye(2, device=ONE), ones(2, 1, device=TWO))

# === linearized_tangent
# message: torch-tangent-with-device-in-flattened-pytree-doesnt
# operation: torch.func.linearize|linearize|jvp_fn on cuda:0, cuda:1
def linearized_tangent():
    _, tangent = torch.func.linearize(lambda value: value * 2, ones(2))
    return tangent(ones(2, device=TWO))

# === associative_scan_on_the_host
# message: torch-for-combine_mode-pointwise-all-input-tensors-need
# operation: scan|torch.ops.higher_order.associative_scan|associative_scan on cpu
def associative_scan_on_the_host():
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda a, b: a + b, torch.ones(3), 0, combine_mode="pointwise")

# === custom_operator_without_a_kernel
# message: torch-could-not-run-with-arguments-from-the
# operation: torch.ops.device_errors.half|device_errors::half|half on cuda:0, cpu
def custom_operator_without_a_kernel():
    @torch.library.custom_op("device_errors::half", mutates_args=(), device_types="cpu")
    def half(value: torch.Tensor) -> torch.Tensor:
        return value / 2

    return half(ones(2))

# === asserted_metadata
# message: torch-tensor-device-mismatch-expected-got
# operation: aten::_assert_tensor_metadata|torch.ops.aten._assert_tensor_metadata|torch.ops.aten._assert_tensor_metadata.default on cuda:0, cuda:1
def asserted_metadata():
    return torch.ops.aten._assert_tensor_metadata.default(ones(2), None, None, None, device=torch.device(TWO))

# === semi_structured_on_the_host
# message: torch-error-original_tensordevice-is-not-supported-only-cuda
# operation: sparse_semi_structured|torch.sparse.to_sparse_semi_structured|to_sparse_semi_structured on cpu
def semi_structured_on_the_host():
    return torch.sparse.to_sparse_semi_structured(torch.ones(64, 64, dtype=torch.float16))

# === prepared_for_quantization
# message: torch-add_observer-only-works-with-cpu-or-single
# operation: torch.ao.quantization.prepare|prepare on cuda:0, cuda:1
def prepared_for_quantization():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device=ONE), torch.nn.Linear(2, 2, device=TWO))
    model = torch.nn.Sequential(model)
    model[0].qconfig = torch.ao.quantization.default_qconfig
    model.qconfig = torch.ao.quantization.default_qconfig

    class Both(torch.nn.Linear):
        def __init__(self):
            super().__init__(2, 2, device=ONE)
            self.more = torch.nn.Parameter(ones(2, device=TWO))

    both = torch.nn.Sequential(Both())
    both.qconfig = torch.ao.quantization.default_qconfig
    return torch.ao.quantization.prepare(both)
