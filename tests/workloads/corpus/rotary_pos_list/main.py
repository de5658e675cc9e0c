# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["query|hidden_states|x|t","cos|rotary_pos_emb|rotary_pos_emb\\[0\\]"],"category":"input not moved","line":["quantizer.py: kept[key] = value","quantizer.py: kept[key] = value.to(device) if isinstance(value, torch.Tensor) else value"],"error":"on the same device","thread":"https://github.com/AutoGPTQ/AutoGPTQ/issues/370","hard":"what is a tensor was moved; the rotary positions are a list of tensors among the keyword arguments, kept on the CPU by a forward pass that never ended"}
# FIX quantizer.py: kept[key] = value.to(device) if isinstance(value, torch.Tensor) else value -> kept[key] = [each.to(device) for each in value] if isinstance(value, list) else value.to(device) if isinstance(value, torch.Tensor) else value
import torch

from modeling import Model
from quantizer import Quantizer

torch.manual_seed(0)
model = Model(16, layers=2)
examples = [torch.randint(0, 30, (1, 5)) for _ in range(3)]
errors = Quantizer(model, bits=4).quantize(examples, "cuda:0")
print("rounded", [round(each, 4) for each in errors])
