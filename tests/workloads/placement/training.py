"""Steps of training of a language model by its shapes: under FSDP2, under DDP or on one device.

usage: training.py MODEL [--way fsdp2|ddp|alone] [--layers N] [--batch N] [--context N] [--steps N]; each rank prints one line of JSON. torchrun starts several.
"""

import argparse
import json
import os
import resource
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, LlamaConfig

SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False, "use_cache": False}
MODELS = {
    "llama-7b": LlamaConfig(**SPECIAL),  # whose defaults are its shapes
    "tiny": LlamaConfig(hidden_size=64, intermediate_size=172, num_hidden_layers=4, num_attention_heads=4, vocab_size=1000, **SPECIAL),
}

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=MODELS)
parser.add_argument("--way", choices=["fsdp2", "ddp", "alone"], default="fsdp2")
parser.add_argument("--layers", type=int)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--context", type=int, default=2048)
parser.add_argument("--steps", type=int, default=2)
options = parser.parse_args()
begun = time.time()
rank, local = int(os.environ.get("RANK", 0)), int(os.environ.get("LOCAL_RANK", 0))
device = torch.device("cuda", local)
torch.cuda.set_device(device)
if options.way != "alone":
    dist.init_process_group("nccl")
config = MODELS[options.model]
if options.layers:
    config.num_hidden_layers = options.layers
with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).train()
model.gradient_checkpointing_enable()
if options.way == "fsdp2":
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
peaks = {}


def phase(name):
    """The peak of what has been done since the last one."""
    torch.cuda.synchronize()
    peaks[name] = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()


error = None
try:
    model.to_empty(device=device)
    model.model.rotary_emb = type(model.model.rotary_emb)(config).to(device)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    phase("weights")
    wrapped = DistributedDataParallel(model, device_ids=[local]) if options.way == "ddp" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(options.steps):  # the last one's peaks are told
        tokens = torch.randint(config.vocab_size, (options.batch, options.context), device=device)
        loss = wrapped(input_ids=tokens, labels=tokens).loss
        phase("forward")
        loss.backward()
        phase("backward")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        phase("update")
except torch.OutOfMemoryError as full:
    error = str(full)
line = json.dumps({
    "rank": rank, "peaks": peaks, "error": error,
    "host_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    "seconds": round(time.time() - begun, 1),
})  # fmt: skip
os.write(1, f"{line}\n".encode())  # at once: others write there, too
if error:
    raise SystemExit(3)
if options.way != "alone":
    dist.destroy_process_group()
