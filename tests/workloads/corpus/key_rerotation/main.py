# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:1","cuda:0"],"operands":["delta_pos","inv_freq"],"category":"module split|cached state","line":["press.py: inv_freq = module.rotary_emb.inv_freq","press.py: layer.self_attn.rotary_emb = model.model.rotary_emb","press.py: freqs = delta_pos"],"error":"on the same device","thread":"https://github.com/NVIDIA/kvpress/issues/240","hard":"a forward hook works on the cache; every layer was given the one rotary embedding, which the device map put with the first"}
# FIX press.py: inv_freq = module.rotary_emb.inv_freq -> inv_freq = module.rotary_emb.inv_freq.to(keys.device)
import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM

from press import SmallNormPress

config = LlamaConfig(
    vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2,
    max_position_embeddings=64, attn_implementation="eager",
)
device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
device_map.update({f"model.layers.{i}": i // 2 for i in range(config.num_hidden_layers)})


@torch.no_grad()
def answer(model, context, question, press):
    with press(model):
        cache = model(input_ids=context, use_cache=True).past_key_values
    # What is left of the context stands at the first positions.
    kept = cache.get_seq_length()
    positions = torch.arange(kept, kept + question.shape[1], device=question.device)[None]
    logits = model(input_ids=question, past_key_values=cache, position_ids=positions).logits
    return kept, logits[:, -1]


torch.manual_seed(0)
model = dispatch_model(LlamaForCausalLM(config).eval(), device_map)
context = torch.randint(0, 64, (1, 12)).to("cuda:0")
kept, logits = answer(model, context, context[:, :3], SmallNormPress(compression_ratio=0.5))
print("kept", kept, "next", round(logits.abs().sum().item(), 3))
