"""docs/evidence/cost.md and its picture, from what was measured."""

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
NOT_COUNTED = {"loader": "not counted: its processes wait for one another, never the same number of times"}
START_UPS = {"pass": "`python -c pass`", "import": "`import torch`"}


def about(program: str) -> str:
    return PROGRAMS[program].about if program in PROGRAMS else START_UPS.get(program, program)


def ms(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


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
        rows.append(f"| {WAYS[way].about} | {ms(one['least'])} ms ({ms(low)}, {ms(middle)}, {ms(high)}) | {one['least'] / bare:.2f} |")
    return rows


def where_it_goes(parts: dict[str, float], bare: float) -> str:
    rows = "".join(
        f"| {part} | {count:,.0f} | {100 * count / bare:.1f} % |\n"
        for part, count in sorted(parts.items(), key=lambda each: -each[1])
        if count >= bare / 10_000
    )
    return "Where devtrace's own instructions go, as it comes:\n\n| part | instructions a step | of the program's own |\n|---|---:|---:|\n" + rows + "\n"


def findings(one: dict[str, float]) -> str:
    return (
        "## A finding\n\nProcessor time that devtrace adds between the operation that PyTorch refuses and its exception, transformers imported, on disk then. "
        f"PyTorch itself takes {1000 * one['itself']:.0f} µs to refuse.\n\n"
        "| | adds | goal |\n|---|---:|---:|\n"
        f"| the first of a process | {one['first']:.1f} ms | 30 ms |\n"
        f"| one of another line, of {one['lines']} (half of them take less) | {one['distinct']:.1f} ms | 3 ms |\n"
        f"| a refusal that was told before | {1000 * one['again']:.0f} µs | 20 µs |\n\n"
    )


def in_short(found: dict) -> str:
    rows = ""
    for program, ways in found["times"].items():
        ratio = ways["devtrace"]["least"] / ways["nothing"]["least"]
        counted = found["instructions"].get(program, {})
        instructions = f"{counted['devtrace'] / counted['nothing']:.3f}" if counted.get("devtrace") and counted.get("nothing") else NOT_COUNTED.get(program, "")
        peers = {way: ways[way]["least"] / ways["nothing"]["least"] for way in ways if WAYS[way].peer and "least" in ways[way]}
        cheapest = min(peers, key=peers.get) if peers else None
        rows += f"| {about(program)} | {ratio:.2f} | {instructions} | " + (f"{peers[cheapest]:.2f}, {WAYS[cheapest].about}" if cheapest else "") + " |\n"
    return "| | devtrace as it comes: time | instructions | the cheapest of the others |\n|---|---:|---:|---|\n" + rows + "\n"


def text(found: dict) -> str:
    out = HEAD.format(**{key: found[key] for key in ("date", "cores", "python")})
    out += in_short(found)
    for program, ways in found["times"].items():
        out += f"## {about(program)[0].upper() + about(program)[1:]}\n\n"
        out += "| with | processor time a step | times |\n|---|---:|---:|\n" + "\n".join(time_rows(ways)) + "\n\n"
        counted = {way: count for way, count in found["instructions"].get(program, {}).items() if count}
        if bare := counted.get("nothing"):
            out += "| with | instructions a step | times |\n|---|---:|---:|\n"
            out += "".join(f"| {WAYS[way].about} | {count:,.0f} | {count / bare:.3f} |\n" for way, count in counted.items()) + "\n"
            if program in found.get("parts", {}):
                out += where_it_goes(found["parts"][program], bare)
    out += findings(found["findings"]) if "findings" in found else ""
    return out + "How it grows: [growth](growth.md).\n"


def new_figure(*arguments, **named):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "devtrace"
    from matplotlib import pyplot

    return pyplot.subplots(*arguments, **named)


def picture(found: dict, path: Path) -> None:
    programs = [each for each in found["times"] if each in PROGRAMS]
    figure, axes = new_figure(1, len(programs), figsize=(4 * len(programs), 4), sharex=True, sharey=True, squeeze=False)
    ways = [way for way in WAYS if way != "nothing"]
    most = max(one["least"] / found["times"][program]["nothing"]["least"] for program in programs for one in found["times"][program].values() if "least" in one)
    for program, axis in zip(programs, axes[0], strict=True):
        measured = found["times"][program]
        bare = measured["nothing"]["least"]
        ratios = [measured[way]["least"] / bare if "least" in measured.get(way, {}) else 1 for way in ways]
        axis.barh(ways, [ratio - 1 for ratio in ratios], left=1, color=["#2a6" if WAYS[way].options is not None else "#888" for way in ways])
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xscale("log")
        ticks = [tick for tick in (1, 1.5, 2, 5, 10, 50) if tick <= most]
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.set_title(program)
        axis.set_xlabel("times the program alone")
        axis.invert_yaxis() if axis is axes[0][0] else None
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def write(found: dict, folder: Path) -> None:
    picture(found, folder / "cost.svg")
    head, rest = text(found).split("\n## ", 1)
    (folder / "cost.md").write_text(f"{head}\n![times the program alone, by program and tool](cost.svg)\n\n## {rest}".rstrip() + "\n", encoding="utf-8")
