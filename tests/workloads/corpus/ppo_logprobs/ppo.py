import torch

from core import token_logprobs, masked_mean


class PPOTrainer:
    def __init__(self, policy, reward_model, lr=1e-2, clip=0.2):
        self.policy, self.reward_model, self.clip = policy, reward_model, clip
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr)
        self.old_logprobs = None

    def step(self, batch):
        input_ids, mask = batch["input_ids"], batch["attention_mask"][:, 1:]
        with torch.no_grad():
            scores = self.reward_model(input_ids)
        logits, values = self.policy(input_ids)
        logprobs = token_logprobs(logits[:, :-1, :], input_ids[:, 1:])
        values = values[:, :-1].to(logprobs.device)
        if self.old_logprobs is None:
            self.old_logprobs = logprobs.detach()
        advantages = scores[:, None].to(logprobs.device) - values.detach()
        ratio = torch.exp(logprobs - self.old_logprobs)
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        mask = mask.to(logprobs.device)
        pg_loss = masked_mean(torch.max(-advantages * ratio, -advantages * clipped), mask)
        vf_loss = masked_mean((values - scores[:, None].to(values.device)).square(), mask)
        self.optimizer.zero_grad()
        (pg_loss + 0.1 * vf_loss).backward()
        self.optimizer.step()
        return {"policy": pg_loss.item(), "value": vf_loss.item()}
