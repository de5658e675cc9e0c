# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["values","mask|masks"],"category":"input not moved|created without device","line":["masks.append(torch.cat((torch.zeros(len(query) - 1), torch.ones(len(response)))))"],"error":"on the same device","thread":"https://github.com/huggingface/trl/issues/1691","hard":"masks of responses go through a list, padding and three methods"}
# FIX masks.append(torch.cat((torch.zeros(len(query) - 1), torch.ones(len(response))))) -> masks.append(torch.cat((torch.zeros(len(query) - 1), torch.ones(len(response)))).to(query.device))
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class ValueHeadModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.body = nn.Embedding(vocabulary, width), nn.GRU(width, width, batch_first=True)
        self.lm_head, self.v_head = nn.Linear(width, vocabulary), nn.Linear(width, 1)

    def forward(self, input_ids):
        hidden, _ = self.body(self.embed(input_ids))
        return self.lm_head(hidden), self.v_head(hidden).squeeze(-1)


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()


class PPOTrainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def batched_forward_pass(self, queries, responses):
        input_ids = pad_sequence([torch.cat(pair) for pair in zip(queries, responses)], batch_first=True)
        logits, values = self.model(input_ids)
        logprobs = logits[:, :-1].log_softmax(-1).gather(2, input_ids[:, 1:, None]).squeeze(2)
        masks = []
        for query, response in zip(queries, responses):
            masks.append(torch.cat((torch.zeros(len(query) - 1), torch.ones(len(response)))))
        return logprobs, values[:, :-1], pad_sequence(masks, batch_first=True)

    def compute_advantages(self, values, rewards, mask):
        values = values * mask
        return rewards[:, None] * mask - values

    def step(self, queries, responses, scores):
        logprobs, values, masks = self.batched_forward_pass(queries, responses)
        advantages = self.compute_advantages(values, scores, masks)
        loss = masked_mean(advantages.square(), masks) - masked_mean(logprobs * advantages.detach(), masks)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
model = ValueHeadModel(13, 8).to("cuda:0")
queries = [torch.randint(1, 13, (n,)).to("cuda:0") for n in (3, 4)]
responses = [torch.randint(1, 13, (n,)).to("cuda:0") for n in (2, 5)]
print("loss", round(PPOTrainer(model).step(queries, responses, torch.tensor([1.0, -1.0]).to("cuda:0")), 3))
