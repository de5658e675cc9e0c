"""What devtrace costs a real training step: figures, no verdict. They go to build/gpu-figures.json and, as lines for docs/evidence/measurements.md, to
build/gpu-figures.md."""

import json
import subprocess
import sys
import time

from conftest import BUILD
from gpu_machine import SIMULATED, TRAINING, machine  # noqa: F401

WAYS = {"without": (False, None), "devtrace": (True, None), "launches=0:copies=0": (True, "launches=0:copies=0"), "backend=cupti": (True, "backend=cupti")}


def driver_version() -> str:
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    except OSError:  # there is a driver without its command
        return "unknown"
    return asked.stdout.split("\n")[0] or "unknown"


def test_a_training_step_with_and_without(machine, capsys):
    layers, steps, rounds, turns = ("1", "1", "1", 1) if SIMULATED else ("12", "50", "8", 3)
    best, facts = {}, {}
    for _ in range(turns):  # side by side: what else the machine does meets all of them
        for name, (trace, options) in WAYS.items():
            (machine.folder / "training.py").write_text(TRAINING)
            outcome = machine.run([sys.executable, machine.folder / "training.py", layers, steps, rounds], options, trace=trace)
            assert outcome.code == 0 and outcome.findings == [], outcome.err
            facts = json.loads(outcome.out.splitlines()[-1])
            best[name] = min(facts.pop("seconds"), best.get(name, 1e9))
    assert set(best) == set(WAYS) and all(seconds > 0 for seconds in best.values())
    driver = "simulated" if SIMULATED else driver_version()
    facts |= {"date": time.strftime("%Y-%m-%d"), "driver": driver, "steps": int(steps), "rounds": int(rounds) * turns, "simulated": SIMULATED}
    facts["milliseconds"] = {name: round(1e3 * seconds, 3) for name, seconds in best.items()}
    facts["ratios"] = {name: round(seconds / best["without"], 3) for name, seconds in best.items()}
    lines = [
        f"## {facts['date']}: {facts['device']}, driver {facts['driver']}, PyTorch {facts['torch']} (`make test-gpu`)", "",
        f"A training step of a transformer of {layers} layers (hidden size 256), launch-bound; the least of {facts['rounds']} rounds of {steps} steps, side by side.", "",
        "| | a step | times |", "|---|---:|---:|",
        *(f"| {name} | {facts['milliseconds'][name]:.2f} ms | {facts['ratios'][name]:.3f} |" for name in WAYS),
    ]  # fmt: skip
    if SIMULATED:  # no figures: what a simulated device takes says nothing
        return
    (BUILD / "gpu-figures.json").write_text(json.dumps(facts, indent=1) + "\n")
    (BUILD / "gpu-figures.md").write_text("\n".join(lines) + "\n")
    with capsys.disabled():
        print("\n" + "\n".join(lines))
