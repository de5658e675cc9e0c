"""Operators in which every tensor has to be on one device: the checks of the dispatcher, of TensorIterator and of foreach."""

import torch

ONE, TWO, HOST = "cuda:0", "cuda:1", "cpu"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)

# === add
# message: torch-expected-all-tensors-to-be-on-the
# operation: aten::add on cuda:0, cuda:1
def add():
    return ones(3) + ones(3, device=TWO)

# === matmul
# operation: aten::mm on cuda:0, cuda:1
def matmul():
    return ones(2, 2) @ ones(2, 2, device=TWO)

# === matmul_with_the_host
# operation: aten::mm on cuda:0, cpu
def matmul_with_the_host():
    return ones(2, 2) @ ones(2, 2, device=HOST)

# === cat
# operation: aten::cat on cuda:0, cuda:1
def cat():
    return torch.cat([ones(2), ones(2, device=TWO)])

# === reduce_to_two_outputs
# message: torch-expected-out-tensor-to-have-device-but
# operation: aten::aminmax on cuda:0, cuda:1
def reduce_to_two_outputs():
    return torch.aminmax(ones(3), out=(ones(()), ones((), device=TWO)))

# === foreach_scalars
# message: torch-expected-scalars-to-be-on-cpu-got
# operation: aten::_foreach_addcmul on cuda:0, cpu
def foreach_scalars():
    return torch._foreach_addcmul([ones(2), ones(2)], [ones(2), ones(2)], [ones(2), ones(2)], scalars=ones(2))

# === grouped_tensors
# message: torch-tensors-of-the-same-index-must-be
# operation: torch.utils._foreach_utils._group_tensors_by_device_and_dtype on cuda:0, cuda:1
def grouped_tensors():
    from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

    return _group_tensors_by_device_and_dtype([[ones(2), ones(2)], [ones(2), ones(2, device=TWO)]])

# === lerp
# message: torch-expected-all-tensors-to-be-on-the
# operation: aten::lerp on cuda:0, cuda:1
def lerp():
    return torch.lerp(ones(3), ones(3), ones(3, device=TWO))

# === maximum_of_all_out
# message: torch-expected-selfdevice-outdevice-to-be-true-but
# operation: aten::max on cuda:0, cuda:1
def maximum_of_all_out():
    return torch.max(ones(3), out=ones((), device=TWO))

# === all_of_dimensions_out
# message: torch-expected-out-tensor-to-have-device-but
# operation: aten::all on cuda:0, cuda:1
def all_of_dimensions_out():
    return torch.all(ones(3, 3) > 0, dim=(0, 1), out=torch.empty((), dtype=torch.bool, device=TWO))

# === any_of_dimensions_out
# message: torch-expected-out-tensor-to-have-device-but
# operation: aten::any on cuda:0, cuda:1
def any_of_dimensions_out():
    return torch.any(ones(3, 3) > 0, dim=(0, 1), out=torch.empty((), dtype=torch.bool, device=TWO))

# === gradient_coordinates
# message: torch-torchgradient-expected-each-tensor-to-be-on
# operation: torch.gradient|aten::gradient on cuda:0, cuda:1
def gradient_coordinates():
    return torch.gradient(ones(4), spacing=(torch.arange(4.0, device=TWO),))

# === where
# message: torch-expected-all-tensors-to-be-on-the
# operation: aten::where on cuda:0, cuda:1
def where():
    return torch.where(ones(3) > 0, ones(3), ones(3, device=TWO))

# === searchsorted_boundaries
# operation: aten::searchsorted on cuda:0, cuda:1
def searchsorted_boundaries():
    return torch.searchsorted(ones(3), ones(3, device=TWO))

# === searchsorted_sorter
# message: torch-torchsearchsorted-sorter-and-boundary-tensors-should-have
# operation: aten::searchsorted on cuda:0, cuda:1
def searchsorted_sorter():
    return torch.searchsorted(ones(3), ones(3), sorter=torch.arange(3, device=TWO))

# === quantile
# message: torch-quantile-q-tensor-must-be-on-the
# operation: aten::quantile on cuda:0, cuda:1
def quantile():
    return torch.quantile(ones(3), torch.tensor([0.5], device=TWO))

# === quantile_out
# message: torch-quantile-out-tensor-must-be-on-the
# operation: aten::quantile on cuda:0, cuda:1
def quantile_out():
    return torch.quantile(ones(3), torch.tensor([0.5], device=ONE), out=ones(1, device=TWO))

# === kthvalue_indices_out
# operation: aten::kthvalue on cuda:0, cuda:1
def kthvalue_indices_out():
    return torch.kthvalue(ones(3), 1, out=(ones(()), torch.zeros((), dtype=torch.long, device=TWO)))

# === median_indices_out
# operation: aten::median on cuda:0, cuda:1
def median_indices_out():
    return torch.median(ones(3, 3), 0, out=(ones(3), torch.zeros(3, dtype=torch.long, device=TWO)))

# === multinomial_out
# operation: aten::multinomial on cuda:0, cuda:1
def multinomial_out():
    return torch.multinomial(ones(3), 1, out=torch.zeros(1, dtype=torch.long, device=TWO))

# === meshgrid
# message: torch-meshgrid-expects-all-tensors-to-have-the
# operation: torch.meshgrid|aten::meshgrid on cuda:0, cuda:1
def meshgrid():
    return torch.meshgrid(ones(2), ones(2, device=TWO), indexing="ij")

# === block_diag
# message: torch-torchblock_diag-input-tensors-must-all-be-on
# operation: torch.block_diag|aten::block_diag on cuda:0, cuda:1
def block_diag():
    return torch.block_diag(ones(2, 2), ones(2, 2, device=TWO))

# === tensor_split
# message: torch-tensor_split-expected-tensor_indices_or_sections-to-be-on-cpu
# operation: torch.tensor_split|aten::tensor_split on cuda:0, cpu
def tensor_split():
    return torch.tensor_split(torch.ones(4), torch.tensor([1], device=ONE))

# === chunk_cat
# operation: aten::_chunk_cat on cuda:0, cuda:1
def chunk_cat():
    return torch._chunk_cat([ones(2, 2), ones(2, 2, device=TWO)], 0, 1)

# === chunk_cat_out
# operation: aten::_chunk_cat on cuda:0, cuda:1
def chunk_cat_out():
    return torch._chunk_cat([ones(2, 2), ones(2, 2)], 0, 1, out=ones(1, 8, device=TWO))

# === segment_reduce_lengths
# message: torch-expected-dataget_device-lengths_valueget_device-to-be-true-but
# operation: aten::segment_reduce on cuda:0, cpu
def segment_reduce_lengths():
    return torch.segment_reduce(ones(3), "sum", lengths=torch.tensor([3]))

# === segment_reduce_offsets
# message: torch-expected-dataget_device-offsets_valueget_device-to-be-true-but
# operation: aten::segment_reduce on cuda:0, cpu
def segment_reduce_offsets():
    return torch.segment_reduce(ones(3), "sum", offsets=torch.tensor([0, 3]))

# === stft_window
# message: torch-stft-input-and-window-must-be-on
# operation: aten::stft|torch.stft on cuda:0, cuda:1
def stft_window():
    return torch.stft(ones(64), 16, window=ones(16, device=TWO), return_complex=True)

# === istft_window
# message: torch-istft-input-and-window-must-be-on
# operation: aten::istft|torch.istft on cuda:0, cuda:1
def istft_window():
    spectrum = torch.stft(ones(64), 16, window=ones(16), return_complex=True)
    return torch.istft(spectrum, 16, window=ones(16, device=TWO))

# === map_on_a_device
# message: torch-map-is-only-implemented-on-cpu-tensors-2
# operation: torch.Tensor.map_|map_ on cuda:0
def map_on_a_device():
    return ones(2).map_(ones(2), lambda a, b: a)

# === apply_on_a_device
# message: torch-apply-is-only-implemented-on-cpu-tensors
# operation: torch.Tensor.apply_|apply_ on cuda:0
def apply_on_a_device():
    return ones(2).apply_(lambda value: value)

# === map2_on_a_device
# message: torch-map-is-only-implemented-on-cpu-tensors
# operation: torch.Tensor.map2_|map2_ on cuda:0
def map2_on_a_device():
    return ones(2).map2_(ones(2), ones(2), lambda a, b, c: a)

# === weight_norm
# message: torch-weight_norm-expected-v_in-and-g_in-to-be
# operation: torch._weight_norm|aten::_weight_norm|torch.nn.utils.weight_norm on cuda:0, cuda:1
def weight_norm():
    return torch._weight_norm(ones(2, 2), ones(2, 1, device=TWO), 0)

# === jitted_kernel
# message: torch-expected-all-tensors-to-be-on-the
# operation: jiterator::plus on cuda:0, cuda:1
def jitted_kernel():
    plus = torch.cuda.jiterator._create_jit_fn("template <typename T> T plus(T x, T y) { return x + y; }")
    return plus(ones(2), ones(2, device=TWO))

# === grid_sample
# operation: torch.Tensor.grid_sampler|aten::grid_sampler|torch.nn.functional.grid_sample|aten::grid_sampler_2d on cuda:0, cuda:1
def grid_sample():
    return torch.nn.functional.grid_sample(ones(1, 1, 2, 2), ones(1, 2, 2, 2, device=TWO), align_corners=False)

# === cdist_with_the_host
# operation: aten::cdist|aten::_cdist_forward|torch.cdist on cuda:0, cpu
def cdist_with_the_host():
    return torch.cdist(ones(2, 2), ones(2, 2, device=HOST))

# === cdist
# operation: aten::cdist|aten::_cdist_forward|torch.cdist on cuda:0, cuda:1
def cdist():
    return torch.cdist(ones(2, 2), ones(2, 2, device=TWO))

# === frexp_out
# operation: aten::frexp on cuda:0, cuda:1
def frexp_out():
    return torch.frexp(ones(2), out=(ones(2), torch.zeros(2, dtype=torch.int32, device=TWO)))

# === nonzero_out
# operation: aten::nonzero on cuda:0, cuda:1
def nonzero_out():
    return torch.nonzero(ones(3), out=torch.zeros((0, 1), dtype=torch.long, device=TWO))

# === split_copy_out
# operation: aten::split_with_sizes_copy on cuda:0, cuda:1
def split_copy_out():
    return torch.split_with_sizes_copy(ones(4), [2, 2], out=[ones(2, device=TWO), ones(2, device=TWO)])

# === unbind_copy_out
# message: torch-expected-out-tensor-to-have-device-but
# operation: aten::unbind_copy on cuda:0, cuda:1
def unbind_copy_out():
    return torch.unbind_copy(ones(2, 2), out=[ones(2, device=TWO), ones(2, device=TWO)])

# === add_out
# message: torch-expected-all-tensors-to-be-on-the
# operation: aten::add on cuda:0, cuda:1
def add_out():
    return torch.add(ones(3), ones(3), out=ones(3, device=TWO))

# === out_of_another_device_type
# message: torch-device-type-does-not-match-device-type
# operation: aten::arange|torch.arange on cuda:0, cpu
def out_of_another_device_type():
    return torch.arange(3, device=ONE, out=torch.empty(3, dtype=torch.long))

# === structured_out
# operation: aten::tril|torch.tril on cuda:0, cuda:1
def structured_out():
    return torch.tril(ones(2, 2), out=ones(2, 2, device=TWO))

# === sum_out
# message: torch-expected-out-tensor-to-have-device-but
# operation: aten::sum on cuda:0, cuda:1
def sum_out():
    return torch.sum(ones(3), 0, out=ones((), device=TWO))

# === mm_out
# operation: aten::mm on cuda:0, cuda:1
def mm_out():
    return torch.mm(ones(2, 2), ones(2, 2), out=ones(2, 2, device=TWO))

# === foreach_tensor
# message: torch-scalar-tensor-expected-to-be-on-but
# operation: aten::_foreach_mul on cuda:0, cuda:1
def foreach_tensor():
    return torch._foreach_mul([ones(2)], ones((), device=TWO))

# === foreach_tensor_in_place
# message: torch-scalar-tensor-is-expected-to-be-on
# operation: aten::_foreach_mul_ on cuda:0, cuda:1
def foreach_tensor_in_place():
    return torch._foreach_mul_([ones(2)], ones((), device=TWO))
