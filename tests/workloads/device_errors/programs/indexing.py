"""Index tensors, masks, scatter and gather, embeddings."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones


def indices(device=ONE):
    return torch.tensor([0, 1], device=device)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::index_select", ONE, TWO)
def index_select():
    return torch.index_select(ones(3), 0, indices(TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::embedding|aten::index_select", ONE, TWO)
def embedding():
    return torch.nn.Embedding(3, 2, device=ONE)(indices(TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::_embedding_bag|aten::embedding_bag", ONE, TWO)
def embedding_bag():
    return torch.nn.EmbeddingBag(3, 2, device=ONE)(indices(TWO), torch.tensor([0], device=TWO))


@provokes("torch-indices-should-be-either-on-or-on", "aten::index", ONE, TWO)
def index_of_another_device():
    return ones(3)[indices(TWO)]


@provokes("torch-indices-should-be-either-on-or-on", "aten::index", ONE, HOST)
def index_of_a_host_tensor():
    return torch.ones(3)[indices(ONE)]


@provokes("torch-expected-all-tensors-to-be-on-the", "aten::index_put_|aten::_index_put_impl_|aten::index_put", ONE, TWO)
def index_put_values():
    return ones(3).index_put_((indices(),), ones(2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the", "aten::index_put_|aten::_index_put_impl_|aten::index_put", ONE, HOST)
def assignment_of_an_element():
    target = torch.ones(3)
    target[indices(HOST)] = ones(2)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::index_copy|aten::index_copy_", ONE, TWO)
def index_copy():
    return ones(3).index_copy_(0, indices(), ones(2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::index_add|aten::index_add_", ONE, TWO)
def index_add():
    return ones(3).index_add_(0, indices(TWO), ones(2))


@provokes("torch-expected-all-tensors-to-be-on-the", "aten::index_fill_|aten::index_fill", ONE, TWO)
def index_fill():
    return ones(3).index_fill_(0, indices(TWO), 1.0)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::put_|aten::put", ONE, TWO)
def put():
    return ones(3).put_(indices(TWO), ones(2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::put_", ONE, TWO)
def put_source():
    return ones(3).put_(indices(), ones(2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::take", ONE, TWO)
def take():
    return torch.take(ones(3), indices(TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::take", ONE, TWO)
def take_out():
    return torch.take(ones(3), indices(), out=ones(2, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::gather", ONE, TWO)
def gather():
    return torch.gather(ones(3), 0, indices(TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::scatter_|aten::scatter", ONE, TWO)
def scatter():
    return ones(3).scatter_(0, indices(TWO), ones(2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::scatter_add_|aten::scatter_add", ONE, TWO)
def scatter_add():
    return ones(3).scatter_add_(0, indices(), ones(2, device=TWO))


@provokes("torch-expected-self-and-mask-to-be-on", "aten::masked_fill_|aten::masked_fill", ONE, TWO)
def masked_fill():
    return ones(3).masked_fill_(ones(3, device=TWO) > 0, 1.0)


@provokes("torch-expected-self-and-mask-to-be-on", "aten::masked_fill_|aten::masked_fill", ONE, HOST)
def masked_fill_of_a_host_tensor():
    return torch.ones(3).masked_fill_(ones(3) > 0, 1.0)


@provokes("torch-masked_fill-expected-inputs-to-be-on-same-device", "aten::masked_fill_|aten::masked_fill", ONE, HOST)
def masked_fill_value_of_a_host_tensor():
    return torch.ones(3).masked_fill_(torch.ones(3) > 0, torch.tensor(1.0, device=ONE))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::masked_select", ONE, TWO)
def masked_select():
    return torch.masked_select(ones(3), ones(3, device=TWO) > 0)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::masked_scatter_|aten::masked_scatter", ONE, TWO)
def masked_scatter():
    return ones(3).masked_scatter_(ones(3) > 0, ones(3, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::masked_scatter_|aten::masked_scatter", ONE, HOST)
def masked_scatter_mask_of_a_host_tensor():
    return torch.ones(3).masked_scatter_(ones(3) > 0, torch.ones(3))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::masked_scatter_|aten::masked_scatter", ONE, HOST)
def masked_scatter_source_of_a_host_tensor():
    return torch.ones(3).masked_scatter_(torch.ones(3) > 0, ones(3))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::repeat_interleave|aten::index_select", ONE, TWO)
def repeat_interleave():
    return torch.repeat_interleave(ones(2), torch.tensor([1, 2], device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::bincount", ONE, TWO)
def bincount_weights():
    return torch.bincount(indices(), ones(2, device=TWO))
