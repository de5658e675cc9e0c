# EXPECT {"kind":"refused-op","operation":"nll_loss|cross_entropy","devices":["cuda:0","cpu"],"operands":["target|labels|label","logits|input|loss|valid_length"],"category":"input not moved","line":["label = model_inputs[\"input_ids\"]","loss = self.loss_fct(","output = self.model("],"error":"on the same device","thread":"https://github.com/asahi417/lmppl/pull/12"}
# FIX label = model_inputs["input_ids"] -> label = model_inputs["input_ids"].to(self.device)
import torch
from torch import nn


class Tokenizer:
    pad_token_id = 0

    def __call__(self, texts, length):
        rows = [[ord(c) % 31 + 1 for c in text][:length] for text in texts]
        ids = torch.tensor([row + [self.pad_token_id] * (length - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": ids.ne(self.pad_token_id)}


class TinyLM(nn.Module):
    def __init__(self, vocabulary=32, width=8):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(vocabulary, width), nn.GRU(width, width, batch_first=True), nn.Linear(width, vocabulary)

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids) * attention_mask.unsqueeze(-1)
        return self.head(self.rnn(hidden)[0])


class LM:
    def __init__(self, device):
        self.device = device
        self.tokenizer, self.model = Tokenizer(), TinyLM().to(device).eval()
        self.loss_fct = nn.CrossEntropyLoss(reduction="none")

    @torch.no_grad()
    def get_perplexity(self, texts):
        model_inputs = self.tokenizer(texts, length=12)
        output = self.model(**{name: value.to(self.device) for name, value in model_inputs.items()})
        label = model_inputs["input_ids"]
        label[label == self.tokenizer.pad_token_id] = -100
        shift_logits, shift_label = output[:, :-1].transpose(1, 2), label[:, 1:]
        loss = self.loss_fct(shift_logits, shift_label)
        length = (shift_label != -100).sum(-1)
        return (loss.sum(-1) / length).exp().tolist()


torch.manual_seed(0)
scorer = LM("cuda:0")
print("perplexity", [round(value, 2) for value in scorer.get_perplexity(["sentiment: happy", "dog"])])
