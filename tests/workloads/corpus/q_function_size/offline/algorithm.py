import torch

from offline.builders import create_discrete_q_function
from offline.encoders import VectorEncoderFactory


class DiscreteQ:
    def __init__(self, observation_size, action_size, device):
        self.device = device
        self.q_function = create_discrete_q_function(observation_size, action_size, VectorEncoderFactory((16, 8)), device)
        self.optimizer = torch.optim.Adam(self.q_function.parameters(), lr=1e-2)

    def update(self, observations, actions, targets):
        observations, actions, targets = (each.to(self.device) for each in (observations, actions, targets))
        self.optimizer.zero_grad()
        values = self.q_function(observations).gather(1, actions[:, None])[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(values, targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()
