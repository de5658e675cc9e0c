"""Two ranks of data-parallel training on a device each, for so many seconds: ranks.py SECONDS. Gradients go over gloo by way of the CPU, so that a fork
has no communicator. Writes the ranks' process ids to the file `ranks`; each prints what it did and what it computed, as JSON."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import torch
import torch.distributed as dist
from mix import DONE, fork, in_threads, refuse, refuse_at_a_new_line
from torch import nn

RANK = int(os.environ.get("RANK", 0))
DEVICE = f"cuda:{RANK}"
SEEN = Counter()
EACH = 100  # steps, after which the parameters are noted


def seen_from_inside():
    """What attaching could leave behind."""
    handlers = [repr(signal.getsignal(each)) for each in (signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM)]
    return repr([handlers, sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), threading.active_count(), sorted(os.environ), type(ValueError("a")).__mro__])


def train(net, optimizer):
    inputs, wanted = torch.randn(8, 16).to(DEVICE), torch.randn(8, 4).to(DEVICE)
    optimizer.zero_grad()
    nn.functional.mse_loss(net(inputs), wanted).backward()
    flat = torch.cat([each.grad.flatten() for each in net.parameters()]).cpu()
    dist.all_reduce(flat)
    at = 0
    for each in net.parameters():
        each.grad.copy_(flat[at : at + each.numel()].view_as(each) / 2)
        at += each.numel()
    optimizer.step()


def main():
    signal.signal(signal.SIGUSR1, lambda *_: SEEN.update(signals=1))
    signal.signal(signal.SIGALRM, lambda *_: SEEN.update(alarms=1))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    dist.init_process_group("gloo", rank=RANK, world_size=2, init_method=f"file://{os.getcwd()}/meeting")
    torch.manual_seed(RANK)
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    digests, before, until = [], seen_from_inside(), time.monotonic() + float(sys.argv[1])
    goes_on = torch.ones(1)
    while goes_on.item():
        train(net, optimizer)
        refuse()
        if DONE["train"] % 16 == RANK:
            for step in (refuse_at_a_new_line, fork, in_threads):
                step()
                DONE[step.__name__] += 1
            os.kill(os.getpid(), signal.SIGUSR1)
        DONE["train"] += 1
        if DONE["train"] % EACH == 0:
            digests.append(hashlib.sha256(b"".join(each.detach().cpu().numpy().tobytes() for each in net.parameters())).hexdigest()[:8])
            goes_on = torch.tensor([float(time.monotonic() < until)])
            dist.broadcast(goes_on, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert seen_from_inside() == before, (before, seen_from_inside())
    assert SEEN["alarms"] and SEEN["signals"] == DONE["fork"], SEEN
    print(json.dumps({"rank": RANK, **DONE, "alarms": SEEN["alarms"]}))
    with open(f"parameters-{RANK}", "w") as file:
        file.write("\n".join(digests))
    dist.destroy_process_group()


if __name__ == "__main__":
    if RANK == 0:
        other = subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": "1"})
        with open("ranks", "w") as file:
            file.write(f"{os.getpid()} {other.pid}")
    main()
    if RANK == 0:
        sys.exit(other.wait())
