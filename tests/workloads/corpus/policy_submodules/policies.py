import torch as th
from torch import nn


class MlpExtractor(nn.Module):
    """Two towers: one for what to do, one for how good it is."""

    def __init__(self, feature_dim, net_arch, device):
        super().__init__()
        self.latent_dim = net_arch[-1]

        def tower():
            sizes = [feature_dim, *net_arch]
            return nn.Sequential(*(part for i, o in zip(sizes, net_arch) for part in (nn.Linear(i, o), nn.Tanh())))

        self.policy_net = tower().to(device)
        self.value_net = tower().to(device)

    def forward(self, features):
        return self.policy_net(features), self.value_net(features)


class BasePolicy(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.device = th.device(device)

    def predict(self, observation, deterministic=True):
        observation = th.as_tensor(observation).unsqueeze(0).to(self.device)
        with th.no_grad():
            action, value = self._predict(observation, deterministic)
        return int(action), float(value)


class ActorCriticPolicy(BasePolicy):
    def __init__(self, observation_size, actions, lr_schedule, net_arch=(8, 8), device="cpu"):
        super().__init__(device)
        self.mlp_extractor = MlpExtractor(observation_size, net_arch, self.device)
        self.action_net = nn.Linear(self.mlp_extractor.latent_dim, actions)
        self.value_net = nn.Linear(self.mlp_extractor.latent_dim, 1)
        self.optimizer = th.optim.Adam(self.parameters(), lr=lr_schedule(1))

    def _predict(self, observation, deterministic):
        latent_pi, latent_vf = self.mlp_extractor(observation)
        logits = self.action_net(latent_pi)
        action = logits.argmax(-1) if deterministic else th.distributions.Categorical(logits=logits).sample()
        return action, self.value_net(latent_vf)
