"""`devtrace rehearse --keep-going`: what PyTorch refuses for its devices is computed, and a run shows all findings."""

import sys

from conftest import DEVTRACE, environment, execute

CALLS = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
D0, D1, CPU = (torch.device(each) for each in DEVICES)
def program():
    x, w, ids = torch.rand(4, 6), torch.rand(5, 6, requires_grad=True), torch.tensor([3, 1, 0])
    x0, w1, ids0 = x.to(D0), w.detach().to(D1), ids.to(D0)
    yield x0 @ w1.T
    yield F.embedding(ids0, w1)
    yield torch.cat([x0, w1, x])
    yield torch.where(x0 > 0.5, x0, x.mul(2))
    yield w1[ids0.to(D0)]
    yield x.clone().index_select(0, ids0)
    yield x.clone().add_(x0)
    yield x0.clone().mul_(x)
    yield torch.index_put(x0, (ids,), x[0])
    yield F.layer_norm(x0, (6,), w1[0], w1[1])
    yield F.conv1d(x0[None], torch.ones(2, 4, 3, device=D1))
    yield F.cross_entropy(x0, torch.tensor([1, 0, 2, 5]))
    yield torch.addmm(x[:, :5], x0, w1.T)
    yield torch.bucketize(x0, torch.linspace(0, 1, 4, device=D1))
    yield torch.add(x0, w1[0], out=torch.empty(4, 6, device=D1))
for each in program():
    print(tuple(each.shape), round(each.double().sum().item(), 4))
"""

TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(FIRST)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x, y = torch.rand(5, 4, generator=torch.Generator().manual_seed(step)), torch.tensor([0, 1, 2, 1, 0])
    loss = nn.functional.cross_entropy(model(x.to(SECOND)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
"""


def rehearse(folder, source, *options):
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(source)
    return execute([DEVTRACE, "rehearse", *options, "--", sys.executable, "program.py"], folder, environment(None))


def on(source, *devices):
    return source.replace("DEVICES", repr(devices))


def test_results_are_those_of_one_device(tmp_path):
    """Each call once on three devices and once on the CPU; the refused ones are findings, each once."""
    mixed = rehearse(tmp_path / "mixed", on(CALLS, "cuda:0", "cuda:1", "cpu"), "--keep-going")
    assert mixed.code == 0, mixed.err
    assert mixed.out == rehearse(tmp_path / "one", on(CALLS, "cpu", "cpu", "cpu")).out
    refused = [CALLS.split("\n")[each["python"][0]["line"] - 1] if each["python"][0]["function"] == "program" else each["operation"] for each in mixed.findings]
    assert len(refused) == 15, refused


def test_a_training_goes_on(tmp_path):
    mixed = rehearse(tmp_path / "mixed", TRAINING.replace("FIRST", '"cuda:1"').replace("SECOND", '"cuda:0"'), "--keep-going")
    assert mixed.code == 0, mixed.err
    assert mixed.out == rehearse(tmp_path / "one", TRAINING.replace("FIRST", '"cpu"').replace("SECOND", '"cpu"')).out
    assert [each["operation"] for each in mixed.findings] == ["aten::addmm", "aten::nll_loss_forward"], "a gradient is no finding of its own"


def test_an_error_that_is_none_of_devices_stays(tmp_path):
    source = "import torch\nx = torch.rand(3, device='cuda:0')\nx @ torch.rand(4, 2, device='cuda:1')\n"
    outcome = rehearse(tmp_path, source, "--keep-going")
    assert outcome.code == 1 and "shapes cannot be multiplied (1x3 and 4x2)" in outcome.err


def test_without_values_there_is_nothing_to_go_on_with(tmp_path):
    outcome = rehearse(tmp_path, "", "--no-values", "--keep-going")
    assert outcome.code == 2 and "excludes" in outcome.err
