import torch

from core import logprobs_from_logits, masked_mean


class PPOTrainer:
    def __init__(self, model, ref_model, current_device, lr=0.1, kl_coef=0.2):
        self.model, self.ref_model = model, ref_model
        self.current_device = current_device
        self.kl_coef = kl_coef
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def forward_pass(self, model, input_ids):
        logits = model(input_ids)
        logprobs = logprobs_from_logits(logits[:, :-1, :], input_ids[:, 1:])
        return logprobs

    def step(self, queries, responses, scores):
        input_ids = torch.stack([torch.cat(pair) for pair in zip(queries, responses)]).to(self.current_device)
        mask = torch.zeros(input_ids.shape[0], input_ids.shape[1] - 1)
        mask[:, queries[0].numel() - 1 :] = 1
        with torch.no_grad():
            ref_logprobs = self.forward_pass(self.ref_model, input_ids)
        logprobs = self.forward_pass(self.model, input_ids)
        kl = logprobs - ref_logprobs.to(logprobs.device)
        rewards = torch.tensor(scores).unsqueeze(1).to(logprobs.device) - self.kl_coef * kl.detach()
        loss = -masked_mean(rewards * logprobs, mask)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"ppo/loss": loss.item(), "objective/kl": masked_mean(kl, mask).item()}
