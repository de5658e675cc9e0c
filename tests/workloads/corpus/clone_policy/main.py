# EXPECT {"kind":"refused-op","operation":"gather","devices":["cuda:0","cpu"],"operands":["log_pmf|logits","value|acts|actions|index"],"category":"input not moved|created without device","line":["bc.py: acts = th.as_tensor(","bc.py: metrics = self.loss_calculator("],"error":"on the same device","thread":"https://github.com/HumanCompatibleAI/imitation/issues/820","hard":"raised in torch/distributions/categorical.py, three calls below the line to change"}
# FIX bc.py: acts = th.as_tensor(batch["acts"]) -> acts = th.as_tensor(batch["acts"], device=self.policy.device)
import numpy as np
import torch as th

from bc import BC
from policies import ActorCriticPolicy


def demonstrations(n):
    """An expert that goes where the first observation is larger than the second."""
    rng = np.random.default_rng(820)
    obs = rng.normal(size=(n, 4)).astype(np.float32)
    return {"obs": obs, "acts": (obs[:, 0] > obs[:, 1]).astype(np.int64)}


if __name__ == "__main__":
    th.manual_seed(820)
    policy = ActorCriticPolicy(obs_dim=4, n_actions=2, device="cuda")
    bc_trainer = BC(policy, demonstrations(32), batch_size=8)
    metrics = bc_trainer.train(n_epochs=2)
    print(", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
