"""docs/evidence/cost.md and its picture, from what was measured."""

import dataclasses
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


@dataclasses.dataclass(frozen=True)
class Curve:
    title: str
    about: str
    what: str  # there are so many of
    expected: str


CURVES = {
    "LaunchByThreads": Curve("a launch", "a launch of a kernel with four pointers", "threads", "flat"),
    "LaunchByDevices": Curve("a launch", "the same, on each device in turn", "devices", "flat"),
    "BlockByThreads": Curve("a block", "a block given out and taken back, with its native stack", "threads", "flat"),
    "BlockByLive": Curve("a block", "the same", "live blocks", "flat"),
    "StackByFrames": Curve("a Python stack", "a Python stack that was seen before", "frames", "linear, up to the 512 frames that are kept"),
    "StackByPlaces": Curve("a Python stack", "a Python stack of ten frames", "places that allocated", "flat"),
}


def growth_rows(curves: dict) -> str:
    out = ""
    for name, curve in CURVES.items():
        points = curves.get(name, {})
        if not points:
            continue
        out += f"| {curve.about}; {curve.what} | " + ", ".join(f"{int(amount):,}: {point['least']:.0f}" for amount, point in points.items())
        out += f" | {curve.expected} |\n"
    return out


def memory_rows(curves: dict) -> str:
    bytes_of = {int(amount): point["bytes"] for amount, point in curves.get("BlockByLive", {}).items() if "bytes" in point}
    places = {int(amount): point["mebibytes"] for amount, point in curves.get("StackByPlaces", {}).items() if "mebibytes" in point}
    rows = [f"| a live block, at {amount:,} | {each:.0f} B | 100 B |" for amount, each in bytes_of.items()]
    rows += [f"| {amount:,} distinct stacks | {each:.0f} MiB | 64 MiB |" for amount, each in places.items()]
    return "\n".join(rows)


def growth(curves: dict) -> str:
    return (
        "## How it grows\n\n![processor time by how many there are](cost-growth.svg)\n\n"
        "Nanoseconds of processor time ([tests/bench/growth_bench.cpp](../../tests/bench/growth_bench.cpp)); more threads than cores wait for one another.\n\n"
        "| one of these; by how many | ns | as designed |\n|---|---|---|\n" + growth_rows(curves) + "\n"
        "| memory | takes | goal |\n|---|---:|---:|\n" + memory_rows(curves) + "\n\n"
    )


def where_it_goes(parts: dict[str, float], bare: float) -> str:
    rows = "".join(
        f"| {part} | {count:,.0f} | {100 * count / bare:.1f} % |\n"
        for part, count in sorted(parts.items(), key=lambda each: -each[1])
        if count >= bare / 10_000
    )
    return "Where devtrace's own instructions go, as it comes:\n\n| part | instructions a step | of the program's own |\n|---|---:|---:|\n" + rows + "\n"


def findings(one: dict[str, float]) -> str:
    return (
        "## A finding\n\nProcessor time between the operation that PyTorch refuses and its exception, transformers imported, on disk then.\n\n"
        "| | takes | goal |\n|---|---:|---:|\n"
        f"| the first of a process | {one['first']:.1f} ms | 50 ms |\n"
        f"| one of another line, of {one['lines']} (half of them take less) | {one['distinct']:.1f} ms | 5 ms |\n"
        f"| a refusal that was told before | {1000 * one['again']:.0f} µs | 50 µs |\n\n"
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
    return out + (growth(found["growth"]) if "growth" in found else "")


def new_figure(*arguments, **named):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "devtrace"
    from matplotlib import pyplot

    return pyplot.subplots(*arguments, **named)


def growth_picture(curves: dict, path: Path) -> None:
    drawn = {name: curve for name, curve in CURVES.items() if name in curves}
    figure, axes = new_figure(2, 3, figsize=(12, 6))
    for axis, (name, curve) in zip(axes.flat, drawn.items(), strict=False):
        axis.plot([int(amount) for amount in curves[name]], [point["least"] for point in curves[name].values()], marker="o")
        axis.set_xscale("linear" if curve.expected.startswith("linear") else "log")
        axis.set_ylim(0, 1.2 * max(point["least"] for point in curves[name].values()))
        axis.set_xlabel(curve.what)
        axis.set_ylabel("ns")
        axis.set_title(f"{curve.title}, by {curve.what}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


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
    if "growth" in found:
        growth_picture(found["growth"], folder / "cost-growth.svg")
    head, rest = text(found).split("\n## ", 1)
    (folder / "cost.md").write_text(f"{head}\n![times the program alone, by program and tool](cost.svg)\n\n## {rest}".rstrip() + "\n", encoding="utf-8")
