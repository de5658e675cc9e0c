import torch as th
from torch import nn
from torch.distributions import Categorical


class ActorCriticPolicy(nn.Module):
    def __init__(self, obs_dim, n_actions, device="auto"):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(obs_dim, 16), nn.Tanh())
        self.action_net = nn.Linear(16, n_actions)
        self.value_net = nn.Linear(16, 1)
        self.to("cuda" if device == "auto" else device)

    @property
    def device(self):
        return next(self.parameters()).device

    def evaluate_actions(self, obs: th.Tensor, actions: th.Tensor):
        latent = self.features(obs)
        distribution = Categorical(logits=self.action_net(latent))
        log_prob = distribution.log_prob(actions)
        return self.value_net(latent), log_prob, distribution.entropy()
