import torch
from torch import nn


class PreferenceCollator:
    def __init__(self, pad):
        self.pad = pad

    def __call__(self, pairs):
        rows = [pair["prompt"] + pair[kind] for kind in ("chosen", "rejected") for pair in pairs]
        starts = [len(pair["prompt"]) for _ in range(2) for pair in pairs]
        width = max(map(len, rows))
        ids = torch.tensor([row + [self.pad] * (width - len(row)) for row in rows])
        answers = torch.arange(width) >= torch.tensor(starts)[:, None]
        return {"input_ids": ids, "answer_mask": answers & (ids != self.pad)}


class DPOTrainer:
    def __init__(self, model, ref_model, beta, lr):
        self.model, self.ref_model, self.beta = model, ref_model.eval(), beta
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def concatenated_forward(self, model, batch):
        logits = model(batch["input_ids"])[:, :-1]
        labels, mask = batch["input_ids"][:, 1:].to(logits.device), batch["answer_mask"][:, 1:].to(logits.device)
        return self.sequence_logps(logits, labels, mask).chunk(2)

    @staticmethod
    def sequence_logps(logits, labels, mask):
        logps = logits.log_softmax(-1).gather(2, labels[..., None]).squeeze(-1)
        return (logps * mask).sum(-1)

    def dpo_loss(self, pi_chosen, pi_rejected, ref_chosen, ref_rejected):
        pi_logratios = pi_chosen - pi_rejected
        ref_logratios = ref_chosen - ref_rejected
        logits = pi_logratios - ref_logratios
        return -nn.functional.logsigmoid(self.beta * logits).mean()

    def training_step(self, batch):
        with torch.no_grad():
            reference = self.concatenated_forward(self.ref_model, batch)
        loss = self.dpo_loss(*self.concatenated_forward(self.model, batch), *reference)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
