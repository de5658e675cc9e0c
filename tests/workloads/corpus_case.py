"""The corpus: small programs that die of a device mistake, rebuilt from public threads, each with what is right to say of it and how it is repaired.

A case is corpus/NAME.py, or corpus/NAME/main.py with the files beside it. Its first lines:

    # EXPECT {"kind", "operation", "devices", "operands", "category", "line", "error", "thread", "hard"}
    # FIX [FILE: ]line -> replacement

`operation`, `operands` (names, in any frame) and `error` (the message) are regular expressions. `category`: words, any of which will do, separated by |.
`line`: parts of the lines to change, the true one first, others where a fix is right too. `hard`: why it is, where it is. In a folder a line is
told with its file. What the program prints last after its FIX (one or more whole lines, replaced) is what it has to print after any other right fix.

Cases of corpus_apart/ have the same form. They are kept apart, to measure with: who changes rules or edits does not read them.

`tests/workloads/corpus_case.py [NAME …]` runs them all, or these: broken, each must fail with its `error`; repaired, print the same twice."""

import argparse
import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from conftest import start  # noqa: E402

CORPUS = Path(__file__).resolve().parent / "corpus"
APART = CORPUS.parent / "corpus_apart"
CATEGORIES = {
    "input not moved", "input", "created without device", "cached state", "module split", "state not registered", "default or current device",
    "optimizer", "data parallel", "tied weights", "generator", "inter-process", "unguarded kernel", "checkpoint", "",
}
HEADER = ("# EXPECT ", "# FIX ")
IN_FILE = re.compile(r"(?:([\w/]+\.py): )?(.*)")


@dataclass(frozen=True)
class Place:
    """A line of a case, or a part of one."""

    file: str
    text: str

    @staticmethod
    def parse(text: str, main: str) -> "Place":
        file, text = IN_FILE.fullmatch(text).groups()
        return Place(file or main, text)


@dataclass(frozen=True)
class Fix:
    place: Place
    replacement: str

    def applied(self, source: str) -> str:
        """`source` with the one line that is the place's replaced, its indentation kept."""
        lines = source.split("\n")
        found = [i for i, line in enumerate(lines) if line.strip() == self.place.text]
        if len(found) != 1:
            raise ValueError(f"{len(found)} lines of {self.place.file} are: {self.place.text}")
        line = lines[found[0]]
        lines[found[0]] = line[: len(line) - len(line.lstrip())] + self.replacement
        return "\n".join(lines)


@dataclass(frozen=True)
class Case:
    name: str
    main: str  # the file to run
    files: dict[str, str]  # every file's text, by its name
    expect: dict
    fixes: list[Fix]

    @property
    def lines(self) -> list[Place]:
        return [Place.parse(line, self.main) for line in self.expect["line"]]

    def lines_at(self, place: Place) -> list[int]:
        """Numbers, from 1, of the file's lines that hold the place's text; the header is none of them."""
        lines = enumerate(self.files[place.file].split("\n"), 1)
        return [number for number, line in lines if place.text in line and not line.startswith(HEADER)]

    def copy(self, folder: Path, fixed: bool = False) -> Path:
        """Writes its files into `folder`; returns the one to run. Lines keep their numbers."""
        files = dict(self.files)
        for fix in self.fixes if fixed else []:
            files[fix.place.file] = fix.applied(files[fix.place.file])
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder / self.main


def read(path: Path) -> Case:
    """A case from its file, or from its folder."""
    folder = path if path.is_dir() else path.parent
    paths = sorted(folder.rglob("*.py")) if path.is_dir() else [path]
    files = {str(one.relative_to(folder)): one.read_text(encoding="utf-8") for one in paths}
    main = "main.py" if path.is_dir() else path.name
    expect, fixes = None, []
    for line in files[main].split("\n"):
        if line.startswith("# EXPECT "):
            expect = json.loads(line.removeprefix("# EXPECT "))
        elif line.startswith("# FIX "):
            old, new = line.removeprefix("# FIX ").split(" -> ")
            fixes.append(Fix(Place.parse(old, main), new))
        else:
            break
    return Case(path.stem, main, files, expect, fixes)


def corpus(folder: Path = CORPUS) -> dict[str, Case]:
    """All cases of a folder, by name."""
    paths = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "main.py").exists()]
    return {path.stem: read(path) for path in sorted(paths)}


def faults_of_form(case: Case) -> list[str]:
    """What is wrong with a case, as far as it shows without running it."""
    expect, faults = case.expect, []
    missing = {"kind", "operation", "devices", "operands", "category", "line", "error", "thread"} - expect.keys()
    if missing:
        return [f"EXPECT has no {', '.join(sorted(missing))}"]
    for pattern in (expect["operation"], expect["error"], *expect["operands"]):
        re.compile(pattern)
    faults += [f"{word} is no category" for word in expect["category"].split("|") if word not in CATEGORIES]
    faults += [f"no line of {place.file} holds: {place.text}" for place in case.lines if not case.lines_at(place)]
    if not expect["thread"].startswith("https://"):
        faults.append("its thread has no address")
    if not case.fixes:
        faults.append("it has no FIX")
    return faults


def faults_of_runs(case: Case) -> list[str]:
    """What is wrong with a case that shows when it runs, on two simulated devices."""
    faults, printed = [], []
    for fixed in (False, True, True):
        with tempfile.TemporaryDirectory() as folder:
            outcome = start([case.copy(Path(folder), fixed)], Path(folder))
        raised = outcome.err[outcome.err.rfind("Traceback (most recent call last)") :]
        if not fixed and (outcome.code == 0 or not re.search(case.expect["error"], raised)):
            faults.append(f"broken: it ended with {outcome.code}: {raised.strip()[-400:]}")
        if fixed and outcome.code != 0:
            faults.append(f"repaired: it ended with {outcome.code}: {raised.strip()[-400:]}")
        if fixed:
            printed.append(outcome.out.strip().split("\n")[-1])
    if not printed[0] or printed[0] != printed[1]:
        faults.append(f"repaired: it printed {printed[0]!r}, then {printed[1]!r}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the cases of the corpus: form, failure, repair.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cases = {**corpus(), **corpus(APART)}
    chosen = [cases[name] for name in options.names or cases]
    with ThreadPoolExecutor(options.jobs) as pool:
        faults = list(pool.map(lambda case: faults_of_form(case) or faults_of_runs(case), chosen))
    for case, found in zip(chosen, faults):
        print(case.name, *found or ["ok"], sep="\n    " if found else ": ", flush=True)
    return any(faults)


if __name__ == "__main__":
    sys.exit(main())
