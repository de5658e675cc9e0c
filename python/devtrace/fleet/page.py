"""The page of a fleet: `devtrace fleet DB --html FILE`. Nights are columns, faults rows; the picture is Bokeh's, whose image glyph draws a
million cells at once and whose script is part of the page."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

try:
    import duckdb
    import numpy as np
    from bokeh.embed import json_item
    from bokeh.models import BasicTicker, ColumnDataSource, LinearColorMapper, PanTool, Range1d, ResetTool, WheelZoomTool
    from bokeh.plotting import figure
    from bokeh.resources import Resources

    from .database import HERE, connect
    from .history import STATES, History, page_beside, read
except ImportError as error:
    raise SystemExit(f"devtrace fleet: needs DuckDB and Bokeh: pip install 'devtrace[fleet]' ({error}; {sys.executable})") from None

# By state, as in page.css; each differs from the next in lightness, too.
LIGHT = ("#ffffff", "#d8dce3", "#8fd0a8", "#e8a33d", "#b3261e")
DARK = ("#14161a", "#363b45", "#2f7a4f", "#c98a2b", "#ff6f61")
LABEL = 46


def name_of(fault: dict[str, Any]) -> str:
    """What its row is called: "aten::cat block.py:93"."""
    where = f" {Path(fault['file']).name}:{fault['line']}" if fault["file"] else ""
    name = f"{fault['operation'] or fault['kind']}{where}"
    return name if len(name) <= LABEL else "…" + name[1 - LABEL :]


def picture(history: History) -> figure:
    """The first fault at the top. A cell's middle is its night's and its row's number, rows counted from below."""
    rows, columns = history.states.shape

    def shown(count: int, at_first: int) -> Range1d:
        return Range1d(max(0, count - at_first) - 0.5, count - 0.5, bounds=(-0.5, max(count, 1) - 0.5), min_interval=1)

    # The rest is a turn of the wheel away.
    x_range, y_range = shown(columns, 183), shown(rows, 50)
    plot = figure(
        name="fleet", sizing_mode="stretch_width", height=90 + 18 * max(4, min(rows, 36)), x_range=x_range, y_range=y_range,
        toolbar_location="above", output_backend="canvas", tools=[],
    )
    pan, wheel = PanTool(), WheelZoomTool(zoom_together="none", maintain_focus=False)
    plot.add_tools(pan, wheel, ResetTool())
    plot.toolbar.logo, plot.toolbar.active_drag, plot.toolbar.active_scroll = None, pan, None
    if rows:
        mapper = LinearColorMapper(name="colours", palette=list(LIGHT), low=-0.5, high=len(STATES) - 0.5)
        plot.image(image=[np.ascontiguousarray(history.states[::-1])], x=-0.5, y=-0.5, dw=columns, dh=rows, color_mapper=mapper)
    sides = ("left", "right", "bottom", "top")
    plot.quad(*sides, fill_color=None, line_width=3, name="chosen", source=ColumnDataSource({side: [] for side in sides}))
    plot.grid.visible = False
    labels = {column: night.isoformat() for column, night in enumerate(history.nights)}
    plot.xaxis.ticker, plot.xaxis.major_label_overrides = BasicTicker(min_interval=1, desired_num_ticks=8), labels
    plot.yaxis.ticker = BasicTicker(min_interval=1, desired_num_ticks=50)
    plot.yaxis.major_label_overrides = {rows - 1 - row: name_of(fault) for row, fault in enumerate(history.faults)}
    plot.yaxis.major_label_text_font_size = "11px"
    return plot


def details(history: History, page: Path) -> dict[str, Any]:
    """What the page's own script shows of a cell."""
    faults = [{key: value.isoformat() if isinstance(value, date) else value for key, value in fault.items()} for fault in history.faults]
    for fault in faults:
        fault |= {"name": name_of(fault), "logs": []}
    pages: dict[str, str | None] = {}
    for fault, night, host, log in history.links:
        if log not in pages:
            target = page_beside(log)
            pages[log] = os.path.relpath(target, page.parent) if target else None
        faults[fault]["logs"].append([night, host, log, pages[log]])
    nights = [night.isoformat() for night in history.nights]
    return {"nights": nights, "processes": history.processes, "states": STATES, "faults": faults, "light": LIGHT, "dark": DARK}


def script_safe(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def render(history: History, page: Path) -> str:
    last = history.states[:, -1] if history.faults else np.zeros(0)
    faults, nights = f"{len(history.faults)} faults", f"{sum(count > 0 for count in history.processes)} nights"
    counts = {name: int((last == state).sum()) for state, name in enumerate(STATES)}
    parts = {
        "bokeh": Resources(mode="inline", components=["bokeh"], minified=True).js_raw[0],
        "style": (HERE / "page.css").read_text(encoding="utf-8"),
        "script": (HERE / "page.js").read_text(encoding="utf-8"),
        "picture": script_safe(json_item(picture(history), "picture")),
        "details": script_safe(details(history, page)),
        "summary": f"{history.nights[-1]}: {counts['new']} new, {counts['known']} known, {counts['gone']} gone; {faults} on {nights}",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], (HERE / "page.html").read_text(encoding="utf-8"))


def main(database: str, file: str) -> None:
    page = Path(file).resolve()
    try:
        history = read(connect(Path(database)))
    except duckdb.InvalidInputException:  # a column is not in every file
        history = read(connect(Path(database), mixed=True))
    text = render(history, page)
    part = page.with_name(f".{page.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8", errors="replace")
    part.replace(page)
    print(f"devtrace fleet: HTML in {file}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, duckdb.Error) as error:
        raise SystemExit(f"devtrace fleet: {error}") from None
