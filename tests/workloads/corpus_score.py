"""What devtrace says of the corpus, measured: `devtrace fix` on every case, its patch applied, the program run again.

`make corpus` runs it (about an hour on two cores) and writes tests/workloads/corpus.jsonl, case by case, and docs/evidence/corpus.md from all that it holds.
With names of cases only these are run anew: those of the corpus, unless --part says apart."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / each) for each in ("", "helpers")]
from case_form import Case, cases_in  # noqa: E402
from conftest import DEVTRACE, TOP, environment, execute, start  # noqa: E402
from corpus_case import APART, CORPUS  # noqa: E402

PAGE = TOP / "docs/evidence/corpus.md"
RESULTS = TOP / "tests/workloads/corpus.jsonl"
PARTS = {"corpus": CORPUS, "apart": APART}


@dataclass
class Score:
    name: str
    part: str
    found: bool = False  # a finding
    operands: bool = False
    category: str = ""
    confidence: str = ""
    cause: bool = False
    wrong_high: bool = False  # a cause that is not right, said with high confidence
    line: bool = False  # a line is changed that may be
    fix: bool = False  # the patch applies, and the program prints what the right fix lets it print
    tried: int = 0
    seconds: float = 0
    thread: str = ""
    patch: str = ""
    prints: str = ""  # with the right fix
    notes: list[str] = field(default_factory=list)


def last_line(text: str) -> str:
    lines = text.strip().split("\n")
    return lines[-1] if lines else ""


def names_of(operand: dict) -> list[str]:
    """Its own names; of the result of an expression also those of what it was computed from, which the reports tell with it."""
    own = [operand.get("name", ""), operand.get("expression", ""), *(each["name"] for each in operand.get("names", []))]
    sources = operand.get("computed_from", [])[:1] if not operand.get("name") else []
    return own + [name for source in sources for name in names_of(source)]


def is_right(category: str, words: str) -> bool:
    return not words or any(word and word in category for word in words.split("|"))


def changed_lines(patch: str) -> list[tuple[str, int]]:
    """(file, number in the old text) of the lines that a patch takes out, or puts new ones in front of."""
    found, file, number = [], "", 0
    for line in patch.split("\n"):
        if line.startswith("--- a/"):
            file = line.removeprefix("--- a/")
        elif match := re.match(r"@@ -(\d+)", line):
            number = int(match[1])
        elif line.startswith("-") and not line.startswith("--- "):
            found.append((file, number))
            number += 1
        elif line.startswith("+") and not line.startswith("+++"):
            found += [(file, number - 1), (file, number)]
        elif line.startswith(" "):
            number += 1
    return found


def score(part: str, case: Case) -> Score:
    result = Score(case.name, part, thread=case.first("thread"))
    with tempfile.TemporaryDirectory() as scratch:
        right = Path(scratch) / "right"
        right.mkdir()
        result.prints = last_line(start([case.copy(right, repaired=True)], right).out)
        broken, out = Path(scratch) / "broken", Path(scratch) / "out"
        broken.mkdir()
        main = case.copy(broken)
        began = time.monotonic()
        command = [DEVTRACE, "fix", "--jobs", "1", "--no-html", "--output", out, "--", sys.executable, main.name]
        outcome = execute(command, broken, environment(None), 1800)
        result.seconds = round(time.monotonic() - began, 1)
        judge(result, case, out, outcome)
        patch = out / "devtrace.patch"
        if patch.exists():
            result.patch = patch.read_text()
            copy = Path(scratch) / "copy"
            shutil.copytree(broken, copy, ignore=shutil.ignore_patterns("__pycache__"))
            applied = subprocess.run(["git", "apply", patch], cwd=copy, capture_output=True, text=True)
            again = start([copy / main.name], copy)
            result.fix = outcome.code == 0 and applied.returncode == 0 and again.code == 0 and last_line(again.out) == result.prints
            if not result.fix:
                result.notes.append(applied.stderr or f"exit {again.code}: {last_line(again.out)} instead of {result.prints}")
    return result


def judge(result: Score, case: Case, out: Path, outcome) -> None:
    log = out / "devtrace-fix.jsonl"
    if not log.exists():
        result.notes.append(last_line(outcome.err or outcome.out))
        return
    records = [json.loads(line) for line in log.read_text().splitlines()]
    findings = [record for record in records if record["record"] == "finding"]
    result.tried = sum(len(record["tried"]) for record in records if record["record"] == "fix")
    if not findings:
        return
    finding = findings[0]
    result.found = bool(re.search(case.operation, finding.get("operation", "")))
    operands = finding.get("operands", [])
    result.operands = all(any(re.search(f"(^|[.\\]])({pattern})$", name) for one in operands for name in names_of(one)) for pattern in case.list_of("operands"))
    cause = finding.get("cause", {})
    result.category, result.confidence = cause.get("category", ""), cause.get("confidence", "")
    result.cause = is_right(result.category, case.first("category"))
    result.wrong_high = not result.cause and result.confidence == "high"
    places = {(place.file, number) for place in case.lines for number in case.lines_at(place)}
    patch = out / "devtrace.patch"
    result.line = patch.exists() and any(place in places for place in changed_lines(patch.read_text()))


def recorded() -> list[Score]:
    """What `make corpus` has left."""
    return [Score(**json.loads(line)) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def share(scores: list[Score], what: str) -> str:
    number = sum(getattr(each, what) for each in scores)
    return f"{number} of {len(scores)} ({100 * number / max(1, len(scores)):.0f} %)"


def page(scores: list[Score]) -> str:
    def yes(value):
        return "yes" if value else "no"

    waiting = sum(not each.seconds for each in scores)
    scores = [each for each in scores if each.seconds]
    parts = {part: [each for each in scores if each.part == part] for part in PARTS}
    parts = {part: own for part, own in parts.items() if own}
    apart = " and of the part that is\n[kept apart](../../tests/workloads/corpus_apart/), which nobody looks at who changes rules or edits" * ("apart" in parts)
    out = [
        "# devtrace on its corpus",
        "",
        f"Written by `make corpus`: `devtrace fix` on every case of [tests/workloads/corpus](../../tests/workloads/corpus/){apart}.",
        "A case is a small program with the mistake of a public thread. Its fix runs when the patch applies and the program then prints what it",
        "prints with the thread's own fix. Seconds are those of",
        "a machine with two cores, two cases at a time, one run at a time each; most were taken while it compiled besides, and are up to three times too long.",
        "",
        "| | " + " | ".join(parts) + " |",
        "|---|" + "---|" * len(parts),
    ]
    for what, words in (
        ("found", "a finding with the right operation"), ("operands", "operands named"), ("cause", "cause right"), ("line", "line right"), ("fix", "fix runs"),
        ("wrong_high", "cause wrong, with high confidence"),
    ):  # fmt: skip
        out.append(f"| {words} | " + " | ".join(share(own, what) for own in parts.values()) + " |")
    if waiting:
        out += ["", f"{waiting} newer cases of the corpus are not among these: `devtrace fix` has not been run on them yet."]
    out += ["", "| case | cause | right | line right | fix runs | tried | seconds |", "|---|---|---|---|---|---|---|"]
    for each in scores:
        thread = (f"[{each.name}]({each.thread})" if each.thread else each.name) + (" (kept apart)" if each.part == "apart" else "")
        cause = f"{each.category} ({each.confidence})" if each.category else "none"
        out.append(f"| {thread} | {cause} | {yes(each.cause)} | {yes(each.line)} | {yes(each.fix)} | {each.tried} | {each.seconds:.0f} |")
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="devtrace fix on the corpus, scored.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at a time")
    parser.add_argument("--part", choices=PARTS, help="this part only; the corpus where cases are named")
    options = parser.parse_args()
    only = options.part or ("corpus" if options.names else None)
    chosen = [
        (part, case) for part, folder in PARTS.items() if only in (None, part)
        for case in cases_in(folder).values() if not options.names or case.name in options.names
    ]
    known = {(each.part, each.name): each for each in recorded()}
    scores = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for each in pool.map(lambda one: score(*one), chosen):
            scores.append(each)
            known[each.part, each.name] = each
            write([known[key] for key in sorted(known)])
            hidden = each.part == "apart"
            marks = " ".join(f"{word}={'yes' if getattr(each, word) else 'NO'}" for word in ("found", "operands", "cause", "line", "fix"))
            detail = "" if hidden else f" {each.category} {each.confidence} {each.notes or ''}"
            name = "(kept apart)" if hidden else each.name
            print(f"{name}: {marks} tried={each.tried} {each.seconds:.0f}s{' WRONG HIGH' if each.wrong_high else ''}{detail}", flush=True)
    for part in PARTS:
        mine = [each for each in scores if each.part == part]
        if mine:
            print(part, *(f"{what}: {share(mine, what)}" for what in ("found", "operands", "cause", "line", "fix", "wrong_high")), sep="\n    ")
    return 0


def write(scores: list[Score]) -> None:
    PAGE.write_text(page(scores), encoding="utf-8")
    RESULTS.write_text("".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in scores), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
