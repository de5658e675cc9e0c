# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:1","cuda:0"],"operands":["scores","mask|bias|cache.mask|.*mask.*"],"category":"default or current device","line":["cache.py: mask = CausalMask.from_seqlens(seqlens)","masks.py: lengths = torch.tensor(seqlens, device=","masks.py: def from_seqlens("],"error":"on the same device","thread":"https://github.com/mistralai/mistral-inference/issues/215","hard":"the mask's device has a default, cuda; the cache, which knows its device, does not give it"}
# FIX cache.py: mask = CausalMask.from_seqlens(seqlens) -> mask = CausalMask.from_seqlens(seqlens, device=self.device)
import torch

from cache import BufferCache
from transformer import Transformer

torch.manual_seed(0)
model = Transformer(20, 8, layers=2).to("cuda:1")
cache = BufferCache(layers=2, width=8, device="cuda:1")
prompts = [[1, 4, 2], [7, 5, 3, 6]]
with torch.no_grad():
    logits = model(torch.tensor(sum(prompts, []), device="cuda:1"), [len(each) for each in prompts], cache)
print("next", logits.argmax(-1).tolist())
