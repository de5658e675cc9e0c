"""docs/reference/device-errors.md and device-errors-unprovoked.md, from the catalogue and what devtrace said of its programs."""

import ast
import json
import sys
from collections import defaultdict
from pathlib import Path

from . import catalogue

PAGE = catalogue.TOP / "docs/reference/device-errors.md"
UNPROVOKED = PAGE.with_name("device-errors-unprovoked.md")
GOLDEN = catalogue.TOP / "tests/data/golden/findings.jsonl"

# Files of programs, what people meet most first.
FAMILIES = (
    "elementwise", "indexing", "networks", "host", "compiled", "meta", "devices",
    "parallel", "sharding", "libraries", "trainers", "gradients", "linear_algebra", "kernels", "sparse",
)

HEAD = """# Errors about where something lies

PyTorch, NumPy's conversion, accelerate, transformers, peft and Lightning raise these errors because something lies on the wrong device.
Search this page for your message: each has a section. `…` stands for a name, a number or a device.
Messages that no program here provokes are [a page of their own](device-errors-unprovoked.md).

Whatever the message, `devtrace run -- python train.py` says which tensor, where it came from and which line to change.
`devtrace rehearse --gpus 2 -- python train.py` does so without a GPU.

`scripts/device-errors page --write` writes both pages, from [tests/workloads/device_errors/](../../tests/workloads/device_errors/).
"""

UNPROVOKED_HEAD = """# Errors about where something lies that no program here provokes

They are raised because of where something lies, too, or sound like it. Each group says why no program gets there.
Those that programs provoke: [errors](device-errors.md)."""


def code(text: str, limit: int = 0) -> str:
    text = " ".join(text.split())
    if limit and len(text) > limit:
        text = text[:limit].rstrip() + " …"
    fence = "``" if "`" in text else "`"
    space = " " if fence == "``" else ""
    return f"{fence}{space}{text}{space}{fence}"


def since(row: dict) -> str:
    known = f"{row['since']} or before" if row["before"] else f"{row['since']}"
    return f"since {known}" if row["until"] is None else f"{known} to {row['until']}"


def raisers(row: dict) -> str:
    first, *rest = row["raised_by"]
    file, _, function = first.partition(":")
    file = file.removeprefix("aten/src/")
    more = f" and {len(rest)} more" if rest else ""
    where = f"{code(function)} ({file})" if function else file
    return f"{where}{more}, {row['project']} {since(row)}"


def recorded_errors() -> dict[str, list[dict]]:
    """The errors that devtrace found in each program that has any, as they were recorded: sections quote them, and the figures are counted from them."""
    answers: dict[str, list[dict]] = {}
    for one in map(json.loads, GOLDEN.read_text(encoding="utf-8").splitlines()):
        if one["program"].startswith("message ") and one["severity"] == "error":
            answers.setdefault(one["program"].removeprefix("message "), []).append(one)
    return answers


def example(program: catalogue.Program) -> str:
    """Its last statement, which raises."""
    last = ast.unparse(ast.parse(program.source).body[-1].body[-1]) if "return" not in program.source else program.source.rsplit("return ", 1)[-1]
    return code(last.removeprefix("return "), 110)


def says(row_programs: list[catalogue.Program], answers: dict[str, list[dict]]) -> str:
    seen_once = [program.name for program in row_programs if len(answers.get(program.name, [])) == 1]
    if not seen_once:
        return "nothing"
    misses = catalogue.expected_misses()
    name = next((name for name in seen_once if name not in misses), seen_once[0])
    (one,) = answers[name]
    devices = " and ".join(one["devices"])
    parts = [(code(one["operation"]) if one["operation"] else "an operation without a name") + (f" on {devices}" if devices else "")]
    if name in misses:
        parts.append("not all of it")
    if one["cause"].get("category"):
        parts.append(one["cause"]["category"])
    if one["cause"].get("fix"):
        parts.append(f"fix {code(one['cause']['fix'], 90)}")
    return "; ".join(parts)


def title(file: str) -> str:
    source = (catalogue.FOLDER / "programs" / f"{file}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)).splitlines()[0].rstrip(".")


def figures(by_row: dict, why: dict, answers: dict) -> list[str]:
    rows = catalogue.rows()
    programs = catalogue.programs()
    once = [program for program in programs if len(answers.get(program.name, [])) == 1]
    right = [program for program in once if program.name not in catalogue.expected_misses()]
    whole = [row for row, of_row in by_row.items() if all(program in right for program in of_row)]
    untried = [row for row, reason in why.items() if reason == catalogue.reasons.OPEN]
    pinned = "PyTorch 2.11, accelerate 1.15, transformers 5.23, peft 0.21, Lightning 2.6, NumPy 2.4"
    return [
        "| | |", "|---|---:|",
        f"| messages in the sources, PyTorch 2.4 to 2.15 and the other projects | {len(rows)} |",
        f"| … that programs provoke on simulated devices, with {pinned} | {len(by_row)} |",
        f"| … of which devtrace has exactly one finding before the exception, with the operation and every device, in all of their programs | {len(whole)} |",
        f"| … that no program can provoke, with the reason [here](device-errors-unprovoked.md) | {len(why) - len(untried)} |",
        f"| … for which no program has been written | {len(untried)} |",
        f"| programs | {len(programs)} |",
        f"| … with exactly one finding before the exception | {len(once)} ({100 * len(once) / max(1, len(programs)):.0f} %) |",
        f"| … which names the operation and every device | {len(right)} ({100 * len(right) / max(1, len(programs)):.0f} %) |",
        f"| recall: messages | {len(whole)} of {len(by_row)}, {100 * len(whole) / max(1, len(by_row)):.0f} % |",
    ]


def section(row: dict, programs: list[catalogue.Program], answers: dict[str, list[dict]]) -> list[str]:
    return [
        f'<a id="{row["id"]}"></a>', "", f"### {code(row['text'], 260)}", "",
        f"- raised by {raisers(row)}", f"- an example: {example(programs[0])}", f"- devtrace says: {says(programs, answers)}", "",
    ]


def pages() -> dict[Path, str]:
    by_row, why = catalogue.decided()
    answers = recorded_errors()
    rows = {row["id"]: row for row in catalogue.rows()}
    of_family = defaultdict(list)
    for row, programs in by_row.items():
        of_family[min((program.file.removesuffix(".py") for program in programs), key=FAMILIES.index)].append(row)
    lines = [HEAD, *figures(by_row, why, answers), ""]
    for family in FAMILIES:
        if of_family[family]:
            lines += [f"## {title(family)}", ""]
        for row in of_family[family]:
            lines += section(rows[row], by_row[row], answers)
    return {PAGE: "\n".join([*lines, *not_all(rows)]) + "\n", UNPROVOKED: "\n".join([UNPROVOKED_HEAD, "", *without_program(rows, why)]) + "\n"}


def not_all(rows: dict[str, dict]) -> list[str]:
    misses = catalogue.expected_misses()
    lines = ["## What devtrace does not say yet", ""]
    for program in catalogue.programs():
        if program.name in misses:
            lines.append(f"- {code(rows[program.row]['text'], 140)}, {example(program)}: {misses[program.name]}")
    return lines


def without_program(rows: dict[str, dict], why: dict[str, str]) -> list[str]:
    by_reason = defaultdict(list)
    for row, reason in why.items():
        by_reason[reason].append(rows[row])
    lines = []
    for reason, members in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        lines += [f"## {reason[0].upper()}{reason[1:]}", "", f"{len(members)} messages.", ""]
        for row in members:
            lines.append(f"- {code(row['text'], 140)}: {raisers(row)}")
        lines.append("")
    return lines[:-1]


def write() -> None:
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")


def check() -> int:
    unknown = [program.name for program in catalogue.programs() if program.row not in {row["id"] for row in catalogue.rows()}]
    undecided = catalogue.undecided()
    for name in unknown:
        print(f"{name}: error: provokes a row that the catalogue does not have", file=sys.stderr)
    for row in undecided:
        print(f"{row['id']}: error: has neither a program nor a reason", file=sys.stderr)
    if unknown or undecided:
        return 1
    others = [page for page, text in pages().items() if not page.exists() or page.read_text(encoding="utf-8") != text]
    for page in others:
        print(f"{page.relative_to(catalogue.TOP)}: error: is not what the catalogue says; scripts/device-errors page --write puts it right", file=sys.stderr)
    return 1 if others else 0
