# EXPECT {"kind":"refused-op","operation":"addmm|linear|mm","devices":["cuda:1","cuda:0"],"operands":["observation|obs|x","weight|bias|.*\\.weight|.*\\.bias"],"category":"input not moved|default or current device|module split","line":["agents.py: super().__init__(observation_size, reward_size, device)"],"error":"on the same device","thread":"https://github.com/LucasAlegre/morl-baselines/issues/153","hard":"the device stands where the seed is wanted: the base class goes to its default"}
# FIX agents.py: super().__init__(observation_size, reward_size, device) -> super().__init__(observation_size, reward_size, device=device)
import torch

from agents import Envelope

torch.manual_seed(0)
agent = Envelope(4, 2, action_size=3, device="cuda:1")
chosen = [agent.act([0.1 * step, 0.2, -0.3, 0.4], [0.5, 0.5]) for step in range(4)]
print("chosen", chosen, round(agent.update([[0.1, 0.2, 0.3, 0.4]] * 4, [[0.5, 0.5]] * 4), 4))
