# EXPECT {"kind":"refused-op","operation":"lerp|sub|mul|add","devices":["cuda:0","cpu"],"operands":["_loc|loc|mean|_var","data_mean|data|value|obs|observation"],"category":"state not registered|cached state","line":["transforms.py: self._loc = ","transforms.py: self._var = "],"error":"on the same device","thread":"https://github.com/pytorch/rl/pull/3364","hard":"the statistics are made at the first observation; the environment moves on between that and the next"}
# FIX transforms.py: self._loc = torch.zeros_like(value[0]) -> self.register_buffer("_loc", torch.zeros_like(value[0]))
# FIX transforms.py: self._var = torch.zeros_like(value[0]) -> self.register_buffer("_var", torch.zeros_like(value[0]))
import torch

from environments import Environment
from transforms import VecNorm

torch.manual_seed(0)
env = Environment(width=4, count=3)
env.append_transform(VecNorm(decay=0.9))
env.reset()
env = env.to("cuda:0")
for step in range(3):
    observation = env.step(torch.ones(3, 4).to("cuda:0") * step)
print("normalized", tuple(observation.shape), round(observation.mean().item(), 3))
