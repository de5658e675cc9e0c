# EXPECT {"kind":"refused-op","operation":"addmm|linear|mm","devices":["cuda:0","cpu"],"operands":["latent_pi|input|mat1","action_net.weight|action_net.bias|weight|bias"],"category":"module split|created without device","line":["policies.py: self.action_net = nn.Linear(","main.py: policy = ActorCriticPolicy("],"error":"on the same device","thread":"https://github.com/DLR-RM/stable-baselines3/issues/111","hard":"the constructor takes a device, and one of its modules honours it"}
# FIX policies.py: self.action_net = nn.Linear(self.mlp_extractor.latent_dim, actions) -> self.action_net = nn.Linear(self.mlp_extractor.latent_dim, actions).to(self.device)
# FIX policies.py: self.value_net = nn.Linear(self.mlp_extractor.latent_dim, 1) -> self.value_net = nn.Linear(self.mlp_extractor.latent_dim, 1).to(self.device)
import numpy as np
import torch

from policies import ActorCriticPolicy


class Pole:
    """A made-up task: the state drifts, and an action pushes it."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.state = self.random.normal(size=4).astype(np.float32)
        return self.state

    def step(self, action):
        self.state = 0.9 * self.state + np.float32(0.1 if action else -0.1)
        return self.state, -float(np.abs(self.state).sum())


torch.manual_seed(0)
env = Pole(seed=1)
policy = ActorCriticPolicy(observation_size=4, actions=2, lr_schedule=lambda done: 3e-4, device="cuda:0")
observation, steps = env.reset(), 0
while steps < 5:
    action, value = policy.predict(observation)
    observation, reward = env.step(action)
    steps += np.isfinite(value) and reward < 0
print("steps", steps)
