"""Operators of other libraries that exist as machine code only, computed from PyTorch's own by their published meaning.

To add one: a row of ROWS, (schema, function). An operator is computed if its namespace, name and schema are a row's: another schema of the
same name may mean something else, and is told as not computed. A function gets the arguments by name (SYNONYMS: by the table's word for it),
CUDA tensors as their CPU aliases. `real`: the real kernel's own results, if it asks for them. It returns results as in specials.py.
"""

import inspect

import torch

from . import attention_with_cache as cached
from . import language_models as models

VLLM_ACTIVATIONS = {
    "silu_and_mul": models.silu_and_mul, "mul_and_silu": models.mul_and_silu, "gelu_and_mul": models.gelu_and_mul,
    "gelu_tanh_and_mul": models.gelu_tanh_and_mul, "gelu_new": models.gelu_tanh, "gelu_fast": models.gelu_tanh,
    "gelu_quick": models.gelu_quick, "relu_squared": models.relu_squared,
}  # fmt: skip

# Of vLLM, with the schemas of several releases.
ROWS = (
    *((f"_C::{name}(Tensor! {out}, Tensor input) -> ()", function) for name, function in VLLM_ACTIVATIONS.items() for out in ("out", "result")),
    ("_C::fatrelu_and_mul(Tensor! out, Tensor input, float threshold) -> ()", models.fatrelu_and_mul),
    ("_C::swigluoai_and_mul(Tensor! out, Tensor input, float alpha=1.702, float limit=7.0) -> ()", models.swiglu_interleaved),
    ("_C::silu_and_mul_with_clamp(Tensor! result, Tensor input, float limit, float alpha=1.0, float beta=0.0) -> ()", models.swiglu_clamped),
    ("_C::rms_norm(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> ()", models.rms_norm),
    ("_C::rms_norm(Tensor! result, Tensor input, Tensor weight, float epsilon) -> ()", models.rms_norm),
    ("_C::fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()", models.add_rms_norm),
    ("_C::fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor weight, float epsilon) -> ()", models.add_rms_norm),
    (
        "_C::rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, bool is_neox, "
        "int rope_dim_offset=0, bool inverse=False) -> ()",
        models.rotary,
    ),
    ("_C::rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, bool is_neox) -> ()", models.rotary),
    ("_C::rotary_embedding(Tensor positions, Tensor! query, Tensor! key, int head_size, Tensor cos_sin_cache, bool is_neox) -> ()", models.rotary),
    (
        "_C::apply_repetition_penalties_(Tensor! logits, Tensor prompt_mask, Tensor output_mask, Tensor repetition_penalties) -> ()",
        models.penalize_repetition,
    ),
    ("_C::static_scaled_fp8_quant(Tensor! result, Tensor input, Tensor scale, int[]? group_shape=None) -> ()", models.quantize),
    ("_C::static_scaled_fp8_quant(Tensor! result, Tensor input, Tensor scale) -> ()", models.quantize),
    ("_C::dynamic_scaled_fp8_quant(Tensor! result, Tensor input, Tensor! scale) -> ()", models.quantize_whole),
    ("_C::dynamic_per_token_scaled_fp8_quant(Tensor! result, Tensor input, Tensor! scale, Tensor? scale_ub) -> ()", models.quantize_rows),
    ("_C::static_scaled_int8_quant(Tensor! result, Tensor input, Tensor scale, Tensor? azp) -> ()", models.quantize),
    ("_C::dynamic_scaled_int8_quant(Tensor! result, Tensor input, Tensor! scale, Tensor!? azp) -> ()", models.quantize_rows),
    (
        "_C::merge_attn_states(Tensor! output, Tensor!? output_lse, Tensor prefix_output, Tensor prefix_lse, Tensor suffix_output, "
        "Tensor suffix_lse, int!? prefill_tokens_with_context, Tensor? output_scale=None) -> ()",
        cached.merge,
    ),
    (
        "_C::merge_attn_states(Tensor! output, Tensor!? output_lse, Tensor prefix_output, Tensor prefix_lse, Tensor suffix_output, "
        "Tensor suffix_lse) -> ()",
        cached.merge,
    ),
    (
        "_C_cache_ops::reshape_and_cache(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, "
        "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()",
        cached.write_split,
    ),
    (
        "_C_cache_ops::reshape_and_cache_flash(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, "
        "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()",
        cached.write,
    ),
    (
        "_C_cache_ops::concat_and_cache_mla(Tensor kv_c, Tensor k_pe, Tensor! kv_cache, Tensor slot_mapping, str kv_cache_dtype, "
        "Tensor scale) -> ()",
        cached.write_latent,
    ),
    (
        "_C::paged_attention_v1(Tensor! out, Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, float scale, "
        "Tensor block_tables, Tensor seq_lens, int block_size, int max_seq_len, Tensor? alibi_slopes, str kv_cache_dtype, Tensor k_scale, "
        "Tensor v_scale, int tp_rank, int blocksparse_local_blocks, int blocksparse_vert_stride, int blocksparse_block_size, "
        "int blocksparse_head_sliding_step) -> ()",
        cached.one_query_each,
    ),
    (
        "_C::paged_attention_v2(Tensor! out, Tensor! exp_sums, Tensor! max_logits, Tensor! tmp_out, Tensor query, Tensor key_cache, "
        "Tensor value_cache, int num_kv_heads, float scale, Tensor block_tables, Tensor seq_lens, int block_size, int max_seq_len, "
        "Tensor? alibi_slopes, str kv_cache_dtype, Tensor k_scale, Tensor v_scale, int tp_rank, int blocksparse_local_blocks, "
        "int blocksparse_vert_stride, int blocksparse_block_size, int blocksparse_head_sliding_step) -> ()",
        cached.one_query_each,
    ),
    (
        "_vllm_fa2_C::varlen_fwd(Tensor! q, Tensor k, Tensor v, Tensor!? out, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? seqused_k, "
        "Tensor? leftpad_k, Tensor? block_table, Tensor? alibi_slopes, int max_seqlen_q, int max_seqlen_k, float p_dropout, "
        "float softmax_scale, bool zero_tensors, bool is_causal, int window_size_left, int window_size_right, float softcap, "
        "bool return_softmax, int num_splits, Generator? gen) -> Tensor[]",
        cached.attention,
    ),
    (
        "_vllm_fa2_C::varlen_fwd(Tensor! q, Tensor k, Tensor v, Tensor!? out, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? seqused_k, "
        "Tensor? leftpad_k, Tensor? block_table, Tensor? alibi_slopes, int max_seqlen_q, int max_seqlen_k, float p_dropout, "
        "float softmax_scale, bool zero_tensors, bool is_causal, int window_size_left, int window_size_right, float softcap, "
        "bool return_softmax, Generator? gen) -> Tensor[]",
        cached.attention,
    ),
    (
        "_vllm_fa3_C::fwd(Tensor! q, Tensor k, Tensor v, Tensor? k_new, Tensor? v_new, Tensor? q_v, Tensor!? out, Tensor? cu_seqlens_q, "
        "Tensor? cu_seqlens_k, Tensor? cu_seqlens_k_new, Tensor? seqused_q, Tensor? seqused_k, int? max_seqlen_q, int? max_seqlen_k, "
        "Tensor? page_table, Tensor? kv_batch_idx, Tensor? leftpad_k, Tensor? rotary_cos, Tensor? rotary_sin, Tensor? seqlens_rotary, "
        "Tensor? q_descale, Tensor? k_descale, Tensor? v_descale, float softmax_scale, bool is_causal, int window_size_left, "
        "int window_size_right, float softcap, bool is_rotary_interleaved, Tensor? scheduler_metadata, int num_splits, bool? pack_gqa, "
        "int sm_margin, Tensor? s_aux, int cp_world_size, int cp_rank, Tensor? cp_tot_seqused_k) -> Tensor[]",
        cached.attention,
    ),
    (
        "_vllm_fa3_C::get_scheduler_metadata(int batch_size, int max_seqlen_q, int max_seqlen_k, int num_heads, int num_heads_k, int headdim, "
        "int headdim_v, ScalarType qkv_dtype, Tensor seqused_k, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? cu_seqlens_k_new, "
        "Tensor? seqused_q, Tensor? leftpad_k, int? page_size, int max_seqlen_k_new, bool is_causal, int window_size_left, "
        "int window_size_right, bool has_softcap, int num_splits, bool? pack_gqa, int sm_margin) -> Tensor",
        cached.schedule,
    ),
    (
        "_moe_C::topk_softmax(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices, Tensor gating_output, "
        "bool renormalize, Tensor? bias) -> ()",
        models.best_experts,
    ),
    (
        "_moe_C::topk_softmax(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices, Tensor gating_output, "
        "bool renormalize) -> ()",
        models.best_experts,
    ),
    ("_moe_C::moe_sum(Tensor input, Tensor! output) -> ()", models.sum_experts),
    ("_moe_C::moe_sum(Tensor input, Tensor! output, Tensor? topk_ids=None, Tensor? expert_map=None) -> ()", models.sum_experts),
    (
        "_moe_C::moe_align_block_size(Tensor topk_ids, int num_experts, int block_size, Tensor! sorted_token_ids, Tensor! experts_ids, "
        "Tensor! num_tokens_post_pad, Tensor? maybe_expert_map) -> ()",
        models.align_experts,
    ),
    (
        "_moe_C::moe_align_block_size(Tensor topk_ids, int num_experts, int block_size, Tensor! sorted_token_ids, Tensor! experts_ids, "
        "Tensor! num_tokens_post_pad) -> ()",
        models.align_experts,
    ),
)  # fmt: skip

# Of flash-attn from 2.7 on: what its functions for programs, and their gradients, go through.
_FLASH_RESULTS = "-> (Tensor, Tensor, Tensor, Tensor)"
_FLASH_HOW = "float dropout_p, float softmax_scale, bool causal, SymInt window_size_left, SymInt window_size_right, float softcap, Tensor? alibi_slopes"
_FLASH_STARTS = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, "
_FLASH_DEFAULTS = (
    "float dropout_p, float softmax_scale, bool causal, SymInt window_size_left=-1, SymInt window_size_right=-1, float softcap=0., "
    "Tensor? alibi_slopes=None, bool return_softmax=False, Tensor? block_table=None, Tensor? leftpad_k=None, Tensor? seqused_k=None"
)
_FLASH_GIVEN = "Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor!? dq, Tensor!? dk, Tensor!? dv, "
_FLASH_REST = ", bool deterministic, Tensor? rng_state=None"
ROWS += (
    (f"flash_attn::_flash_attn_forward(Tensor q, Tensor k, Tensor v, {_FLASH_HOW}, bool return_softmax) {_FLASH_RESULTS}", cached.attention),
    *(
        (f"flash_attn::_flash_attn_varlen_forward(Tensor q, Tensor k, Tensor v, {_FLASH_STARTS}{_FLASH_DEFAULTS}{zeros}) {_FLASH_RESULTS}", cached.attention)
        for zeros in ("", ", bool zero_tensors=False")
    ),
    (f"flash_attn::_flash_attn_backward({_FLASH_GIVEN}{_FLASH_HOW}{_FLASH_REST}) -> Tensor", cached.attention_gradients),
    *(
        (f"flash_attn::_flash_attn_varlen_backward({_FLASH_GIVEN}{_FLASH_STARTS}{_FLASH_HOW}{_FLASH_REST}{zeros}) -> Tensor", cached.attention_gradients)
        for zeros in ("", ", bool zero_tensors=False")
    ),
)

# What libraries call the same thing.
SYNONYMS = {
    "result": "out", "output": "out", "epsilon": "eps", "query": "q", "softmax_scale": "scale", "block_tables": "block_table",
    "page_table": "block_table", "seq_lens": "seqused_k", "p_dropout": "dropout_p",
    "causal": "is_causal",
}  # fmt: skip
# How a kernel goes about it, or where it keeps what it needs meanwhile: no result depends on these.
NO_MATTER = {
    "zero_tensors", "num_splits", "scheduler_metadata", "pack_gqa", "sm_margin", "max_seqlen_q", "max_seqlen_k", "max_seq_len",
    "is_rotary_interleaved", "block_size", "num_kv_heads", "exp_sums", "max_logits", "tmp_out", "tp_rank", "blocksparse_local_blocks",
    "blocksparse_block_size", "blocksparse_head_sliding_step", "cp_rank", "gen", "deterministic", "rng_state", "softmax_lse",
}  # fmt: skip
# An argument that a function does not know has to have one of these values, or the operator is not computed.
ABSENT = (None, False, 0)
# ... but for those that have another one when they are not asked for.
NOT_ASKED = {"cp_world_size": 1, "blocksparse_vert_stride": 1}


def signature(schema):
    arguments = [(a.name, str(a.type), a.alias_info is not None and a.alias_info.is_write, a.kwarg_only) for a in schema.arguments]
    return arguments, [str(r.type) for r in schema.returns]


def _known():
    known = {}
    for schema, function in ROWS:
        parsed = torch._C.parse_schema(schema)
        known.setdefault(parsed.name, []).append((signature(parsed), function))
    return known


KNOWN = _known()


def of(name, schema):
    """What computes the operator, None: nobody."""
    rows = KNOWN.get(name)
    if rows is None:
        return None
    own = signature(schema)
    function = next((function for row, function in rows if row == own), None)
    return Call(schema, function) if function else _of_another_meaning


def _of_another_meaning(*args, **kwargs):
    raise NotImplementedError("its schema is none of those whose meaning is known")


class Call:
    def __init__(self, schema, function):
        self.names = [a.name for a in schema.arguments]
        self.defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        self.function = function
        parameters = inspect.signature(function).parameters
        self.takes = set(parameters)
        self.takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def __call__(self, context, *args, **kwargs):
        given = {**self.defaults, **dict(zip(self.names, args)), **kwargs}
        named = {SYNONYMS.get(name, name): value for name, value in given.items()}
        for name, value in list(named.items()):
            if name in self.takes or self.takes_all:
                continue
            absent = NOT_ASKED.get(name)
            if name not in NO_MATTER and (isinstance(value, torch.Tensor) or (value != absent if name in NOT_ASKED else value not in ABSENT)):
                raise NotImplementedError(f"with {name} its meaning is not known")
            del named[name]
        if "real" in self.takes:
            named["real"] = context.real
        try:
            return self.function(**named)
        except (RuntimeError, IndexError, TypeError, AssertionError) as error:  # not the program's: the real kernel took these arguments
            raise NotImplementedError(str(error)) from error
