"""Runs programs, functions that are called as their files, each in a fork of a process that has imported PyTorch. `python run_programs.py FILE…`
writes for each a file of JSON: what it raised, and the findings that its log held when the exception arrived. Without files: all, copied into this
folder."""

import contextlib
import json
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import torch  # noqa: F401 (once for all)


def findings_so_far() -> list[dict]:
    log = Path(f"devtrace-{os.getpid()}.jsonl")
    if not log.exists():
        return []
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [record for record in records if record["record"] == "finding"]


def outcome_of(file: Path) -> dict:
    program = SimpleNamespace(name=file.stem, run=runpy.run_path(str(file))[file.stem])
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


def answer_in_child(program: Path, answer: Path) -> None:
    """Nothing of it reaches the next program."""
    with open(os.devnull, "w") as nowhere, contextlib.suppress(BaseException):
        os.dup2(nowhere.fileno(), 1)
    answer.write_text(json.dumps(outcome_of(program)), encoding="utf-8")


def main() -> None:
    answers = Path("answers")
    answers.mkdir(exist_ok=True)
    for program in map(Path, sys.argv[1:]):
        child = os.fork()
        if child == 0:
            try:
                answer_in_child(program, answers / f"{program.stem}.json")
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
