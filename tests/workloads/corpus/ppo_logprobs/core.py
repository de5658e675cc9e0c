def token_logprobs(logits, labels):
    """The log probability that each label had."""
    logp = logits.log_softmax(-1)
    index = labels[..., None]
    return logp.gather(-1, index)[..., 0]


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()
