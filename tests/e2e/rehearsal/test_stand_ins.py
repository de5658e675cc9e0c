"""Operators that libraries have as machine code only, computed by their published meaning. The libraries are not needed: the operators are
defined here with the same schemas, and a kernel for CUDA that computes nothing, as machine code does on simulated devices."""

import pytest
from conftest import start

HEAD = """
import torch, torch.nn.functional as F
torch.manual_seed(0)
libraries = {}
def operator(schema, made=lambda *args, **kwargs: None):
    namespace, _, rest = schema.partition("::")
    library = libraries.setdefault(namespace, torch.library.Library(namespace, "FRAGMENT"))
    library.define(rest)
    name = rest.partition("(")[0]
    library.impl(name, made, "CUDA")
    return getattr(getattr(torch.ops, namespace), name)
def gpu(*tensors):
    made = [t.cuda() for t in tensors]
    return made[0] if len(made) == 1 else made
def equal(name, a, b, tolerance=1e-5):
    a, b = a.cpu().float(), b.cpu().float()
    assert a.shape == b.shape and torch.allclose(a, b, rtol=tolerance, atol=tolerance), (name, (a - b).abs().max().item())
    print(name)
"""

MODELS = HEAD + """
x, w = torch.randn(5, 16), torch.randn(16)
out = torch.empty(5, 16, device="cuda")
rms_norm = operator("_C::rms_norm(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> ()")
rms_norm(out, *gpu(x, w), 1e-5)
equal("rms_norm", out, F.rms_norm(x, (16,), w, 1e-5))
rms_norm(out, gpu(x), None, 1e-5)
equal("rms_norm_without", out, F.rms_norm(x, (16,), None, 1e-5))
half = gpu(x.bfloat16())
narrow = torch.empty_like(half)
rms_norm(narrow, half, gpu(w.bfloat16()), 1e-5)
equal("rms_norm_bfloat16", narrow, F.rms_norm(x, (16,), w, 1e-5), 4e-2)
add_norm = operator("_C::fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()")
given, residual = gpu(x, y := torch.randn(5, 16))
add_norm(given, residual, gpu(w), 1e-5)
equal("added", residual, x + y)
equal("fused_add_rms_norm", given, F.rms_norm(x + y, (16,), w, 1e-5))

both = torch.randn(5, 32)
a, b = both.chunk(2, -1)
for name, expected in {
    "silu_and_mul": F.silu(a) * b, "mul_and_silu": a * F.silu(b), "gelu_and_mul": F.gelu(a) * b,
    "gelu_tanh_and_mul": F.gelu(a, approximate="tanh") * b,
}.items():
    word = "result" if name == "silu_and_mul" else "out"
    operator(f"_C::{name}(Tensor! {word}, Tensor input) -> ()")(out, gpu(both))
    equal(name, out, expected)
for name, expected in {
    "gelu_new": F.gelu(x, approximate="tanh"), "gelu_fast": F.gelu(x, approximate="tanh"), "gelu_quick": x * torch.sigmoid(1.702 * x),
    "relu_squared": F.relu(x).square(),
}.items():
    operator(f"_C::{name}(Tensor! out, Tensor input) -> ()")(out, gpu(x))
    equal(name, out, expected)
operator("_C::fatrelu_and_mul(Tensor! out, Tensor input, float threshold) -> ()")(out, gpu(both), 0.5)
equal("fatrelu_and_mul", out, F.threshold(a, 0.5, 0.0) * b)
operator("_C::swigluoai_and_mul(Tensor! out, Tensor input, float alpha=1.702, float limit=7.0) -> ()")(out, gpu(both))
equal("swigluoai_and_mul", out, (both[:, 1::2] + 1) * both[:, ::2] * torch.sigmoid(1.702 * both[:, ::2]))

# transformers' formula, beside which the operator is one of two forms
def turned(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin
rotary = operator("_C::rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, bool is_neox, "
                  "int rope_dim_offset=0, bool inverse=False) -> ()")
angles = torch.outer(torch.arange(20.0), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
cache, positions = torch.cat((angles.cos(), angles.sin()), -1), torch.tensor([3, 0, 19, 7, 7])
cos, sin = (torch.cat((t, t), -1)[positions].unsqueeze(1) for t in (angles.cos(), angles.sin()))
q, k = torch.randn(5, 3 * 8), torch.randn(5, 2, 8)
on_q, on_k = gpu(q, k)
rotary(gpu(positions), on_q, on_k, 8, gpu(cache), True)
equal("rotary_query", on_q.view(5, 3, 8), turned(q.view(5, 3, 8), cos, sin))
equal("rotary_key", on_k, turned(k, cos, sin))
rotary(gpu(positions), on_q, on_k, 8, gpu(cache), True, 0, True)
equal("rotary_inverse", on_k, k)
pairs = gpu(k)
rotary(gpu(positions), pairs, None, 8, gpu(cache), False)
order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
equal("rotary_neighbours", pairs[..., order], turned(k[..., order], cos, sin))

logits, prompt, output = torch.randn(2, 9), torch.rand(2, 9) > 0.5, torch.rand(2, 9) > 0.5
on = gpu(logits)
operator("_C::apply_repetition_penalties_(Tensor! logits, Tensor prompt_mask, Tensor output_mask, Tensor repetition_penalties) -> ()")(
    on, *gpu(prompt, output, torch.tensor([1.5, 2.0])))
penalties = torch.tensor([[1.5], [2.0]]).expand(2, 9)
equal("penalties", on, torch.where(prompt | output, torch.where(logits > 0, logits / penalties, logits * penalties), logits))

fp8, scale = torch.empty(5, 16, device="cuda", dtype=torch.float8_e4m3fn), torch.zeros(1, device="cuda")
operator("_C::dynamic_scaled_fp8_quant(Tensor! result, Tensor input, Tensor! scale) -> ()")(fp8, gpu(x), scale)
equal("scale", scale, x.abs().max().view(1) / 448)
equal("fp8", fp8.float() * scale, x, 0.1)
int8, rows = torch.empty(5, 16, device="cuda", dtype=torch.int8), torch.zeros(5, 1, device="cuda")
operator("_C::dynamic_scaled_int8_quant(Tensor! result, Tensor input, Tensor! scale, Tensor!? azp) -> ()")(int8, gpu(x), rows, None)
equal("int8", int8 * rows, x, 0.02)

scores = torch.randn(6, 4)
weights, experts, places = torch.empty(6, 2, device="cuda"), torch.empty(6, 2, device="cuda", dtype=torch.int32), torch.empty(6, 2, device="cuda", dtype=torch.int32)
operator("_moe_C::topk_softmax(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices, Tensor gating_output, bool renormalize, Tensor? bias) -> ()")(
    weights, experts, places, gpu(scores), True, None)
best = scores.softmax(-1).topk(2)
equal("experts", experts, best.indices)
equal("expert_weights", weights, best.values / best.values.sum(-1, keepdim=True))
order, owners, total = (torch.empty(n, device="cuda", dtype=torch.int32) for n in (12 + 4 * 3, 6, 1))
operator("_moe_C::moe_align_block_size(Tensor topk_ids, int num_experts, int block_size, Tensor! sorted_token_ids, Tensor! experts_ids, "
         "Tensor! num_tokens_post_pad, Tensor? maybe_expert_map) -> ()")(experts, 4, 4, order, owners, total, None)
flat = best.indices.flatten()
for i, place in enumerate(order[: total.item()].tolist()):
    assert place == 12 or flat[place] == owners[i // 4], (i, place)
assert sorted(p for p in order.tolist() if p < 12) == list(range(12))
print("aligned")
"""

ATTENTION = HEAD + """
def reference(q, k, v, causal, left=-1):
    q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in (q, k, v))
    rows, columns = q.size(2), k.size(2)
    seen = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows) if causal else torch.ones(rows, columns, dtype=torch.bool)
    if left >= 0:
        seen &= torch.ones_like(seen).triu(columns - rows - left)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)[0].transpose(0, 1)

write = operator("_C_cache_ops::reshape_and_cache_flash(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, "
                 "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()")
lengths, queries, table = [7, 3], [2, 3], torch.tensor([[4, 1], [2, 0]], dtype=torch.int32)
keys, values = [torch.randn(n, 2, 8) for n in lengths], [torch.randn(n, 2, 8) for n in lengths]
caches = torch.zeros(5, 2, 4, 2, 8, device="cuda").unbind(1)
slots = [int(table[i, n // 4]) * 4 + n % 4 for i, length in enumerate(lengths) for n in range(length)]
one = torch.ones(1, device="cuda")
write(*gpu(torch.cat([*keys, torch.ones(1, 2, 8)]), torch.cat([*values, torch.ones(1, 2, 8)])), *caches, torch.tensor([*slots, -1], device="cuda"), "auto", one, one)
equal("written", caches[0][4], keys[0][:4])
assert not caches[0][3].any()

q = torch.randn(sum(queries), 4, 8)
starts, used = torch.tensor([0, 2, 5], dtype=torch.int32, device="cuda"), torch.tensor(lengths, dtype=torch.int32, device="cuda")
def results(count):
    def made(q, k, v, *rest):
        return [torch.empty_like(q), torch.empty(q.size(1), q.size(0), device="cuda"), *[torch.empty(0, device="cuda")] * (count - 2)]
    return made
second = operator(
    "_vllm_fa2_C::varlen_fwd(Tensor! q, Tensor k, Tensor v, Tensor!? out, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? seqused_k, "
    "Tensor? leftpad_k, Tensor? block_table, Tensor? alibi_slopes, int max_seqlen_q, int max_seqlen_k, float p_dropout, float softmax_scale, "
    "bool zero_tensors, bool is_causal, int window_size_left, int window_size_right, float softcap, bool return_softmax, int num_splits, "
    "Generator? gen) -> Tensor[]", results(2))
for causal, left in ((True, -1), (False, -1), (True, 2)):
    expected = torch.cat([reference(part, k, v, causal, left) for part, k, v in zip(q.split(queries), keys, values)])
    out, log_sum = second(gpu(q), *caches, None, starts, starts, used, None, gpu(table), None, 3, 7, 0.0, 8 ** -0.5, False, causal, left, -1, 0.0, False, 0, None)
    equal(f"flash2_{causal}_{left}", out, expected)
scores = torch.einsum("qhd,khd->hqk", q[:2], keys[0].repeat_interleave(2, 1)) * 8 ** -0.5
equal("log_sum", log_sum[:, :2], scores.masked_fill(~(torch.ones(2, 7).tril(5).bool() & torch.ones(2, 7).triu(3).bool()), float("-inf")).logsumexp(-1))
given = torch.empty(5, 4, 8, device="cuda")
third = operator(
    "_vllm_fa3_C::fwd(Tensor! q, Tensor k, Tensor v, Tensor? k_new, Tensor? v_new, Tensor? q_v, Tensor!? out, Tensor? cu_seqlens_q, "
    "Tensor? cu_seqlens_k, Tensor? cu_seqlens_k_new, Tensor? seqused_q, Tensor? seqused_k, int? max_seqlen_q, int? max_seqlen_k, "
    "Tensor? page_table, Tensor? kv_batch_idx, Tensor? leftpad_k, Tensor? rotary_cos, Tensor? rotary_sin, Tensor? seqlens_rotary, "
    "Tensor? q_descale, Tensor? k_descale, Tensor? v_descale, float softmax_scale, bool is_causal, int window_size_left, "
    "int window_size_right, float softcap, bool is_rotary_interleaved, Tensor? scheduler_metadata, int num_splits, bool? pack_gqa, "
    "int sm_margin, Tensor? s_aux, int cp_world_size, int cp_rank, Tensor? cp_tot_seqused_k) -> Tensor[]", results(4))
def fa3(q, k, v, out=None, starts_k=None, used=None, table=None, causal=True, softcap=0.0, sinks=None, new=None):
    scale = torch.ones(2, 2, device="cuda")
    return third(q, k, v, new, new, None, out, starts, starts_k, None, None, used, 3, 7, table, None, None, None, None, None, scale, scale, scale,
                 8 ** -0.5, causal, -1, -1, softcap, True, None, 0, None, 0, sinks, 1, 0, None)
fa3(gpu(q), *caches, given, None, used, gpu(table))
equal("flash3_cache", given, torch.cat([reference(part, k, v, True) for part, k, v in zip(q.split(queries), keys, values)]))
ends = torch.tensor([0, 7, 10], dtype=torch.int32, device="cuda")
equal("flash3_starts", fa3(gpu(q), *gpu(torch.cat(keys), torch.cat(values)), None, ends, causal=False)[0],
      torch.cat([reference(part, k, v, False) for part, k, v in zip(q.split(queries), keys, values)]))
def by_hand(part, k, v, softcap, sinks):
    scores = torch.einsum("qhd,khd->hqk", part, k.repeat_interleave(2, 1)) * 8 ** -0.5
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = torch.cat((scores, sinks.view(4, 1, 1).expand(-1, part.size(0), 1)), -1)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1)[..., :-1], v.repeat_interleave(2, 1))
sinks = torch.randn(4)
equal("softcap_and_sinks", fa3(gpu(q), *gpu(torch.cat(keys), torch.cat(values)), None, ends, causal=False, softcap=2.0, sinks=gpu(sinks))[0],
      torch.cat([by_hand(part, k, v, 2.0, sinks) for part, k, v in zip(q.split(queries), keys, values)]))

parts = [torch.randn(5, 4, 8), torch.randn(5, 4, 8)]
logs = [torch.randn(4, 5), torch.randn(4, 5)]
merged, total = torch.empty(5, 4, 8, device="cuda"), torch.empty(4, 5, device="cuda")
operator("_C::merge_attn_states(Tensor! output, Tensor!? output_lse, Tensor prefix_output, Tensor prefix_lse, Tensor suffix_output, Tensor suffix_lse, "
         "int!? prefill_tokens_with_context, Tensor? output_scale=None) -> ()")(merged, total, *gpu(parts[0], logs[0], parts[1], logs[1]), 3)
share = torch.stack(logs).softmax(0).transpose(1, 2).unsqueeze(-1)
equal("merged", merged, torch.cat(((share[0] * parts[0] + share[1] * parts[1])[:3], parts[1][3:])))
equal("merged_log_sum", total[:, :3], torch.logaddexp(*logs)[:, :3])

split = torch.zeros(5, 2, 2, 4, 4, device="cuda"), torch.zeros(5, 2, 8, 4, device="cuda")
operator("_C_cache_ops::reshape_and_cache(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, str kv_cache_dtype, "
         "Tensor k_scale, Tensor v_scale) -> ()")(*gpu(torch.cat(keys), torch.cat(values)), *split, torch.tensor(slots, device="cuda"), "auto", one, one)
paged = operator("_C::paged_attention_v1(Tensor! out, Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, float scale, Tensor block_tables, "
                 "Tensor seq_lens, int block_size, int max_seq_len, Tensor? alibi_slopes, str kv_cache_dtype, Tensor k_scale, Tensor v_scale, int tp_rank, "
                 "int blocksparse_local_blocks, int blocksparse_vert_stride, int blocksparse_block_size, int blocksparse_head_sliding_step) -> ()")
single = torch.empty(2, 4, 8, device="cuda")
paged(single, gpu(q[:2]), *split, 2, 8 ** -0.5, gpu(table), used, 4, 7, None, "auto", one, one, 0, 0, 1, 64, 0)
equal("paged_attention", single, torch.cat([reference(q[i : i + 1], keys[i], values[i], True) for i in range(2)]))
"""

FLASH = HEAD + """
from torch.library import custom_op
from typing import Optional, Tuple
T, O = torch.Tensor, Optional[torch.Tensor]
Four = Tuple[T, T, T, T]
# As flash-attn registers them; its kernels write nothing here.
def results(q, log_sums):
    return torch.empty_like(q), log_sums, q.new_empty(0), torch.empty(2, dtype=torch.int64, device=q.device)
@custom_op("flash_attn::_flash_attn_forward", mutates_args=(), device_types="cuda")
def forward(q: T, k: T, v: T, dropout_p: float, softmax_scale: float, causal: bool, window_size_left: int, window_size_right: int, softcap: float,
            alibi_slopes: O, return_softmax: bool) -> Four:
    return results(q, torch.empty(q.size(0), q.size(2), q.size(1), device=q.device))
@custom_op("flash_attn::_flash_attn_varlen_forward", mutates_args=(), device_types="cuda")
def varlen_forward(q: T, k: T, v: T, cu_seqlens_q: T, cu_seqlens_k: T, max_seqlen_q: int, max_seqlen_k: int, dropout_p: float, softmax_scale: float,
                   causal: bool, window_size_left: int = -1, window_size_right: int = -1, softcap: float = 0.0, alibi_slopes: O = None,
                   return_softmax: bool = False, block_table: O = None, leftpad_k: O = None, seqused_k: O = None, zero_tensors: bool = False) -> Four:
    return results(q, torch.empty(q.size(1), q.size(0), device=q.device))
@custom_op("flash_attn::_flash_attn_backward", mutates_args=("dq", "dk", "dv"), device_types="cuda")
def backward(dout: T, q: T, k: T, v: T, out: T, softmax_lse: T, dq: O, dk: O, dv: O, dropout_p: float, softmax_scale: float, causal: bool,
             window_size_left: int, window_size_right: int, softcap: float, alibi_slopes: O, deterministic: bool, rng_state: O = None) -> T:
    return torch.empty(1, device=q.device)
@custom_op("flash_attn::_flash_attn_varlen_backward", mutates_args=("dq", "dk", "dv"), device_types="cuda")
def varlen_backward(dout: T, q: T, k: T, v: T, out: T, softmax_lse: T, dq: O, dk: O, dv: O, cu_seqlens_q: T, cu_seqlens_k: T, max_seqlen_q: int,
                    max_seqlen_k: int, dropout_p: float, softmax_scale: float, causal: bool, window_size_left: int, window_size_right: int,
                    softcap: float, alibi_slopes: O, deterministic: bool, rng_state: O = None, zero_tensors: bool = False) -> T:
    return torch.empty(1, device=q.device)

scale = 8 ** -0.5
q, k, v = torch.randn(2, 5, 4, 8), torch.randn(2, 5, 2, 8), torch.randn(2, 5, 2, 8)
leaves = [t.clone().requires_grad_() for t in (q, k, v)]
expected = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in leaves), is_causal=True, enable_gqa=True).transpose(1, 2)
grad = torch.randn_like(expected)
expected.backward(grad)
ops = torch.ops.flash_attn
out, log_sums, _, state = ops._flash_attn_forward(*gpu(q, k, v), 0.0, scale, causal=True, window_size_left=-1, window_size_right=-1, softcap=0.0,
                                                  alibi_slopes=None, return_softmax=False)
equal("forward", out, expected.detach())
made = [torch.empty_like(t) for t in gpu(q, k, v)]
ops._flash_attn_backward(gpu(grad), *gpu(q, k, v), out, log_sums, *made, 0.0, scale, True, -1, -1, 0.0, None, False, rng_state=state)
for name, a, b in zip("qkv", made, leaves):
    equal("gradient of " + name, a, b.grad)
starts = torch.tensor([0, 5, 10], dtype=torch.int32, device="cuda")
flat = [t.flatten(0, 1) for t in (q, k, v)]
out, log_sums, _, state = ops._flash_attn_varlen_forward(*gpu(*flat), starts, starts, 5, 5, 0.0, scale, causal=True)
equal("varlen", out, expected.detach().flatten(0, 1))
made = [torch.empty_like(t) for t in gpu(*flat)]
ops._flash_attn_varlen_backward(gpu(grad.flatten(0, 1)), *gpu(*flat), out, log_sums, *made, starts, starts, 5, 5, 0.0, scale, True, -1, -1, 0.0, None, False,
                                rng_state=state)
for name, a, b in zip("qkv", made, leaves):
    equal("gradient of varlen " + name, a, b.grad.flatten(0, 1))
"""


@pytest.mark.parametrize("program", [MODELS, ATTENTION, FLASH], ids=["models", "attention", "flash_attn"])
def test_they_equal_pytorchs_reference(program, tmp_path):
    outcome = start(program, tmp_path)
    assert outcome.code == 0, outcome.err
    assert "not compute" not in outcome.err and outcome.findings == []


OTHERS = HEAD + """
silu = operator("_C::silu_and_mul(Tensor! out, Tensor input, int turns) -> ()")
paged = operator("_C_cache_ops::reshape_and_cache_flash(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, "
                 "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()")
rms_norm = operator("_C::rms_norm(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> ()")
out = torch.ones(2, 4, device="cuda")
silu(out, torch.ones(2, 8, device="cuda"), 3)
x = torch.ones(1, 1, 8, device="cuda")
paged(x, x, torch.ones(1, 4, 1, 8, device="cuda"), torch.ones(1, 4, 1, 8, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda"), "nvfp4", x, x)
rms_norm(out, torch.ones(2, 8, device="cuda"), None, 1e-5)
out.sum().item()
"""


def test_another_schema_or_form_is_told_and_not_computed(tmp_path):
    outcome = start(OTHERS, tmp_path)
    assert outcome.code == 0, outcome.err
    listed = sorted(line for line in outcome.err.splitlines() if line.startswith("devtrace:   operator"))
    assert len(listed) == 3, outcome.err
    assert "_C::rms_norm" in listed[0] and "_C::silu_and_mul" in listed[1] and "its schema is none of those whose meaning is known" in listed[1]
    assert "a cache of nvfp4" in listed[2]
    assert "the host reads what" in outcome.err
