import torch
import torch.nn.functional as F


def logprobs_from_logits(logits, labels):
    """The log-probability of every label."""
    logp = F.log_softmax(logits, dim=2)
    logpy = torch.gather(logp, 2, labels.unsqueeze(2)).squeeze(-1)
    return logpy


def masked_mean(values, mask):
    mask = mask.to(values.device)
    return (values * mask).sum() / mask.sum()
