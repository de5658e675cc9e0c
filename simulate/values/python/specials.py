"""Operators that only CUDA has, as the same mathematics on the CPU: one function for each, by name in SPECIALS.

A function gets the operator's arguments with CUDA tensors as their CPU aliases, and a compute.Context: the CUDA kernel's own results and
the random numbers. It returns the results on the CPU, None for those of which the real one is already right.
"""

import torch

from . import memory

SPECIALS = {}


def special(*names):
    def enter(function):
        for name in names:
            SPECIALS["aten::" + name] = function
        return function

    return enter


def up(tensor):
    """In the type in which CUDA kernels accumulate."""
    return tensor.float() if tensor is not None and tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def on_cpu(tensor):
    return memory.alias(tensor) if tensor.is_cuda else tensor


# -- attention


def scores_of(query, key, bias, is_causal, scale):
    scale = query.size(-1) ** -0.5 if scale is None else scale
    scores = up(query) @ up(key).transpose(-2, -1) * scale
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cpu").triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    if bias is not None:
        scores = scores.masked_fill(~bias, float("-inf")) if bias.dtype == torch.bool else scores + up(bias)
    return scores, scale


def kept(shape, dropout_p, seed):
    """What dropout multiplies with; the same for the same seed."""
    draw = torch.Generator(device="cpu").manual_seed(seed)
    return torch.empty(shape, device="cpu").bernoulli_(1 - dropout_p, generator=draw) / (1 - dropout_p)


CPU_FLASH = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
CPU_FLASH_BACKWARD = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)


def fits_cpu_kernel(query, key, value, bias, dropout_p):
    """Whether PyTorch's own CPU attention takes it: what the same program would use there."""
    same_width = query.size(-1) == key.size(-1) == value.size(-1) and query.size(-3) == key.size(-3) == value.size(-3)
    mask = bias is None or (bias.dim() == 4 and bias.dtype in (query.dtype, torch.bool))
    empty = 0 in (query.numel(), key.numel(), value.numel())
    return CPU_FLASH is not None and not dropout_p and same_width and mask and not empty and query.dim() == 4


def attention(query, key, value, bias, dropout_p, is_causal, scale, seed):
    """softmax(q·kᵀ·scale + bias)·v and the logarithm of the softmax's denominator; [batch, head, length, width]."""
    if fits_cpu_kernel(query, key, value, bias, dropout_p) and not (is_causal and bias is not None):
        return CPU_FLASH.default._op(query, key, value, 0.0, is_causal, attn_mask=bias, scale=scale)[:2]
    if key.size(-3) != query.size(-3):
        key, value = (t.repeat_interleave(query.size(-3) // t.size(-3), -3) for t in (key, value))
    scores, _ = scores_of(query, key, bias, is_causal, scale)
    log_sum = scores.logsumexp(-1)
    weights = (scores - log_sum.unsqueeze(-1)).exp().nan_to_num(0.0)  # a row with every key hidden
    if dropout_p:
        weights = weights * kept(weights.shape, dropout_p, seed)
    return weights @ up(value), log_sum


def attention_backward(grad, query, key, value, bias, dropout_p, is_causal, scale, seed):
    """Gradients of query, key, value and of the scores."""
    groups = query.size(-3) // key.size(-3)
    own_key = key
    if groups != 1:
        key, value = (t.repeat_interleave(groups, -3) for t in (key, value))
    scores, scale = scores_of(query, key, bias, is_causal, scale)
    weights = scores.softmax(-1).nan_to_num(0.0)
    grad = up(grad)
    grad_weights = grad @ up(value).transpose(-2, -1)
    used = weights
    if dropout_p:
        mask = kept(weights.shape, dropout_p, seed)
        used, grad_weights = weights * mask, grad_weights * mask
    grad_value = used.transpose(-2, -1) @ grad
    grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdim=True))
    grad_query = grad_scores @ up(key) * scale
    grad_key = grad_scores.transpose(-2, -1) @ up(query) * scale
    if groups != 1:
        grad_key, grad_value = (t.unflatten(-3, (own_key.size(-3), groups)).sum(-3) for t in (grad_key, grad_value))
    return grad_query, grad_key, grad_value, grad_scores


def cpu_backward(grad, query, key, value, bias, out, log_sum, is_causal, scale):
    log_sum = log_sum[..., : query.size(-2)].contiguous()
    return CPU_FLASH_BACKWARD.default._op(grad, query, key, value, out, log_sum, 0.0, is_causal, attn_mask=bias, scale=scale)


def drawn_seed(context, dropout_p, place):
    """A seed for dropout, left for the backward in the real result that holds random state."""
    if not dropout_p:
        return 0
    seed = context.seed()
    if place.numel() and place.element_size() == 8:
        on_cpu(place).view(-1)[:1].view(torch.int64).fill_(seed)
    return seed


def left_seed(place):
    return int(place.reshape(-1)[:1].view(torch.int64)) if place is not None and place.numel() and place.element_size() == 8 else 0


def padded(log_sum, like):
    """The kernels pad the length; the rest stays as it is."""
    if like is None or like.numel() == 0:
        return None
    out = torch.zeros(like.shape, dtype=torch.float32, device="cpu")
    out[..., : log_sum.size(-1)] = log_sum
    return out


def sum_to(gradient, shape):
    return gradient.sum_to_size(shape)


@special("_scaled_dot_product_efficient_attention")
def efficient(context, query, key, value, bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    seed = drawn_seed(context, dropout_p, context.real[2])
    out, log_sum = attention(query, key, value, bias, dropout_p, is_causal, scale, seed)
    return out, padded(log_sum, context.real[1]), None, None


@special("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(context, grad, query, key, value, bias, out, log_sum, seed, offset, dropout_p, wanted, is_causal=False, *, scale=None):
    if not wanted[3] and fits_cpu_kernel(query, key, value, bias, dropout_p) and not (is_causal and bias is not None):
        return *cpu_backward(grad, query, key, value, bias, out, log_sum, is_causal, scale), None
    *grads, scores = attention_backward(grad, query, key, value, bias, dropout_p, is_causal, scale, left_seed(seed))
    grads.append(sum_to(scores, bias.shape) if bias is not None and wanted[3] else None)
    return tuple(g if w else None for g, w in zip(grads, wanted))


@special("_scaled_dot_product_flash_attention")
def flash(context, query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    seed = drawn_seed(context, dropout_p, context.real[6])
    out, log_sum = attention(query, key, value, None, dropout_p, is_causal, scale, seed)
    return out, padded(log_sum, context.real[1]), *[None] * (len(context.real) - 2)


@special("_scaled_dot_product_flash_attention_backward")
def flash_backward(
    context, grad, query, key, value, out, log_sum, starts_q, starts_k, max_q, max_k, dropout_p, is_causal, seed, offset, *, scale=None
):
    if fits_cpu_kernel(query, key, value, None, dropout_p):
        return cpu_backward(grad, query, key, value, None, out, log_sum, is_causal, scale)
    return attention_backward(grad, query, key, value, None, dropout_p, is_causal, scale, left_seed(seed))[:3]


# -- dropout


@special("native_dropout")
def native_dropout(context, input, p, train):
    if train is False:
        return input, torch.ones_like(input, dtype=torch.bool)
    mask = torch.empty_like(input).bernoulli_(1 - p, generator=context.draw())
    return input * (mask / (1 - p) if p < 1 else mask), mask.bool()


@special("_fused_dropout")
def fused_dropout(context, input, p, generator=None):
    mask = torch.empty(input.shape, device="cpu").bernoulli_(p, generator=context.draw())
    return input * mask / p, mask.to(torch.uint8)


@special("_masked_scale")
def masked_scale(context, input, mask, scale):
    return up(input) * mask * scale


# -- recurrent cells


def with_biases(gates, biases):
    for bias in biases:
        gates = gates if bias is None else gates + up(bias)
    return gates


@special("_thnn_fused_lstm_cell")
def lstm_cell(context, input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    gates = with_biases(up(input_gates) + up(hidden_gates), (input_bias, hidden_bias)).chunk(4, 1)
    i, f, o = (gates[n].sigmoid() for n in (0, 1, 3))
    g = gates[2].tanh()
    cy = f * up(cx) + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


@special("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(context, grad_hy, grad_cy, cx, cy, workspace, has_bias):
    i, f, g, o = up(workspace).chunk(4, 1)
    squashed = up(cy).tanh()
    grad_hy = torch.zeros_like(squashed) if grad_hy is None else up(grad_hy)
    total = grad_hy * o * (1 - squashed * squashed) + (0 if grad_cy is None else up(grad_cy))
    gates = torch.cat((total * g * i * (1 - i), total * up(cx) * f * (1 - f), total * i * (1 - g * g), grad_hy * squashed * o * (1 - o)), 1)
    return gates, total * f, gates.sum(0) if has_bias else None


@special("_thnn_fused_gru_cell")
def gru_cell(context, input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    ir, ii, new = with_biases(up(input_gates), (input_bias,)).chunk(3, 1)
    hr, hi, hn = with_biases(up(hidden_gates), (hidden_bias,)).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (ii + hi).sigmoid()
    n = (new + r * hn).tanh()
    hx = up(hx)
    return n + z * (hx - n), torch.cat((r, z, n, hx, hn), 1)


@special("_thnn_fused_gru_cell_backward")
def gru_cell_backward(context, grad, workspace, has_bias):
    r, z, n, hx, hn = up(workspace).chunk(5, 1)
    grad = up(grad)
    grad_z = grad * (hx - n) * (1 - z) * z
    grad_n = grad * (1 - z) * (1 - n * n)
    grad_r = grad_n * hn * (1 - r) * r
    inputs, hidden = torch.cat((grad_r, grad_z, grad_n), 1), torch.cat((grad_r, grad_z, grad_n * r), 1)
    return inputs, hidden, grad * z, inputs.sum(0) if has_bias else None, hidden.sum(0) if has_bias else None


# -- matrix products with a result of a wider type


@special("mm.dtype", "bmm.dtype", "mm.dtype_out", "bmm.dtype_out")
def product(context, left, right, out_dtype, *, out=None):
    return (up(left) @ up(right)).to(out_dtype)


@special("addmm.dtype", "baddbmm.dtype", "addmm.dtype_out", "baddbmm.dtype_out")
def add_product(context, added, left, right, out_dtype, *, beta=1, alpha=1, out=None):
    return (alpha * (up(left) @ up(right)) + (beta * up(added) if beta else 0)).to(out_dtype)


# -- normalisation


def by_channel(vector, input):
    return None if vector is None else up(vector).view(1, -1, *[1] * (input.dim() - 2))


def all_but_channel(input):
    return [d for d in range(input.dim()) if d != 1]


@special("batch_norm_stats")
def batch_norm_stats(context, input, eps):
    variance, mean = torch.var_mean(up(input), all_but_channel(input), correction=0)
    return mean, (variance + eps).rsqrt()


@special("batch_norm_elemt", "batch_norm_elemt.out")
def batch_norm_elemt(context, input, weight, bias, mean, invstd, eps, *, out=None):
    result = (up(input) - by_channel(mean, input)) * by_channel(invstd, input)
    if weight is not None:
        result = result * by_channel(weight, input)
    return result if bias is None else result + by_channel(bias, input)


@special("batch_norm_gather_stats_with_counts")
def gather_stats(context, input, mean, invstd, running_mean, running_var, momentum, eps, counts):
    counts = counts.to(mean.dtype).unsqueeze(1)
    total = counts.sum()
    overall = (mean * counts).sum(0) / total
    variance = 1 / invstd**2 - eps
    squares = ((variance + (mean - overall) ** 2) * counts).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(overall, alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(squares / (total - 1), alpha=momentum)
    return overall, (squares / total + eps).rsqrt()


@special("batch_norm_gather_stats")
def gather_stats_of_equal(context, input, mean, invstd, running_mean, running_var, momentum, eps, count):
    return gather_stats(context, input, mean, invstd, running_mean, running_var, momentum, eps, torch.full((mean.size(0),), float(count)))


@special("batch_norm_backward_reduce")
def batch_norm_backward_reduce(context, grad, input, mean, invstd, weight, input_g, weight_g, bias_g):
    dims, grad, away = all_but_channel(input), up(grad), up(input) - by_channel(mean, input)
    sum_dy, sum_dy_away = grad.sum(dims), (grad * away).sum(dims)
    return (
        sum_dy if input_g else None, sum_dy_away if input_g else None, sum_dy_away * invstd if weight_g else None, sum_dy if bias_g else None
    )  # fmt: skip


@special("batch_norm_backward_elemt")
def batch_norm_backward_elemt(context, grad, input, mean, invstd, weight, sum_dy, sum_dy_away, count):
    total = count.sum()
    factor = by_channel(invstd * (1 if weight is None else up(weight)), input)
    away = (up(input) - by_channel(mean, input)) * by_channel(invstd * invstd * sum_dy_away / total, input)
    return (up(grad) - by_channel(sum_dy / total, input) - away) * factor


@special("_fused_rms_norm_backward")
def rms_norm_backward(context, grad, input, normalized_shape, rstd, weight, wanted):
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    grad, input, rstd = up(grad), up(input), up(rstd).reshape(*input.shape[: dims[0]], *[1] * len(dims))
    normal = input * rstd
    scaled = grad if weight is None else grad * up(weight)
    grad_input = rstd * (scaled - normal * (scaled * normal).mean(dims, keepdim=True))
    grad_weight = (grad * normal).sum_to_size(normalized_shape) if weight is not None and wanted[1] else None
    return grad_input if wanted[0] else None, grad_weight


# -- convolution


@special("_conv_depthwise2d", "_conv_depthwise2d.out")
def conv_depthwise2d(context, input, weight, kernel_size, bias, stride, padding, dilation, *, out=None):
    return torch.conv2d(input, weight, bias, stride, padding, dilation, input.size(1))


@special("conv_depthwise3d")
def conv_depthwise3d(context, input, weight, kernel_size, bias, stride, padding, dilation):
    return torch.conv3d(input, weight, bias, stride, padding, dilation, input.size(1))
