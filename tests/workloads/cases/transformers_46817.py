# thread: https://github.com/huggingface/transformers/issues/46817
# about: code that knows of one GPU a process asks for the current device, which is the first one, while the model was put on the second.
# category: default-or-current-device
# operands: mask cuda:0, scores cuda:1
# fails: return scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
# fix: mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1).to(scores.device)



import torch


def attend(queries, keys):
    scores = queries @ keys.transpose(-1, -2)
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1).to(torch.cuda.current_device())
    return scores.masked_fill(mask, float("-inf")).softmax(dim=-1)


states = torch.randn(2, 5, 8).to("cuda:1")
attend(states, states)
