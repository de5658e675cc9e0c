import numpy as np
import torch


class ReplayBuffer:
    def __init__(self, size, observation_dim, device):
        self.device = torch.device(device)
        self.observations = np.zeros((size, observation_dim), dtype=np.float32)
        self.next_observations = np.zeros((size, observation_dim), dtype=np.float32)
        self.actions = np.zeros((size, 1), dtype=np.int64)
        self.rewards = np.zeros((size, 1), dtype=np.float32)
        self.position, self.filled = 0, 0

    def add(self, observation, action, reward, next_observation):
        self.observations[self.position] = observation
        self.next_observations[self.position] = next_observation
        self.actions[self.position] = action
        self.rewards[self.position] = reward
        self.position = (self.position + 1) % len(self.rewards)
        self.filled = min(self.filled + 1, len(self.rewards))

    def to_torch(self, array):
        return torch.as_tensor(array, device=self.device)

    def sample(self, batch_size, rng):
        rows = rng.integers(0, self.filled, size=batch_size)
        arrays = self.observations, self.actions, self.rewards, self.next_observations
        return [self.to_torch(array[rows]) for array in arrays]
