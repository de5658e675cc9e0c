"""A language model by its shapes alone, its layers dealt out to all devices in their order, and some tokens of it.

usage: by_shape.py MODEL [--tokens N] [--layers N] [--sample]; one line of JSON comes out. On a device that is full it says after which layer.
"""

import argparse
import json
import resource
import time

import torch
from accelerate import dispatch_model, init_empty_weights
from transformers import AutoModelForCausalLM, LlamaConfig, MixtralConfig

SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False, "max_position_embeddings": 8192}
MODELS = {
    "llama-70b": LlamaConfig(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8, vocab_size=128256, **SPECIAL
    ),
    "llama-405b": LlamaConfig(
        hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128, num_key_value_heads=8, vocab_size=128256, **SPECIAL
    ),
    "mixtral-8x7b": MixtralConfig(**SPECIAL),  # whose defaults are its shapes
    "tiny": LlamaConfig(
        hidden_size=64, intermediate_size=172, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=1000, **SPECIAL
    ),
}  # fmt: skip


def materialize(module, device):
    """Parameters on the meta device, here, with values by which nothing overflows."""
    for owner in module.modules():
        for name, parameter in [each for each in owner._parameters.items() if each[1] is not None]:
            made = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
            owner._parameters[name] = torch.nn.Parameter(torch.nn.init.normal_(made, std=0.02), requires_grad=False)
    module.to(device)


parser = argparse.ArgumentParser()
parser.add_argument("model", choices=MODELS)
parser.add_argument("--tokens", type=int, default=3)
parser.add_argument("--layers", type=int)
parser.add_argument("--sample", action="store_true")
options = parser.parse_args()
begun = time.time()
config = MODELS[options.model]
if options.layers:
    config.num_hidden_layers = options.layers
with init_empty_weights(include_buffers=False):
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
devices, layers = torch.cuda.device_count(), config.num_hidden_layers
places = {"model.embed_tokens": 0, "model.rotary_emb": 0}
places |= {f"model.layers.{i}": i * devices // layers for i in range(layers)}
places |= {"model.norm": devices - 1, "lm_head": devices - 1}
placed = 0
for name, place in places.items():
    try:
        materialize(model.get_submodule(name), f"cuda:{place}")
    except torch.OutOfMemoryError as error:
        print(json.dumps({"layers": placed, "error": str(error)}))
        raise SystemExit(3) from None
    placed += name.startswith("model.layers.")
model = dispatch_model(model, places)
prompt = torch.arange(10, 26, device="cuda:0")[None]
tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=options.tokens, do_sample=options.sample)
print(json.dumps({
    "tokens": tokens[0, prompt.shape[1] :].tolist(),
    "allocated": [torch.cuda.max_memory_allocated(i) for i in range(devices)],
    "host_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    "seconds": round(time.time() - begun, 1),
}))  # fmt: skip
