"""The verdicts as a table for the terminal and as a page for docs/evidence/."""

from importlib.metadata import version

from judge import Verdicts

SECTIONS = (  # attribute, title, whether devtrace is at fault
    ("missed", "Refusals without a finding"),
    ("duplicate", "Refusals with more than one finding"),
    ("wrong_operation", "Findings with the wrong operation"),
    ("wrong_devices", "Findings without both devices"),
    ("false", "Findings where nothing was refused"),
    ("changed", "Exceptions that differ from those without devtrace"),
)


def by_operator(lines: list[str]) -> list[str]:
    """One line an operator: its first fault and how many more of the kind there are."""
    found = {}
    for line in lines:
        found.setdefault(line.split()[0].rstrip(","), []).append(line)
    return [f"{of_one[0]}" + (f" (and {len(of_one) - 1} more of this operator)" if len(of_one) > 1 else "") for of_one in found.values()]


def rows(v: Verdicts) -> list[tuple[str, str]]:
    return [
        ("operators with at least two tensor operands", f"{v.operators}"),
        ("calls with one operand on another device", f"{v.calls}"),
        ("refused by PyTorch's C++", f"{v.refused} ({len(v.refused_operators)} operators)"),
        ("… with exactly one finding, the right operation and both devices", f"{v.explained}"),
        *[(title.lower(), f"{len(getattr(v, attribute))}") for attribute, title in SECTIONS],
        ("refused by Python code, never seen in C++", f"{len(v.in_python)} operators"),
        ("not judged: fails in simulation with all operands on cuda:0, too", f"{len(v.not_judged)} operators, in part or whole"),
        ("crashed or hung", f"{len(v.crashed)}"),
    ]


def table(v: Verdicts, seconds: float) -> str:
    lines = [f"{label:<70} {value}" for label, value in rows(v)]
    for attribute, title in SECTIONS:
        lines += [f"{title}:", *[f"  {line}" for line in by_operator(getattr(v, attribute))]] if getattr(v, attribute) else []
    lines += ["Crashed or hung:", *[f"  {line}" for line in v.crashed]] if v.crashed else []
    return "\n".join([*lines, f"{seconds:.0f} s"])


def markdown(v: Verdicts) -> str:
    page = [
        "# Conformance: PyTorch's own operator database",
        "",
        f"Written by `make conformance`; PyTorch {version('torch')}, two simulated devices.",
        "",
        "Every operator of `torch.testing._internal.common_methods_invocations.op_db` with at least two tensor operands runs on every sample that the database",
        "gives for it (float32, or the first dtype it takes): all operands on cuda:0, then each tensor operand in turn on cuda:1, then on the CPU. A mixed call that",
        "raises although the same call on one device did not is a refusal; the one device is cuda:0, or the CPU for an operand there among operators that have no",
        "kernel for CUDA. Which operator was refused is read from PyTorch's own C++ stack trace of the same call in a second process without devtrace (for jitted",
        "kernels, from their source); the same process shows that devtrace changes no exception.",
        "",
        "| | |",
        "|---|---:|",
        *[f"| {label} | {value} |" for label, value in rows(v)],
        "",
    ]
    for attribute, title in SECTIONS:
        lines = by_operator(getattr(v, attribute))
        if lines:
            page += [f"## {title}", "", *[f"- `{line}`" for line in lines], ""]
    named = (
        ("in_python", "Refused by Python code", "PyTorch's Python functions raise these themselves; no C++ check is reached, so there is nothing to hook."),
        ("no_operator", "Refused outside any operator", "No operator of PyTorch's dispatcher is at work there, so the finding names none."),
        ("names_no_device", "Refusals whose message names no device", "Counted as refusals all the same."),
        ("not_judged", "Fails in simulation on one device, too", "PyTorch has no kernel for it there, or the simulated libraries lack something; the first message of each."),
    )
    for attribute, title, why in named:
        entries = getattr(v, attribute)
        if entries:
            page += [f"## {title}", "", why, "", *[f"- `{op}`: {text}" for op, text in sorted(entries.items())], ""]
    if v.crashed:
        page += ["## Crashed or hung", "", *[f"- {line}" for line in v.crashed], ""]
    return "\n".join(page)
