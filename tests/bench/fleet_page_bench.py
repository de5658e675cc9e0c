"""How long the page of a fleet takes to be made and to be opened: python tests/bench/fleet_page_bench.py [NIGHTSxFAULTS…]

Made by `devtrace fleet` of a folder of tables, and of a DuckDB database. Opened in real headless Chromium from disk: from the beginning of
the navigation to the frame behind the drawn picture. Median and span of nine openings."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from page_bench import OPENINGS, TOP, browser
from selenium.webdriver.support.ui import WebDriverWait

sys.path.insert(0, str(TOP / "tests" / "helpers"))
import duckdb  # noqa: E402
from fleet_tables import fleet_tables  # noqa: E402

DEVTRACE = TOP / os.environ.get("DEVTRACE_BUILD", "build") / "devtrace"


def run(*words: object) -> float:
    begun = time.monotonic()
    subprocess.run([DEVTRACE, *map(str, words)], env={**os.environ, "VIRTUAL_ENV": sys.prefix}, check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begun


def main() -> None:
    driver = browser()
    for size in sys.argv[1:] or ["30x100", "1000x1000"]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run("report", TOP / "tests/data/private_gpt.jsonl", "--format", "parquet", "-o", folder / "db")
            fleet_tables(folder / "db", *map(int, size.split("x")))
            connection = duckdb.connect(str(folder / "fleet.duckdb"))
            connection.execute("SET file_search_path = ?", [str(folder / "db")])
            connection.execute((TOP / "recipes/queries.sql").read_text().replace("VIEW all_", "TABLE all_"))
            connection.close()
            made = [min(run("fleet", folder / each, "--html", folder / "fleet.html") for _ in range(3)) for each in ("db", "fleet.duckdb")]
            opened = []
            for _ in range(OPENINGS):
                driver.get("about:blank")
                driver.get(f"file://{folder}/fleet.html")
                opened.append(int(WebDriverWait(driver, 60).until(lambda it: it.execute_script("return document.body.dataset.drawn"))))
            said = f"{statistics.median(opened):.0f} ({min(opened)}–{max(opened)}) ms"
            print(f"{size}: made of files in {made[0]:.1f} s, of a database in {made[1]:.1f} s; {(folder / 'fleet.html').stat().st_size / 1e6:.1f} MB; drawn after {said}", flush=True)
    driver.quit()


if __name__ == "__main__":
    main()
