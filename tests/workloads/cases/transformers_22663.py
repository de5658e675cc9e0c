# thread: https://github.com/huggingface/transformers/issues/22663
# about: a LLaMA whose layers accelerate spread over two GPUs computes its own loss; the logits are on the last device, the labels where the caller put them.
# category: input-not-moved
# operands: shift_labels cuda:0, shift_logits cuda:1
# fails: loss = F.cross_entropy(shift_logits, shift_labels)
# fix: loss = F.cross_entropy(shift_logits, shift_labels.to(shift_logits.device))



import torch
from torch import nn
from torch.nn import functional as F


class CausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(32, 16)
        self.layer = nn.Linear(16, 16)
        self.lm_head = nn.Linear(16, 32)

    def forward(self, input_ids, labels):
        hidden_states = self.embed_tokens(input_ids)
        logits = self.lm_head(self.layer(hidden_states.to(self.layer.weight.device)))
        shift_logits = logits[:, :-1].reshape(-1, logits.shape[-1])
        shift_labels = labels[:, 1:].reshape(-1)
        loss = F.cross_entropy(shift_logits, shift_labels)
        return loss


model = CausalLM()
model.embed_tokens.to("cuda:0")
model.layer.to("cuda:1")
model.lm_head.to("cuda:1")
input_ids = torch.randint(0, 32, (2, 9)).to("cuda:0")
model(input_ids, labels=input_ids).backward()
