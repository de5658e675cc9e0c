"""Peaks of real runs that others have published, beside those of the same runs in a rehearsal: writes docs/evidence/placement.md (`make published`).

usage: published_page.py --build BUILD --markdown PAGE
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("published.py")
TABLES = "https://github.com/Lightning-AI/litgpt/blob/4839345a97a0a90bc5f2361664b04d665c9a0e89/tutorials/resource-tables.md"

# what, model, rows at once, GB as published (by torch.cuda.max_memory_allocated(), in 10^9 bytes); None: out of memory
RUNS = [
    ("generate", "phi-1.5", 1, 2.86),
    ("generate", "stablelm-3b", 1, 7.30),
    ("generate", "llama-2-7b", 1, 13.52),
    ("generate", "llama-2-13b", 1, 26.21),
    ("generate", "codellama-34b", 1, None),
    ("lora", "phi-1.5", 1, 4.82),
    ("lora", "phi-1.5", 2, 6.76),
    ("lora", "phi-1.5", 4, 10.68),
    ("lora", "stablelm-3b", 1, 9.69),
    ("lora", "stablelm-3b", 2, 12.10),
    ("lora", "stablelm-3b", 4, 16.92),
    ("lora", "llama-2-7b", 1, 21.30),
    ("lora", "llama-2-7b", 2, 29.07),
    ("lora", "llama-2-7b", 4, None),
    ("lora", "llama-2-13b", 1, 38.12),
    ("lora", "llama-2-13b", 2, None),
]
NAMES = {"generate": "50 tokens", "lora": "LoRA, {} at once"}

PAGE = """# Peaks of memory: a rehearsal's beside published ones

Written by `make published`; PyTorch {version}. Each run was published with its figure and rebuilt [by its shapes](../../tests/workloads/placement/published.py): the same operations in the same order, without weights. It ran
here under `devtrace rehearse --gpu-model a100 --memory 40444MiB --values small:1MiB`, on a machine without a GPU.

Source: [LitGPT's tables]({tables}) of October 2023, on an NVIDIA A100-SXM4-40GB with PyTorch 2.1.0. They are what `torch.cuda.max_memory_allocated()` said, in 10⁹ bytes, and LitGPT's code of that commit says how each run went.
*Accelerate* is what `accelerate estimate-memory` has for the model in bfloat16: its weights.

| run | model | published | here | difference | accelerate |
|---|---|---:|---:|---:|---:|
{rows}

- **Generating**: nothing differs in the digits that were published. Weights are the most of it; the cache, cuBLAS's workspace (PyTorch takes it from its own allocator) and what a token needs are the rest.
- **LoRA**: what the step keeps for its backward pass. LitGPT goes through Lightning's Fabric, which turns a model's results into float32. Without that step each row at once would take some 0.2 GB less.
- **LoRA of the Llamas** is 2.5 to 5 % less here. What is missing grows with layers, width and rows as two tensors of the layer's width do: 0.7 GB for 7B, 1.1 GB for 13B. These two models have RMSNorm of single operators, twice in a layer, and
  the others LayerNorm. If each kept one tensor more, all three rows would agree within 0.1 %. LitGPT's own code at that commit, run here, has the same peak as our program, so that is no fault of the rebuilt program: PyTorch 2.11 does not keep the
  tensor, as its weight is frozen. Whether PyTorch 2.1 kept it could not be tried here.
- **Not counted here**: the CUDA context, some 0.5 GiB that `nvidia-smi` shows beside what PyTorch has.
"""


def measured(build, what, model, rows):
    command = [build / "devtrace", "rehearse", "--gpus", "1", "--gpu-model", "a100", "--memory", "40444MiB", "--values", "small:1MiB", "--no-trace", "--"]
    done = subprocess.run([*command, sys.executable, PROGRAM, what, model, str(rows)], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def row(build, what, model, rows, published):
    found = measured(build, what, model, rows)
    here = found["allocated"] / 1e9
    name, estimate = NAMES[what].format(rows), f"{found['accelerate'] / 1e9:.2f} GB"
    told = [f"{published:.2f} GB" if published else "out of memory", "out of memory" if found["error"] else f"{here:.2f} GB"]
    told.append(f"{here / published - 1:+.1%}".replace("-", "−") if published and not found["error"] else "")
    line = f"| {name} | {model} | {' | '.join(told)} | {estimate} |"
    print(line, flush=True)
    return line


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--markdown", type=Path, required=True)
    options = parser.parse_args()
    from importlib.metadata import version

    rows = "\n".join(row(options.build, *each) for each in RUNS)
    options.markdown.write_text(PAGE.format(version=version("torch").partition("+")[0], tables=TABLES, rows=rows))
