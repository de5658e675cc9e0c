import pickle

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from buffers import ReplayBuffer


class Corridor:
    """Five places in a row; the last one pays."""

    def __init__(self, length=5):
        self.length, self.place = length, 0

    def observe(self):
        return np.eye(self.length, dtype=np.float32)[self.place]

    def step(self, action):
        self.place = min(max(self.place + (1 if action else -1), 0), self.length - 1)
        reward = float(self.place == self.length - 1)
        if reward:
            self.place = 0
        return self.observe(), reward


class DQN:
    def __init__(self, env, device, seed=0):
        torch.manual_seed(seed)
        self.env, self.device = env, torch.device(device)
        self.rng = np.random.default_rng(seed)
        self.q_net = nn.Sequential(nn.Linear(env.length, 16), nn.ReLU(), nn.Linear(16, 2)).to(self.device)
        self.optimizer = torch.optim.SGD(self.q_net.parameters(), lr=0.05)
        self.replay_buffer = ReplayBuffer(64, env.length, self.device)

    def save(self, file):
        torch.save(self.q_net.state_dict(), file)

    @classmethod
    def load(cls, file, env, device):
        model = cls(env, device)
        model.q_net.load_state_dict(torch.load(file, map_location=model.device))
        return model

    def save_replay_buffer(self, file):
        file.write(pickle.dumps(self.replay_buffer))

    def load_replay_buffer(self, file):
        self.replay_buffer = pickle.loads(file.read())

    def learn(self, steps, batch_size=8, gamma=0.9):
        for step in range(steps):
            before, action = self.env.observe(), int(self.rng.integers(2))
            after, reward = self.env.step(action)
            self.replay_buffer.add(before, action, reward, after)
            if step < batch_size:
                continue
            observations, actions, rewards, next_observations = self.replay_buffer.sample(batch_size, self.rng)
            with torch.no_grad():
                target = rewards + gamma * self.q_net(next_observations).max(dim=1, keepdim=True).values
            loss = F.smooth_l1_loss(self.q_net(observations).gather(1, actions), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()
