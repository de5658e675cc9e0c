"""How long a browser takes to open the HTML report: python tests/bench/page_bench.py [FINDINGS…]

Real headless Chromium, the page read from disk. From the beginning of the navigation to the drawn finding and list (the end of
DOMContentLoaded, which draws them) and to the load event. Median and span of nine openings, each in the same browser."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests" / "helpers"))
from synthetic_log import synthetic_log  # noqa: E402

OPENINGS = 9
TIMES = "const t = performance.getEntriesByType('navigation')[0]; return [t.domContentLoadedEventEnd, t.loadEventEnd]"


def rendered(findings: int, folder: Path) -> tuple[Path, Path]:
    log, page = folder / f"{findings}.jsonl", folder / f"{findings}.html"
    log.write_text(synthetic_log(findings))
    subprocess.run([TOP / os.environ.get("DEVTRACE_BUILD", "build") / "devtrace", "report", "--format", "html", "-o", page, log], check=True)
    return log, page


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,800"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def main() -> None:
    driver = browser()
    print(f"{'findings':>8}  {'log':>8}  {'page':>8}  {'drawn':>18}  {'loaded':>18}")
    with tempfile.TemporaryDirectory() as folder:
        for findings in [int(word) for word in sys.argv[1:]] or [1, 100, 1000]:
            log, page = rendered(findings, Path(folder))
            runs = []
            for _ in range(OPENINGS):
                driver.get("about:blank")
                driver.get(f"file://{page}")
                runs.append(driver.execute_script(TIMES))
            columns = [f"{statistics.median(each):.0f} ({min(each):.0f}–{max(each):.0f}) ms" for each in zip(*runs)]
            print(f"{findings:>8}  {log.stat().st_size / 2**20:>5.1f} MB  {page.stat().st_size / 2**20:>5.1f} MB  {columns[0]:>18}  {columns[1]:>18}")
    driver.quit()


if __name__ == "__main__":
    main()
