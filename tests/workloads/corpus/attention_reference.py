# EXPECT {"kind":"refused-op","operation":"masked_fill","devices":["cuda:0","cpu"],"operands":["attn_bias|bias|self","mask|temp_mask|logical_not"],"category":"created without device","line":["temp_mask = torch.ones("],"error":"expected self and mask to be on the same device, but got mask on cpu and self on cuda:0","thread":"https://github.com/InfiniTensor/llaisys/pull/11"}
# FIX temp_mask = torch.ones(L, S, dtype=torch.bool).tril(diagonal=S - L) -> temp_mask = torch.ones(L, S, dtype=torch.bool, device=query.device).tril(diagonal=S - L)
import torch


def self_attention(query, key, value, scale):
    """The plain way, to compare the fast ones with. [seq, heads, dim]"""
    query, key, value = (t.transpose(-2, -3) for t in (query, key, value))
    L, S = query.size(-2), key.size(-2)
    attn_bias = torch.zeros(L, S, dtype=query.dtype, device=query.device)

    temp_mask = torch.ones(L, S, dtype=torch.bool).tril(diagonal=S - L)
    attn_bias.masked_fill_(temp_mask.logical_not(), float("-inf"))

    groups = query.size(-3) // key.size(-3)
    key = key.repeat_interleave(groups, -3)
    value = value.repeat_interleave(groups, -3)
    attn_weight = query @ key.transpose(-2, -1) * scale + attn_bias
    return (torch.softmax(attn_weight, dim=-1) @ value).transpose(-2, -3)


def test_op(qlen, kvlen, nh, nkvh, hd, device):
    gen = torch.Generator().manual_seed(qlen)
    q = torch.rand(qlen, nh, hd, generator=gen).to(device)
    k = torch.rand(kvlen, nkvh, hd, generator=gen).to(device)
    v = torch.rand(kvlen, nkvh, hd, generator=gen).to(device)
    out = self_attention(q, k, v, scale=hd**-0.5)
    first = v[: kvlen - qlen + 1, 0].mean(dim=0)
    return out.shape, bool((out[0, 0] - first).abs().max() < 0.2)


if __name__ == "__main__":
    for shape in [(2, 2, 1, 1, 4), (5, 11, 4, 2, 8)]:
        print("self attention", *shape, test_op(*shape, device="cuda"))
