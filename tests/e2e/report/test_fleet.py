"""A page of many nights: devtrace fleet, and its picture in a real browser."""

import base64
import gzip
import json
import os
import re
import subprocess
import sys

import duckdb
import pyarrow.parquet as parquet
import pytest
from conftest import DEVTRACE, TOP
from fleet_tables import fleet_tables
from pages import CONTRAST, browser, page  # noqa: F401
from selenium.webdriver.support.ui import WebDriverWait
from test_tables import report

SAMPLE = TOP / "tests/data/private_gpt.jsonl"
STATES = ("not seen yet", "not run", "gone", "known", "new")


def fleet(*words, python=sys.prefix):
    return subprocess.run([DEVTRACE, "fleet", *map(str, words)], env={**os.environ, "VIRTUAL_ENV": str(python)}, capture_output=True, text=True, timeout=120)


def made(folder, nights, faults):
    (folder / "devtrace-1.jsonl").write_text(SAMPLE.read_text())
    for words in (("--format", "html"), ("--format", "parquet", "-o", folder / "db")):
        assert report(folder / "devtrace-1.jsonl", *words).returncode == 0
    fleet_tables(folder / "db", nights, faults)
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = made(tmp_path_factory.mktemp("fleet"), 120, 12)
    done = fleet(folder / "db", "--html", folder / "fleet.html")
    assert done.returncode == 0, done.stderr
    return folder


def embedded(page, name):
    return json.loads(re.search(rf'<script type="application/json" id="{name}-data">(.*)</script>', page.read_text())[1])


def cells(page):
    """The picture's states, row by row from above, as Bokeh gets them."""
    found = []

    def walk(value):
        if isinstance(value, dict):
            if value.get("type") == "ndarray" and len(value["shape"]) == 2:
                rows, columns = value["shape"]
                flat = gzip.decompress(base64.b64decode(value["array"]["data"]))
                found.extend([list(flat[row * columns : (row + 1) * columns]) for row in reversed(range(rows))])
            value = list(value.values())
        for each in value if isinstance(value, list) else []:
            walk(each)

    walk(embedded(page, "picture"))
    return found


def test_a_cell_says_what_the_night_was(small):
    about = embedded(small / "fleet.html", "details")
    findings = parquet.read_table(small / "db/findings", columns=["fingerprint", "log", "date"]).to_pylist()
    processes = parquet.read_table(small / "db/processes", columns=["log", "command", "date"]).to_pylist()
    program = {row["log"]: row["command"] for row in processes}
    seen, programs, ran = {}, {}, {}
    for row in findings:
        seen.setdefault(row["fingerprint"], set()).add(str(row["date"]))
        programs.setdefault(row["fingerprint"], []).append(program[row["log"]])
    for row in processes:
        ran.setdefault(str(row["date"]), []).append(row["command"])
    assert about["nights"] == sorted(about["nights"]) and len(about["nights"]) == 120 and len(about["faults"]) == len(seen)
    counts = dict.fromkeys(STATES, 0)
    for fault, row in zip(about["faults"], cells(small / "fleet.html"), strict=True):
        nights = seen[fault["fingerprint"]]
        for night, state in zip(about["nights"], row, strict=True):
            earlier = any(each < night for each in nights)
            met = any(each in programs[fault["fingerprint"]] for each in ran.get(night, []))
            expected = ("known" if earlier else "new") if night in nights else "not run" if not met else "gone" if earlier else "not seen yet"
            assert STATES[state] == expected, (fault["fingerprint"], night)
            counts[expected] += 1
    assert all(counts.values()) and counts["new"] == len(seen)


def test_a_page_of_a_database_and_of_files_of_several_versions(small, tmp_path):
    """The same page of a DuckDB database; a folder of which one file lacks a column, as an older devtrace's would."""
    database = duckdb.connect(str(tmp_path / "fleet.duckdb"))
    database.execute("SET file_search_path = ?", [str(small / "db")])
    database.execute((TOP / "recipes/queries.sql").read_text().replace("VIEW all_", "TABLE all_"))
    database.close()
    assert fleet(tmp_path / "fleet.duckdb", "--html", small / "again.html").returncode == 0
    assert cells(small / "again.html") == cells(small / "fleet.html")
    assert embedded(small / "again.html", "details") == embedded(small / "fleet.html", "details")
    (tmp_path / "devtrace-1.jsonl").write_text(SAMPLE.read_text())
    report(tmp_path / "devtrace-1.jsonl", "--format", "parquet", "-o", tmp_path / "db")
    (file,) = (each for each in (tmp_path / "db/findings").rglob("*.parquet") if each.name != "empty.parquet")
    parquet.write_table(parquet.read_table(file, partitioning=None).drop_columns(["verified"]), file)
    assert (done := fleet(tmp_path / "db", "--html", tmp_path / "fleet.html")).returncode == 0, done.stderr
    assert [STATES[state] for row in cells(tmp_path / "fleet.html") for state in row] == ["new"]


def test_says_what_is_missing(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tmp_path / "bin/python").chmod(0o755)
    for words, python, said in (((tmp_path, "--html", tmp_path / "a.html"), tmp_path, "pip install 'devtrace[fleet]'"), ((tmp_path, "--html", tmp_path / "a.html"), sys.prefix, "has no tables"),
                                ((tmp_path / "none", "--html", tmp_path / "a.html"), sys.prefix, "no such file or folder"), ((SAMPLE, "--html", tmp_path / "a.html"), sys.prefix, "devtrace fleet:")):
        done = fleet(*words, python=python)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
        assert not (tmp_path / "a.html").exists()


def drawn(page):  # noqa: F811
    return int(WebDriverWait(page.driver, 60).until(lambda driver: driver.execute_script("return document.body.dataset.drawn")))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_by_keys_and_mouse(page, small, theme):  # noqa: F811
    page.open(small / "fleet.html", theme=theme)
    drawn(page)
    about = embedded(small / "fleet.html", "details")
    rows = cells(small / "fleet.html")
    assert [item.text for item in page.all("#legend li")] == list(STATES)
    first = about["faults"][0]
    column = about["nights"].index(first["last_night"])
    said = lambda: page.text("#cell")
    assert said().endswith(f"{first['name']}: {STATES[rows[0][column]]}") and said().startswith(first["last_night"])
    page.press(["\ue015"] * 2 + ["\ue012"])  # two down, one to the left
    assert said().startswith(about["nights"][column - 1]) and said().endswith(f"{about['faults'][2]['name']}: {STATES[rows[2][column - 1]]}")
    page.press(["["])
    earlier = max(night for night in range(column - 1) if STATES[rows[2][night]] in ("new", "known"))
    assert said().startswith(about["nights"][earlier])
    for part in (about["faults"][2]["because"], about["faults"][2]["fix"], about["faults"][2]["first_night"], about["faults"][2]["fingerprint"]):
        assert part in page.text("#fault")
    page.press(["-", "-", "+", "t", "t"])
    # The row of the log that is there leads to its page.
    page.run("const find = document.getElementById('find'); find.value = arguments[0]; find.dispatchEvent(new Event('change'))", "5a5d275d57563f0e")
    link = page.find("#fault .logs a")
    assert link.get_attribute("href") == (small / "devtrace-1.html").as_uri()
    # A click in the middle of the picture.
    page.run("window.scrollTo(0, 0)")
    box = page.run("const plot = Bokeh.documents[0].roots()[0]; return [plot.inner_width, plot.inner_height]")
    before = said()
    page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mousePressed", "x": 640, "y": 300, "button": "left", "clickCount": 1})
    page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseReleased", "x": 640, "y": 300, "button": "left", "clickCount": 1})
    WebDriverWait(page.driver, 10).until(lambda driver: said() != before)
    assert min(box) > 100 and page.run(CONTRAST) == []


@pytest.mark.slow
def test_a_thousand_nights_and_faults(page, tmp_path):  # noqa: F811
    """A million cells; how fast, says docs/guide/tables.md."""
    folder = made(tmp_path, 1000, 1000)
    assert fleet(folder / "db", "--html", folder / "fleet.html").returncode == 0
    assert (folder / "fleet.html").stat().st_size < 6_000_000
    page.open(folder / "fleet.html")
    assert drawn(page) < 10_000
    assert len(cells(folder / "fleet.html")) == 1001
