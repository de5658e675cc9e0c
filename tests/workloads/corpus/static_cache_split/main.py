# EXPECT {"kind":"refused-op","operation":"index_copy","devices":["cuda:0","cuda:1"],"operands":["keys|self","key_states|cache_position|index|source"],"category":"cached state|module split|created without device","line":["main.py: cache = StaticCache(","cache.py: where = (layer_devices or {}).get(","cache.py: keys.index_copy_("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/issues/32624","hard":"the cache of all layers was made on the first layers' device before anything ran"}
# FIX main.py: cache = StaticCache(len(model.layers), (1, 2, 16, 4), device=ids.device) -> cache = StaticCache(len(model.layers), (1, 2, 16, 4), device=ids.device, layer_devices={2: "cuda:1", 3: "cuda:1"})
import torch
from accelerate import dispatch_model

from cache import StaticCache
from model import TinyDecoder


@torch.no_grad()
def generate(model, ids, max_new_tokens):
    cache = StaticCache(len(model.layers), (1, 2, 16, 4), device=ids.device)
    position = torch.arange(ids.shape[1], device=ids.device)
    step = ids
    for _ in range(max_new_tokens):
        logits = model(step, past_key_values=cache, cache_position=position)
        step = logits[:, -1:].argmax(-1)
        ids = torch.cat((ids, step.to(ids.device)), dim=1)
        position = position[-1:] + 1
    return ids


torch.manual_seed(0)
placement = {"embed": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "head": 1}
model = dispatch_model(TinyDecoder(layers=4).eval(), placement)
prompt = torch.tensor([[5, 3, 8, 13]]).to("cuda:0")
print("generated", generate(model, prompt, max_new_tokens=6).tolist())
