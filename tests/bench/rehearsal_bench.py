"""How much longer a rehearsed program takes than the same on the CPU: LLaMA from transformers, generating; side by side in one run.

    python tests/bench/rehearsal_bench.py --build build

Both run on one thread and generate the same tokens. Figures are processor time, which other programs on the machine do not stretch: the least
of several rounds, after one to warm up, of several processes in turn. Then what a rehearsal adds to the start of a program, by the clock.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
# hidden size, layers: small enough to be all overhead; a size at which arithmetic takes part.
SIZES = {"tiny": (64, 4), "small": (512, 8), "medium": (1024, 8)}

PROGRAM = """
import json, sys, time

import torch
from transformers import LlamaConfig, LlamaForCausalLM
device, hidden, layers, tokens, rounds = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(1)
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(hidden_size=hidden, intermediate_size=hidden * 3, num_hidden_layers=layers, num_attention_heads=8,
    num_key_value_heads=8, vocab_size=8000, pad_token_id=0)).eval()
prompt = torch.arange(1, 33)[None]
if device == "split":  # over two devices, as accelerate does it
    from accelerate import dispatch_model
    places = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    places.update({f"model.layers.{i}": int(i >= layers // 2) for i in range(layers)})
    model, device = dispatch_model(model, places), "cuda:0"
else:
    model.to(device)
prompt = prompt.to(device)
times = []
for _ in range(rounds + 1):
    start = time.process_time()
    out = model.generate(prompt, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
    times.append(time.process_time() - start)
print(json.dumps({"seconds": min(times[1:]), "tokens": out[0].tolist()}))
"""


def run(prefix, device, size, options) -> dict:
    hidden, layers = SIZES[size]
    command = [*prefix, sys.executable, "-c", PROGRAM, device, hidden, layers, options.tokens, options.rounds]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd="/tmp", env=options.env)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


START = "import torch, sys; torch.ones(1).to(sys.argv[1]).sum().item()"


def start_up(ways: dict, options) -> None:
    """Wall seconds of a program that imports PyTorch and adds one number, least of several runs."""

    def least(prefix, device):
        seconds = []
        for _ in range(options.rounds + 2):
            began = time.monotonic()
            subprocess.run([*map(str, prefix), sys.executable, "-c", START, device], check=True, cwd="/tmp", env=options.env, capture_output=True)
            seconds.append(time.monotonic() - began)
        return min(seconds)

    cpu = least([], "cpu")
    print(f"start-up {'cpu':<20} {cpu:8.2f} s")
    for way, (prefix, device) in ways.items():
        if device != "split":
            found = least(prefix, device)
            print(f"start-up {way:<20} {found:8.2f} s, {found - cpu:+.2f} s")


def main() -> int:

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3, help="processes for each way, taking turns")
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=SIZES)
    options = parser.parse_args()
    options.env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    devtrace = (TOP / options.build / "devtrace").resolve()
    ways = {
        "cuda:0, no tracing": ([devtrace, "rehearse", "--no-trace", "--"], "cuda:0"),
        "cuda:0": ([devtrace, "rehearse", "--option", "log_path=/dev/null", "--"], "cuda:0"),
        "two devices": ([devtrace, "rehearse", "--option", "log_path=/dev/null", "--"], "split"),
    }
    print(f"LLaMA, {options.tokens} tokens, processor time on one thread; ms a token, and times the CPU's")
    for size in options.sizes:
        turns = [(way, run(*what, size, options)) for _ in range(options.repeats) for way, what in {"cpu": ([], "cpu"), **ways}.items()]
        cpu = min(found["seconds"] for way, found in turns if way == "cpu")
        print(f"{size:<8} {'cpu':<20} {1000 * cpu / options.tokens:8.2f}")
        for way in ways:
            each = [found for its_way, found in turns if its_way == way]
            same = "" if all(found["tokens"] == turns[0][1]["tokens"] for found in each) else "  OTHER TOKENS"
            seconds = min(found["seconds"] for found in each)
            print(f"{size:<8} {way:<20} {1000 * seconds / options.tokens:8.2f} {seconds / cpu:6.2f}x{same}")
    start_up(ways, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
