"""docs/cost.md and its picture, from what was measured."""

from pathlib import Path

from programs import PROGRAMS
from ways import WAYS

HEAD = """# What devtrace costs

Written by `make bench-peers`: the same steps of the same programs with nothing, with devtrace, and with what people would use instead. All
processes of one program wait, and one after the other has a short turn; the figure is processor time on one thread, the least of the turns
(in brackets the quartiles, which show how noisy the machine was). Devices are simulated and compute no values, so that the host's work is
all there is: on hardware, where kernels take their time beside it, less of it is felt. Instructions are those of the same steps under
valgrind; they do not depend on the machine's load.

{date}, {cores} cores, CPython {python}. The goal is 1.03 times for devtrace as it comes, on every program.

"""
START_UPS = {"pass": "`python -c pass`", "import": "`import torch`"}


def about(program: str) -> str:
    return PROGRAMS[program].about if program in PROGRAMS else START_UPS.get(program, program)


def time_rows(found: dict) -> list[str]:
    bare = found["nothing"]["least"]
    rows = []
    for way in WAYS:
        one = found.get(way)
        if one is None:
            continue
        if "failed" in one:
            rows.append(f"| {WAYS[way].about} | does not run: {one['failed']} | |")
            continue
        low, middle, high = one["quartiles"]
        rows.append(f"| {WAYS[way].about} | {one['least']:.2f} ms ({low:.2f}, {middle:.2f}, {high:.2f}) | {one['least'] / bare:.2f} |")
    return rows


def text(found: dict) -> str:
    out = HEAD.format(**{key: found[key] for key in ("date", "cores", "python")})
    for program, ways in found["times"].items():
        out += f"## {about(program)[0].upper() + about(program)[1:]}\n\n"
        out += "| with | processor time a step | times |\n|---|---:|---:|\n" + "\n".join(time_rows(ways)) + "\n\n"
        counted = {way: count for way, count in found["instructions"].get(program, {}).items() if count}
        if bare := counted.get("nothing"):
            out += "| with | instructions a step | times |\n|---|---:|---:|\n"
            out += "".join(f"| {WAYS[way].about} | {count:,.0f} | {count / bare:.3f} |\n" for way, count in counted.items()) + "\n"
    return out


def picture(found: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "devtrace"
    from matplotlib import pyplot

    programs = [each for each in found["times"] if each in PROGRAMS]
    figure, axes = pyplot.subplots(1, len(programs), figsize=(4 * len(programs), 4), sharey=True, squeeze=False)
    ways = [way for way in WAYS if way != "nothing"]
    for program, axis in zip(programs, axes[0], strict=True):
        measured = found["times"][program]
        bare = measured["nothing"]["least"]
        ratios = [measured[way]["least"] / bare if "least" in measured.get(way, {}) else 0 for way in ways]
        axis.barh(ways, ratios, color=["#2a6" if WAYS[way].options is not None else "#888" for way in ways])
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(program)
        axis.set_xlabel("times the program alone")
        axis.invert_yaxis() if axis is axes[0][0] else None
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def write(found: dict, folder: Path) -> None:
    picture(found, folder / "cost.svg")
    head, rest = text(found).split("\n## ", 1)
    (folder / "cost.md").write_text(f"{head}\n![times the program alone, by program and tool](cost.svg)\n\n## {rest}".rstrip() + "\n", encoding="utf-8")
