# EXPECT {"kind":"refused-op","operation":"isin","devices":["cuda:1","cuda:0"],"operands":["vocabulary|elements","self.eos_token_id|eos_token_id|test_elements"],"category":"cached state","line":["ends = torch.isin(","self.eos_token_id = torch.tensor(","processors = ["],"error":"on cuda:0|on the same device|same device","thread":"https://github.com/huggingface/transformers/pull/31401","hard":"an object that is no module has kept the ids for the device of the model that was meant first"}
# FIX ends = torch.isin(vocabulary, self.eos_token_id) -> ends = torch.isin(vocabulary, self.eos_token_id.to(scores.device))
import torch
from torch import nn


class MinLength:
    """No end before there are enough tokens."""

    def __init__(self, min_length, eos_token_id, device):
        self.min_length = min_length
        self.eos_token_id = torch.tensor(eos_token_id, device=device)

    def __call__(self, ids, scores):
        vocabulary = torch.arange(scores.shape[-1], device=scores.device)
        ends = torch.isin(vocabulary, self.eos_token_id)
        if ids.shape[-1] < self.min_length:
            scores = scores.masked_fill(ends, -float("inf"))
        return scores


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(1))

    @torch.no_grad()
    def generate(self, ids, processors, length):
        while ids.shape[1] < length:
            scores = self(ids)
            for process in processors:
                scores = process(ids, scores)
            ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], dim=1)
        return ids


torch.manual_seed(0)
model, assistant = Model(12, 8).to("cuda:0"), Model(12, 4).to("cuda:1")
processors = [MinLength(6, [0, 7], device="cuda:0")]
prompt = torch.tensor([[1, 4]])
whole = model.generate(prompt.to("cuda:0"), processors, 6)
draft = assistant.generate(prompt.to("cuda:1"), processors, 6)
print("whole", whole.tolist()[0], "draft", draft.tolist()[0])
