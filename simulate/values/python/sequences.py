"""Attention over [batch, length, head, width], or over sequences of different lengths one behind the other: [length, head, width].

What nested tensors' attention, varlen_attn and libraries beside PyTorch call. Rows go into SPECIALS, see specials.py.
"""

import torch

from .specials import SPECIALS, attention, attention_backward, drawn_seed, left_seed, padded, special

__all__ = ["SPECIALS"]
CAUSAL_FROM_START, CAUSAL_FROM_END = 1, 2  # of the memory-efficient kernels' mask_type


def visible(rows, columns, right, left=None, from_end=False):
    """Which keys a query sees: those from `left` before it to `right` after it, None: without a limit. None: all of them.

    `from_end`: the last query stands at the last key, else the first at the first.
    """
    if right is None and left is None:
        return None
    distance = torch.arange(columns, device="cpu") - torch.arange(rows, device="cpu").unsqueeze(1) - (columns - rows if from_end else 0)
    seen = torch.ones(rows, columns, dtype=torch.bool, device="cpu")
    if right is not None:
        seen &= distance <= right
    if left is not None:
        seen &= distance >= -left
    return seen


class Parts:
    """The calls of plain attention that one call of these kernels stands for."""

    def __init__(self, query, key, starts_q, starts_k, sees):
        self.batched = starts_q is None
        self.sees = sees
        starts = [starts_q, starts_k if starts_k is not None else starts_q]
        self.starts = None if self.batched else [each.tolist() for each in starts]
        self.count = 1 if self.batched else len(self.starts[0]) - 1
        self.lengths = query.size(-3), key.size(-3)

    def ranges(self, i):
        """(queries, keys) of the part."""
        if self.batched:
            return tuple(slice(0, n) for n in self.lengths)
        return tuple(slice(s[i], s[i + 1]) for s in self.starts)

    def mask(self, i):
        return self.sees(*(r.stop - r.start for r in self.ranges(i)))

    def cut(self, tensor, i, keys=False):
        """[batch, head, length, width] of the part."""
        if self.batched:
            return tensor.transpose(1, 2)
        return tensor.reshape(-1, *tensor.shape[-2:])[self.ranges(i)[keys]].transpose(0, 1).unsqueeze(0)

    def put(self, into, value, i, keys=False):
        if self.batched:
            into.copy_(value.transpose(1, 2))
        else:
            into.view(-1, *into.shape[-2:])[self.ranges(i)[keys]] = value.squeeze(0).transpose(0, 1).to(into.dtype)


def with_mask(bias, seen):
    if bias is None or seen is None:
        return seen if bias is None else bias
    return bias.masked_fill(~seen, float("-inf"))


def forward(parts, query, key, value, bias, dropout_p, scale, seed):
    """The output, and for each part the logarithm of its softmax's denominator: [batch, head, length]."""
    out, log_sums = torch.zeros(*query.shape[:-1], value.size(-1), dtype=query.dtype, device="cpu"), []
    for i in range(parts.count):
        q, k, v = parts.cut(query, i), parts.cut(key, i, True), parts.cut(value, i, True)
        given, log_sum = attention(q, k, v, with_mask(bias, parts.mask(i)), dropout_p, False, scale, seed + i)
        parts.put(out, given, i)
        log_sums.append(log_sum)
    return out, log_sums


def backward(parts, grad, query, key, value, bias, dropout_p, scale, seed):
    """Gradients of query, key and value, and that of the scores of the last part."""
    grads = [torch.zeros(t.shape, dtype=t.dtype, device="cpu") for t in (query, key, value)]
    scores = None
    for i in range(parts.count):
        q, k, v = parts.cut(query, i), parts.cut(key, i, True), parts.cut(value, i, True)
        *three, scores = attention_backward(
            parts.cut(grad, i), q, k, v, with_mask(bias, parts.mask(i)), dropout_p, False, scale, seed + i
        )  # fmt: skip
        for into, made, keys in zip(grads, three, (False, True, True)):
            parts.put(into, made, i, keys)
    return grads, scores


# -- the memory-efficient kernels


def efficient_parts(query, key, bias, starts_q, starts_k, mask_type, seqlen_k, window_size):
    if seqlen_k is not None or window_size is not None or (starts_q is not None and bias is not None):
        raise NotImplementedError("windows, lengths beside starts, or a bias of sequences of different lengths")
    right = 0 if mask_type in (CAUSAL_FROM_START, CAUSAL_FROM_END) else None
    return Parts(query, key, starts_q, starts_k, lambda rows, columns: visible(rows, columns, right, from_end=mask_type == CAUSAL_FROM_END))


@special("_efficient_attention_forward")
def efficient_forward(
    context, query, key, value, bias, starts_q, starts_k, max_q, max_k, dropout_p, mask_type, compute_log_sumexp=False, *, scale=None,
    seqlen_k=None, window_size=None,
):  # fmt: skip
    parts = efficient_parts(query, key, bias, starts_q, starts_k, mask_type, seqlen_k, window_size)
    seed = drawn_seed(context, dropout_p, context.real[2])
    out, log_sums = forward(parts, query, key, value, bias, dropout_p, scale, seed)
    like = context.real[1]
    made = padded(log_sums[0], like)
    if not parts.batched and made is not None:
        made = torch.stack([padded(each[0], like[i]) for i, each in enumerate(log_sums)])
    return out, made, *[None] * (len(context.real) - 2)


@special("_efficient_attention_backward")
def efficient_backward(
    context, grad, query, key, value, bias, out, starts_q, starts_k, max_q, max_k, log_sum, dropout_p, seed, offset, mask_type,
    bias_requires_grad, *, scale=None, num_splits_key=None, window_size=None, shared_storage_dqdkdv=False,
):  # fmt: skip
    parts = efficient_parts(query, key, bias, starts_q, starts_k, mask_type, None, window_size)
    grads, scores = backward(parts, grad, query, key, value, bias, dropout_p, scale, left_seed(seed))
    return *grads, scores.sum_to_size(bias.shape) if bias is not None and bias_requires_grad else None


# -- the flash kernels


def flash_parts(query, key, starts_q, starts_k, is_causal, left, right):
    left, right = (None if n is None or n < 0 else n for n in (left, right))
    if is_causal:
        right = 0
    return Parts(query, key, starts_q, starts_k, lambda rows, columns: visible(rows, columns, right, left, from_end=True))


@special("_flash_attention_forward")
def flash_forward(
    context, query, key, value, starts_q, starts_k, max_q, max_k, dropout_p, is_causal, return_debug_mask, *, scale=None, window_size_left=None,
    window_size_right=None, seqused_k=None, alibi_slopes=None, **others,
):  # fmt: skip
    if seqused_k is not None or alibi_slopes is not None:
        raise NotImplementedError("lengths beside starts, or slopes")
    parts = flash_parts(query, key, starts_q, starts_k, is_causal, window_size_left, window_size_right)
    seed = drawn_seed(context, dropout_p, context.real[2])
    out, log_sums = forward(parts, query, key, value, None, dropout_p, scale, seed)
    like = context.real[1]
    if not parts.batched and like.dim() == 3:  # up to 2.4 by sequence
        made = torch.stack([padded(each[0], like[i]) for i, each in enumerate(log_sums)])
    else:
        made = padded(log_sums[0] if parts.batched else torch.cat(log_sums, -1)[0], like)
    return out, made, *[None] * (len(context.real) - 2)


@special("_flash_attention_backward")
def flash_backward(
    context, grad, query, key, value, out, log_sum, starts_q, starts_k, max_q, max_k, dropout_p, is_causal, seed, offset, *, scale=None,
    window_size_left=None, window_size_right=None,
):  # fmt: skip
    parts = flash_parts(query, key, starts_q, starts_k, is_causal, window_size_left, window_size_right)
    return tuple(backward(parts, grad, query, key, value, None, dropout_p, scale, left_seed(seed))[0])
