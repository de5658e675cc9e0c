"""What devtrace says of the five systems and the cases, as a page: docs/evidence/cases.md. `make cases-page` writes it, and the tests compare."""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_form import cases_in  # noqa: E402
from conftest import TOP, start  # noqa: E402

WORKLOADS = TOP / "tests/workloads"
CASES = {path.stem: path for path in sorted((WORKLOADS / "cases").glob("*.py"))}
SYSTEMS = {  # program, the verdict it must get
    "privateGPT": ("private_gpt/private_gpt.py", "input-not-moved"),
    "ChatGLM3-6B-128K": ("chatglm3/chat.py", "cached-state-elsewhere"),
    "Petals": ("petals/server.py", "cached-state-elsewhere"),
    "LLMs-from-scratch": ("llms_from_scratch/sample_text.py", "input-not-moved"),
    "Outlines": ("outlines/choices.py", "default-or-current-device"),
}

# All in one process: importing PyTorch takes seconds. Most end with PyTorch's refusal.
RUN = """
import runpy, sys, torch
for path in sys.argv[1:]:
    torch.cuda.set_device(0)
    torch.manual_seed(0)
    try:
        runpy.run_path(path, run_name="__main__")
    except RuntimeError:
        print(path, "refused", flush=True)
"""

HEAD = """# What the verdict says of real cases

Written by `make cases-page`, from rehearsals; the tests compare it with what they see. The five systems are the workloads of
[tests/workloads](../../tests/workloads/), the cases below them are [tests/workloads/cases](../../tests/workloads/cases/): rebuilt small from a public thread's operation and
cause, not from its code.

{right} of {all} verdicts are right, {wrong} of the others with high confidence.

| case | operation | operands | verdict | confidence | fix |
|---|---|---|---|---|---|
"""


def described(path: Path) -> dict:
    """What the case says (case_form.py); what it does not say is not promised."""
    return cases_in(path)[path.stem].says


@dataclass
class Ran:
    """All cases' findings, and what they printed."""

    out: str = ""
    err: str = ""
    findings: list = field(default_factory=list)

    def of(self, path: Path) -> list[dict]:
        return [one for one in self.findings if any(Path(frame["file"]).name == path.name for frame in one["python"])]


def run(paths: dict[Path, dict], folder: Path) -> Ran:
    """`paths`: each with what it says of itself. Copies run: a fingerprint holds the paths of files outside the working folder."""
    together = [path for path, says in paths.items() if "alone" not in says]
    groups = [together, *([path] for path, says in paths.items() if "alone" in says)]
    ran = Ran()
    for number, group in enumerate(groups):
        own = folder / str(number)
        own.mkdir()
        (own / "program.py").write_text(RUN)
        copies = [shutil.copy(path, own) for path in group]
        outcome = start(["program.py", *copies] if group is together else copies, own)
        ran.out, ran.err, ran.findings = ran.out + outcome.out, ran.err + outcome.err, ran.findings + outcome.findings
    return ran


def cell(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip()]
    return "<br>".join("`" + line.replace("|", "\\|") + "`" for line in lines)


def row(name: str, finding: dict) -> str:
    operands = {}
    for operand in finding.get("operands", []):
        if operand.get("name"):
            operands.setdefault(operand["device"], operand["name"])
    cause = finding["cause"]
    shown = ", ".join(f"`{operand}` {device}" for device, operand in sorted(operands.items()))
    return f"| {name} | `{finding['operation']}` | {shown} | {cause['category']} | {cause['confidence']} | {cell(cause.get('fix', ''))} |"


def case_row(path: Path, finding: dict) -> str:
    thread = cases_in(path)[path.stem].first("thread")
    return row(f"[{path.stem}]({thread})" if thread else path.stem, finding)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=TOP / "docs/evidence/cases.md", type=Path)
    options = parser.parse_args()
    rows, right, wrong = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (program, wanted) in SYSTEMS.items():
            own = Path(folder) / name
            own.mkdir()
            finding = start([WORKLOADS / program], own).findings[0]
            rows.append(row(f"[{name}](../../tests/workloads/{program})", finding))
            right += finding["cause"]["category"] == wanted
            wrong += finding["cause"]["category"] != wanted and finding["cause"]["confidence"] == "high"
        says = {path: described(path) for path in CASES.values()}
        ran = run(says, Path(folder))
        for path in says:
            cause = ran.of(path)[0]["cause"]
            rows.append(case_row(path, ran.of(path)[0]))
            right += cause["category"] == says[path]["category"][0]
            wrong += cause["category"] != says[path]["category"][0] and cause["confidence"] == "high"
    options.out.write_text(HEAD.format(right=right, all=len(rows), wrong=wrong or "none") + "\n".join(rows) + "\n")
    print(json.dumps({"right": right, "of": len(rows), "wrong with high confidence": wrong}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
