# EXPECT {"kind":"refused-op","operation":"index_select","devices":["cuda:0","cuda:1"],"operands":["state|past","beam_idx"],"category":"module split|input not moved","line":["modeling.py: return tuple(tuple(state.index_select(0, beam_idx)","generation.py: past = model.reorder_cache("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/issues/9200","hard":"the first layer's cache is reordered without fault; the index was made by the search, in another file"}
# FIX modeling.py: return tuple(tuple(state.index_select(0, beam_idx) for state in layer_past) for layer_past in past) -> return tuple(tuple(state.index_select(0, beam_idx.to(state.device)) for state in layer_past) for layer_past in past)
import torch

from generation import beam_search
from modeling import TinyGPT

torch.manual_seed(9200)
model = TinyGPT(vocab_size=23, n_embd=16, n_layer=2).eval()
model.parallelize({0: [0], 1: [1]})
input_ids = torch.tensor([[3, 14, 15, 9, 2]]).to("cuda:0")
sequence, score = beam_search(model, input_ids, num_beams=3, max_new_tokens=4)
print("generated", sequence.tolist(), "score", round(score, 4))
