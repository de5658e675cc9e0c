# EXPECT {"kind":"remote-access","operation":"dtw_kernel","devices":["cuda:0","cuda:1"],"operands":["cost"],"category":"default or current device","line":["cost = cost.cuda()"],"error":"","thread":"https://github.com/openai/whisper/pull/2561","hard":"the launch itself is guarded, rightly; another tensor was made after the wrong one and shares its fault"}
# FIX cost = cost.cuda() -> cost = cost.to(x.device)
import torch
import triton
import triton.language as tl


@triton.jit
def dtw_kernel(cost, trace, x, rows, columns):
    width = columns + 1
    for i in range(rows):
        for j in range(columns):
            both = tl.load(cost + i * width + j)
            row = tl.load(cost + i * width + j + 1)
            column = tl.load(cost + (i + 1) * width + j)
            best = tl.minimum(both, tl.minimum(row, column))
            here = (i + 1) * width + j + 1
            tl.store(cost + here, tl.load(x + i * columns + j) + best)
            tl.store(trace + here, tl.where(best == both, 0, tl.where(best == row, 1, 2)))


def align(x):
    """The cheapest way through a matrix of tokens and frames, which the kernel walks alone."""
    rows, columns = x.shape
    cost = torch.full((rows + 1, columns + 1), float("inf"))
    cost[0, 0] = 0
    cost = cost.cuda()
    trace = torch.zeros_like(cost, dtype=torch.int32)
    with torch.cuda.device(x.device):
        dtw_kernel[(1,)](cost, trace, x, rows, columns)
    return cost, trace


def word_timestamps(attention, words):
    cost, trace = align(-attention.softmax(dim=-1).mean(dim=0))
    return {word: tuple(trace[row + 1 :].shape) for row, word in enumerate(words)}, tuple(cost.shape)


torch.manual_seed(0)
attention = torch.rand(2, 3, 12).to("cuda:1")
print("timestamps", *word_timestamps(attention, ["and", "so", "on"]))
