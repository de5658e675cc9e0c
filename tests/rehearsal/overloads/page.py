"""The verdicts for the terminal and as the page docs/evidence/rehearsal-values.md."""

from importlib.metadata import version

KINDS = {
    "equal": "equal to the CPU's", "random": "random numbers, of the right type and shape", "refused": "refused by PyTorch's own CUDA code",
    "refused_alone": "refused by it for another reason than types, and taken by the CPU",
    "not_computed": "not computed, told by name at exit", "no_reference": "nothing on the CPU to compare with", "wrong": "wrong", "unusable": "no call known",
}  # fmt: skip

HEAD = """# Values of a rehearsal, by overload and type

Written by `make rehearsal-overloads`; PyTorch {version}. Every overload of every operator that has a CUDA kernel, called with what PyTorch's operator database
reaches, forward and backward ([gather.py](../../tests/rehearsal/overloads/gather.py)), or with guesses by its schema; over float32, float64, float16, bfloat16, complex64,
complex32, int64, int32, int16, int8, uint8 and bool, each `dtype=` argument in three types, and `out=` of the right size, with strides, and empty. Compared with the same
overload on the CPU; where that lacks the type, with float32, complex64 or float64.

Left out are operators whose results are nobody's values (`empty`), communication, and cuDNN's, which are reported absent; and calls whose result on the CPU itself changes with
what lay in memory. Tensors are dense: what is registered for sparse ones is called with those as well as it takes them. Values of random numbers are not compared here, nor are those of
operators that the CPU lacks; for some of both there are checks of their own ([checks.py](../../tests/rehearsal/checks.py) and the files beside it).
"""


def all_counts(verdicts):
    counts = {}
    for verdict in verdicts["overloads"].values():
        for kind, number in verdict["counts"].items():
            of_kind = counts.setdefault(kind, [0, 0])
            of_kind[0] += number
            of_kind[1] += 1
    return counts


def without_calls(verdicts):
    """Overloads of which no call ran: everything was refused, or none could be made."""
    return sorted(n for n, v in verdicts["overloads"].items() if not set(v["counts"]) - {"refused", "refused_alone", "unusable"})


def summary(verdicts) -> str:
    lines = [f"{KINDS[k]:<50} {calls:>6} calls of {overloads:>5} overloads" for k, (calls, overloads) in sorted(all_counts(verdicts).items())]
    for name, verdict in verdicts["overloads"].items():
        for kind in ("wrong", "refused_alone", "unusable"):
            lines += [f"  {kind}: {name} ({what}): {why}" for what, why in verdict["kinds"].get(kind, [])[:3]]
    lines += [f"  crashed: {line}" for line in verdicts["crashed"]]
    return "\n".join(lines)


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def table(verdicts, kind):
    rows = []
    for name, verdict in verdicts["overloads"].items():
        if kind in verdict["counts"]:
            what, why = (verdict["kinds"].get(kind) or [["", ""]])[0]
            rows.append(f"| `{name}` | {verdict['counts'][kind]} | {what} | {cell(why)} |")
    return "\n".join(["| overload | calls | first | |", "|---|---:|---|---|", *rows]) if rows else "None."


def markdown(verdicts) -> str:
    counts = all_counts(verdicts)
    rows = [f"| {text} | {counts[kind][0]} | {counts[kind][1]} |" for kind, text in KINDS.items() if kind in counts]
    silent = without_calls(verdicts)
    parts = [
        HEAD.format(version=version("torch")),
        "\n".join(["| | calls | overloads |", "|---|---:|---:|", *rows]),
        "## Wrong\n\n" + table(verdicts, "wrong"),
        "## Crashed or hung\n\n" + ("\n".join(f"- {line}" for line in verdicts["crashed"]) or "None."),
        "## Refused for another reason than types\n\nPyTorch's own CUDA code says so; the CPU takes the same call.\n\n" + table(verdicts, "refused_alone"),
        "## Not computed\n\n" + table(verdicts, "not_computed"),
        "## Nothing to compare with\n\n" + table(verdicts, "no_reference"),
        f"## Never run\n\nOf {len(silent)} overloads no call was found that PyTorch's CUDA code takes: " + ", ".join(f"`{n}`" for n in silent) + "." if silent else "",
    ]
    return "\n\n".join(p.strip() for p in parts if p) + "\n"
