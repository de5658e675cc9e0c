"""Index tensors, masks, scatter and gather, embeddings."""

import torch

ONE, TWO, HOST = "cuda:0", "cuda:1", "cpu"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)


def indices(device=ONE):
    return torch.tensor([0, 1], device=device)

# === index_select
# operation: aten::index_select on cuda:0, cuda:1
def index_select():
    return torch.index_select(ones(3), 0, indices(TWO))

# === embedding
# operation: aten::embedding|aten::index_select on cuda:0, cuda:1
def embedding():
    return torch.nn.Embedding(3, 2, device=ONE)(indices(TWO))

# === embedding_bag
# operation: aten::_embedding_bag|aten::embedding_bag on cuda:0, cuda:1
def embedding_bag():
    return torch.nn.EmbeddingBag(3, 2, device=ONE)(indices(TWO), torch.tensor([0], device=TWO))

# === index_of_another_device
# message: torch-indices-should-be-either-on-or-on
# operation: aten::index on cuda:0, cuda:1
def index_of_another_device():
    return ones(3)[indices(TWO)]

# === index_of_a_host_tensor
# message: torch-indices-should-be-either-on-or-on
# operation: aten::index on cuda:0, cpu
def index_of_a_host_tensor():
    return torch.ones(3)[indices(ONE)]

# === index_put_values
# message: torch-expected-all-tensors-to-be-on-the
# operation: aten::index_put_|aten::_index_put_impl_|aten::index_put on cuda:0, cuda:1
def index_put_values():
    return ones(3).index_put_((indices(),), ones(2, device=TWO))

# === assignment_of_an_element
# message: torch-expected-all-tensors-to-be-on-the
# operation: aten::index_put_|aten::_index_put_impl_|aten::index_put on cuda:0, cpu
def assignment_of_an_element():
    target = torch.ones(3)
    target[indices(HOST)] = ones(2)

# === index_copy
# operation: aten::index_copy|aten::index_copy_ on cuda:0, cuda:1
def index_copy():
    return ones(3).index_copy_(0, indices(), ones(2, device=TWO))

# === index_add
# operation: aten::index_add|aten::index_add_ on cuda:0, cuda:1
def index_add():
    return ones(3).index_add_(0, indices(TWO), ones(2))

# === index_fill
# message: torch-expected-all-tensors-to-be-on-the
# operation: aten::index_fill_|aten::index_fill on cuda:0, cuda:1
def index_fill():
    return ones(3).index_fill_(0, indices(TWO), 1.0)

# === put
# operation: aten::put_|aten::put on cuda:0, cuda:1
def put():
    return ones(3).put_(indices(TWO), ones(2))

# === put_source
# operation: aten::put_ on cuda:0, cuda:1
def put_source():
    return ones(3).put_(indices(), ones(2, device=TWO))

# === take
# operation: aten::take on cuda:0, cuda:1
def take():
    return torch.take(ones(3), indices(TWO))

# === take_out
# operation: aten::take on cuda:0, cuda:1
def take_out():
    return torch.take(ones(3), indices(), out=ones(2, device=TWO))

# === gather
# operation: aten::gather on cuda:0, cuda:1
def gather():
    return torch.gather(ones(3), 0, indices(TWO))

# === scatter
# operation: aten::scatter_|aten::scatter on cuda:0, cuda:1
def scatter():
    return ones(3).scatter_(0, indices(TWO), ones(2))

# === scatter_add
# operation: aten::scatter_add_|aten::scatter_add on cuda:0, cuda:1
def scatter_add():
    return ones(3).scatter_add_(0, indices(), ones(2, device=TWO))

# === masked_fill
# message: torch-expected-self-and-mask-to-be-on
# operation: aten::masked_fill_|aten::masked_fill on cuda:0, cuda:1
def masked_fill():
    return ones(3).masked_fill_(ones(3, device=TWO) > 0, 1.0)

# === masked_fill_of_a_host_tensor
# message: torch-expected-self-and-mask-to-be-on
# operation: aten::masked_fill_|aten::masked_fill on cuda:0, cpu
def masked_fill_of_a_host_tensor():
    return torch.ones(3).masked_fill_(ones(3) > 0, 1.0)

# === masked_fill_value_of_a_host_tensor
# message: torch-masked_fill-expected-inputs-to-be-on-same-device
# operation: aten::masked_fill_|aten::masked_fill on cuda:0, cpu
def masked_fill_value_of_a_host_tensor():
    return torch.ones(3).masked_fill_(torch.ones(3) > 0, torch.tensor(1.0, device=ONE))

# === masked_select
# operation: aten::masked_select on cuda:0, cuda:1
def masked_select():
    return torch.masked_select(ones(3), ones(3, device=TWO) > 0)

# === masked_scatter
# operation: aten::masked_scatter_|aten::masked_scatter on cuda:0, cuda:1
def masked_scatter():
    return ones(3).masked_scatter_(ones(3) > 0, ones(3, device=TWO))

# === masked_scatter_mask_of_a_host_tensor
# operation: aten::masked_scatter_|aten::masked_scatter on cuda:0, cpu
def masked_scatter_mask_of_a_host_tensor():
    return torch.ones(3).masked_scatter_(ones(3) > 0, torch.ones(3))

# === masked_scatter_source_of_a_host_tensor
# operation: aten::masked_scatter_|aten::masked_scatter on cuda:0, cpu
def masked_scatter_source_of_a_host_tensor():
    return torch.ones(3).masked_scatter_(torch.ones(3) > 0, ones(3))

# === repeat_interleave
# operation: aten::repeat_interleave|aten::index_select on cuda:0, cuda:1
def repeat_interleave():
    return torch.repeat_interleave(ones(2), torch.tensor([1, 2], device=TWO))

# === bincount_weights
# operation: aten::bincount on cuda:0, cuda:1
def bincount_weights():
    return torch.bincount(indices(), ones(2, device=TWO))
