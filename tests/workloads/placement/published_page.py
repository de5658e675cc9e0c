"""Peaks of real runs that others have published, beside those of the same runs in a rehearsal: writes docs/evidence/placement.md (`make published`).

usage: published_page.py --build BUILD --markdown PAGE
"""

import argparse
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
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
# Transformers' guide for one GPU: words of published_transformers.py, MB as published; and how much of that lay outside of PyTorch's allocator.
GUIDE = "https://github.com/huggingface/transformers/blob/0016acf7ef421c7fe8eff7945de52c71896c3b01/docs/source/en/perf_train_gpu_one.mdx"
STEPS = [
    ("4 rows", ["--batch", "4"], 14949),
    ("1 row, 4 accumulated", ["--accumulate", "4"], 8681),
    ("… and checkpoints", ["--accumulate", "4", "--checkpoint"], 6775),
    ("4 rows, float16", ["--batch", "4", "--half"], 13939),
    ("1 row, 4 accumulated, checkpoints, float16", ["--accumulate", "4", "--checkpoint", "--half"], 7275),
    ("4 rows, Adafactor", ["--batch", "4", "--adafactor"], 12295),
    ("1 row, 4 accumulated, checkpoints, float16, Adafactor", ["--accumulate", "4", "--checkpoint", "--half", "--adafactor"], 4847),
]
KERNELS = 1343
# Its tutorial on language models: GiB.
TUTORIAL = "https://github.com/huggingface/transformers/blob/008f5c8c29be84d4721dc6d1e0fcd72300580be4/docs/source/en/llm_tutorial_optimization.md"
OCTOCODER = 29.0260648727417
# PyTorch's recipe about ZeroRedundancyOptimizer: the four moments of rank 0, in 10^6 bytes, rounded down.
RECIPE = "https://github.com/pytorch/tutorials/blob/01c63024aba938019e52ff7755eb9138065a59df/recipes_source/zero_redundancy_optimizer.rst"
MOMENTS = {"model": "the model", "DDP": "DDP made", "backward": "backward done", "step": "step done"}
RANKS = [("Adam", [], (335, 656, 992, 1697)), ("sharded", ["--sharded"], (335, 656, 992, 1361))]

NAMES = {"generate": "50 tokens", "lora": "LoRA, {} at once"}

PAGE = """# Peaks of memory: a rehearsal's beside published ones

Written by `make published` on {date}; PyTorch {version}. Each run was published with its figure, and rebuilt by its shapes: the same operations in the same order, without weights. It ran here under
`devtrace rehearse --values small:1MiB`, on a machine without a GPU, with the memory of the published device. Four sources, 32 figures.

## Generating and LoRA on an A100

Source: [LitGPT's tables]({tables}) of October 2023, on an NVIDIA A100-SXM4-40GB with PyTorch 2.1.0. They are what `torch.cuda.max_memory_allocated()` said, in 10⁹ bytes, and LitGPT's code of that commit says how each run went
([rebuilt](../../tests/workloads/placement/published.py); `--gpu-model a100 --memory 40444MiB`). *Accelerate* is what `accelerate estimate-memory` has for the model in bfloat16: its weights.

| run | model | published | here | difference | accelerate |
|---|---|---:|---:|---:|---:|
{litgpt}

- **Generating**: nothing differs in the digits that were published. Weights are the most of it; the cache, cuBLAS's workspace (PyTorch takes it from its own allocator) and what a token needs are the rest.
- **LoRA**: what the step keeps for its backward pass. LitGPT goes through Lightning's Fabric, which turns a model's results into float32. Without that step each row at once would take some 0.2 GB less.
- **LoRA of the Llamas** is 2.5 to 5 % less here. What is missing grows with layers, width and rows as two tensors of the layer's width do: 0.7 GB for 7B, 1.1 GB for 13B. These two models have RMSNorm of single operators, twice in a layer, and
  the others LayerNorm. If each kept one tensor more, all three rows would agree within 0.1 %. LitGPT's own code at that commit, run here, has the same peak as our program, so that is no fault of the rebuilt program: PyTorch 2.11 does not keep the
  tensor, as its weight is frozen. Whether PyTorch 2.1 kept it could not be tried here.
- **Not counted here**: the CUDA context, some 0.5 GiB that `nvidia-smi` shows beside what PyTorch has.

## Training BERT on a V100

Source: [Transformers' guide for one GPU]({guide_link}), whose runs are of January 2022, on a Tesla V100-SXM2-16GB (`--gpu-model t4 --memory 16160MiB`: devtrace knows no V100). bert-large-uncased with Trainer, 512 tokens a row, AdamW; the figures are
NVML's bytes in use, of which the kernels of CUDA have 1343 MB, as the guide says. Here: `torch.cuda.max_memory_reserved()` and these 1343 MB ([rebuilt](../../tests/workloads/placement/published_transformers.py)).

| run | published | here | difference |
|---|---:|---:|---:|
{guide}

- **Softmax** kept its input for the backward pass up to PyTorch 1.10 ([pytorch#64000](https://github.com/pytorch/pytorch/issues/64000)), and so it does in the rebuilt runs. With today's, the runs without checkpoints take less: a tensor of 16 MiB for each
  layer and row, so that 4 rows would be 13,327 MB, 11 % below what was published.
- **What is left**: float16 has 0.4 GB less here than there, of which the cause is not known. Trainer's and the model's code have changed since, and its three runs with checkpoints keep hardly any activations: they agree within 2 %.

## Generating with a model of 15 billion parameters

Source: [Transformers' tutorial on language models]({tutorial_link}), `bigcode/octocoder` in bfloat16 on an A100 of 40 GB, sixty tokens after a prompt of some twenty; `torch.cuda.max_memory_allocated()`, in 2³⁰ bytes.

| model | published | here | difference |
|---|---:|---:|---:|
{octocoder}

- What the tutorial has of a long prompt depends on the number of its tokens, which it does not say; its runs in 8 and 4 bits are of another library's kernels.

## Two ranks of DistributedDataParallel

Source: [PyTorch's recipe about ZeroRedundancyOptimizer]({recipe_link}): twenty linear layers of 2000 by 2000, Adam with its state at each rank or sharded; `torch.cuda.max_memory_allocated()` of rank 0 up to each moment, in whole 10⁶ bytes
([rebuilt](../../tests/workloads/placement/published_ranks.py)).

| optimizer | up to | published | here | difference |
|---|---|---:|---:|---:|
{recipe}

- **cuBLAS's workspace** was no memory of PyTorch's allocator when this was published. So the runs here have `CUBLAS_WORKSPACE_CONFIG=:0:0`; without that PyTorch of today takes 72 MB more on an H100.
- **Backward and step** of Adam are 14 MB apart, about a layer's gradient, which DDP of 2021 seems to have held besides. The device is not named.
- **DDP made** varies from run to run, here by up to 48 MB: gloo's threads give back what they have sent when they come to it.

## Whole models by their shapes

Not beside published figures but beside arithmetic: what the tests of `make large` printed on 28 November 2026, on two cores that had other work and 23 GiB. Host memory is the largest of one process, time the program's own, without the start.

| model | devices | | host memory | time |
|---|---|---|---:|---:|
| LLaMA-70B, three tokens | 8 × 40 GiB | 17.1 to 19.2 GB each | 658 MiB | 7 s |
| LLaMA-70B, three tokens | 4 × 80 GiB | 34.2 to 36.3 GB each | 644 MiB | 9 s |
| Mixtral 8x7B, three tokens | 16 × 80 GiB | 6.5 to 6.8 GB each | 1208 MiB | 37 s |
| LLaMA of 405B, three tokens | 16 × 80 GiB | 44.6 to 55.2 GB each | 776 MiB | 18 s |
| LLaMA-70B | 1 × 24, 40, 80 GiB | out of memory after 13, 23, 48 layers, as arithmetic says | | |
| LLaMA-7B, two steps of AdamW with checkpoints, FSDP2 | 8 × 40 GiB | 9.26 GB each, in the backward pass | 706 MiB a rank | 153 s |
| … DDP | 8 × 80 GiB | 80.9 GB each, in the optimizer's step | 707 MiB a rank | 148 s |
| … one device | 80 GiB | 67.4 GB, in the optimizer's step | 705 MiB | 58 s |
| … one device | 40 GiB | out of memory in the first optimizer's step | | |
"""


def measured(build, options, program, *words):
    command = [build / "devtrace", "rehearse", *options, "--values", "small:1MiB", "--no-trace", "--", sys.executable, HERE / program, *words]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", **({"CUBLAS_WORKSPACE_CONFIG": ":0:0"} if program == "published_ranks.py" else {})}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def difference(here, published):
    return f"{here / published - 1:+.1%}".replace("-", "−")


def row(*cells):
    line = f"| {' | '.join(cells)} |"
    print(line, flush=True)
    return line


def litgpt(build):
    for what, model, rows, published in RUNS:
        found = measured(build, ["--gpus", "1", "--gpu-model", "a100", "--memory", "40444MiB"], "published.py", what, model, str(rows))
        here, full = found["allocated"] / 1e9, found["error"]
        told = [f"{published:.2f} GB" if published else "out of memory", "out of memory" if full else f"{here:.2f} GB"]
        yield row(NAMES[what].format(rows), model, *told, difference(here, published) if published and not full else "", f"{found['accelerate'] / 1e9:.2f} GB")


def guide(build):
    for name, words, published in STEPS:
        found = measured(build, ["--gpus", "1", "--gpu-model", "t4", "--memory", "16160MiB"], "published_transformers.py", "bert", *words)
        here = found["reserved"] / 2**20 + KERNELS
        yield row(name, f"{published} MB", "out of memory" if found["error"] else f"{here:.0f} MB", "" if found["error"] else difference(here, published))


def recipe(build):
    for name, words, published in RANKS:
        found = measured(build, ["--gpus", "2"], "published_ranks.py", *words)
        for moment, there in zip(MOMENTS, published):
            yield row(name, MOMENTS[moment], f"{there} MB", f"{found[moment] // 10**6} MB", difference(found[moment] // 10**6, there))


def octocoder(build):
    found = measured(build, ["--gpus", "1", "--gpu-model", "a100", "--memory", "40444MiB"], "published_transformers.py", "octocoder")
    here = found["allocated"] / 2**30
    yield row("octocoder", f"{OCTOCODER:.3f} GiB", f"{here:.3f} GiB", difference(here, OCTOCODER))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--markdown", type=Path, required=True)
    options = parser.parse_args()
    from importlib.metadata import version

    tables = {make.__name__: "\n".join(make(options.build)) for make in (litgpt, guide, octocoder, recipe)}
    links = {"tables": TABLES, "guide_link": GUIDE, "tutorial_link": TUTORIAL, "recipe_link": RECIPE}
    options.markdown.write_text(PAGE.format(version=version("torch").partition("+")[0], date=date.today(), **links, **tables))
