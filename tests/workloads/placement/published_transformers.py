"""Runs of Transformers' models whose peaks its own documentation has, by their shapes.

usage: published_transformers.py octocoder | bert [--batch N] [--accumulate N] [--checkpoint] [--half] [--adafactor]; one line of JSON comes out, in bytes.
"""

import argparse
import json
from contextlib import nullcontext

import torch
from transformers import Adafactor, AutoModelForCausalLM, AutoModelForSequenceClassification, BertConfig, GPTBigCodeConfig

# bert-large-uncased's and bigcode/octocoder's shapes.
BERT = BertConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, attn_implementation="eager")
OCTOCODER = GPTBigCodeConfig(
    vocab_size=49152, n_positions=8192, n_embd=6144, n_layer=40, n_head=48, n_inner=24576, pad_token_id=0, attn_implementation="eager"
)  # fmt: skip


def octocoder():
    """Sixty tokens after a prompt of twenty."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(OCTOCODER, dtype=torch.bfloat16).eval()
    model.lm_head.weight = None
    model.to_empty(device="cuda")
    model.lm_head.weight = model.transformer.wte.weight  # it is one tensor, and never was two
    prompt = torch.arange(10, 30, device="cuda")[None]
    model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=60, min_new_tokens=60, do_sample=False)


class Softmax(torch.autograd.Function):
    """As it was up to PyTorch 1.10: its input is kept for the backward pass, too (pytorch/pytorch#64000)."""

    @staticmethod
    def forward(ctx, x, dim):
        result = torch.softmax(x, dim)
        ctx.save_for_backward(x, result)
        ctx.dim = dim
        return result

    @staticmethod
    def backward(ctx, grad):
        x, result = ctx.saved_tensors
        return torch._softmax_backward_data(grad, result, ctx.dim, x.dtype), None


def bert(options):
    """Steps as Trainer took them in 2022: gradients are set to zero and stay, AdamW goes from parameter to parameter, checkpoints are reentrant."""
    torch.nn.functional.softmax = lambda x, dim: Softmax.apply(x.float(), dim)
    model = AutoModelForSequenceClassification.from_config(BERT).to("cuda").train()
    if options.checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": True})
    optimizer = Adafactor(model.parameters(), lr=5e-5, scale_parameter=False, relative_step=False) if options.adafactor else torch.optim.AdamW(model.parameters(), lr=5e-5, foreach=False)
    scaler = torch.amp.GradScaler("cuda", enabled=options.half)
    for _ in range(3):
        for _ in range(options.accumulate):
            batch = {"input_ids": torch.randint(100, 30000, (options.batch, 512)), "labels": torch.zeros(options.batch, dtype=torch.long)}
            batch = {name: each.to("cuda") for name, each in batch.items()}
            with torch.autocast("cuda", torch.float16) if options.half else nullcontext():
                loss = model(**batch).loss
            scaler.scale(loss / options.accumulate).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad(set_to_none=False)


parser = argparse.ArgumentParser()
parser.add_argument("model", choices=["octocoder", "bert"])
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--accumulate", type=int, default=1)
for flag in ("checkpoint", "half", "adafactor"):
    parser.add_argument(f"--{flag}", action="store_true")
options = parser.parse_args()
error = None
try:
    octocoder() if options.model == "octocoder" else bert(options)
except torch.OutOfMemoryError as full:
    error = str(full)
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "error": error}))
