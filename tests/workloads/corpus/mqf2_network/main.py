# EXPECT {"kind":"refused-op","operation":"addmm|mm|linear","devices":["cuda:0","cpu"],"operands":["weight|bias","hidden_state|hidden|input"],"category":"state not registered|module split","line":["metrics.py: self.picnn = ","forecaster.py: self.loss = ","main.py: forecaster = Forecaster("],"error":"on the same device","thread":"https://github.com/sktime/pytorch-forecasting/pull/1916","hard":"the metric is no module and has a network; the optimizer has its weights"}
# FIX main.py: forecaster = Forecaster(width=6, loss=loss).to("cuda:0") -> forecaster = Forecaster(width=6, loss=loss).to("cuda:0"); loss.picnn.to("cuda:0")
import torch

from forecaster import Forecaster
from metrics import QuantileFunctionLoss

torch.manual_seed(0)
loss = QuantileFunctionLoss(hidden_size=6)
forecaster = Forecaster(width=6, loss=loss).to("cuda:0")
optimizer = torch.optim.SGD(forecaster.trained_parameters(), lr=0.05)
for step in range(2):
    batch = {"encoder_cont": torch.rand(4, 5, 6).to("cuda:0"), "target": torch.rand(4).to("cuda:0")}
    value = forecaster.training_step(batch)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
print("loss", round(value.item(), 4))
