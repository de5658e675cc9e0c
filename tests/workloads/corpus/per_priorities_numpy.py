# EXPECT {"kind":"refused-op","operation":"","devices":["cuda:0"],"operands":["idxes|indices|nodes|ar"],"category":"","line":["self.replay_buffer.update_priorities(idxes","idxes = ","unique, first = np.unique("],"error":"can't convert cuda:0 device type tensor to numpy","thread":"https://github.com/LucasAlegre/morl-baselines/pull/185","hard":"numpy asks for the array, two calls below"}
# FIX self.replay_buffer.update_priorities(idxes, priority.cpu().numpy().flatten()) -> self.replay_buffer.update_priorities(idxes.cpu(), priority.cpu().numpy().flatten())
import numpy as np
import torch as th
from torch import nn


class SumTree:
    def __init__(self, size):
        self.leaves = np.ones(size, dtype=np.float64)

    def batch_set(self, nodes, values):
        unique, first = np.unique(nodes, return_index=True)
        self.leaves[unique] = values[first]

    def chances(self):
        return self.leaves / self.leaves.sum()


class PrioritizedReplayBuffer:
    def __init__(self, observation_size, size, seed=0):
        self.tree, self.random = SumTree(size), np.random.RandomState(seed)
        self.obs = self.random.rand(size, observation_size).astype(np.float32)
        self.rewards = self.random.rand(size, 1).astype(np.float32)

    def sample(self, batch_size, device):
        idxes = self.random.choice(len(self.obs), batch_size, p=self.tree.chances())
        return tuple(th.tensor(each).to(device) for each in (self.obs[idxes], self.rewards[idxes], idxes))

    def update_priorities(self, idxes, priorities, alpha=0.6):
        self.tree.batch_set(idxes, priorities**alpha)


class Agent:
    def __init__(self, device):
        self.device = th.device(device)
        self.q_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)).to(self.device)
        self.optimizer = th.optim.Adam(self.q_net.parameters(), lr=1e-3)
        self.replay_buffer = PrioritizedReplayBuffer(4, size=32)

    def update(self):
        obs, rewards, idxes = self.replay_buffer.sample(8, self.device)
        error = self.q_net(obs) - rewards
        self.optimizer.zero_grad()
        error.square().mean().backward()
        self.optimizer.step()
        priority = error.abs().detach().clamp(min=0.01)
        self.replay_buffer.update_priorities(idxes, priority.cpu().numpy().flatten())
        return error.square().mean().item()


th.manual_seed(0)
agent = Agent("cuda:0")
print("error", [round(agent.update(), 3) for _ in range(3)])
