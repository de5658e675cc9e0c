"""docs/evidence/wheels.md, from what came out."""

from wheels import WHEELS


def is_whole(row: dict) -> bool:
    """Everything was computed, equals the CPU's, and nothing was found in programs that have no fault."""
    return row.get("code") == 0 and not row["preload"] and not row["apart"] and not row["uncomputed"] and not row["findings"]


def what_is_not(row: dict) -> list[str]:
    if row.get("missing"):
        return [f"not fetched: {row['missing'][:120]}"]
    said = [f"apart: {name}" for name in row["apart"]]
    if row["uncomputed"]:
        more = f" and {len(row['uncomputed']) - 2} more" if len(row["uncomputed"]) > 2 else ""
        said.append("not computed, and said so: " + ", ".join(f"`{each.split(' (launches')[0][:60]}`" for each in row["uncomputed"][:2]) + more)
    if row["code"] is None:
        said.append("it did not end")
    elif row["code"]:
        said.append(f"exit {row['code']}: {row['last'][:120]}")
    if row["findings"]:
        said.append(f"{row['findings']} findings")
    said += [f"with a preload alone differs: {what}" for what in row["preload"]]
    return said


def markdown(rows: dict, versions: str) -> str:
    reasons = {wheel.name: wheel.reason for wheel in WHEELS}
    count = sum(is_whole(row) for row in rows.values())
    lines = [
        "# Wheels of others in a rehearsal", "",
        f"Written by `make wheels`; {versions}. Each wheel runs unmodified under `devtrace rehearse --gpus 2`, by a program of",
        "[programs.py](../../tests/wheels/programs.py) that compares with the CPU. Whole: all was computed, all is equal, nothing was found.",
        "Each program is also run as it is, without a GPU, with `LD_PRELOAD` alone and without: where exit status, output and last line are the same the column says so.", "",
        f"**{count} of {len(rows)} are whole.**", "",
        "| wheel | version | equal to the CPU | whole | preload alone | what is not, and why | s |", "|---|---|---|---|---|---|---:|",
    ]  # fmt: skip
    for name, row in rows.items():
        told = what_is_not(row)
        if told and reasons[name]:
            told.append(f"({reasons[name]})")
        same = "" if row.get("missing") else "differs" if row["preload"] else "same"
        whole = "yes" if is_whole(row) else "no"
        cells = [name, row.get("version", ""), ", ".join(row.get("equal", [])), whole, same, "; ".join(told), str(row.get("seconds", ""))]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
