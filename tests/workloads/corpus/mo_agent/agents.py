import torch
from torch import nn


class MOAgent:
    def __init__(self, observation_size, reward_size, seed=None, device="cuda:0"):
        self.observation_size, self.reward_size = observation_size, reward_size
        self.seed = seed
        self.device = torch.device(device)

    def tensor(self, values):
        return torch.tensor(values, device=self.device)


class QNet(nn.Module):
    def __init__(self, observation_size, reward_size, action_size, width=16):
        super().__init__()
        self.reward_size = reward_size
        self.state_features = nn.Linear(observation_size, width)
        self.weight_features = nn.Linear(reward_size, width)
        self.net = nn.Linear(width, action_size * reward_size)

    def forward(self, observation, weights):
        features = self.state_features(observation) * self.weight_features(weights)
        return self.net(features).view(*features.shape[:-1], -1, self.reward_size)


class Envelope(MOAgent):
    def __init__(self, observation_size, reward_size, action_size, device):
        super().__init__(observation_size, reward_size, device)
        self.q_net = QNet(observation_size, reward_size, action_size).to(device)
        self.target_q_net = QNet(observation_size, reward_size, action_size).to(device)
        self.target_q_net.load_state_dict(self.q_net.state_dict())
        self.optimizer = torch.optim.Adam(self.q_net.parameters(), lr=1e-2)

    @torch.no_grad()
    def act(self, observation, weights):
        observation, weights = self.tensor(observation), self.tensor(weights)
        return (self.q_net(observation, weights) @ weights).argmax().item()

    def update(self, observations, weights):
        observations, weights = self.tensor(observations), self.tensor(weights)
        loss = (self.q_net(observations, weights) - 0.9 * self.target_q_net(observations, weights).detach()).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
