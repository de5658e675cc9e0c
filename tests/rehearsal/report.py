"""The verdicts for the terminal and as the page docs/guide/rehearsal.md (page.md is its hand-written part)."""

from importlib.metadata import version

MODES = {"float32": "float32 forward", "bfloat16": "bfloat16 forward", "backward": "float32 backward"}


def of_mode(verdicts, mode):
    return {op: modes[mode] for op, modes in verdicts["operators"].items() if mode in modes}


def rows(verdicts):
    for mode, title in MODES.items():
        found = of_mode(verdicts, mode)
        samples, equal = sum(m["samples"] for m in found.values()), sum(m["equal"] for m in found.values())
        if found:
            yield title, len([m for m in found.values() if m["samples"]]), samples, equal, 100 * equal / max(samples, 1)


def faults(verdicts):
    """(operator, mode's title, counts) of each operator with a sample that is not equal."""
    for mode, title in MODES.items():
        for op, counts in of_mode(verdicts, mode).items():
            if counts["equal"] < counts["samples"]:
                yield op, title, counts


def summary(verdicts) -> str:
    lines = [f"{title:<18} {ops:>4} operators {samples:>6} samples {equal:>6} equal {share:6.2f} %" for title, ops, samples, equal, share in rows(verdicts)]
    lines += [f"  {op}, {title}: {c['samples'] - c['equal']} of {c['samples']}: {c['faults'][0]}" for op, title, c in faults(verdicts)]
    unusable = {(op, m["unusable"]) for of_one in [verdicts["operators"]] for op, modes in of_one.items() for m in modes.values() if "unusable" in m}
    lines += [f"  {op}: no samples: {why}" for op, why in sorted(unusable)]
    lines += [f"  crashed: {line}" for line in verdicts["crashed"]]
    return "\n".join(lines)


def markdown(verdicts, page: str) -> str:
    table = ["| | operators | samples | equal to the CPU's | |", "|---|---:|---:|---:|---:|"]
    table += [f"| {title} | {ops} | {samples} | {equal} | {share:.2f} % |" for title, ops, samples, equal, share in rows(verdicts)]
    rest = [f"| `{op}` | {title} | {c['samples'] - c['equal']} of {c['samples']} | {cell(c['faults'][0])} |" for op, title, c in faults(verdicts)]
    crashed = [f"- {line}" for line in verdicts["crashed"]]
    text = page.replace("@VERSION@", version("torch")).replace("@TABLE@", "\n".join(table))
    text = text.replace("@REST@", "\n".join(["| operator | | samples | first difference |", "|---|---|---:|---|", *rest]) if rest else "None.")
    return text.replace("@CRASHED@", "\n".join(crashed) if crashed else "No operator crashed or hung.")


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
