# EXPECT {"kind":"refused-op","operation":"","devices":["cuda:0"],"operands":["policy|total_policy"],"category":"","line":["total_policy.append(","return action, policy.detach()"],"error":"can't convert cuda:0 device type tensor to numpy","thread":"https://github.com/jcwleo/random-network-distillation-pytorch/pull/14","hard":"raised by Tensor.numpy, which numpy calls for the elements of a list"}
# FIX total_policy.append(policy) -> total_policy.append(policy.cpu())
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class RNDAgent:
    def __init__(self, input_size, output_size, use_cuda=True):
        self.device = torch.device('cuda' if use_cuda else 'cpu')
        self.model = nn.Linear(input_size, output_size).to(self.device)
        self.predictor = nn.Linear(input_size, 4).to(self.device)
        self.target = nn.Linear(input_size, 4).to(self.device)

    def get_action(self, state):
        state = torch.Tensor(state).to(self.device)
        policy = self.model(state)
        action = F.softmax(policy, dim=-1).data.cpu().numpy().argmax(axis=1)
        return action, policy.detach()

    def compute_intrinsic_reward(self, next_obs):
        next_obs = torch.FloatTensor(next_obs).to(self.device)
        reward = (self.target(next_obs) - self.predictor(next_obs)).pow(2).sum(1) / 2
        return reward.data.cpu().numpy()


def step(states, actions):
    return np.tanh(states + 0.1 * actions[:, None])


torch.manual_seed(14)
agent = RNDAgent(6, 3)
states = np.random.default_rng(14).normal(size=(2, 6))
total_action, total_int_reward, total_policy = [], [], []
for _ in range(5):
    actions, policy = agent.get_action(states)
    states = step(states, actions)
    total_action.append(actions)
    total_int_reward.append(agent.compute_intrinsic_reward(states))
    total_policy.append(policy)

total_int_reward = np.stack(total_int_reward)
total_logging_policy = np.vstack(total_policy)
print(total_logging_policy.shape, round(float(total_logging_policy.mean()), 4), round(float(total_int_reward.mean()), 4))
