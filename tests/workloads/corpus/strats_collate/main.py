# EXPECT {"kind":"refused-op","operation":"index_select|embedding","devices":["cpu","cuda:0"],"operands":["weight|self.code_embedding.weight|code_embedding.weight|.*weight","codes|input|.*code.*"],"category":"input not moved","line":["collate.py: tensors.to(device)"],"error":"on the same device","thread":"https://github.com/Oufattole/meds-torch/pull/16","hard":"the move stands there, and its result is dropped; the lengths behind it are moved rightly; the tensor goes through nested dicts"}
# FIX collate.py: tensors.to(device) -> tensors = tensors.to(device)
import torch

from collate import collate_triplets
from model import TripletEncoder

torch.manual_seed(0)
samples = [{"code": [1, 4, 2], "value": [0.1, 0.2, 0.3]}, {"code": [3], "value": [0.7]}, {"code": [5, 6], "value": [0.4, 0.9]}]
loader = torch.utils.data.DataLoader(samples, batch_size=2, collate_fn=lambda batch: collate_triplets(batch, device="cuda:0"))
model = TripletEncoder(codes=8, width=6).to("cuda:0")
with torch.no_grad():
    sums = [round(model(batch).sum().item(), 4) for batch in loader]
print("encoded", sums)
