import dataclasses

import torch as th


@dataclasses.dataclass(frozen=True)
class BehaviorCloningLossCalculator:
    ent_weight: float = 1e-3
    l2_weight: float = 1e-4

    def __call__(self, policy, obs, acts):
        _, log_prob, entropy = policy.evaluate_actions(obs, acts)
        l2_norm = sum(p.square().sum() for p in policy.parameters()) / 2
        loss = -log_prob.mean() - self.ent_weight * entropy.mean() + self.l2_weight * l2_norm
        return {"loss": loss, "prob_true_act": log_prob.exp().mean()}


class BC:
    def __init__(self, policy, demonstrations, batch_size):
        self.policy = policy
        self.loss_calculator = BehaviorCloningLossCalculator()
        self.optimizer = th.optim.Adam(policy.parameters(), lr=0.01)
        self.batches = [
            {name: array[start : start + batch_size] for name, array in demonstrations.items()}
            for start in range(0, len(demonstrations["acts"]), batch_size)
        ]

    def train(self, n_epochs):
        for _ in range(n_epochs):
            for batch in self.batches:
                obs = th.as_tensor(batch["obs"], device=self.policy.device)
                acts = th.as_tensor(batch["acts"])
                metrics = self.loss_calculator(self.policy, obs, acts)
                self.optimizer.zero_grad()
                metrics["loss"].backward()
                self.optimizer.step()
        return {name: value.item() for name, value in metrics.items()}
