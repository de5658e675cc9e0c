"""How much of each device's memory a program needs, of what that consists, how it goes, and where it is not enough: the log, and all that shows it."""

import json
import subprocess
import sys

import pytest
from conftest import DEVTRACE, environment, execute
from pages import browser, page, render  # noqa: F401

MIB = 1 << 20


@pytest.fixture
def rehearsed(tmp_path):
    """rehearsed(source, …): outcome, {device: its record}, what was out of memory."""

    def run(source, *options, memory="1GiB"):
        (tmp_path / "program.py").write_text(source)
        outcome = execute([DEVTRACE, "rehearse", "--gpus", 2, "--memory", memory, *options, "--", sys.executable, "program.py"], tmp_path, environment(None))
        assert outcome.code == 0, outcome.err
        peaks = {record["device"]: record for record in outcome.records if record["record"] == "memory"}
        return outcome, peaks, [record for record in outcome.records if record["record"] == "out_of_memory"]

    return run


def report(log, *options):
    return subprocess.run([DEVTRACE, "report", log, "--output", "-", *options], capture_output=True, text=True, check=True).stdout


def parts(record):
    return {name: record[name] / MIB for name in ("weights", "gradients", "optimizer", "caches", "activations", "other")}


FULL = """
import torch
net = torch.nn.Linear(1024, 1024, bias=False, device="cuda:1")
def step():
    return torch.empty(32 << 20, dtype=torch.uint8, device="cuda:1")
for _ in range(20):
    net(torch.zeros(2, 1024, device="cuda:1"))
kept = step()
del kept
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.inner(x.expand(1 << 26, 8))
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
    def forward(self, x):
        return self.blocks[1](x)
def answer():
    model = Model().to("cuda:0")
    model(torch.ones(1, 8, device="cuda:0"))
try:
    answer()
except torch.OutOfMemoryError:
    pass
"""


def test_the_peak_and_where_it_was_not_enough(rehearsed, tmp_path):
    outcome, peaks, (end,) = rehearsed(FULL, memory="256MiB")
    peak = peaks["cuda:1"]
    assert 36 * MIB <= peak["peak"] < 80 * MIB and peak["reserved"] >= peak["peak"]
    assert peak["python"][0]["line"] == 5, peak
    assert parts(peak)["weights"] == 4
    assert (end["device"], end["asked"]) == ("cuda:0", 2 << 30) and end["missing"] == end["asked"] - end["free"], end
    assert next(frame for frame in end["python"] if frame.get("project"))["line"] == 15, end
    assert end["module"] == {"path": "blocks.1.inner", "class": "Linear", "root": "Model"}
    (process,) = (record for record in outcome.records if record["record"] == "process")
    assert [device["memory"] for device in process["devices"]] == [256 * MIB] * 2
    words = "out of memory: 2.0 GiB were asked for, 254 MiB were free, 1.8 GiB were missing, at Block.forward (program.py:15), in blocks.1.inner (Linear) of Model"
    assert f"devtrace: memory of cuda:0: {words}\n" in outcome.err
    log = next(tmp_path.glob("devtrace-*.jsonl"))
    text, markdown = report(log, "--format", "text"), report(log, "--format", "markdown")
    assert f"  cuda:0    {words}\n" in text and f"| `cuda:0` | {words} |\n" in markdown
    assert " of 256 MiB: " in text and "weights 4.0 MiB" in text and "at step (program.py:5)" in text and "; fragmentation " in text
    redacted = report(log, "--format", "json", "--redact")
    assert '"weights":4194304' in redacted and "Block" not in redacted and '"course"' in redacted


TRAINED = """
import torch
def main():
    net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(8)]).to("cuda:1")
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(4):
        loss = net(torch.randn(4, 1024, device="cuda:1")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
main()
"""


def test_a_training_step_s_peak_by_what_it_is_for(rehearsed):
    """In the optimizer's step: everything is gone at the end, and most of it after the step."""
    _, peaks, _ = rehearsed(TRAINED)
    found = parts(peaks["cuda:1"])
    assert (found["weights"], found["gradients"], found["caches"]) == (32, 32, 0)
    assert 64 <= found["optimizer"] < 64.1 and 32 <= found["other"] < 110, found  # the optimizer's temporaries


CACHED = """
import torch
class KVCache:
    def __init__(self):
        self.keys = torch.zeros(8 << 20, dtype=torch.uint8, device="cuda:0")
def main():
    net, cache = torch.nn.Linear(1024, 1024, bias=False, device="cuda:0"), KVCache()
    with torch.no_grad():
        for step in range(200):
            if step % 34 == 0:  # six times: looks at each of many small steps would be more than a rehearsal has time for
                cache.keys = torch.cat([cache.keys, torch.zeros(5 << 20, dtype=torch.uint8, device="cuda:0")])
            net(torch.zeros(1, 1024, device="cuda:0"))
main()
"""


def test_a_cache_that_grows(rehearsed):
    """30 MiB more than at the beginning; at the peak the old one (33 MiB, in PyTorch's blocks 34) and the new one (38) are there."""
    _, peaks, _ = rehearsed(CACHED)
    found = parts(peaks["cuda:0"])
    assert found["weights"] == 4 and 30 <= found["caches"] <= 72.1, found
    course = peaks["cuda:0"]["course"]
    assert 100 < len(course["time"]) <= 257 and {len(column) for column in course.values()} == {len(course["time"])}
    assert max(course["tensors"]) == peaks["cuda:0"]["peak"] and course["time"] == sorted(course["time"])
    assert all(held >= used for held, used in zip(course["reserved"], course["tensors"]))


FORWARD = """
import torch
class KVCache:
    def __init__(self):
        self.keys = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda:0")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(1024, 1024, bias=False)
    def forward(self, x, cache):
        cache.keys = torch.cat([cache.keys, torch.zeros(2 << 20, dtype=torch.uint8, device="cuda:0")])  # enough for a look
        wide = torch.empty(64 << 20, dtype=torch.uint8, device="cuda:0")
        return self.inner(x) + wide[0]  # with cuBLAS's workspace of 32 MiB
def main():
    net, cache = Net().to("cuda:0"), KVCache()
    kept = torch.zeros(8 << 20, dtype=torch.uint8, device="cuda:0")
    with torch.no_grad():
        for _ in range(24):
            net(torch.ones(1, 1024, device="cuda:0"), cache)
main()
"""


def test_what_a_forward_takes_is_activations(rehearsed):
    """They are gone before anybody looks; the cache is made in the forward as well, and is a cache once it was seen."""
    _, peaks, _ = rehearsed(FORWARD)
    found = parts(peaks["cuda:0"])
    assert found["weights"] == 4 and 8 <= found["other"] < 9, found
    assert 96 <= found["activations"] < 97 and 45 <= found["caches"] <= 49, found


SPLIT = """
import torch
from accelerate import dispatch_model
def main():
    net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
    net = dispatch_model(net, {str(i): i // 3 for i in range(6)})
    with torch.no_grad():
        for _ in range(4):
            net(torch.zeros(64, 256, device="cuda:0"))
main()
"""


def test_what_crosses_for_each_token(rehearsed, tmp_path):
    rehearsed(SPLIT)
    log = next(tmp_path.glob("devtrace-*.jsonl"))
    row = 64 * 256 * 4
    for style in ("text", "markdown"):
        lines = [line for line in report(log, "--format", style, "--tokens", "4").splitlines() if "cuda:0" in line and "cuda:1" in line and "a token" in line]
        assert len(lines) == 2 and all(f"; a token {row >> 10} KiB, at least " in line for line in lines), lines  # there and back
    assert "a token" not in report(log, "--format", "text")
    assert json.loads(report(log, "--format", "json", "--tokens", "4").splitlines()[0])["tokens"] == 4


OFFLOADED = """
import torch
from accelerate import cpu_offload
def main():
    net = cpu_offload(torch.nn.Sequential(torch.nn.Linear(256, 256, bias=False), torch.nn.Linear(256, 256, bias=False)), torch.device("cuda:0"))
    with torch.no_grad():
        for _ in range(4):
            net(torch.zeros(64, 256, device="cuda:0"))
main()
"""
BY_HAND = """
import torch
def main():
    layers = [torch.nn.Linear(256, 256, bias=False) for _ in range(2)]
    with torch.no_grad():
        for _ in range(4):
            x = torch.zeros(64, 256, device="cuda:0")
            for layer in layers:
                layer.to("cuda:0")
                x = layer(x)
                layer.to("meta")
                layer.to_empty(device="cpu")
main()
"""
STEPS = """
import torch
def main():
    net = torch.nn.Linear(256, 256, bias=False)
    net.load_state_dict({"weight": torch.ones(256, 256)})
    net = net.to("cuda:0")
    for _ in range(4):
        net(torch.ones(64, 256).to("cuda:0")).sum().backward()
    torch.save(net.state_dict(), "checkpoint.pt")
    net.load_state_dict(torch.load("checkpoint.pt", map_location="cpu"))
main()
"""
NO_MODULE = """
import torch
weight = torch.ones(256, 256).to("cuda:0")
for _ in range(4):
    (torch.ones(64, 256).to("cuda:0") @ weight).sum()
"""
ROW, WEIGHT = 64 * 256 * 4, 256 * 256 * 4


@pytest.mark.parametrize("source, a_token, all_of_it", [
    (SPLIT, 0, 3 * (WEIGHT + 1024)), (OFFLOADED, 2 * WEIGHT, 8 * WEIGHT), (BY_HAND, 2 * WEIGHT, 8 * WEIGHT), (STEPS, ROW, 2 * WEIGHT + 4 * ROW),
    (NO_MODULE, ROW + WEIGHT // 4, WEIGHT + 4 * ROW),
], ids=["dealt out", "offloaded", "offloaded by hand", "trained and saved", "no module"])  # fmt: skip
def test_what_makes_a_program_ready_is_not_a_token_s(rehearsed, page, tmp_path, source, a_token, all_of_it):  # noqa: F811
    """From the host to cuda:0: weights once, before the first forward, or again at each; the rows of a step; checkpoints."""
    rehearsed(source)
    log = next(tmp_path.glob("devtrace-*.jsonl"))
    size = lambda count: f"{count >> 20} MiB" if count >= MIB else f"{count >> 10} KiB"  # noqa: E731
    words = f"; a token {size(a_token)}, at least " if a_token else "; a token nothing"
    for style in ("text", "markdown"):
        told = report(log, "--format", style, "--tokens", "4").splitlines()
        (line,) = [each for each in told if "a token" in each and each.replace("`", "").strip("| ").startswith(("cpu to cuda:0", "cpu | cuda:0"))]
        assert words in line, line
    for more in ((), ("--redact",)):
        records = [json.loads(line) for line in report(log, "--format", "json", "--tokens", "4", *more).splitlines()]
        last = {each["id"]: each for each in records if each["record"] == "traffic"}
        rows = [each for each in last.values() if (each["from"], each["to"]) == ("cpu", "cuda:0")]
        assert sum(each["a_token"] for each in rows) == a_token and sum(each["bytes"] for each in rows) == all_of_it, rows
    (tmp_path / "page.html").write_text(report(log, "--format", "html", "--tokens", "4"))
    page.open(tmp_path / "page.html")
    cells = page.run("return [...document.querySelectorAll('table.matrix td')].map((each) => each.textContent)")
    here = [cell for cell in cells if "a token" in cell]
    assert any((f"a token: {size(a_token)}, ≥" if a_token else "a token: nothing") in cell for cell in here), cells


def test_the_page_has_pictures(rehearsed, page, tmp_path):  # noqa: F811
    """Bars of what the peak was for, memory over time, and the model's map: drawn, with sizes, and without a word on the console."""
    rehearsed(SPLIT, memory="64MiB")
    log = next(tmp_path.glob("devtrace-*.jsonl"))
    page.open(render(log, tmp_path))
    drawn = """return [...document.querySelectorAll(arguments[0])].map((each) => each.getBoundingClientRect()).filter((box) => box.width >= arguments[1] && box.height >= arguments[2]).length"""
    assert page.run(drawn, "svg.map rect.run", 100, 8) == 2
    assert [page.run(drawn, f"svg.course path.{name}", 20, 1) for name in ("tensors", "reserved")] == [2, 2]
    assert page.run(drawn, "svg.course line.limit", 300, 0) == 1 and "64 MiB" in page.run("return document.querySelector('svg.course').textContent")
    assert page.run(drawn, ".peak svg rect.whole", 300, 8) == 2
    assert "[object" not in page.text("body")
    labels = page.run("return [...document.querySelectorAll('.peak svg, svg.course, svg.map')].map((each) => each.getAttribute('aria-label'))")
    assert len(labels) == 4 and all("cuda:0" in label or "cuda:1" in label for label in labels), labels
