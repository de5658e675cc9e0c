"""docs/evidence/suites.md, from what came out."""

from collections import Counter

from suite_runner import UNEXPLAINED

MOST_TOLD = 40
OUTCOMES = ("passed", "failed", "skipped")
# By what happens to the same test without devtrace, where PyTorch sees no GPU.
SAME_WITHOUT = "it fails without devtrace, too"


def why(failure: dict) -> str:
    """`failure`: {"reason": …, "without": the outcome without devtrace}."""
    if failure["reason"] == UNEXPLAINED and failure["without"] == "failed":
        return SAME_WITHOUT
    return failure["reason"]


def one_line(text: str, most: int = 160) -> str:
    return " ".join(text.split())[:most].replace("|", "\\|").replace("`", "'")


def markdown(verdicts: dict, versions: str) -> str:
    lines = [
        "# Other projects' tests under rehearsal", "",
        f"Written by `make suites`; {versions}. The tests come from the projects' own sdists, unchanged, and run under `devtrace rehearse --gpus 2`, without a",
        "network. Which files: [suites.py](../../tests/suites/suites.py). transformers' sdist has the tests of models and not the files that name models for them;",
        "[these tiny ones](../../tests/suites/transformers_models.py) stand in. Each test that fails runs once more without devtrace and without a GPU, to see whether it",
        "fails there, too. CuPy's and numba-cuda's own, whose kernels a rehearsal computes by their PTX: [apart](../guide/kernels.md#how-this-was-tested).", "",
        "| suite | tests | passed | failed | skipped | findings |", "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for name, suite in verdicts.items():
        count = Counter(suite["outcomes"].values())
        lines.append(f"| {name} {suite['version']} | {sum(count.values())} | " + " | ".join(str(count[o]) for o in OUTCOMES) + f" | {len(suite['findings'])} |")
    lines += ["", "## Findings", ""]
    lines += ["| suite | kind | operation | devices | findings |", "|---|---|---|---|---:|"] if any(s["findings"] for s in verdicts.values()) else ["None."]
    for name, suite in verdicts.items():
        kinds = Counter((f["kind"], f["operation"] or "", " ".join(f["devices"] or ())) for f in suite["findings"])
        lines += [f"| {name} | {kind} | `{operation}` | {devices} | {count} |" for (kind, operation, devices), count in kinds.most_common()]
    lines.append("")
    lines += ["## Why tests fail", ""]
    for name, suite in verdicts.items():
        reasons = Counter(why(f) for f in suite["failures"])
        lines += [f"{name}: {'' if reasons else 'none fails.'}".rstrip(), ""]
        lines += ["| why | tests |", "|---|---:|", *(f"| {reason} | {count} |" for reason, count in reasons.most_common()), ""] if reasons else []
    lines += ["## Those that nothing explains", ""]
    told = [(name, f) for name, suite in verdicts.items() for f in suite["failures"] if why(f) == UNEXPLAINED]
    lines += ["| test | without devtrace | what it says |", "|---|---|---|"] if told else ["None."]
    lines += [f"| {name}: `{f['test']}` | {f['without'] or 'did not run'} | {one_line(f['message'])} |" for name, f in told[:MOST_TOLD]]
    if len(told) > MOST_TOLD:
        lines.append(f"\nAnd {len(told) - MOST_TOLD} more.")
    ended = [(name, file) for name, suite in verdicts.items() for file in suite["not_ended"]]
    lines += ["", "## Files that did not run to their end", ""] + ([f"- {name}: `{file}`" for name, file in ended] or ["None."])
    return "\n".join(lines) + "\n"
