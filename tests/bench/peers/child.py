"""One program in one way, in a process of its own: for each number that is read runs so many steps, and answers with the processor time."""

import json
import os
import sys
import time

from programs import PROGRAMS
from ways import WAYS


def main(program: str, way: str) -> None:
    import torch

    torch.set_num_threads(1)
    step = PROGRAMS[program].prepare()
    with WAYS[way].around():
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        print("ready", os.getpid(), flush=True)
        for line in sys.stdin:
            began = time.process_time()
            for _ in range(int(line)):
                step()
            print(json.dumps(time.process_time() - began), flush=True)


main(*sys.argv[1:])
