# EXPECT {"kind":"refused-op","operation":"lstm","devices":["cuda:1","cuda:0"],"operands":["hidden|h0|hx","seq_out|input"],"category":"data parallel|default or current device","line":["seq_out, _ = self.lstm(seq_out, hidden)","hidden = self.init_hidden(","h0 = torch.zeros(","c0 = torch.zeros("],"error":"Input and hidden tensors are not at the same device, found input tensor at cuda:1 and hidden tensor at cuda:0","thread":"https://github.com/taishan1994/pytorch_bert_bilstm_crf_ner/issues/19","hard":"the device is an attribute that every replica has copied; the first replica runs"}
# FIX seq_out, _ = self.lstm(seq_out, hidden) -> seq_out, _ = self.lstm(seq_out)
from types import SimpleNamespace

import torch
from torch import nn


class NerModel(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        gpu_ids = args.gpu_ids.split(",")
        self.device = torch.device("cpu" if gpu_ids[0] == "-1" else "cuda:" + gpu_ids[0])
        self.embedding = nn.Embedding(args.vocab_size, args.embed_dim, padding_idx=0)
        self.lstm = nn.LSTM(args.embed_dim, args.lstm_hidden, args.num_layers, bidirectional=True, batch_first=True)
        self.linear = nn.Linear(2 * args.lstm_hidden, args.num_tags)

    def init_hidden(self, batch_size):
        shape = 2 * self.args.num_layers, batch_size, self.args.lstm_hidden
        h0 = torch.zeros(shape).to(self.device)
        c0 = torch.zeros(shape).to(self.device)
        return h0, c0

    def forward(self, token_ids, attention_masks, labels=None):
        seq_out = self.embedding(token_ids)
        hidden = self.init_hidden(seq_out.size(0))
        seq_out, _ = self.lstm(seq_out, hidden)
        logits = self.linear(seq_out)
        if labels is None:
            return logits
        active = attention_masks.view(-1) == 1
        loss = nn.functional.cross_entropy(logits.flatten(0, 1)[active], labels.view(-1)[active])
        return loss.unsqueeze(0), logits


class Trainer:
    def __init__(self, args, batches):
        self.args, self.batches = args, batches
        gpu_ids = [int(i) for i in args.gpu_ids.split(",")]
        self.device = torch.device("cuda", gpu_ids[0])
        model = NerModel(args).to(self.device)
        self.model = nn.DataParallel(model, device_ids=gpu_ids) if len(gpu_ids) > 1 else model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def train(self):
        for batch in self.batches:
            batch = {name: value.to(self.device) for name, value in batch.items()}
            losses, _ = self.model(batch["token_ids"], batch["attention_masks"], batch["labels"])
            loss = losses.mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


def sentences(n, length):
    for _ in range(n):
        token_ids = torch.randint(1, 30, (4, length))
        token_ids[1, length - 2 :] = 0
        yield {"token_ids": token_ids, "attention_masks": (token_ids > 0).long(), "labels": token_ids % 5}


torch.manual_seed(19)
args = SimpleNamespace(gpu_ids="0,1", vocab_size=30, embed_dim=8, lstm_hidden=6, num_layers=1, num_tags=5)
print("loss", round(Trainer(args, list(sentences(3, 7))).train(), 4))
