"""--values small: what is large is not computed and takes no memory of the host, and what decides is still true."""

import json
import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute, start_snippets, traffic

BY_SHAPE = TOP / "tests/workloads/placement/by_shape.py"
SMALL = {"DEVTRACE_SIM_VALUES": "small:4KiB"}

BEGINNING = """
import torch
d = "cuda:0"
big = torch.randn(64, 64, device=d)  # 16 KiB
row = torch.ones(64, device=d)
unknown = big @ row
"""
PRINTED = {
    "known": ("print((row * 3).sum().item(), torch.arange(5000, device=d).sum().item())", "192.0 12497500"),
    "unknown_is_zero": ("print(big.sum().item(), unknown.tolist() == [0.0] * 64, (unknown + 1).max().item())", "0.0 True 0.0"),
    "recycled_memory_is_zero": ("x = torch.full((64,), 7.0, device=d); del x; y = unknown * 2; print(y.abs().sum().item())", "0.0"),
    "written_in_place": ("row += unknown; print(row.sum().item())", "0.0"),
    "filled_anew": ("unknown.fill_(2); print(unknown.sum().item())", "128.0"),
    "copied_from_the_host": ("unknown.copy_(torch.ones(64)); print(unknown.sum().item())", "64.0"),
    "on_the_host": ("print(big.cpu().abs().sum().item(), big.to('cuda:1').cpu().sum().item())", "0.0 0.0"),
    "argmax": ("print(unknown.argmax().item(), (big @ big).argmax(-1)[:3].tolist())", "32 [32, 33, 34]"),
    "multinomial": ("print(torch.multinomial(unknown.softmax(0), 3).tolist())", "[32, 33, 34]"),
    "experts": ("v, i = big[:4].topk(2); print(v.sum().item(), i.tolist())", "0.0 [[32, 33], [34, 35], [36, 37], [38, 39]]"),
    "sorted": ("v, i = unknown.sort(); print(i.tolist() == list(range(64)))", "True"),
    "ids_stay_true": ("ids = torch.cat([torch.arange(3, device=d), unknown.argmax()[None]]); print(ids.tolist(), (ids == 32).any().item())", "[0, 1, 2, 32] True"),
    "chosen_by_known": ("print(row.argmax().item(), torch.tensor([3, 9, 4], device=d).max(0).indices.item())", "0 1"),
    "nan_checks": ("print(torch.isfinite(unknown).all().item(), torch.isnan(big).any().item(), torch.isfinite(big).all().item())", "True False True"),
    "large_masks": ("mask = torch.ones(5000, 5000, dtype=torch.bool, device=d).tril(); print(mask.sum().item())", "12502500"),
    "part_of_a_cache": ("big[:, 3] = row; print(big[:, 3].sum().item(), big[:, 4].sum().item())", "64.0 0.0"),
    "gather_without_a_mask": ("print(big[torch.tensor([1, 2], device=d)].shape)", "torch.Size([2, 64])"),
    "undecided": ("print(torch.where(unknown > 0, 1, 2).sum().item(), bool(torch.equal(unknown, unknown)))", "128 True"),
    "scaler": ("""
w = torch.nn.Linear(64, 64, device=d)
optimizer, scaler = torch.optim.AdamW(w.parameters()), torch.amp.GradScaler("cuda")
for _ in range(3):
    with torch.autocast("cuda", torch.float16):
        loss = w(big).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(w.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print(loss.item(), scaler.get_scale())
""", "0.0 65536.0"),
    "replayed": ("""
x = torch.ones(64, device=d)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = big @ x
    z = x + 1
    i = y.argmax()
x.fill_(4)
graph.replay()
print(y.sum().item(), z.sum().item(), i.item())
""", "0.0 320.0 32"),
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"DEVTRACE_SIM_ASYNC": "7"}], ids=["at once", "behind the host"])
def test_what_is_read_back(tmp_path, more):
    snippets = {name: BEGINNING + code for name, (code, _) in PRINTED.items()}
    outcome, printed = start_snippets(snippets, tmp_path, env={**SMALL, **more})
    assert outcome.code == 0, outcome.err
    wrong = {name: printed[name].strip() for name, (_, expected) in PRINTED.items() if printed[name].strip() != expected}
    assert not wrong, outcome.err
    assert outcome.err.count("the host reads what depends on values that are not computed (--values small)") == 1
    line = snippets["unknown_is_zero"].count("\n") + 1
    assert f"unknown_is_zero.py:{line}: the host reads what" in outcome.err, outcome.err
    assert "operators were not computed (--values small)" in outcome.err and "not computed in this rehearsal" not in outcome.err


@pytest.fixture
def small(tmp_path):
    def run(source, *options, values="small:4KiB", env=None):
        (tmp_path / "program.py").write_text(source)
        command = [DEVTRACE, "rehearse", "--values", values, *options, "--", sys.executable, "program.py"]
        return execute(command, tmp_path, environment(None, env or {}))

    return run


WAITS = BEGINNING + """
for _ in range(300):
    unknown.sum().item()
while unknown.sum().item() == 0:
    steps = 1
print("never")
"""


def test_a_loop_that_waits_for_an_unknown_value_is_ended(small):
    outcome = small(WAITS, env={"DEVTRACE_SIM_UNKNOWN_READS": "1000"})
    assert outcome.code == 65 and outcome.out == "", outcome.err
    line = WAITS[: WAITS.index("while")].count("\n") + 1
    assert f"program.py:{line}: values that are not computed (--values small) were read here 1000 times" in outcome.err, outcome.err


def test_strict_ends_at_the_first_read(small):
    outcome = small(BEGINNING + "print('so far')\nprint(unknown.sum().item())", "--strict")
    assert (outcome.code, outcome.out) == (65, "so far\n"), outcome.err


def test_options(small):
    for options, values in (((), "large"), ((), "small:x"), (("--poison",), "small"), (("--keep-going",), "none"), (("--no-values",), "small")):
        outcome = small("", *options, values=values)
        assert outcome.code == 2, (options, values)
    assert small("import os; print(os.environ['DEVTRACE_SIM_VALUES'])", values="none").out == "0\n"


MEMORY = """
import resource, torch
kept = [torch.full((512 << 20,), 1.0, dtype=torch.bfloat16, device=f"cuda:{i % 2}") for i in range(120)]  # of 1 GiB
x = torch.ones(512 << 20, dtype=torch.bfloat16, device="cuda:0") * kept[0]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20, torch.cuda.memory_allocated(0) >> 30)
try:
    more = [torch.empty(512 << 20, dtype=torch.bfloat16, device="cuda:1") for _ in range(21)]
except torch.OutOfMemoryError as error:
    print(str(error)[:63])
"""


def test_memory_that_nobody_touches_is_not_the_host_s(small):
    """120 GiB on two devices of 80 GiB, with 3 GiB allowed; the device's own end is PyTorch's error."""
    outcome = small(MEMORY, "--memory", "80GiB", values="small", env={"DEVTRACE_SIM_HOST_MEMORY": "3GiB"})
    assert outcome.out == "True 61\nCUDA out of memory. Tried to allocate 1024.00 MiB. GPU 1 has a \n", outcome.out + outcome.err
    assert "the host is full" not in outcome.err and "a block of" not in outcome.err, outcome.err


EXCEEDS = """
import torch
small = torch.arange(100.0, device="cuda:0")
kept = [torch.full((16 << 20,), 2.0, device="cuda:0") for _ in range(60)]  # of 64 MiB
print(len(kept), kept[0][:3].sum().item(), kept[-1][:3].sum().item(), (small * 2).sum().item())
try:
    more = [torch.empty(16 << 20, device="cuda:0") for _ in range(5)]
except torch.OutOfMemoryError as error:
    print(str(error)[:48])
"""


def exceeds(folder, *options, program=EXCEEDS):
    (folder / "program.py").write_text(program)
    command = [DEVTRACE, "rehearse", "--memory", "4GiB", *options, "--", sys.executable, "program.py"]
    return execute(command, folder, environment(None, {"DEVTRACE_SIM_HOST_MEMORY": "1GiB"}))


def test_what_the_host_has_no_room_for_is_left_from_there_on(tmp_path):
    """What was computed stays, small tensors are computed on, and the device's end is where the device is full."""
    outcome = exceeds(tmp_path)
    assert outcome.out == "60 6.0 0.0 9900.0\nCUDA out of memory. Tried to allocate 64.00 MiB.\n", outcome.out + outcome.err
    said = [line for line in outcome.err.splitlines() if "the host has no room for all values" in line]
    assert len(said) == 1 and "program.py:4: the host has no room for all values: 64 MiB more were asked for" in said[0], outcome.err
    assert "tensors of 16 MiB or more" in said[0] and "--values all" in said[0] and "the host is full" not in outcome.err


def test_all_values_are_kept_to_by_who_asks_for_them(tmp_path):
    for options in (("--values", "all"), ("--poison",)):
        outcome = exceeds(tmp_path, *options)
        assert outcome.code == 1 and "OutOfMemoryError" in outcome.err and "the host is full, not the simulated device" in outcome.err, outcome.err
        assert "has no room for all values" not in outcome.err


LOADED = """
import json, resource, struct
import torch
from safetensors import safe_open
each = 512 << 20
header = json.dumps({f"w{i}": {"dtype": "BF16", "shape": [each // 2], "data_offsets": [i * each, (i + 1) * each]} for i in range(8)}).encode()
with open("checkpoint.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    file.truncate(8 + len(header) + 8 * each)
with safe_open("checkpoint.safetensors", "pt", device="cpu") as file:
    torch.ones(1, device="cuda:0")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = [file.get_tensor(name).to("cuda:0") for name in file.keys()]
print(torch.cuda.memory_allocated() >> 30, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10)
"""


def test_a_checkpoint_s_bytes_are_dropped(small):
    outcome = small(LOADED, values="small")
    assert outcome.out == "4 True\n", outcome.err


def test_addresses_that_there_are_not(tmp_path):
    program = f"ulimit -v {64 << 20}; exec {DEVTRACE} rehearse --gpus 8 --memory 40GiB -- {sys.executable} -c 'import torch; torch.ones(1, device=\"cuda\")'"
    outcome = execute(["sh", "-c", program], tmp_path, environment(None))
    assert outcome.code == 1
    assert "8 simulated devices of 40.0 GiB need 512 GiB of addresses (not of memory), and `ulimit -v` allows the process 64.0 GiB" in outcome.err


def test_addresses_that_are_enough(tmp_path):
    """80 GiB of devices under a limit of 400 GiB of addresses, on a host that has less."""
    (tmp_path / "program.py").write_text("import torch; x = [torch.ones(15 << 30, dtype=torch.uint8, device=f'cuda:{i}') for i in range(4)]; print(torch.cuda.memory_allocated(3) >> 30)")
    program = f"ulimit -v {400 << 20}; exec {DEVTRACE} rehearse --gpus 4 --memory 20GiB --values small -- {sys.executable} program.py"
    outcome = execute(["sh", "-c", program], tmp_path, environment(None))
    assert (outcome.code, outcome.out) == (0, "15\n"), outcome.err


SCATTERED = """
import torch
kept = [torch.empty(8 << 20, dtype=torch.uint8, device="cuda:0") for _ in range(8)]
del kept[::2]
whole = torch.empty(32 << 20, dtype=torch.uint8, device="cuda:0")
try:
    torch.empty(1, device="cuda:0")
except RuntimeError:
    print("full")
"""


def test_free_memory_is_not_too_scattered(tmp_path):
    """The driver maps pages where it likes: what is free between blocks serves a large one."""
    (tmp_path / "program.py").write_text(SCATTERED)
    command = [DEVTRACE, "rehearse", "--memory", "64MiB", "--", sys.executable, "program.py"]
    outcome = execute(command, tmp_path, environment(None, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}))
    assert (outcome.code, outcome.out) == (0, "full\n"), outcome.err


def placed(folder, values, *words, options=()):
    command = [DEVTRACE, "rehearse", "--gpu-model", "a100", "--values", values, *options, "--", sys.executable, BY_SHAPE, *words]
    outcome = execute(command, folder, environment(None))
    lines = [line for line in outcome.out.splitlines() if line.startswith("{")]
    assert len(lines) == 1, outcome.err
    return outcome, json.loads(lines[0])


def moved(outcome):
    return sorted((one["from"], one["to"], one["bytes"], one["copies"], one.get("what", "")) for one in traffic(outcome))


def lies(outcome):
    """Where each tensor of each model lies, by the last of its records."""
    last = {record["id"]: record for record in outcome.records if record["record"] == "placement"}
    return sorted((record["root"], entry["name"], entry["device"], entry["bytes"]) for record in last.values() for entry in record["entries"])


@pytest.mark.slow
def test_placement_and_traffic_do_not_depend_on_values(tmp_path):
    """A model small enough to be computed whole."""
    found = {}
    for values in ("all", "small:1KiB"):
        (folder := tmp_path / values.partition(":")[0]).mkdir()
        outcome, result = placed(folder, values, "tiny", "--tokens", 5, "--sample")
        assert outcome.code == 0 and outcome.findings == [], outcome.err
        found[values] = (len(result["tokens"]), result["allocated"], moved(outcome), lies(outcome))
        assert moved(outcome)
        layers = {device for root, name, device, _ in lies(outcome) if name.startswith("model.layers.")}
        assert layers == {"cuda:0", "cuda:1"}
    assert found["all"] == found["small:1KiB"]
    assert found["all"][0] == 5


# LLaMA-70B's, in bytes: the embedding's weight (and the head's), and a decoder layer.
EMBEDDING = 128256 * 8192 * 2
LAYER = (2 * 8192 * 8192 + 2 * 1024 * 8192 + 3 * 8192 * 28672 + 2 * 8192) * 2


# … and a layer of others: Mixtral 8x7B's, of which the experts of some tokens are gathered beside it, and of a LLaMA of 405B.
OTHERS = {
    "mixtral-8x7b": ((2 * 4096 * 4096 + 2 * 1024 * 4096 + 8 * 3 * 4096 * 14336 + 8 * 4096 + 2 * 4096) * 2, 1.3),
    "llama-405b": ((2 * 16384 * 16384 + 2 * 1024 * 16384 + 3 * 16384 * 53248 + 2 * 16384) * 2, 1.01),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", OTHERS)
def test_a_layer_on_each_device(tmp_path, model):
    """The first and the last device have an embedding and the head besides. `make large` has all layers on 16 devices."""
    outcome, result = placed(tmp_path, "small", model, "--layers", 4, options=("--gpus", 4, "--memory", "16GiB"))
    assert outcome.code == 0, outcome.err
    layer, most = OTHERS[model]
    assert len(result["tokens"]) == 3 and result["host_MiB"] < 2048
    assert all(layer < bytes_ < layer * most for bytes_ in result["allocated"][1:3]), result


def test_a_model_larger_than_the_host(tmp_path):
    """Twelve of LLaMA-70B's layers on two devices of 16 GiB, and on one. `make large` has whole models."""
    outcome, result = placed(tmp_path, "small", "llama-70b", "--layers", 12, options=("--memory", "16GiB"))
    assert outcome.code == 0, outcome.err
    assert len(result["tokens"]) == 3 and result["host_MiB"] < 4096
    weights = EMBEDDING + 6 * LAYER
    assert all(weights < bytes_ < weights * 1.01 for bytes_ in result["allocated"]), result
    outcome, result = placed(tmp_path, "small", "llama-70b", "--layers", 12, options=("--memory", "16GiB", "--gpus", 1))
    assert outcome.code == 3 and result["error"].startswith("CUDA out of memory."), outcome.err
    assert abs(result["layers"] - ((16 << 30) - EMBEDDING) // LAYER) <= 1
