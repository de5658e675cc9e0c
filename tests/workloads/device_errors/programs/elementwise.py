"""Operators in which every tensor has to be on one device: the checks of the dispatcher, of TensorIterator and of foreach."""

import torch

from ..provokes import provokes

ONE, TWO, HOST = "cuda:0", "cuda:1", "cpu"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)


@provokes("torch-expected-all-tensors-to-be-on-the", "aten::add", ONE, TWO)
def add():
    return ones(3) + ones(3, device=TWO)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::mm", ONE, TWO)
def matmul():
    return ones(2, 2) @ ones(2, 2, device=TWO)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::mm", ONE, HOST)
def matmul_with_the_host():
    return ones(2, 2) @ ones(2, 2, device=HOST)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::cat", ONE, TWO)
def cat():
    return torch.cat([ones(2), ones(2, device=TWO)])


@provokes("torch-expected-out-tensor-to-have-device-but", "aten::aminmax", ONE, TWO)
def reduce_to_two_outputs():
    return torch.aminmax(ones(3), out=(ones(()), ones((), device=TWO)))


@provokes("torch-expected-scalars-to-be-on-cpu-got", "aten::_foreach_addcmul", ONE, HOST)
def foreach_scalars():
    return torch._foreach_addcmul([ones(2), ones(2)], [ones(2), ones(2)], [ones(2), ones(2)], scalars=ones(2))


@provokes("torch-tensors-of-the-same-index-must-be", "torch.utils._foreach_utils._group_tensors_by_device_and_dtype", ONE, TWO)
def grouped_tensors():
    from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

    return _group_tensors_by_device_and_dtype([[ones(2), ones(2)], [ones(2), ones(2, device=TWO)]])


@provokes("torch-expected-all-tensors-to-be-on-the", "aten::lerp", ONE, TWO)
def lerp():
    return torch.lerp(ones(3), ones(3), ones(3, device=TWO))


@provokes("torch-expected-selfdevice-outdevice-to-be-true-but", "aten::max", ONE, TWO)
def maximum_of_all_out():
    return torch.max(ones(3), out=ones((), device=TWO))


@provokes("torch-expected-out-tensor-to-have-device-but", "aten::all", ONE, TWO)
def all_of_dimensions_out():
    return torch.all(ones(3, 3) > 0, dim=(0, 1), out=torch.empty((), dtype=torch.bool, device=TWO))


@provokes("torch-expected-out-tensor-to-have-device-but", "aten::any", ONE, TWO)
def any_of_dimensions_out():
    return torch.any(ones(3, 3) > 0, dim=(0, 1), out=torch.empty((), dtype=torch.bool, device=TWO))


@provokes("torch-torchgradient-expected-each-tensor-to-be-on", "torch.gradient|aten::gradient", ONE, TWO)
def gradient_coordinates():
    return torch.gradient(ones(4), spacing=(torch.arange(4.0, device=TWO),))


@provokes("torch-expected-all-tensors-to-be-on-the", "aten::where", ONE, TWO)
def where():
    return torch.where(ones(3) > 0, ones(3), ones(3, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::searchsorted", ONE, TWO)
def searchsorted_boundaries():
    return torch.searchsorted(ones(3), ones(3, device=TWO))


@provokes("torch-torchsearchsorted-sorter-and-boundary-tensors-should-have", "aten::searchsorted", ONE, TWO)
def searchsorted_sorter():
    return torch.searchsorted(ones(3), ones(3), sorter=torch.arange(3, device=TWO))


@provokes("torch-quantile-q-tensor-must-be-on-the", "aten::quantile", ONE, TWO)
def quantile():
    return torch.quantile(ones(3), torch.tensor([0.5], device=TWO))


@provokes("torch-quantile-out-tensor-must-be-on-the", "aten::quantile", ONE, TWO)
def quantile_out():
    return torch.quantile(ones(3), torch.tensor([0.5], device=ONE), out=ones(1, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::kthvalue", ONE, TWO)
def kthvalue_indices_out():
    return torch.kthvalue(ones(3), 1, out=(ones(()), torch.zeros((), dtype=torch.long, device=TWO)))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::median", ONE, TWO)
def median_indices_out():
    return torch.median(ones(3, 3), 0, out=(ones(3), torch.zeros(3, dtype=torch.long, device=TWO)))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::multinomial", ONE, TWO)
def multinomial_out():
    return torch.multinomial(ones(3), 1, out=torch.zeros(1, dtype=torch.long, device=TWO))


@provokes("torch-meshgrid-expects-all-tensors-to-have-the", "torch.meshgrid|aten::meshgrid", ONE, TWO)
def meshgrid():
    return torch.meshgrid(ones(2), ones(2, device=TWO), indexing="ij")


@provokes("torch-torchblock_diag-input-tensors-must-all-be-on", "torch.block_diag|aten::block_diag", ONE, TWO)
def block_diag():
    return torch.block_diag(ones(2, 2), ones(2, 2, device=TWO))


@provokes("torch-tensor_split-expected-tensor_indices_or_sections-to-be-on-cpu", "torch.tensor_split|aten::tensor_split", ONE, HOST)
def tensor_split():
    return torch.tensor_split(torch.ones(4), torch.tensor([1], device=ONE))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::_chunk_cat", ONE, TWO)
def chunk_cat():
    return torch._chunk_cat([ones(2, 2), ones(2, 2, device=TWO)], 0, 1)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::_chunk_cat", ONE, TWO)
def chunk_cat_out():
    return torch._chunk_cat([ones(2, 2), ones(2, 2)], 0, 1, out=ones(1, 8, device=TWO))


@provokes("torch-expected-dataget_device-lengths_valueget_device-to-be-true-but", "aten::segment_reduce", ONE, HOST)
def segment_reduce_lengths():
    return torch.segment_reduce(ones(3), "sum", lengths=torch.tensor([3]))


@provokes("torch-expected-dataget_device-offsets_valueget_device-to-be-true-but", "aten::segment_reduce", ONE, HOST)
def segment_reduce_offsets():
    return torch.segment_reduce(ones(3), "sum", offsets=torch.tensor([0, 3]))


@provokes("torch-stft-input-and-window-must-be-on", "aten::stft|torch.stft", ONE, TWO)
def stft_window():
    return torch.stft(ones(64), 16, window=ones(16, device=TWO), return_complex=True)


@provokes("torch-istft-input-and-window-must-be-on", "aten::istft|torch.istft", ONE, TWO)
def istft_window():
    spectrum = torch.stft(ones(64), 16, window=ones(16), return_complex=True)
    return torch.istft(spectrum, 16, window=ones(16, device=TWO))


@provokes("torch-map-is-only-implemented-on-cpu-tensors-2", "torch.Tensor.map_|map_", ONE)
def map_on_a_device():
    return ones(2).map_(ones(2), lambda a, b: a)


@provokes("torch-apply-is-only-implemented-on-cpu-tensors", "torch.Tensor.apply_|apply_", ONE)
def apply_on_a_device():
    return ones(2).apply_(lambda value: value)


@provokes("torch-map-is-only-implemented-on-cpu-tensors", "torch.Tensor.map2_|map2_", ONE)
def map2_on_a_device():
    return ones(2).map2_(ones(2), ones(2), lambda a, b, c: a)


@provokes("torch-weight_norm-expected-v_in-and-g_in-to-be", "torch._weight_norm|aten::_weight_norm|torch.nn.utils.weight_norm", ONE, TWO)
def weight_norm():
    return torch._weight_norm(ones(2, 2), ones(2, 1, device=TWO), 0)


@provokes("torch-expected-all-tensors-to-be-on-the", "jiterator::plus", ONE, TWO)
def jitted_kernel():
    plus = torch.cuda.jiterator._create_jit_fn("template <typename T> T plus(T x, T y) { return x + y; }")
    return plus(ones(2), ones(2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "torch.Tensor.grid_sampler|aten::grid_sampler|torch.nn.functional.grid_sample|aten::grid_sampler_2d", ONE, TWO)
def grid_sample():
    return torch.nn.functional.grid_sample(ones(1, 1, 2, 2), ones(1, 2, 2, 2, device=TWO), align_corners=False)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::cdist|aten::_cdist_forward|torch.cdist", ONE, HOST)
def cdist_with_the_host():
    return torch.cdist(ones(2, 2), ones(2, 2, device=HOST))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::cdist|aten::_cdist_forward|torch.cdist", ONE, TWO)
def cdist():
    return torch.cdist(ones(2, 2), ones(2, 2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::frexp", ONE, TWO)
def frexp_out():
    return torch.frexp(ones(2), out=(ones(2), torch.zeros(2, dtype=torch.int32, device=TWO)))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::nonzero", ONE, TWO)
def nonzero_out():
    return torch.nonzero(ones(3), out=torch.zeros((0, 1), dtype=torch.long, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::split_with_sizes_copy", ONE, TWO)
def split_copy_out():
    return torch.split_with_sizes_copy(ones(4), [2, 2], out=[ones(2, device=TWO), ones(2, device=TWO)])


@provokes("torch-expected-out-tensor-to-have-device-but", "aten::unbind_copy", ONE, TWO)
def unbind_copy_out():
    return torch.unbind_copy(ones(2, 2), out=[ones(2, device=TWO), ones(2, device=TWO)])


@provokes("torch-expected-all-tensors-to-be-on-the", "aten::add", ONE, TWO)
def add_out():
    return torch.add(ones(3), ones(3), out=ones(3, device=TWO))


@provokes("torch-device-type-does-not-match-device-type", "aten::arange|torch.arange", ONE, HOST)
def out_of_another_device_type():
    return torch.arange(3, device=ONE, out=torch.empty(3, dtype=torch.long))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::tril|torch.tril", ONE, TWO)
def structured_out():
    return torch.tril(ones(2, 2), out=ones(2, 2, device=TWO))


@provokes("torch-expected-out-tensor-to-have-device-but", "aten::sum", ONE, TWO)
def sum_out():
    return torch.sum(ones(3), 0, out=ones((), device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::mm", ONE, TWO)
def mm_out():
    return torch.mm(ones(2, 2), ones(2, 2), out=ones(2, 2, device=TWO))


@provokes("torch-scalar-tensor-expected-to-be-on-but", "aten::_foreach_mul", ONE, TWO)
def foreach_tensor():
    return torch._foreach_mul([ones(2)], ones((), device=TWO))


@provokes("torch-scalar-tensor-is-expected-to-be-on", "aten::_foreach_mul_", ONE, TWO)
def foreach_tensor_in_place():
    return torch._foreach_mul_([ones(2)], ones((), device=TWO))
