"""Rounds of everything that a long run does, for so many seconds: mix.py SECONDS. Prints what it did, as JSON.

A step leaves nothing behind by itself, so that what grows is somebody else's.
"""

import gc
import json
import os
import sys
import threading
import time
from collections import Counter

import torch
from torch import nn

torch.set_num_threads(1)
DONE = Counter()


class Decoder(nn.Module):
    """A language model with a cache, of one layer."""

    def __init__(self):
        super().__init__()
        self.embedding, self.cell, self.head = nn.Embedding(64, 16), nn.GRUCell(16, 16), nn.Linear(16, 64)

    def forward(self, token, state):
        state = self.cell(self.embedding(token), state)
        return self.head(state), state


torch.manual_seed(5)
NET = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to("cuda:0")
OPTIMIZER = torch.optim.AdamW(NET.parameters(), lr=1e-3)
DECODER = Decoder().to("cuda:1").eval()


def train():
    inputs, wanted = torch.randn(8, 16).to("cuda:0"), torch.randn(8, 4, device="cuda:0")
    OPTIMIZER.zero_grad()
    nn.functional.mse_loss(NET(inputs), wanted).backward()
    OPTIMIZER.step()


@torch.no_grad()
def generate():
    token, state = torch.zeros(2, dtype=torch.long, device="cuda:1"), torch.zeros(2, 16, device="cuda:1")
    for _ in range(4):
        logits, state = DECODER(token, state)
        token = logits.argmax(dim=-1)
    token.tolist()


def allocate():
    """Blocks of sizes that differ from round to round, copied between the devices, given back to the driver now and then."""
    blocks = [torch.empty(1024 * (1 + (DONE["allocate"] * 7 + at) % 50), device=f"cuda:{at % 2}") for at in range(6)]
    blocks[1].copy_(blocks[0][:1].expand(blocks[1].shape))
    del blocks
    if DONE["allocate"] % 16 == 0:
        torch.cuda.empty_cache()


def refuse():
    """At one line always: the findings after the first are counted only."""
    weights, ids = torch.ones(64, device="cuda:0"), torch.ones(64)
    try:
        weights + ids
    except RuntimeError:
        return
    raise SystemExit("nothing was refused")


def refuse_at_a_new_line():
    """A file that has not been there before, as cells of notebooks and generated code are."""
    number = DONE["refuse_at_a_new_line"]
    source = "\n" * (number % 1000) + "scaled_there = left * 2\nresult = scaled_there @ right"
    try:
        exec(compile(source, f"cell-{number}.py", "exec"), {"left": torch.ones(4, 4, device="cuda:1"), "right": torch.ones(4, 4)})
    except RuntimeError:
        return
    raise SystemExit("nothing was refused")


def fork():
    child = os.fork()
    if child == 0:
        left = torch.ones(4)
        os._exit(int((left + left).sum().item() != 8))
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a forked process did not end well")


def in_threads():
    failed = []

    def work(device):
        try:
            torch.cuda.set_device(device)
            (torch.ones(16, device="cuda") * 2).sum().item()
            refuse()
        except BaseException as error:  # SystemExit in a thread would be lost
            failed.append(error)

    threads = [threading.Thread(target=work, args=(at % 2,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def graph():
    still = torch.zeros(8, 16, device="cuda:0")
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        out = NET(still)
    for _ in range(3):
        still.copy_(torch.randn(8, 16))
        captured.replay()
    out.sum().item()


# How often in sixteen rounds.
STEPS = {train: 16, generate: 8, allocate: 16, refuse: 16, refuse_at_a_new_line: 1, fork: 2, in_threads: 4, graph: 2}


def main():
    until = time.monotonic() + float(sys.argv[1])
    rounds = 0
    while time.monotonic() < until or rounds < 16:
        for step, often in STEPS.items():
            if rounds * often % 16 < often:
                step()
                DONE[step.__name__] += 1
        rounds += 1
        if rounds % 16 == 0:
            gc.collect()
    print(json.dumps({"rounds": rounds, **DONE}))


if __name__ == "__main__":
    main()
