# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["reward|done","target_Q"],"category":"input not moved|created without device","line":["reward = torch.Tensor(","done = torch.Tensor(","target_Q = reward + "],"error":"on the same device","thread":"https://github.com/reiniscimurs/DRL-robot-navigation/issues/142"}
# FIX reward = torch.Tensor(batch_rewards) -> reward = torch.Tensor(batch_rewards).to(device)
# FIX done = torch.Tensor(batch_dones) -> done = torch.Tensor(batch_dones).to(device)
import random

import numpy as np
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # cuda or cpu
seed = 0
torch.manual_seed(seed)
np.random.seed(seed)
random.seed(seed)


class Actor(nn.Module):
    def __init__(self, state_dim, action_dim):
        super(Actor, self).__init__()
        self.layer = nn.Linear(state_dim, action_dim)

    def forward(self, s):
        return torch.tanh(self.layer(s))


class Critic(nn.Module):
    def __init__(self, state_dim, action_dim):
        super(Critic, self).__init__()
        self.layer = nn.Linear(state_dim + action_dim, 1)

    def forward(self, s, a):
        return self.layer(torch.cat([s, a], 1))


class TD3(object):
    def __init__(self, state_dim, action_dim, discount=0.99):
        self.actor_target = Actor(state_dim, action_dim).to(device)
        self.critic = Critic(state_dim, action_dim).to(device)
        self.discount = discount

    def to_priority(self, batch_states, batch_actions, batch_rewards, batch_dones, batch_next_states):
        state = torch.Tensor(batch_states).to(device)
        next_state = torch.Tensor(batch_next_states).to(device)
        action = torch.Tensor(batch_actions).to(device)
        reward = torch.Tensor(batch_rewards)
        done = torch.Tensor(batch_dones)
        with torch.no_grad():
            target_Q = self.critic(next_state, self.actor_target(next_state))
            target_Q = reward + self.discount * (1 - done) * target_Q
            return (target_Q - self.critic(state, action)).abs()


network = TD3(state_dim=5, action_dim=2)
transitions = [(np.random.rand(5), np.random.rand(2), [1.0], [float(i == 5)], np.random.rand(5)) for i in range(6)]
batch = [np.array(column) for column in zip(*random.sample(transitions, 4))]
priority = network.to_priority(*batch)
print("priorities", np.round(priority.cpu().numpy().ravel(), 3))
