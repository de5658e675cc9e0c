"""Operators that libraries for language models have as machine code, in PyTorch's own; rows of stand_ins.py. Each writes into `out`, or in place."""

import torch
from torch.nn import functional

from .specials import up

# -- activations: of one half of the last dimension, multiplied with the other


def gated(out, input, act, gate=0):
    halves = input.chunk(2, -1)
    out.copy_(act(halves[gate]) * halves[1 - gate])


def silu_and_mul(out, input):
    gated(out, input, functional.silu)


def mul_and_silu(out, input):
    gated(out, input, functional.silu, gate=1)


def gelu_and_mul(out, input):
    gated(out, input, functional.gelu)


def gelu_tanh_and_mul(out, input):
    gated(out, input, lambda x: functional.gelu(x, approximate="tanh"))


def fatrelu_and_mul(out, input, threshold):
    gated(out, input, lambda x: functional.threshold(x, threshold, 0.0))


def swiglu(gate, linear, alpha, beta, limit):
    gate, linear = up(gate).clamp(max=limit), up(linear).clamp(-limit, limit)
    return gate * (alpha * gate).sigmoid() * (linear + beta)


def swiglu_interleaved(out, input, alpha, limit):
    out.copy_(swiglu(input[..., ::2], input[..., 1::2], alpha, 1, limit))


def swiglu_clamped(out, input, limit, alpha, beta):
    out.copy_(swiglu(*input.chunk(2, -1), alpha, beta, limit))


def gelu_tanh(out, input):
    out.copy_(functional.gelu(input, approximate="tanh"))


def gelu_quick(out, input):
    out.copy_(up(input) * (1.702 * up(input)).sigmoid())


def relu_squared(out, input):
    out.copy_(up(input).relu().square())


# -- normalisation


def normalized(input, weight, eps):
    """Rounded before it is multiplied, as the kernels do."""
    made = functional.rms_norm(up(input), input.shape[-1:], eps=eps).to(input.dtype)
    return made if weight is None else made * weight


def rms_norm(out, input, weight, eps):
    out.copy_(normalized(input, weight, eps))


def add_rms_norm(input, residual, weight, eps):
    residual += input
    input.copy_(normalized(residual, weight, eps))


# -- rotary embedding


def rotary(positions, q, key, head_size, cos_sin_cache, is_neox, rope_dim_offset=0, inverse=False):
    """cos_sin_cache: [position, cosines of half the width, sines of the other half]. In pairs of halves (is_neox), else of neighbours."""
    cos, sin = up(cos_sin_cache[positions.flatten()]).unsqueeze(1).chunk(2, -1)
    if inverse:
        sin = -sin
    for heads in (q, key):
        if heads is None:
            continue
        flat = heads.view(positions.numel(), -1, head_size) if heads.is_contiguous() else heads.unflatten(-1, (-1, head_size)) if heads.dim() == 2 else heads
        part = flat[..., rope_dim_offset : rope_dim_offset + 2 * cos.size(-1)]
        first, second = part.chunk(2, -1) if is_neox else (part[..., ::2], part[..., 1::2])
        x, y = up(first), up(second)
        turned = x * cos - y * sin, y * cos + x * sin
        first.copy_(turned[0])
        second.copy_(turned[1])


# -- sampling


def penalize_repetition(logits, prompt_mask, output_mask, repetition_penalties):
    penalty = torch.where(prompt_mask | output_mask, repetition_penalties.unsqueeze(1), 1.0)
    logits.copy_(torch.where(logits > 0, logits / penalty, logits * penalty))


# -- quantisation: out * scale is about the input


def largest(dtype):
    return (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).max


def quantize(out, input, scale):
    if scale.numel() != 1:
        raise NotImplementedError("several scales")
    put_quantized(out, input, scale)


def put_quantized(out, input, scale):
    scaled = up(input) / scale
    if out.dtype.is_floating_point:
        out.copy_(scaled.clamp(-largest(out.dtype), largest(out.dtype)))
    else:
        out.copy_(scaled.round().clamp(torch.iinfo(out.dtype).min, largest(out.dtype)))


def quantize_whole(out, input, scale):
    scale.copy_(up(input).abs().max() / largest(out.dtype))
    put_quantized(out, input, scale)


def quantize_rows(out, input, scale, scale_ub=None):
    most = up(input).abs().amax(-1, keepdim=True)
    if scale_ub is not None:
        most = most.minimum(scale_ub)
    found = most / largest(out.dtype)
    if out.dtype.is_floating_point:
        found = found.clamp(min=1 / (largest(out.dtype) * 512))
    scale.copy_(found.view(scale.shape))
    put_quantized(out, input, found)


# -- mixtures of experts


def best_experts(topk_weights, topk_indices, token_expert_indices, gating_output, renormalize):
    k = topk_indices.size(-1)
    weights, experts = up(gating_output).softmax(-1).topk(k)
    topk_weights.copy_(weights / weights.sum(-1, keepdim=True) if renormalize else weights)
    topk_indices.copy_(experts)
    rows = topk_indices.size(0)
    token_expert_indices.copy_(torch.arange(rows * k, device="cpu").view(k, rows).T)


def sum_experts(input, out):
    out.copy_(up(input).sum(1))


def align_experts(topk_ids, num_experts, block_size, sorted_token_ids, experts_ids, num_tokens_post_pad, maybe_expert_map=None):
    """Places of `topk_ids` by expert, for each a whole number of blocks; what is left over of these holds the number of places."""
    flat = topk_ids.flatten().long()
    counts = flat.bincount(minlength=num_experts)
    blocks = (counts + block_size - 1) // block_size
    sorted_token_ids.fill_(flat.numel())
    starts = (blocks.cumsum(0) - blocks) * block_size
    for expert in counts.nonzero().flatten().tolist():
        start = int(starts[expert])
        sorted_token_ids[start : start + int(counts[expert])] = (flat == expert).nonzero().flatten().to(sorted_token_ids.dtype)
    owners = torch.arange(num_experts, device="cpu").repeat_interleave(blocks)
    experts_ids.zero_()
    experts_ids[: owners.numel()] = (owners if maybe_expert_map is None else maybe_expert_map[owners]).to(experts_ids.dtype)
    num_tokens_post_pad.fill_(int(blocks.sum()) * block_size)
