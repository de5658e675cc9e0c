"""devtrace place: which devices and which map are the cheapest for a model whose needs are known by arithmetic."""

import json
import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute

SERVE = TOP / "tests/workloads/placement/serve.py"
LAYER = 32 << 20  # bytes of one of its layers, about
ROW = 2896 * 4  # what crosses from device to device for each row


def place(folder, *words, timeout=300):
    return execute([DEVTRACE, "place", *words], folder, environment(None), timeout)


def test_the_cheapest_that_fits(tmp_path):
    """Twelve layers: one device of 256 MiB is too small, two hold six each, four would do as well."""
    words = ["--try", "gpus=1,2,4", "--try", "device-map=balanced", "--memory", "256MiB", "--tokens", 4, "--format", "json"]
    outcome = place(tmp_path, *words, "--", sys.executable, SERVE)
    assert outcome.code == 0, outcome.err
    tries = {one["gpus"]: one for one in json.loads(outcome.out)["tries"]}
    assert [tries[gpus]["end"] for gpus in (1, 2, 4)] == ["out of memory", "fits", "fits"]
    assert [tries[gpus]["cheapest"] for gpus in (1, 2, 4)] == [False, True, False]
    assert all(6 * LAYER < peak < 8 * LAYER for peak in tries[2]["peak"].values())
    assert set(tries[2]["device_map"].values()) == {"0", "1"}
    # To the next device and back: twice with two, four times with four.
    assert (tries[2]["between_devices_a_token"], tries[4]["between_devices_a_token"]) == (2 * ROW, 4 * ROW)
    # Six layers, and room for one on the first device, which accelerate keeps.
    assert tries[2]["max_memory"] == {"0": "224MiB", "1": "192MiB"}
    assert [path.name for path in tmp_path.iterdir()] == []  # its logs are gone with it


def test_values_of_the_program_and_tries_that_fail(tmp_path):
    """Each batch has its own cheapest; a try that fails, or takes too long, does not end the others."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = ["--try", "gpus=1,2", "--try", "batch=1,64,bad,slow", "--memory", "128MiB", "--timeout", 25]
    outcome = place(tmp_path, *words, "--", sys.executable, program, "{batch}")
    assert outcome.code == 0, outcome.err
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert [next(word for word in ("fits", "out of memory", "failed", "took too long") if word in line) for line in lines[1:9]] == [
        "fits", "out of memory", "failed", "took too long", "fits", "fits", "failed", "took too long",
    ]  # fmt: skip
    assert "batch=bad gpus=1: exit status 1: ValueError: invalid literal for int() with base 10: 'bad'" in outcome.out
    assert [line for line in lines if line.startswith("the cheapest")] == [
        "the cheapest that fits: batch=1 gpus=1: 1 device of 0.1 GiB, 0 B between devices",
        "the cheapest that fits: batch=64 gpus=2: 2 devices of 0.1 GiB, 0 B between devices",
    ]


PROGRAM = """
import sys, time, torch
if sys.argv[1] == "slow":
    torch.ones(1, device="cuda"); time.sleep(1000)
kept = [torch.zeros(int(sys.argv[1]) << 20, dtype=torch.uint8, device=f"cuda:{i % torch.cuda.device_count()}") for i in range(3)]
"""


def test_a_checkpoint_that_is_loaded_by_another_map(tmp_path):
    words = ["--try", "gpus=2", "--try", "device-map=sequential,balanced", "--memory", "1GiB", "--format", "json"]
    outcome = place(tmp_path, *words, "--", sys.executable, SERVE, "--way", "load", "--layers", 6)
    assert outcome.code == 0, outcome.err + outcome.out
    sequential, balanced = json.loads(outcome.out)["tries"]
    assert len(sequential.get("peak", {})) >= 1 and set(balanced["device_map"].values()) == {"0", "1"}
    assert (sequential["cheapest"], balanced["cheapest"]) == (True, False)  # nothing crosses with all on one device


OFFLOADED = """
import sys, torch
from accelerate import cpu_offload
layers = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(4)])  # 16 MiB
if sys.argv[1] == "host":
    cpu_offload(layers, torch.device("cuda:0"))
else:
    layers.to("cuda:0")
with torch.no_grad():
    for _ in range(4):
        layers(torch.ones(1, 1024, device="cuda:0"))
"""


def test_what_comes_from_the_host_again_for_each_token(tmp_path):
    """Weights that are offloaded cross at each; those that are brought to the device once do not."""
    (tmp_path / "program.py").write_text(OFFLOADED)
    words = ["--try", "weights=host,device", "--memory", "256MiB", "--tokens", 4]
    outcome = place(tmp_path, *words, "--format", "json", "--", sys.executable, "program.py", "{weights}")
    assert outcome.code == 0, outcome.err + outcome.out
    host, device = json.loads(outcome.out)["tries"]
    assert (host["from_host_a_token"], device["from_host_a_token"]) == (16 << 20, 0)
    assert device["from_host"] == 16 << 20 and host["from_host"] == 64 << 20
    outcome = place(tmp_path, *words, "--", sys.executable, "program.py", "{weights}")
    assert "0 B between devices a token, 16 MiB from the host\n" in outcome.out and "0 B between devices a token\n" in outcome.out, outcome.out


SEVERAL = """
import os, subprocess, sys
for device in "01":
    code = "import torch; kept = torch.zeros(100 << 20, dtype=torch.uint8, device='cuda:0')"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "CUDA_VISIBLE_DEVICES": device}, check=True)
"""


def test_processes_that_see_one_device_each(tmp_path):
    """Each calls its own cuda:0."""
    (tmp_path / "program.py").write_text(SEVERAL)
    outcome = place(tmp_path, "--try", "gpus=2", "--memory", "128MiB", "--format", "json", "--", sys.executable, "program.py")
    assert outcome.code == 0, outcome.err + outcome.out
    (one,) = json.loads(outcome.out)["tries"]
    assert one["peak"] == {"cuda:0": 100 << 20, "cuda:1": 100 << 20}


PRETRAINED = """
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=8, vocab_size=1000, tie_word_embeddings=False)
with torch.device("meta"):
    model = LlamaForCausalLM(config)
model.to_empty(device="cpu").save_pretrained("saved")
torch.cuda.init()
model = AutoModelForCausalLM.from_pretrained("saved", device_map={"": 0})
print(model(input_ids=torch.ones(1, 4, dtype=torch.long, device="cuda:0")).logits.shape)
"""


def test_a_model_of_transformers(tmp_path):
    """The program's map has all on the first device."""
    (tmp_path / "program.py").write_text(PRETRAINED)
    words = ["--try", "gpus=2", "--try", "device-map=balanced", "--memory", "4GiB", "--format", "json"]
    outcome = place(tmp_path, *words, "--", sys.executable, "program.py")
    assert outcome.code == 0, outcome.err + outcome.out
    (one,) = json.loads(outcome.out)["tries"]
    layers = [one["device_map"][f"model.layers.{i}"] for i in range(4)]
    assert layers == sorted(layers) and set(layers) == {"0", "1"}
    assert all(peak > 64 << 20 for peak in one["peak"].values())


UNEVEN = """
import torch
from accelerate import dispatch_model, infer_auto_device_map
class Model(torch.nn.Module):
    _no_split_modules = ["Linear"]
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2896, 2896, bias=False) for _ in range(12))
    def forward(self, x):
        kept = torch.empty(128 << 20, dtype=torch.uint8, device="cuda:0")  # what this device has besides
        for layer in self.layers:
            x = layer(x)
        return x
torch.cuda.init()
model = Model()
model = dispatch_model(model, infer_auto_device_map(model, no_split_module_classes=["Linear"]))
with torch.no_grad():
    for _ in range(2):
        model(torch.ones(1, 2896, device="cuda:0"))
"""


@pytest.mark.slow
def test_a_map_balanced_by_what_was_measured(tmp_path):
    """Twelve layers of 32 MiB, and 128 MiB on the first device: four and eight; six and six do not fit."""
    (tmp_path / "program.py").write_text(UNEVEN)
    words = ["--try", "gpus=2", "--try", "device-map=balanced,measured", "--memory", "300MiB", "--format", "json"]
    outcome = place(tmp_path, *words, "--", sys.executable, "program.py")
    assert outcome.code == 0, outcome.err + outcome.out
    balanced, measured = json.loads(outcome.out)["tries"]
    assert (balanced["end"], measured["end"]) == ("out of memory", "fits")
    assert balanced["out_of_memory"][0].startswith("cuda:0: out of memory: 128 MiB were asked for, ") and balanced["out_of_memory"][0].endswith(", in Model")
    assert sorted(measured["device_map"].values()) == ["0"] * 4 + ["1"] * 8
    first, second = measured["peak"]["cuda:0"], measured["peak"]["cuda:1"]
    assert abs(first - second) < LAYER and measured["cheapest"], measured
    outcome = place(tmp_path, *words[:2], "--try", "device-map=measured", "--memory", "300MiB", "--", sys.executable, "program.py")
    assert 'device_map="sequential", max_memory={0: "160MiB", 1: "256MiB"}' in outcome.out, outcome.out


PARALLEL = """
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
import os
config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=8, vocab_size=1000, tie_word_embeddings=False)
rank = int(os.environ.get("LOCAL_RANK", 0))
folder = f"saved{os.environ.get('WORLD_SIZE', 1)}-{rank}"
with torch.device("meta"):
    model = LlamaForCausalLM(config)
model.to_empty(device="cpu").save_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, device_map={"": 0})
print(model(input_ids=torch.ones(1, 4, dtype=torch.long, device=f"cuda:{rank}")).logits.shape)
"""


@pytest.mark.slow
def test_each_layer_split_among_ranks(tmp_path):
    """Layers are halved, the embedding is not; what the ranks add up crosses."""
    (tmp_path / "program.py").write_text(PARALLEL)
    words = ["--try", "tensor-parallel=1,2", "--memory", "4GiB"]
    outcome = place(tmp_path, *words, "--format", "json", "--", sys.executable, "program.py")
    assert outcome.code == 0, outcome.err + outcome.out
    alone, both = json.loads(outcome.out)["tries"]
    assert (alone["end"], both["end"], alone["gpus"], both["gpus"]) == ("fits", "fits", 1, 2), outcome.out
    assert alone["between_devices"] == 0 and both["between_devices"] > 0
    assert both["peak"].keys() == {"cuda:0", "cuda:1"} and all(peak < 0.65 * alone["peak"]["cuda:0"] for peak in both["peak"].values())
    outcome = place(tmp_path, "--try", "tensor-parallel=2", "--", "cat", "program.py")
    assert outcome.code == 2 and "starts a Python program by torchrun, and cat is none" in outcome.err
    assert place(tmp_path, *words, "--try", "gpus=2", "--", sys.executable, "program.py").code == 2


def test_wrong_tries(tmp_path):
    for word, why in [
        ("gpus=0", "'0' is no number from 1 to 16"), ("gpus", "write NAME=VALUE,VALUE like gpus=1,2,4"), ("gpu-model=k80", "no GPU model"),
        ("device-map=best", "nor one of accelerate's"), ("batch=1", "no word of the program has {batch} in it"), ("memory=much", "no size"), ("gpus=1,", "missing"),
    ]:  # fmt: skip
        outcome = place(tmp_path, "--try", word, "--", "true")
        assert outcome.code == 2 and why in outcome.err, outcome.err
    assert place(tmp_path, "--try", "gpus=1", "--try", "gpus=2", "--", "true").code == 2
    assert place(tmp_path, "--try", "gpus=1").code == 2
