"""A report's page in a real headless Chromium: fixtures, and what a test may ask of a page."""

import json
import subprocess

import pytest
from conftest import DEVTRACE, TOP
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from synthetic_log import synthetic_log

DATA = TOP / "tests" / "data"


@pytest.fixture(scope="session")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


class Page:
    def __init__(self, driver):
        self.driver = driver

    def open(self, file, size=(1280, 800), theme="light", hash=""):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [{"name": "prefers-color-scheme", "value": theme}]})
        self.driver.get("about:blank")
        self.driver.get(f"file://{file}{hash}")
        # On a machine that does much else, `get` has come back while about:blank was still there.
        WebDriverWait(self.driver, 60).until(lambda driver: driver.execute_script(
            "return location.protocol === 'file:' && document.readyState === 'complete'"))
        return self

    def find(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css):
        return self.find(css).text

    def press(self, keys):
        for key in keys:
            self.find("body").send_keys(key)
            # A finding is drawn by the hashchange event, which comes later.
            self.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 30)")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)


@pytest.fixture
def page(browser):
    browser.get_log("browser"), browser.get_log("performance")
    yield Page(browser)
    complaints = [entry["message"] for entry in browser.get_log("browser")]
    assert complaints == [], "the console stays empty"
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"}
    foreign = {url for url in asked if not url.startswith(("file:", "data:", "about:"))}
    assert foreign == set(), "no request leaves the machine"


def render(log, folder):
    target = folder / (log.stem + ".html")
    done = subprocess.run([DEVTRACE, "report", "--format", "html", "-o", target, log], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


CONTRAST = """
function channel(c) { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }
function light(rgb) { return 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2]); }
function parse(text) { return text.match(/[\\d.]+/g).map(Number); }
function paper(element) {
  for (; element; element = element.parentElement) { const c = parse(getComputedStyle(element).backgroundColor); if (c.length < 4 || c[3] > 0) return c; }
  return [255, 255, 255];
}
const poor = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest("script,style,noscript,.skip,.visually-hidden,[aria-hidden]")) continue;
  const a = light(parse(getComputedStyle(element).color)), b = light(paper(element));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push([element.tagName, element.className, walker.currentNode.data.slice(0, 30), ratio]);
}
return poor;
"""

# Pages of logs that tests look at.
SIZES = [(1280, 800), (390, 844)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {name: render(DATA / f"{name}.jsonl", folder) for name in ("private_gpt", "petals", "hostile")}


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thousand")
    log = folder / "thousand.jsonl"
    log.write_text(synthetic_log(1000))
    return render(log, folder)


HOME = json.loads((DATA / "private_gpt.jsonl").read_text().splitlines()[0])["cwd"]


def moved(id, source, target, bytes, copies, function="step", **more):
    frame = {"file": f"{HOME}/main.py", "line": id, "function": function, "source": "b = a.to(there)", "project": True}
    return {"record": "traffic", "id": id, "from": source, "to": target, "bytes": bytes, "copies": copies, "python": [frame], **more}


def traffic_page(folder, findings=1, records=()):
    process, finding, end = (DATA / "private_gpt.jsonl").read_text().splitlines()
    log = folder / "traffic.jsonl"
    log.write_text("\n".join([process] + [finding] * findings + [json.dumps(record) for record in records] + [end]) + "\n")
    return render(log, folder)


TRAFFIC = [
    moved(1, "cpu", "cuda:0", 1 << 20, 1),
    moved(2, "cuda:0", "cuda:1", 3 << 30, 300, staged=True),
    moved(3, "cuda:0", "cuda:1", 1 << 30, 1, staged=False),
    moved(1, "cpu", "cuda:0", 8 << 20, 8),
    moved(4, "cuda:10", "cuda:2", 1, 1, staged=True, other=True),
]
