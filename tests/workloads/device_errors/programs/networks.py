"""What layers compute: convolution, recurrent layers, attention, losses, normalisation."""

import torch
import torch.nn.functional as F

ONE, TWO = "cuda:0", "cuda:1"


def ones(*shape, device=ONE, **options):
    return torch.ones(*shape, device=device, **options)

# === convolution_of_a_host_tensor
# operation: aten::convolution|aten::_convolution|aten::conv2d|aten::cudnn_convolution|aten::_slow_conv2d_forward on cuda:0, cpu
def convolution_of_a_host_tensor():
    return torch.nn.Conv2d(1, 1, 1, device=ONE)(torch.ones(1, 1, 2, 2))

# === convolution_bias
# operation: aten::convolution|aten::_convolution|aten::conv2d|aten::_slow_conv2d_forward on cuda:0, cpu
def convolution_bias():
    return F.conv2d(ones(1, 1, 2, 2), ones(1, 1, 1, 1), torch.ones(1))

# === convolution_of_two_devices
# operation: aten::convolution|aten::_convolution|aten::conv2d|aten::cudnn_convolution|aten::_slow_conv2d_forward on cuda:0, cuda:1
def convolution_of_two_devices():
    return F.conv2d(ones(1, 1, 2, 2), ones(1, 1, 1, 1, device=TWO))

# === depthwise_convolution_weight
# operation: aten::conv_depthwise3d|aten::convolution on cuda:0, cuda:1
def depthwise_convolution_weight():
    return torch.ops.aten.conv_depthwise3d(ones(1, 1, 2, 2, 2), ones(1, 1, 1, 1, 1, device=TWO), [1, 1, 1], None, [1, 1, 1], [0, 0, 0], [1, 1, 1])

# === linear
# operation: aten::linear|aten::addmm on cuda:0, cuda:1
def linear():
    return torch.nn.Linear(2, 2, device=TWO)(ones(1, 2))

# === recurrent_input
# message: torch-input-and-tensors-are-not-at-the
# operation: torch.nn.LSTM|aten::lstm|aten::_cudnn_rnn|torch.lstm|torch._VF.lstm on cuda:0, cuda:1
def recurrent_input():
    return torch.nn.LSTM(2, 2, device=ONE)(ones(1, 1, 2, device=TWO))

# === recurrent_hidden
# message: torch-input-and-tensors-are-not-at-the
# operation: torch.nn.LSTM|aten::lstm|torch.lstm on cuda:0, cuda:1
def recurrent_hidden():
    return torch.nn.LSTM(2, 2, device=ONE)(ones(1, 1, 2), (ones(1, 1, 2, device=TWO), ones(1, 1, 2)))

# === recurrent_hidden_of_the_host
# message: torch-input-and-tensors-are-not-at-the
# operation: torch.nn.GRU|aten::gru|torch.gru on cuda:0, cpu
def recurrent_hidden_of_the_host():
    return torch.nn.GRU(2, 2, device=ONE)(ones(1, 1, 2), torch.ones(1, 1, 2))

# === recurrent_cell
# operation: aten::_thnn_fused_lstm_cell|torch.nn.LSTMCell|aten::lstm_cell|aten::addmm|aten::linear on cuda:0, cuda:1
def recurrent_cell():
    cell = torch.nn.LSTMCell(2, 2, device=ONE)
    return cell(ones(1, 2), (ones(1, 2), ones(1, 2, device=TWO)))

# === lengths_of_a_packed_sequence
# message: torch-lengths-argument-should-be-a-d-cpu
# operation: torch.nn.utils.rnn.pack_padded_sequence|aten::_pack_padded_sequence|pack_padded_sequence on cuda:0, cpu
def lengths_of_a_packed_sequence():
    return torch.nn.utils.rnn.pack_padded_sequence(ones(3, 1, 2), torch.tensor([3], device=ONE))

# === batch_sizes_of_a_packed_sequence
# message: torch-batch_sizes-should-always-be-on-cpu-instances-of
# operation: torch.nn.utils.rnn.PackedSequence on cuda:0, cpu
def batch_sizes_of_a_packed_sequence():
    return torch.nn.utils.rnn.PackedSequence(ones(3, 2), torch.tensor([3], device=ONE))

# === attention
# message: torch-expected-query-key-and-value-to-have
# operation: torch.nn.functional.scaled_dot_product_attention|aten::scaled_dot_product_attention on cuda:0, cuda:1
def attention():
    return F.scaled_dot_product_attention(ones(1, 1, 2, 4), ones(1, 1, 2, 4, device=TWO), ones(1, 1, 2, 4))

# === flexible_attention
# message: torch-expect-q-k-v-and-block_mask-to
# operation: flex_attention|torch.nn.attention.flex_attention on cuda:0, cuda:1
def flexible_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 128, 128, device=TWO)
    return flex_attention(ones(1, 1, 128, 16), ones(1, 1, 128, 16), ones(1, 1, 128, 16), block_mask=mask)

# === cross_entropy
# operation: aten::nll_loss_forward|aten::nll_loss|aten::nll_loss_nd on cuda:0, cuda:1
def cross_entropy():
    return F.cross_entropy(ones(2, 3), torch.tensor([0, 1], device=TWO))

# === batch_norm
# operation: aten::native_batch_norm|aten::cudnn_batch_norm|aten::batch_norm|aten::_native_batch_norm_legit on cuda:0, cuda:1
def batch_norm():
    return torch.nn.BatchNorm1d(2, device=TWO)(ones(3, 2))

# === layer_norm
# operation: aten::native_layer_norm|aten::layer_norm on cuda:0, cuda:1
def layer_norm():
    return torch.nn.LayerNorm(2, device=TWO)(ones(3, 2))

# === quantized_pair
# operation: torch.quantize_per_tensor|aten::quantize_per_tensor|aten::quantize_per_channel on cuda:0, cpu
def quantized_pair():
    return torch.quantize_per_channel(ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.qint8)

# === scaled_mm
# operation: aten::_scaled_mm on cuda:0, cuda:1
def scaled_mm():
    a = torch.ones(16, 16, device=ONE).to(torch.float8_e4m3fn)
    return torch._scaled_mm(a, a.t(), scale_a=torch.tensor(1.0, device=ONE), scale_b=torch.tensor(1.0, device=TWO))

# === mkldnn_of_a_device
# message: torch-could-not-run-with-arguments-from-the
# operation: aten::to_mkldnn|torch.Tensor.to_mkldnn on cuda:0, cpu
def mkldnn_of_a_device():
    return ones(2, 2).to_mkldnn()

# === grid_sample_with_the_host
# operation: aten::grid_sampler_2d|aten::grid_sampler|torch.nn.functional.grid_sample on cuda:0, cpu
def grid_sample_with_the_host():
    return F.grid_sample(torch.ones(1, 1, 2, 2), ones(1, 2, 2, 2), align_corners=False)
