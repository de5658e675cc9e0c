"""Runs the programs, each in a fork of a process that has imported PyTorch: `python run_programs.py NAME…` writes a line of
JSON for each: what it raised, and the findings that its log held when the exception arrived."""

import contextlib
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from device_errors.programs import every_program  # noqa: E402


def findings_so_far() -> list[dict]:
    log = Path(f"devtrace-{os.getpid()}.jsonl")
    if not log.exists():
        return []
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [record for record in records if record["record"] == "finding"]


def outcome_of(program) -> dict:
    try:
        program.run()
    except BaseException as error:
        findings = findings_so_far()
        texts = []
        seen = error
        while seen is not None:  # a message may be wrapped into a longer one, or be the cause of another exception
            texts.append(f"{type(seen).__name__}: {seen}")
            seen = seen.__cause__ or seen.__context__
        return {"program": program.name, "raised": texts, "findings": findings}
    return {"program": program.name, "raised": [], "findings": findings_so_far()}


def run(program, answer: Path) -> None:
    """In a child of a fork: nothing of it reaches the next program."""
    with open(os.devnull, "w") as nowhere, contextlib.suppress(BaseException):
        os.dup2(nowhere.fileno(), 1)
    answer.write_text(json.dumps(outcome_of(program)), encoding="utf-8")


def main() -> None:
    answers = Path("answers")
    answers.mkdir(exist_ok=True)
    wanted = set(sys.argv[1:])
    for program in every_program():
        if wanted and program.name not in wanted:
            continue
        child = os.fork()
        if child == 0:
            try:
                run(program, answers / f"{program.name}.json")
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
