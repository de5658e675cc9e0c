import torch


class Drafter:
    """Some tokens more, by a smaller model."""

    def __init__(self, model, tokens):
        self.model, self.tokens = model, tokens

    def candidates(self, ids):
        ids = ids.to(self.model.device)
        for _ in range(self.tokens):
            ids = torch.cat([ids, self.model(ids)[:, -1:].argmax(-1)], dim=1)
        return ids


@torch.no_grad()
def assisted_decoding(model, drafter, ids, length):
    while ids.shape[1] < length:
        known = ids.shape[1]
        candidate_ids = drafter.candidates(ids)
        logits = model(candidate_ids)
        chosen = logits[:, known - 1 :].argmax(-1)
        drafted = candidate_ids[:, known:]
        same = int((chosen[:, :-1] == drafted).cumprod(-1).sum())
        ids = torch.cat([ids, chosen[:, : same + 1].to(ids.device)], dim=1)
    return ids[:, :length]
