"""Loops that end when a value says so, where --values small does not compute it: they end by themselves, or at a limit that is said with the line."""

import sys

import pytest
from conftest import DEVTRACE, environment, execute, start_snippets

BEGINNING = """
import torch
d = "cuda:0"
net = torch.nn.Linear(64, 64, device=d)  # 16 KiB
x, labels = torch.randn(64, 64, device=d), torch.arange(64, device=d)
optimizer = torch.optim.AdamW(net.parameters())
def step():
    logits = net(x)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach(), logits.detach()
"""
STOPPING = """
class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad, self.epochs, self.stopped = patience, float("inf"), 0, 0, False
    def __call__(self, loss):
        self.epochs += 1
        improved = loss < self.best - 1e-3
        self.best, self.bad = (loss, 0) if improved else (self.best, self.bad + 1)
        self.stopped = self.bad >= self.patience
early = EarlyStopping(3)
"""
ENDING = {
    "patience": (STOPPING + """
while not early.stopped:
    early(step()[0].item())
print(early.epochs, early.best)
""", "4 0.0"),
    "patience_on_the_device": (STOPPING + """
while not early.stopped:
    early(step()[0])
print(early.epochs, float(early.best))
""", "4 0.0"),
    "patience_on_the_host": (STOPPING + """
losses = []
while not early.stopped:
    losses.append(step()[0].cpu().numpy())
    early(min(losses))
print(early.epochs, early.best)
""", "4 0.0"),
    "until_small": ("""
steps = 0
while True:
    steps += 1
    if step()[0] < 0.01:
        break
print(steps)
""", "1"),
    "until_it_changes_no_more": ("""
previous, steps, converged = None, 0, False
while not converged:
    loss = step()[0]
    steps += 1
    converged = previous is not None and bool(torch.abs(previous - loss) < 1e-4)
    previous = loss
print(steps)
""", "2"),
    "finite": ("""
steps = 0
while steps < 3:
    loss, logits = step()
    if not torch.isfinite(loss) or torch.isnan(logits).any():
        continue  # another try with other rows
    steps += 1
print(steps)
""", "3"),
    "scaler": ("""
scaler, tries, kept = torch.amp.GradScaler("cuda", init_scale=2.0**16, growth_interval=2), 0, 0
while kept < 4:
    tries += 1
    with torch.autocast("cuda", torch.float16):
        loss = torch.nn.functional.cross_entropy(net(x).float(), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    before = scaler.get_scale()
    scaler.update()
    optimizer.zero_grad()
    kept += scaler.get_scale() >= before  # it falls where a gradient was infinite, and the step is tried again
print(tries, scaler.get_scale())
""", str(f"4 {2.0**18}")),
    "plateau": ("""
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.1)
epochs = 0
while optimizer.param_groups[0]["lr"] > 1e-6:
    schedule.step(step()[0])
    epochs += 1
print(epochs)
""", "9"),
}  # fmt: skip


def test_what_ends_by_itself(tmp_path):
    snippets = {name: BEGINNING + code for name, (code, _) in ENDING.items()}
    outcome, printed = start_snippets(snippets, tmp_path, env={"DEVTRACE_SIM_VALUES": "small:4KiB"})
    assert outcome.code == 0, outcome.err
    assert {name: text.strip() for name, text in printed.items()} == {name: expected for name, (_, expected) in ENDING.items()}, outcome.err
    assert "would not end" not in outcome.err


WAITING = {
    "a score": "while (step()[1].argmax(-1) == labels).float().mean().item() < 0.9: pass",
    "a score on the host": "while step()[1].cpu().argmax(-1).eq(labels.cpu()).float().mean() < 0.9: pass",
    "a condition": "while not (step()[1].argmax(-1) == labels).all(): pass",
    "a list": "while sum(step()[1][0].tolist()) == 0: pass",
    "another draw": "while torch.randn(64, 64, device=d).mean() <= 0: pass",
}


@pytest.mark.parametrize("name", WAITING)
def test_what_waits_for_ever_is_ended_with_its_line(tmp_path, name):
    source = BEGINNING + "print('begun', flush=True)\n" + WAITING[name] + "\nprint('never')\n"
    (tmp_path / "program.py").write_text(source)
    command = [DEVTRACE, "rehearse", "--values", "small:4KiB", "--", sys.executable, "program.py"]
    outcome = execute(command, tmp_path, environment(None, {"DEVTRACE_SIM_UNKNOWN_READS": "300"}))
    assert (outcome.code, outcome.out) == (65, "begun\n"), outcome.err
    line = source[: source.index("while")].count("\n") + 1
    said = [each for each in outcome.err.splitlines() if "were read here" in each]
    assert len(said) == 1 and f"program.py:{line}: values that are not computed (--values small) were read here 300 times" in said[0], outcome.err
