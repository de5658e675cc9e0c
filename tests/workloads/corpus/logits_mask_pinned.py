# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:1","cuda:0"],"operands":["scores","self.bias|bias"],"category":"cached state|input not moved|module split","line":["return scores + self.bias","processors = LogitsProcessorList("],"error":"on the same device","thread":"https://github.com/huggingface/transformers/pull/38558","hard":"the processor asked the model for its device, and that is the first layer's"}
# FIX return scores + self.bias -> return scores + self.bias.to(scores.device)
import torch
from torch import nn
from transformers import LogitsProcessor, LogitsProcessorList, TopKLogitsWarper


class TokenBiasProcessor(LogitsProcessor):
    def __init__(self, bias_of_token, vocab_size, device="cpu"):
        self.bias = torch.zeros(vocab_size)
        for token, bias in bias_of_token.items():
            self.bias[token] = bias
        self.bias = self.bias.to(device)

    def __call__(self, input_ids, scores):
        return scores + self.bias


class Recurrent(nn.Module):
    """The embedding and the first cell on one device, the others and the head on another."""

    def __init__(self, vocab_size, width=12):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.lower, self.upper = nn.GRU(width, width, batch_first=True), nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocab_size)

    @property
    def device(self):
        return next(self.parameters()).device

    def shard(self, first, second):
        for module in (self.embed, self.lower):
            module.to(first)
        for module in (self.upper, self.lm_head):
            module.to(second)
        return self

    def forward(self, input_ids):
        hidden, _ = self.lower(self.embed(input_ids))
        hidden, _ = self.upper(hidden.to(self.lm_head.weight.device))
        return self.lm_head(hidden[:, -1])


@torch.no_grad()
def generate(model, input_ids, processors, max_new_tokens):
    input_ids = input_ids.to(model.device)
    for _ in range(max_new_tokens):
        scores = processors(input_ids, model(input_ids))
        input_ids = torch.cat((input_ids, scores.argmax(-1, keepdim=True).to(model.device)), dim=1)
    return input_ids


torch.manual_seed(3)
model = Recurrent(vocab_size=40).shard("cuda:0", "cuda:1")
processors = LogitsProcessorList([TokenBiasProcessor({7: 4.0, 9: -9.0}, 40, device=model.device), TopKLogitsWarper(5)])
print(generate(model, torch.tensor([[1, 30, 22]]), processors, max_new_tokens=4).tolist())
