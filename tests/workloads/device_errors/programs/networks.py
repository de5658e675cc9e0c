"""What layers compute: convolution, recurrent layers, attention, losses, normalisation."""

import torch
import torch.nn.functional as F

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO, ones


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::convolution|aten::_convolution|aten::conv2d|aten::cudnn_convolution|aten::_slow_conv2d_forward", ONE, HOST)
def convolution_of_a_host_tensor():
    return torch.nn.Conv2d(1, 1, 1, device=ONE)(torch.ones(1, 1, 2, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::convolution|aten::_convolution|aten::conv2d|aten::_slow_conv2d_forward", ONE, HOST)
def convolution_bias():
    return F.conv2d(ones(1, 1, 2, 2), ones(1, 1, 1, 1), torch.ones(1))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::convolution|aten::_convolution|aten::conv2d|aten::cudnn_convolution|aten::_slow_conv2d_forward", ONE, TWO)
def convolution_of_two_devices():
    return F.conv2d(ones(1, 1, 2, 2), ones(1, 1, 1, 1, device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::conv_depthwise3d|aten::convolution", ONE, TWO)
def depthwise_convolution_weight():
    return torch.ops.aten.conv_depthwise3d(ones(1, 1, 2, 2, 2), ones(1, 1, 1, 1, 1, device=TWO), [1, 1, 1], None, [1, 1, 1], [0, 0, 0], [1, 1, 1])


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::linear|aten::addmm", ONE, TWO)
def linear():
    return torch.nn.Linear(2, 2, device=TWO)(ones(1, 2))


@provokes("torch-input-and-tensors-are-not-at-the", "torch.nn.LSTM|aten::lstm|aten::_cudnn_rnn|torch.lstm|torch._VF.lstm", ONE, TWO)
def recurrent_input():
    return torch.nn.LSTM(2, 2, device=ONE)(ones(1, 1, 2, device=TWO))


@provokes("torch-input-and-tensors-are-not-at-the", "torch.nn.LSTM|aten::lstm|torch.lstm", ONE, TWO)
def recurrent_hidden():
    return torch.nn.LSTM(2, 2, device=ONE)(ones(1, 1, 2), (ones(1, 1, 2, device=TWO), ones(1, 1, 2)))


@provokes("torch-input-and-tensors-are-not-at-the", "torch.nn.GRU|aten::gru|torch.gru", ONE, HOST)
def recurrent_hidden_of_the_host():
    return torch.nn.GRU(2, 2, device=ONE)(ones(1, 1, 2), torch.ones(1, 1, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::_thnn_fused_lstm_cell|torch.nn.LSTMCell|aten::lstm_cell|aten::addmm|aten::linear", ONE, TWO)
def recurrent_cell():
    cell = torch.nn.LSTMCell(2, 2, device=ONE)
    return cell(ones(1, 2), (ones(1, 2), ones(1, 2, device=TWO)))


@provokes("torch-lengths-argument-should-be-a-d-cpu", "torch.nn.utils.rnn.pack_padded_sequence|aten::_pack_padded_sequence|pack_padded_sequence", ONE, HOST)
def lengths_of_a_packed_sequence():
    return torch.nn.utils.rnn.pack_padded_sequence(ones(3, 1, 2), torch.tensor([3], device=ONE))


@provokes("torch-batch_sizes-should-always-be-on-cpu-instances-of", "torch.nn.utils.rnn.PackedSequence", ONE, HOST)
def batch_sizes_of_a_packed_sequence():
    return torch.nn.utils.rnn.PackedSequence(ones(3, 2), torch.tensor([3], device=ONE))


@provokes("torch-expected-query-key-and-value-to-have", "torch.nn.functional.scaled_dot_product_attention|aten::scaled_dot_product_attention", ONE, TWO)
def attention():
    return F.scaled_dot_product_attention(ones(1, 1, 2, 4), ones(1, 1, 2, 4, device=TWO), ones(1, 1, 2, 4))


@provokes("torch-expect-q-k-v-and-block_mask-to", "flex_attention|torch.nn.attention.flex_attention", ONE, TWO)
def flexible_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 128, 128, device=TWO)
    return flex_attention(ones(1, 1, 128, 16), ones(1, 1, 128, 16), ones(1, 1, 128, 16), block_mask=mask)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::nll_loss_forward|aten::nll_loss|aten::nll_loss_nd", ONE, TWO)
def cross_entropy():
    return F.cross_entropy(ones(2, 3), torch.tensor([0, 1], device=TWO))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::native_batch_norm|aten::cudnn_batch_norm|aten::batch_norm|aten::_native_batch_norm_legit", ONE, TWO)
def batch_norm():
    return torch.nn.BatchNorm1d(2, device=TWO)(ones(3, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::native_layer_norm|aten::layer_norm", ONE, TWO)
def layer_norm():
    return torch.nn.LayerNorm(2, device=TWO)(ones(3, 2))


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "torch.quantize_per_tensor|aten::quantize_per_tensor|aten::quantize_per_channel", ONE, HOST)
def quantized_pair():
    return torch.quantize_per_channel(ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.qint8)


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::_scaled_mm", ONE, TWO)
def scaled_mm():
    a = torch.ones(16, 16, device=ONE).to(torch.float8_e4m3fn)
    return torch._scaled_mm(a, a.t(), scale_a=torch.tensor(1.0, device=ONE), scale_b=torch.tensor(1.0, device=TWO))


@provokes("torch-could-not-run-with-arguments-from-the", "aten::to_mkldnn|torch.Tensor.to_mkldnn", ONE, HOST)
def mkldnn_of_a_device():
    return ones(2, 2).to_mkldnn()


@provokes("torch-expected-all-tensors-to-be-on-the-same-device", "aten::grid_sampler_2d|aten::grid_sampler|torch.nn.functional.grid_sample", ONE, HOST)
def grid_sample_with_the_host():
    return F.grid_sample(torch.ones(1, 1, 2, 2), ones(1, 2, 2, 2), align_corners=False)
