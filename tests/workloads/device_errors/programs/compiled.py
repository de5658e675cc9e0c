"""torch.compile, FakeTensor, the reference implementations in Python, custom operators."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones


@provokes("torch-unhandled-faketensor-device-propagation-for-found-two", "aten::add|aten.add.Tensor|torch.add", ONE, TWO)
def fake_tensor_propagation():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return ones(2) + ones(2, device=TWO)


@provokes("torch-unhandled-faketensor-device-propagation-for-found-two", "aten::add|aten.add.Tensor|torch.add|add", ONE, TWO)
def compiled_function():
    @torch.compile(backend="eager")
    def both(left, right):
        return left + right

    return both(ones(2), ones(2, device=TWO))


@provokes("torch-unhandled-faketensor-device-propagation-for-found-two", "aten::mm|aten::matmul|aten.mm.default|mm", ONE, TWO)
def compiled_matmul():
    @torch.compile(backend="eager", fullgraph=True)
    def both(left, right):
        return left @ right

    return both(ones(2, 2), ones(2, 2, device=TWO))


@provokes("torch-tensor-on-device-is-not-on-the", "torch._refs.add|aten::add|prims::add|add", ONE, TWO)
def reference_add():
    import torch._refs

    return torch._refs.add(ones(2), ones(2, device=TWO))


@provokes("torch-attempting-to-copy-from-device-to-device", "torch._refs.add|aten::add|add", ONE, TWO)
def reference_out():
    import torch._refs

    return torch._refs.add(ones(2), ones(2), out=ones(2, device=TWO))


@provokes("torch-expected-divisor-b-to-be-on-the", "torch._refs.copysign|copysign", ONE, HOST)
def reference_copysign():
    import torch._refs

    return torch._refs.copysign(2.0, ones(2)) if False else torch._refs.copysign(ones(2), torch.ones(2))


@provokes("torch-tensor_split-if-indices_or_sections-is-a-tensor-it", "torch._refs.tensor_split|tensor_split", ONE, HOST)
def reference_tensor_split():
    import torch._refs

    return torch._refs.tensor_split(ones(4), torch.tensor([1], device=ONE))


@provokes("torch-input-tensors-must-all-be-on-the", "torch._refs.block_diag|block_diag", ONE, TWO)
def reference_block_diag():
    import torch._refs

    return torch._refs.block_diag(ones(2, 2), ones(2, 2, device=TWO))


@provokes("torch-expected-value-to-be-on-same-device", "torch._refs.masked_fill|masked_fill", ONE, TWO)
def reference_masked_fill():
    import torch._refs

    return torch._refs.masked_fill(ones(2), ones(2) > 0, torch.tensor(1.0, device=TWO))


@provokes("torch-meshgrid-expects-all-tensors-to-have-the-same", "torch._refs.meshgrid|meshgrid", ONE, TWO)
def reference_meshgrid():
    import torch._refs

    return torch._refs.meshgrid([ones(2), ones(2, device=TWO)], indexing="ij")


@provokes("torch-stft-input-and-window-must-be-on-the", "torch._refs.stft|stft", ONE, TWO)
def reference_stft():
    import torch._refs

    return torch._refs.stft(ones(64), 16, window=ones(16, device=TWO), return_complex=True)


@provokes("torch-istft-input-and-window-must-be-on-the", "torch._refs.istft|istft", ONE, TWO)
def reference_istft():
    import torch._refs

    return torch._refs.istft(torch.stft(ones(64), 16, window=ones(16), return_complex=True), 16, window=ones(16, device=TWO))


@provokes("torch-devices-and-are-not-equal", "torch._prims_common.compare_tensor_meta|compare_tensor_meta", ONE, TWO)
def compared_metadata():
    import torch._prims_common

    return torch._prims_common.compare_tensor_meta(ones(2), ones(2, device=TWO))


@provokes("torch-unhandled-faketensor-device-propagation-for-found-two", "grid_sampler|aten::grid_sampler_2d|torch.nn.functional.grid_sample", ONE, TWO)
def compiled_grid_sample():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def sample(values, grid):
        return torch.nn.functional.grid_sample(values, grid, align_corners=False)

    return sample(ones(1, 1, 2, 2), ones(1, 2, 2, 2, device=TWO))


@provokes("torch-unhandled-faketensor-device-propagation-for-found-two", "aten::linalg_solve|linalg_solve|aten::_linalg_solve_ex", ONE, TWO)
def fake_solve():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.linalg.solve(torch.eye(2, device=ONE), ones(2, 1, device=TWO))


@provokes("torch-tangent-with-device-in-flattened-pytree-doesnt", "torch.func.linearize|linearize|jvp_fn", ONE, TWO)
def linearized_tangent():
    _, tangent = torch.func.linearize(lambda value: value * 2, ones(2))
    return tangent(ones(2, device=TWO))


@provokes("torch-for-combine_mode-pointwise-all-input-tensors-need", "scan|torch.ops.higher_order.associative_scan|associative_scan", HOST)
def associative_scan_on_the_host():
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda a, b: a + b, torch.ones(3), 0, combine_mode="pointwise")


@provokes("torch-could-not-run-with-arguments-from-the", "torch.ops.device_errors.half|device_errors::half|half", ONE, HOST)
def custom_operator_without_a_kernel():
    @torch.library.custom_op("device_errors::half", mutates_args=(), device_types="cpu")
    def half(value: torch.Tensor) -> torch.Tensor:
        return value / 2

    return half(ones(2))


@provokes("torch-tensor-device-mismatch-expected-got", "aten::_assert_tensor_metadata|torch.ops.aten._assert_tensor_metadata|torch.ops.aten._assert_tensor_metadata.default", ONE, TWO)
def asserted_metadata():
    return torch.ops.aten._assert_tensor_metadata.default(ones(2), None, None, None, device=torch.device(TWO))


@provokes("torch-error-original_tensordevice-is-not-supported-only-cuda", "sparse_semi_structured|torch.sparse.to_sparse_semi_structured|to_sparse_semi_structured", HOST)
def semi_structured_on_the_host():
    return torch.sparse.to_sparse_semi_structured(torch.ones(64, 64, dtype=torch.float16))


@provokes("torch-add_observer-only-works-with-cpu-or-single", "torch.ao.quantization.prepare|prepare", ONE, TWO)
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
