"""The corpus: small programs that die of a device mistake, each with what is right to say of it and how it is repaired. They are rebuilt from public
threads; those without one, as all of written_2026.py and written_2026b.py, are written as people write code.

Its cases are in the form that case_form.py tells. What one prints last after its repair is what it has to print after any other right fix.

Cases of corpus_apart/ have the same form. They are kept apart, to measure with: who changes rules or edits does not read them.

`tests/workloads/corpus_case.py [NAME …]` runs them all, or these: broken, each must fail with its `error`; repaired, print the same twice."""

import argparse
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / each) for each in ("", "helpers")]
from case_form import Case, cases_in  # noqa: E402
from conftest import start  # noqa: E402

CORPUS = Path(__file__).resolve().parent / "corpus"
APART = CORPUS.parent / "corpus_apart"
CATEGORIES = {
    "input-not-moved", "input", "created-without-device", "cached-state", "module-split", "state-not-registered", "default-or-current-device",
    "optimizer", "data-parallel", "tied-weights", "generator", "inter-process", "unguarded-kernel", "checkpoint", "",
}


def faults_of_form(case: Case) -> list[str]:
    """What is wrong with a case, as far as it shows without running it."""
    missing = {"operation", "operands", "category", "line"} - case.says.keys()
    if missing:
        return [f"it does not say: {', '.join(sorted(missing))}"]
    for pattern in (case.operation, case.error, *case.list_of("operands")):
        re.compile(pattern)
    faults = [f"{device} is no device" for device in case.devices if not re.fullmatch(r"cpu|meta|cuda:\d", device)]
    faults += [f"{word} is no category" for word in case.first("category").split("|") if word not in CATEGORIES]
    faults += [f"no line of {place.file} holds: {place.text}" for place in case.lines if not case.lines_at(place)]
    if not case.first("thread", "https://").startswith("https://"):
        faults.append("its thread has no address")
    if not case.repairs:
        faults.append("it has no repair")
    return faults


def faults_of_runs(case: Case) -> list[str]:
    """What is wrong with a case that shows when it runs, on two simulated devices."""
    faults, printed = [], []
    for fixed in (False, True, True):
        with tempfile.TemporaryDirectory() as folder:
            outcome = start([case.copy(Path(folder), fixed)], Path(folder))
        raised = outcome.err[outcome.err.rfind("Traceback (most recent call last)") :]
        if not fixed and (outcome.code == 0 or not re.search(case.error, raised)):
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
    cases = {**cases_in(CORPUS), **cases_in(APART)}
    chosen = [cases[name] for name in options.names or cases]
    with ThreadPoolExecutor(options.jobs) as pool:
        faults = list(pool.map(lambda case: faults_of_form(case) or faults_of_runs(case), chosen))
    for case, found in zip(chosen, faults):
        print(case.name, *found or ["ok"], sep="\n    " if found else ": ", flush=True)
    return any(faults)


if __name__ == "__main__":
    sys.exit(main())
