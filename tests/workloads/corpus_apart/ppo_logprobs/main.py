# EXPECT {"kind":"refused-op","operation":"gather","devices":["cuda:0","cuda:1"],"operands":["logp|logits","labels|index|input_ids"],"category":"module split|input not moved","line":["core.py: logpy = torch.gather(","trainer.py: logprobs = logprobs_from_logits("],"error":"on the same device","thread":"https://github.com/shibing624/MedicalGPT/issues/420"}
# FIX core.py: logpy = torch.gather(logp, 2, labels.unsqueeze(2)).squeeze(-1) -> logpy = torch.gather(logp, 2, labels.unsqueeze(2).to(logp.device)).squeeze(-1)
import torch
from torch import nn

from trainer import PPOTrainer


class CausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, device_map):
        super().__init__()
        self.device_map = device_map
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size).to(device_map["embed_tokens"])
        self.mlp = nn.Linear(hidden_size, hidden_size).to(device_map["mlp"])
        self.lm_head = nn.Linear(hidden_size, vocab_size).to(device_map["lm_head"])

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        hidden = torch.tanh(self.mlp(hidden.to(self.device_map["mlp"])))
        return self.lm_head(hidden.to(self.device_map["lm_head"]))


def main():
    torch.manual_seed(420)
    model = CausalLM(30, 12, {"embed_tokens": "cuda:0", "mlp": "cuda:0", "lm_head": "cuda:1"})
    ref_model = CausalLM(30, 12, dict.fromkeys(["embed_tokens", "mlp", "lm_head"], "cuda:0"))
    trainer = PPOTrainer(model, ref_model, current_device="cuda:0")
    queries = [torch.tensor([1, 5, 7]), torch.tensor([2, 9, 4])]
    responses = [torch.tensor([8, 8, 3]), torch.tensor([11, 6, 3])]
    for _ in range(2):
        stats = trainer.step(queries, responses, scores=[0.5, -0.25])
    print({name: round(value, 4) for name, value in stats.items()})


if __name__ == "__main__":
    main()
