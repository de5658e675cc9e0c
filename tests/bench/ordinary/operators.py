"""Times ordinary operators and modules on one device: operators_bench.py starts it. Prints {name: seconds of processor time} as JSON.

    operators.py cpu|cuda small|large
"""

import json
import random
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DEVICE, SIZE = sys.argv[1:3]
N = {"small": 32, "large": 512}[SIZE]
STEPS = {"small": 16, "large": 64}[SIZE]
BUDGET_S = 0.15
torch.set_num_threads(1)
torch.manual_seed(0)


def least(function):
    function()
    start = time.process_time()
    function()
    calls = max(1, int(0.02 / max(time.process_time() - start, 1e-6)))
    best, rounds, end = float("inf"), 0, time.process_time() + BUDGET_S
    while rounds < 4 or time.process_time() < end:
        start = time.process_time()
        for _ in range(calls):
            function()
        best, rounds = min(best, (time.process_time() - start) / calls), rounds + 1
    return best


def given(*shape):
    return torch.randn(*shape).to(DEVICE)


def trained(module, *inputs):
    """Forward and backward."""
    module = module.to(DEVICE)

    def step():
        out = module(*inputs)
        (out[0] if isinstance(out, tuple) else out).sum().backward()
        module.zero_grad()

    return step


def captured(module, x):
    """The replay of a CUDA graph, beside the CPU's plain call."""
    module = module.to(DEVICE)
    with torch.no_grad():
        module(x)
        if DEVICE == "cpu":
            return torch.no_grad()(lambda: module(x))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            module(x)
    return graph.replay


def optimizer(kind, **options):
    parameters = [nn.Parameter(given(N, N)) for _ in range(10)]
    for each in parameters:
        each.grad = torch.randn_like(each)
    return kind(parameters, **options).step


def allocator():
    """Blocks of many sizes, given and taken in a random order that a seed repeats."""
    draw, live = random.Random(0), []
    for _ in range(300):
        if live and draw.random() < 0.5:
            live.pop(draw.randrange(len(live)))
        else:
            live.append(torch.full((draw.randrange(1, 50_000),), 1.0, device=DEVICE))


def mlp(dtype):
    return trained(nn.Sequential(nn.Linear(N, N), nn.GELU(), nn.Linear(N, N)).to(dtype), X.to(dtype))


X, IMAGE, SEQUENCE = given(N, N), given(4, 16, max(N // 8, 16), max(N // 8, 16)), given(8, STEPS, 64)
ROWS, PLACES = torch.randint(0, N, (N,)).to(DEVICE), torch.randint(0, N, (N, N)).to(DEVICE)
MASK, TOKENS = torch.rand(N, N).gt(0.5).to(DEVICE), torch.randint(0, 1000, (8, N)).to(DEVICE)
HALF, BFLOAT, Y, SCORES = X.half(), X.bfloat16(), X.clone(), X.clone().requires_grad_()
SPARSE = torch.randn(N, N).relu().to(DEVICE).to_sparse()

CASES = {
    "x + x": lambda: lambda: X + X,
    "x @ x": lambda: lambda: X @ X,
    "x @ x, float16": lambda: lambda: HALF @ HALF,
    "x @ x, bfloat16": lambda: lambda: BFLOAT @ BFLOAT,
    "softmax": lambda: lambda: X.softmax(-1),
    "cumsum": lambda: lambda: X.cumsum(-1),
    "sort": lambda: lambda: X.sort(-1),
    "topk": lambda: lambda: X.topk(5),
    "max of a dimension": lambda: lambda: X.max(-1),
    "cat": lambda: lambda: torch.cat([X, X, X]),
    "index by places": lambda: lambda: X[ROWS],
    "index by a mask": lambda: lambda: X[MASK],
    "index_put": lambda: lambda: Y.index_put_((ROWS,), X, accumulate=True),
    "scatter_add": lambda: lambda: Y.scatter_add_(1, PLACES, X),
    "unique": lambda: lambda: TOKENS.unique(),
    "randn": lambda: lambda: torch.randn(N, N, device=DEVICE),
    "dropout": lambda: lambda: F.dropout(X),
    "solve": lambda: lambda: torch.linalg.solve(X, X),
    "sparse product": lambda: lambda: torch.sparse.mm(SPARSE, X),
    "cross entropy": lambda: lambda: F.cross_entropy(SCORES, ROWS).backward(),
    "embedding": lambda: trained(nn.Embedding(1000, 64), TOKENS),
    "layer norm": lambda: trained(nn.LayerNorm(N), X),
    "batch norm": lambda: trained(nn.BatchNorm2d(16), IMAGE),
    "convolution": lambda: trained(nn.Conv2d(16, 16, 3), IMAGE),
    "convolution, float16": lambda: trained(nn.Conv2d(16, 16, 3).half(), IMAGE.half()),
    "two linear layers": lambda: mlp(torch.float32),
    "two linear layers, bfloat16": lambda: mlp(torch.bfloat16),
    "LSTM": lambda: trained(nn.LSTM(64, 64, batch_first=True), SEQUENCE),
    "LSTM, captured": lambda: captured(nn.LSTM(64, 64, batch_first=True), SEQUENCE),
    "GRU": lambda: trained(nn.GRU(64, 64, batch_first=True), SEQUENCE),
    "transformer layer": lambda: trained(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), SEQUENCE),
    "Adam": lambda: optimizer(torch.optim.Adam),
    "Adam, foreach": lambda: optimizer(torch.optim.Adam, foreach=True),
    "AdamW, fused": lambda: optimizer(torch.optim.AdamW, fused=True),
    "allocator": lambda: allocator,
}

print(json.dumps({name: least(make()) for name, make in CASES.items()}))
