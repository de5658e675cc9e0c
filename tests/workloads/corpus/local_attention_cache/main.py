# EXPECT {"kind":"refused-op","operation":"index|_unsafe_index|cat|index_copy|copy|index_put","devices":["cuda:1","cuda:0"],"operands":["self.key_states|key_states|k_out|.*"],"category":"cached state|default or current device|input not moved","line":["modeling.py: k_out = self.key_states","modeling.py: v_out = self.value_states","modeling.py: self.key_states = torch.zeros(","modeling.py: layer.temporal_block._setup_cache(batch, device)"],"error":"on the same device|should be either on cpu or on the same device|indices should be|two devices","thread":"https://github.com/huggingface/transformers/pull/30273","hard":"the caches of all layers were made on the device of the input; a layer that lies elsewhere meets its own"}
# FIX modeling.py: layer.temporal_block._setup_cache(batch, device) -> layer.temporal_block._setup_cache(batch, layer.temporal_block.k_proj.weight.device)
import torch

from modeling import RecurrentModel

torch.manual_seed(0)
model = RecurrentModel(vocabulary=20, width=8, layers=4, window=3)
model.dispatch({0: "cuda:0", 1: "cuda:0", 2: "cuda:1", 3: "cuda:1"})
print("generated", model.generate(torch.tensor([[1, 7, 3]]).to("cuda:0"), steps=4))
