"""docs/evidence/wheels.md, from what came out."""

from wheels import WHEELS, Wheel


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


def line_of(wheel: Wheel, row: dict) -> str:
    told = what_is_not(row)
    if told and wheel.reason:
        told.append(f"({wheel.reason})")
    same = "" if row.get("missing") else "differs" if row["preload"] else "same"
    shown = wheel.name + (f" (`{' '.join(wheel.flags)}`)" if wheel.flags else "")
    cells = [shown, row.get("version", ""), ", ".join(row.get("equal", [])), "yes" if is_whole(row) else "no", same, "; ".join(told), str(row.get("seconds", ""))]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def lines_by_wheel(page: str) -> dict:
    """Of a page that was written before."""
    return {line.split()[1]: line for line in page.splitlines() if line.startswith("| ") and line.split()[1] != "wheel"}


def markdown(rows: dict, versions: str, before: str = "") -> str:
    """`before`: the page as it is, whose rows stay where none is given."""
    known = lines_by_wheel(before)
    lines = [line_of(wheel, rows[wheel.name]) if wheel.name in rows else known[wheel.name] for wheel in WHEELS if wheel.name in rows or wheel.name in known]
    whole = sum(" | yes | " in line for line in lines)
    return "\n".join([
        "# Wheels of others in a rehearsal", "",
        f"Written by `make wheels`; {versions}. Each wheel runs unmodified under `devtrace rehearse --gpus 2`, by a program of",
        "[programs.py](../../tests/wheels/programs.py) that compares with the CPU. Whole: all was computed, all is equal, nothing was found. The same",
        "program is run without a GPU, with `LD_PRELOAD` alone and without: whether exit status, output and last line are the same, but for numbers.", "",
        f"**{whole} of {len(lines)} are whole.**", "",
        "| wheel | version | equal to the CPU | whole | preload alone | what is not, and why | s |", "|---|---|---|---|---|---|---:|",
        *lines,
    ]) + "\n"  # fmt: skip
