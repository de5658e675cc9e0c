# EXPECT {"kind":"refused-op","operation":"addmm|linear|mm","devices":["cpu","cuda:0"],"operands":["x|inputs","weight|bias|encoder.layers\\[0\\].weight|encoder.layers\\[0\\].bias|.*\\.weight|.*\\.bias"],"category":"module split","line":["offline/builders.py: encoder = factory.create(","offline/builders.py: hidden_size = compute_output_size("],"error":"on the same device","thread":"https://github.com/takuseno/d3rlpy/issues/329","hard":"the encoder is moved as part of the Q function, some lines later; a probe runs through it before"}
# FIX offline/builders.py: encoder = factory.create(observation_size) -> encoder = factory.create(observation_size).to(device)
import torch

from offline.algorithm import DiscreteQ

torch.manual_seed(0)
algorithm = DiscreteQ(observation_size=6, action_size=3, device="cuda:0")
for _ in range(3):
    loss = algorithm.update(torch.rand(8, 6), torch.randint(0, 3, (8,)), torch.rand(8))
print("loss", round(loss, 4))
