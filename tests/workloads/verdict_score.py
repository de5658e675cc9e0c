"""What one rehearsal says of the corpus, measured: operands, cause, the line that the verdict names, and the fix that it prints, applied and run.

Prints what it says of each case, but of the part that is kept apart the shares alone. It takes some minutes: the programs are forks of one process that has imported PyTorch."""

import argparse
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / each) for each in ("", "helpers", "../python")]
from case_form import Case, cases_in  # noqa: E402
from conftest import start  # noqa: E402
from corpus_score import PARTS, is_right, last_line, names_of  # noqa: E402
from devtrace.edits import replaced, statement_end  # noqa: E402

NUMBER = re.compile(r"['\"]cuda:\d")
ASKED = ("found", "operands", "cause", "line", "fix", "number", "wrong_high")


@dataclass
class Answer:
    found: bool = False
    operands: bool = False
    cause: bool = False
    line: bool = False  # the verdict's is one that may be changed
    fix: bool = False  # applied, the program prints what it prints with the right one
    number: bool = False  # the fix writes a device's number
    wrong_high: bool = False
    says: str = ""


def apply(file: Path, line: int, fix: str) -> None:
    text = file.read_text()
    file.write_text(replaced(text, line, statement_end(text, line), fix))


def replaced_line(cause: dict) -> str:
    """The statement in whose place the fix is to stand: a number that it has itself is the program's."""
    file, line = Path(cause.get("file", "")), cause.get("line", 0)
    if not line or not file.is_file():
        return ""
    text = file.read_text()
    return "\n".join(text.split("\n")[line - 1 : statement_end(text, line)])


def changed_lines(cause: dict) -> list[int]:
    """The line that the verdict names, and those further down of its statement that the printed fix changes."""
    first, fixed = cause.get("line", 0), [each.strip() for each in cause.get("fix", "").split("\n")]
    return [first + i for i, each in enumerate(replaced_line(cause).split("\n")) if i == 0 or (cause.get("fix") and each.strip() not in fixed)]


def answer(case: Case, prints: str) -> Answer:
    result = Answer()
    with tempfile.TemporaryDirectory() as scratch:
        main = case.copy(Path(scratch))
        findings = start([main], Path(scratch), "text=0:html=0").findings
        if not findings:
            return result
        finding = findings[0]
        result.found = bool(re.search(case.operation, finding.get("operation", "")))
        operands = finding.get("operands", [])
        result.operands = all(
            any(re.search(f"(^|[.\\]])({pattern})$", name) for one in operands for name in names_of(one)) for pattern in case.list_of("operands")
        )
        cause = finding.get("cause", {})
        result.cause = is_right(cause.get("category", ""), case.first("category"))
        result.wrong_high = not result.cause and cause.get("confidence") == "high"
        result.number = len(NUMBER.findall(cause.get("fix", ""))) > len(NUMBER.findall(replaced_line(cause)))
        broken, file, line = scratch, Path(cause.get("file", "")), cause.get("line", 0)
        inside = file.is_relative_to(scratch)
        name = str(file.relative_to(scratch)) if inside else str(file)
        result.says = f"{cause.get('category')} {cause.get('confidence')} {name}:{line} {cause.get('repairs')}: {cause.get('fix', '')!r}"
        changed = changed_lines(cause)
        result.line = any(place.file == name and number in changed for place in case.lines for number in case.lines_at(place))
    if inside and cause.get("fix"):
        with tempfile.TemporaryDirectory() as scratch:
            main = case.copy(Path(scratch))
            try:
                # From below, so that numbers stay right.
                for edit in sorted([cause, *cause.get("also", [])], key=lambda each: -each["line"]):
                    apply(Path(scratch) / Path(edit["file"]).relative_to(broken), edit["line"], edit["fix"])
            except (IndexError, SyntaxError):
                return result
            again = start([main], Path(scratch), "text=0:html=0")
            result.fix = again.code == 0 and last_line(again.out) == prints
    return result


def printed_when_repaired(case: Case) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        return last_line(start([case.copy(Path(scratch), repaired=True)], Path(scratch)).out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--part", choices=PARTS, default="corpus")
    options = parser.parse_args()
    known = {each["name"]: each for each in map(json.loads, (Path(__file__).parent / "corpus.jsonl").read_text(encoding="utf-8").splitlines())}
    answers = []
    for case in cases_in(PARTS[options.part]).values():
        if options.names and case.name not in options.names:
            continue
        answers.append(answer(case, known[case.name]["prints"] if case.name in known else printed_when_repaired(case)))
        if options.part == "corpus":
            marks = " ".join(f"{word}={'yes' if getattr(answers[-1], word) else 'NO'}" for word in ASKED)
            print(f"{case.name}: {marks}\n    {answers[-1].says}\n    wants: {' | '.join(case.says['line'])}", flush=True)
    for word in ASKED:
        number = sum(getattr(each, word) for each in answers)
        print(f"{word}: {number} of {len(answers)} ({100 * number / max(1, len(answers)):.0f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
