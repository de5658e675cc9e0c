# EXPECT {"kind":"refused-op","operation":"gather","devices":["cuda:1","cuda:0"],"operands":["logp","labels|index"],"category":"input not moved|module split","line":["ppo.py: logprobs = token_logprobs(","core.py: return logp.gather(","policy.py: return self.lm_head(hidden), "],"error":"on the same device","thread":"https://github.com/shibing624/MedicalGPT/issues/420","hard":"the policy's last layers, the reward model and the queries are each where their author wanted them"}
# FIX ppo.py: logprobs = token_logprobs(logits[:, :-1, :], input_ids[:, 1:]) -> logprobs = token_logprobs(logits[:, :-1, :].to(input_ids.device), input_ids[:, 1:])
import torch

from policy import CausalLMWithValueHead, RewardModel
from ppo import PPOTrainer


def collate(queries, pad=0):
    width = max(map(len, queries))
    ids = torch.tensor([query + [pad] * (width - len(query)) for query in queries])
    return {"input_ids": ids, "attention_mask": (ids != pad).long()}


torch.manual_seed(0)
policy = CausalLMWithValueHead(blocks=4, devices=["cuda:0", "cuda:1"])
reward_model = RewardModel().to("cuda:0")
trainer = PPOTrainer(policy, reward_model)
batch = collate([[4, 7, 1, 9], [3, 3, 12], [8, 2, 6, 11]])
for _ in range(2):
    stats = trainer.step({name: value.to("cuda:0") for name, value in batch.items()})
print({name: round(value, 3) for name, value in stats.items()})
