# EXPECT {"kind":"refused-op","operation":"index_select|embedding|addmm|linear","devices":["cpu","cuda:0"],"operands":["weight|bias","x|ids|input|X"],"category":"input not moved|state not registered|cached state","line":["base_model.py: self.device =","base_model.py: x = torch.from_numpy(batch).to(self.device)","main.py: model.to(\"cpu\")"],"error":"on the same device","thread":"https://github.com/shenweichen/DeepCTR-Torch/issues/272","hard":"the model as a whole has left the device that it still writes down as its own"}
# FIX base_model.py: x = torch.from_numpy(batch).to(self.device) -> x = torch.from_numpy(batch).to(next(self.parameters()).device)
import numpy
import torch

from base_model import FactorizationModel

torch.manual_seed(0)
ids = (numpy.arange(24).reshape(8, 3) * 5 % 20).astype("int64")
clicks = (ids.sum(1) % 2).astype("float32")
model = FactorizationModel(20, 4, device="cuda:0")
model.fit(ids, clicks, epochs=2)
model.to("cpu")
print("clicks", [round(float(p), 3) for p in model.predict(ids)][:3])
