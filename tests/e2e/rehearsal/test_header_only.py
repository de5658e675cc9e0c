"""--weights header: checkpoints of which only the headers were downloaded are loaded, by their shapes; and what whole ones take of the host's memory."""

import json
import struct
import sys

import pytest
from conftest import DEVTRACE, environment, execute

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 16,
    "num_key_value_heads": 4, "vocab_size": 32000, "torch_dtype": "bfloat16", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
H, INNER, V, KV = 2048, 8192, 32000, 512
LAYER = {
    "input_layernorm": [H], "post_attention_layernorm": [H], "self_attn.q_proj": [H, H], "self_attn.k_proj": [KV, H], "self_attn.v_proj": [KV, H],
    "self_attn.o_proj": [H, H], "mlp.gate_proj": [INNER, H], "mlp.up_proj": [INNER, H], "mlp.down_proj": [H, INNER],
}  # fmt: skip
SHAPES = {"model.embed_tokens.weight": [V, H], "model.norm.weight": [H], "lm_head.weight": [V, H]}
SHAPES |= {f"model.layers.{i}.{name}.weight": shape for i in range(16) for name, shape in LAYER.items()}
BYTES = sum(2 * shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in SHAPES.values())  # 2.2 GiB


def write_file(path, names, whole):
    """A file of safetensors: its header alone, or with weights in a hole of the file."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name in names:
        size = 2 * SHAPES[name][0] * (SHAPES[name][1] if len(SHAPES[name]) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": SHAPES[name], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if whole:
            file.truncate(8 + len(text) + at)
    return len(text)


def write_checkpoint(folder, whole=False):
    """In three shards, as the hub has them."""
    folder.mkdir()
    names, index = list(SHAPES), {}
    for shard in range(3):
        file = f"model-{shard + 1:05}-of-00003.safetensors"
        write_file(folder / file, names[shard::3], whole)
        index |= dict.fromkeys(names[shard::3], file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": BYTES}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps(CONFIG))


GENERATE = """
import json, resource, sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("model", device_map=sys.argv[1] if len(sys.argv) > 1 else "auto", dtype=torch.bfloat16)
prompt = torch.arange(10, 20, device="cuda:0")[None]
tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=4, do_sample=False)
print(json.dumps({"tokens": tokens.shape[1], "bytes": sum(p.nbytes for p in model.parameters()), "devices": sorted({str(p.device) for p in model.parameters()}),
    "host_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))
"""


@pytest.fixture
def rehearsed(tmp_path):
    def run(source, *options, words=(), env=None):
        (tmp_path / "program.py").write_text(source)
        command = [DEVTRACE, "rehearse", "--memory", "2GiB", *options, "--", sys.executable, "program.py", *words]
        return execute(command, tmp_path, environment(None, env or {}), 300)

    return run


@pytest.mark.slow
def test_a_model_of_transformers_by_its_headers(rehearsed, tmp_path):
    write_checkpoint(tmp_path / "model")
    assert sum(path.stat().st_size for path in (tmp_path / "model").iterdir()) < 1 << 20
    outcome = rehearsed(GENERATE, "--weights", "header")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert (found["tokens"], found["bytes"], found["devices"]) == (14, BYTES, ["cuda:0", "cuda:1"])
    assert found["host_MiB"] < 1700, found
    outcome = rehearsed(GENERATE)
    assert outcome.code == 1 and "afetensor" in outcome.err, "without it such files are refused"


def test_a_whole_checkpoint_s_bytes_are_dropped(rehearsed, tmp_path):
    """Of a file that is mapped the host has what was touched: nothing of large weights."""
    write_checkpoint(tmp_path / "model", whole=True)
    for options in (("--values", "small:4MiB"), ("--values", "small:4MiB", "--weights", "header")):
        outcome = rehearsed(GENERATE, *options)
        assert outcome.code == 0, outcome.err
        found = json.loads(outcome.out)
        assert (found["tokens"], found["bytes"]) == (14, BYTES) and found["host_MiB"] < 1700, found


LOAD = """
import resource, sys, torch
from safetensors import safe_open
from safetensors.torch import load_file
torch.cuda.init()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
weights = load_file("weights.safetensors", device=sys.argv[1])
if sys.argv[1] == "cpu":
    weights = {name: weight.cuda() for name, weight in weights.items()}
print(len(weights), weights["model.embed_tokens.weight"].shape, weights["model.norm.weight"].sum().item(), sum(weight.nbytes for weight in weights.values()) >> 20,
    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10)
with safe_open("weights.safetensors", "pt") as file:
    print(file.metadata(), file.get_slice("lm_head.weight").get_shape())
with open("weights.safetensors", "rb") as file:
    print(len(file.read(8)), file.seek(0, 2) > 200 << 20)
"""


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_load_file(rehearsed, tmp_path, device):
    write_file(tmp_path / "weights.safetensors", ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"], whole=False)
    outcome = rehearsed(LOAD, "--weights", "header", words=[device])
    assert outcome.out.splitlines() == [
        "3 torch.Size([32000, 2048]) 0.0 250 True", "{'format': 'pt'} [32000, 2048]", "8 True",
    ], outcome.out + outcome.err  # fmt: skip


def test_what_is_no_whole_header(rehearsed, tmp_path):
    file = tmp_path / "weights.safetensors"
    length = write_file(file, list(SHAPES), whole=False)
    file.write_bytes(file.read_bytes()[:1000])
    outcome = rehearsed(LOAD, "--weights", "header", words=["cpu"])
    assert outcome.code == 1 and f"devtrace: --weights header: the first {length + 8} bytes of weights.safetensors are its header, and 1000 are there\n" in outcome.err, outcome.err
    assert "SafetensorError" in outcome.err
    file.write_bytes(b"<html>not found</html>")
    outcome = rehearsed(LOAD, "--weights", "header", words=["cpu"])
    assert outcome.code == 1 and "weights.safetensors does not begin with the length of a header: it is no file of safetensors\n" in outcome.err, outcome.err


def test_files_that_are_written_stay_as_they_are(rehearsed, tmp_path):
    outcome = rehearsed("""
import torch
from safetensors.torch import save_file
save_file({"a": torch.full((8,), 3.0)}, "own.safetensors")
print(open("own.safetensors", "r+b").read()[-4:] == open("own.safetensors", "rb").read()[-4:])
""", "--weights", "header")
    assert outcome.out == "False\n", outcome.err
    assert (tmp_path / "own.safetensors").read_bytes()[-4:] == struct.pack("<f", 3.0)


def test_options(rehearsed):
    for options in (("--weights", "none"), ("--weights", "header", "--values", "all"), ("--weights", "header", "--poison")):
        assert rehearsed("", *options).code == 2, options
    assert rehearsed("import os; print(os.environ['DEVTRACE_SIM_VALUES'])", "--weights", "header").out == "small\n"
