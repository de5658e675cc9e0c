"""Attention over a cache that lies in blocks, and writing into one; rows of stand_ins.py.

A slot is a place in the cache: block times the block's size, and the place in it. A negative one is nowhere.
"""

import torch

from .sequences import backward, flash_parts, visible
from .specials import up

FP8 = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def stored(values, kv_cache_dtype, scale, cache):
    """As the cache keeps them."""
    if kv_cache_dtype == "auto":
        return values.to(cache.dtype)
    if kv_cache_dtype not in FP8:
        raise NotImplementedError(f"a cache of {kv_cache_dtype}")
    dtype = FP8[kv_cache_dtype]
    most = torch.finfo(dtype).max
    return (up(values) / scale).clamp(-most, most).to(dtype).view(cache.dtype)


def places(slot_mapping, block_size):
    """(which tokens are kept, their blocks, their places there)"""
    kept = (slot_mapping >= 0).nonzero().flatten()
    slots = slot_mapping[kept].long()
    return kept, slots // block_size, slots % block_size


def write(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale, v_scale):
    """Caches of [block, place, head, width]."""
    kept, block, place = places(slot_mapping, key_cache.size(1))
    for values, cache, scale in ((key, key_cache, k_scale), (value, value_cache, v_scale)):
        cache[block, place] = stored(values[kept], kv_cache_dtype, scale, cache)


def write_split(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale, v_scale):
    """Caches of [block, head, width / x, place, x] and [block, head, width, place]."""
    kept, block, place = places(slot_mapping, value_cache.size(3))
    keys = stored(key[kept], kv_cache_dtype, k_scale, key_cache)
    key_cache[block, :, :, place] = keys.unflatten(-1, (-1, key_cache.size(-1)))
    value_cache[block, :, :, place] = stored(value[kept], kv_cache_dtype, v_scale, value_cache)


def write_latent(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale):
    """A cache of [block, place, both widths]."""
    kept, block, place = places(slot_mapping, kv_cache.size(1))
    both = torch.cat((kv_c[kept], k_pe[kept].reshape(len(kept), -1)), -1)
    kv_cache[block, place] = stored(both, kv_cache_dtype, scale, kv_cache)


def one(q, k, v, seen, scale, softcap, slopes, sinks):
    """Of one sequence, [length, head, width]: the output and the logarithm of the softmax's denominator, [head, length]."""
    groups = q.size(1) // k.size(1)
    q, k, v = (each.transpose(0, 1) for each in (q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)))
    scores = q @ k.transpose(1, 2) * scale
    if softcap:
        scores = softcap * (scores / softcap).tanh()
    if slopes is not None:
        rows, columns = scores.shape[1:]
        distance = torch.arange(columns, device="cpu") - torch.arange(rows, device="cpu").unsqueeze(1) - (columns - rows)
        scores = scores - up(slopes).view(-1, 1, 1) * distance.abs()
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    parts = scores if sinks is None else torch.cat((scores, up(sinks).view(-1, 1, 1).expand(-1, scores.size(1), 1)), -1)
    log_sum = parts.logsumexp(-1)
    weights = (scores - log_sum.unsqueeze(-1)).exp().nan_to_num(0.0)  # a row with every key hidden
    return (weights @ v).transpose(0, 1), log_sum


def scaled(values, scale, i, heads):
    """8-bit floating point as what it stands for; others have no scale."""
    if values.element_size() > 1 or scale is None:
        return up(values) if values.element_size() > 1 else values.float()
    each = scale.expand(-1, heads)[i] if scale.dim() == 2 else scale.reshape(-1)[:1]
    return values.float() * each.view(-1, 1)


def attention(
    real, q, k, v, scale, is_causal, out=None, window_size_left=-1, window_size_right=-1, softcap=0.0, cu_seqlens_q=None, cu_seqlens_k=None,
    seqused_q=None, seqused_k=None, block_table=None, alibi_slopes=None, s_aux=None, q_descale=None, k_descale=None, v_descale=None,
):  # fmt: skip
    """Sequences one behind the other (cu_seqlens_…), in blocks of a cache (block_table), or in one tensor; the last query stands at the last key."""
    starts_q, starts_k, used_q, used_k = (None if t is None else t.tolist() for t in (cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k))
    if block_table is not None:
        starts_k = None  # what is given beside it is not looked at
    made = torch.zeros(*q.shape[:-1], v.size(-1), dtype=real[0].dtype, device="cpu")
    log_sums = torch.zeros(real[1].shape, dtype=torch.float32, device="cpu")
    right = 0 if is_causal else window_size_right
    left, right = (None if n < 0 else n for n in (window_size_left, right))
    for i in range(len(starts_q) - 1 if starts_q else q.size(0)):
        queries = slice(starts_q[i], starts_q[i + 1]) if starts_q else slice(0, q.size(1))
        if used_q:
            queries = slice(queries.start, queries.start + used_q[i])
        keys, values = (of_sequence(t, i, starts_k, used_k, block_table) for t in (k, v))
        own = (q if starts_q else q[i])[queries]
        seen = visible(own.size(0), keys.size(0), right, left, from_end=True)
        slopes = alibi_slopes[i] if alibi_slopes is not None and alibi_slopes.dim() == 2 else alibi_slopes
        heads = k.size(-2)
        read = scaled(own, q_descale_of(q_descale, own, heads), i, own.size(1)), scaled(keys, k_descale, i, heads), scaled(values, v_descale, i, heads)
        value, log_sum = one(*read, seen, scale, softcap, slopes, s_aux)
        (made if starts_q else made[i])[queries] = value.to(made.dtype)
        (log_sums if starts_q else log_sums[i])[:, queries] = log_sum
    if out is not None:
        out.copy_(made)
    return made, log_sums, *[None] * (len(real) - 2)


def attention_gradients(
    dout, q, k, v, dq, dk, dv, scale, is_causal, window_size_left=-1, window_size_right=-1, cu_seqlens_q=None, cu_seqlens_k=None, out=None
):  # fmt: skip
    """Into dq, dk and dv; what the kernels return besides is only theirs."""
    groups = q.size(-2) // k.size(-2)
    keys, values = (up(t).repeat_interleave(groups, -2) for t in (k, v))
    parts = flash_parts(q, keys, cu_seqlens_q, cu_seqlens_k, is_causal, window_size_left, window_size_right)
    grads, _ = backward(parts, up(dout), up(q), keys, values, None, 0.0, scale, 0)
    dq.copy_(grads[0])
    for into, grad in ((dk, grads[1]), (dv, grads[2])):
        into.copy_(grad.unflatten(-2, (-1, groups)).sum(-2))
    return None


def q_descale_of(descale, q, heads):
    """One for all queries' heads that share a key's."""
    return descale.repeat_interleave(q.size(1) // heads, -1) if descale is not None and descale.dim() == 2 and descale.size(-1) == heads else descale


def of_sequence(values, i, starts, used, block_table):
    """Keys or values of one, [length, head, width]."""
    if block_table is not None:
        length = used[i]
        count = -(-length // values.size(1))
        return values[block_table[i, :count].long()].flatten(0, 1)[:length]
    rows = values[starts[i] : starts[i + 1]] if starts else values[i]
    return rows[: used[i]] if used else rows


def one_query_each(out, q, key_cache, value_cache, scale, block_table, seqused_k, alibi_slopes, kv_cache_dtype, k_scale, v_scale):
    """One query of each sequence, over caches as write_split() fills them."""
    if kv_cache_dtype != "auto":
        raise NotImplementedError(f"a cache of {kv_cache_dtype}")
    keys = key_cache.transpose(3, 4).flatten(2, 3).permute(0, 3, 1, 2)
    values = value_cache.permute(0, 3, 1, 2)
    used = seqused_k.tolist()
    for i in range(q.size(0)):
        k, v = (up(of_sequence(cache, i, None, used, block_table)) for cache in (keys, values))
        out[i] = one(up(q[i : i + 1]), k, v, None, scale, 0, alibi_slopes, None)[0][0].to(out.dtype)


def schedule(**plan):
    """A kernel's plan for another one, which is computed without it: the real one's stays as it is."""
    return None


def merge(out, output_lse, prefix_output, prefix_lse, suffix_output, suffix_lse, prefill_tokens_with_context=None):
    """Of attention over two parts of the keys, [token, head, width], that over both; the logarithms of the denominators are [head, token]."""
    logs = [torch.where(lse == float("inf"), float("-inf"), lse) for lse in (prefix_lse, suffix_lse)]
    if prefill_tokens_with_context is not None:
        logs[0] = logs[0].clone()
        logs[0][:, prefill_tokens_with_context:] = float("-inf")
    total = torch.logaddexp(*logs)
    shares = [(lse - total).exp().nan_to_num(0.0).T.unsqueeze(-1) for lse in logs]
    parts = [torch.where(share > 0, up(part) * share, 0.0) for part, share in zip((prefix_output, suffix_output), shares)]
    out.copy_(parts[0] + parts[1])
    if output_lse is not None:
        output_lse.copy_(total)
