"""What devtrace says of the five systems and the cases, as a page: docs/evidence/cases.md. `make cases-page` writes it, and the tests compare."""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / each) for each in ("", "helpers")]
from case_form import Case, cases_in  # noqa: E402
from conftest import TOP, start  # noqa: E402

WORKLOADS = TOP / "tests/workloads"
CASES = dict(sorted(cases_in(WORKLOADS / "cases").items()))
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


@dataclass
class Ran:
    """All cases' findings, and what they printed."""

    folder: Path
    out: str = ""
    err: str = ""
    findings: list = field(default_factory=list)

    def of(self, name: str) -> list[dict]:
        return [one for one in self.findings if any(Path(frame["file"]).name == f"{name}.py" for frame in one["python"])]


def run(folder: Path) -> Ran:
    """All cases, in folders below `folder`."""
    together = [case for case in CASES.values() if "alone" not in case.says]
    groups = [together, *([case] for case in CASES.values() if "alone" in case.says)]
    ran = Ran(folder)
    for number, group in enumerate(groups):
        own = folder / str(number)
        own.mkdir()
        (own / "program.py").write_text(RUN)
        copies = [case.copy(own) for case in group]
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


def case_row(case: Case, finding: dict) -> str:
    thread = case.first("thread")
    return row(f"[{case.name}]({thread})" if thread else case.name, finding)


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
        ran = run(Path(folder))
        for name, case in CASES.items():
            cause = ran.of(name)[0]["cause"]
            rows.append(case_row(case, ran.of(name)[0]))
            right += cause["category"] == case.first("category")
            wrong += cause["category"] != case.first("category") and cause["confidence"] == "high"
    options.out.write_text(HEAD.format(right=right, all=len(rows), wrong=wrong or "none") + "\n".join(rows) + "\n")
    print(json.dumps({"right": right, "of": len(rows), "wrong with high confidence": wrong}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
