"""The page in a real browser: first screen, navigation, themes, copying."""

import base64
import json
import os
import struct
import subprocess
import sys
from importlib.resources import files

import pytest
from conftest import BUILD, DEVTRACE, TOP
from pages import CONTRAST, DATA, SIZES, TRAFFIC, browser, moved, page, pages, render, thousand, traffic_page  # noqa: F401 (fixtures)  # noqa: F401
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from synthetic_log import synthetic_log

# ---- first screen --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
@pytest.mark.parametrize("name", ["private_gpt", "petals"])
def test_what_where_why_and_fix_need_no_scrolling(page, pages, name, size, theme):
    page.open(pages[name], size, theme)
    for css in ("h1", ".what", ".where", ".why", ".fix"):
        box = page.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]", css)
        assert 0 <= box[0] and 0 <= box[1] and box[2] <= size[0] and box[3] <= size[1], (css, box)
    assert page.run("return document.documentElement.scrollWidth") <= size[0], "nothing sticks out sideways"


def test_says_who_is_where_and_what_to_change(page, pages):
    page.open(pages["private_gpt"])
    assert page.text("h1") == "aten::index_select was given tensors on cuda:1 and cuda:0"
    held = {box.find_element(By.CSS_SELECTOR, "b").text: box.find_element(By.CSS_SELECTOR, ".held code").text for box in page.all(".device")}
    assert held == {"cuda:1": "embeddings.word_embeddings.weight", "cuda:0": "input_ids"}
    assert "EmbeddingComponent.embed (embedding_component.py:41)" in page.text(".where")
    assert "tokens = self.model(**encoded).last_hidden_state" in page.text(".where")
    assert "input_ids" in page.text(".why") and "high confidence" in page.text(".why")
    assert page.text(".fix .minus") == "− encoded = {key: value.to(self.device) for key, value in batch.items()}"
    assert page.text(".fix .plus") == "+ encoded = {key: value.to(self.model.device) for key, value in batch.items()}"
    assert "Rehearsal" in page.text("#banners")


def test_a_log_without_an_end_says_so(page, pages):
    page.open(pages["petals"])
    assert "killed, or is still running" in page.text("#banners")
    assert "Rehearsal" not in page.text("#banners")


def test_dropped_findings_are_said(page, tmp_path):
    process, finding, end = (DATA / "private_gpt.jsonl").read_text().splitlines()
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join([process, finding, json.dumps(json.loads(end) | {"dropped": 3})]) + "\n")
    page.open(render(log, tmp_path))
    assert "3 more findings were dropped" in page.text("#banners")


def test_two_programs_of_one_process_have_their_own_links(page, tmp_path):
    """exec: the log goes on, and ids begin anew."""
    process, finding, end = (DATA / "private_gpt.jsonl").read_text().splitlines()
    log = tmp_path / "log.jsonl"
    second = json.dumps(json.loads(finding) | {"operation": "aten::cat", "fingerprint": "b" * 16})
    log.write_text("\n".join([process, finding, process, second, end]) + "\n")
    page.open(render(log, tmp_path), hash="#finding-1-2")
    assert page.text("h1").startswith("aten::cat")
    page.press("k")
    assert page.run("return location.hash") == "#finding-1" and page.text("h1").startswith("aten::index_select")


def test_the_pictures_can_be_made_anew(tmp_path):
    subprocess.run([sys.executable, TOP / "scripts" / "pictures", DATA / "private_gpt.jsonl", tmp_path, "one"], check=True, env={**os.environ, "DEVTRACE_BUILD": str(BUILD)})
    sizes = {file.name: struct.unpack(">II", file.read_bytes()[16:24]) for file in tmp_path.glob("*.png")}
    assert sizes["one.png"] == sizes["one-dark.png"] == (1920, 1200) and sizes["one-phone.png"] == (780, 1688)
    assert sizes["one-whole.png"][0] == 960 and sizes["one-whole.png"][1] > 1200


def test_a_fix_without_a_line_is_shown_without_one(page, tmp_path):
    process, finding = (DATA / "petals.jsonl").read_text().splitlines()[:2]
    finding = json.loads(finding)
    finding["cause"] = {"category": "generator", "confidence": "high", "because": "It lives elsewhere.", "fix": "rng = torch.Generator()"}
    log = tmp_path / "log.jsonl"
    log.write_text(process + "\n" + json.dumps(finding) + "\n")
    page.open(render(log, tmp_path))
    assert page.text(".fix").split("\n") == ["FIX", "+ rng = torch.Generator()"]
    finding["cause"] = {"category": "unknown", "confidence": "low", "because": "It is not known why."}
    log.write_text(process + "\n" + json.dumps(finding) + "\n")
    page.open(render(log, tmp_path))
    assert "No line can be named with certainty" in page.text(".fix")


def test_other_lines_with_the_same_mistake_are_shown_with_the_fix(page, tmp_path):
    process, finding = (DATA / "petals.jsonl").read_text().splitlines()[:2]
    finding = json.loads(finding)
    line = {"file": "/p/losses.py", "line": 9, "source": "t.to(x.device)", "function": "loss"}
    finding["operands"][0]["siblings"] = [{"name": "t", "device": "cpu", "lineage": [{"what": "discarded", "line": line}]}]
    finding["cause"]["also"] = [{"file": "/p/losses.py", "line": 9, "fix": "t = t.to(x.device)"}]
    log = tmp_path / "log.jsonl"
    log.write_text(process + "\n" + json.dumps(finding) + "\n")
    page.open(render(log, tmp_path))
    assert page.text(".fix").split("\n")[-3:] == ["/p/losses.py:9", "− t.to(x.device)", "+ t = t.to(x.device)"]


VERIFIED = {"outcome": "ran-to-end", "findings_before": 2, "findings_after": 0, "bytes_per_step": 314572, "patch": "devtrace.patch", "devices_with_work": ["cuda:0", "cuda:1"],
            "runs": 3, "open": ["values of <b>add</b> were not computed"]}
VERIFIED_WORDS = "with this change the program ran to its end in rehearsal; 2 findings before, 0 after; +307 KiB a step. Values of <b>add</b> were not computed."


def tried_page(folder, verified):
    process, finding, end = (DATA / "private_gpt.jsonl").read_text().splitlines()
    finding = json.loads(finding)
    finding["cause"]["verified"] = verified
    log = folder / "tried.jsonl"
    log.write_text("\n".join([process, json.dumps(finding), end]) + "\n")
    return render(log, folder)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_what_came_of_the_fix_stands_below_it(page, tmp_path, size, theme):
    page.open(tried_page(tmp_path, VERIFIED), size, theme)
    assert page.text(".fix .verification") == f"verified {VERIFIED_WORDS}"
    top, bottom = page.run("return ['.fix .diff', '.fix .verification'].map((css) => document.querySelector(css).getBoundingClientRect()).map((box, at) => at ? box.top : box.bottom)")
    assert top <= bottom and page.run("return document.documentElement.scrollWidth") <= size[0]
    assert page.run(CONTRAST) == []
    facts = dict(zip([one.text for one in page.all(".facts dt")], [one.text for one in page.all(".facts dd")]))
    assert facts["The fix, tried"] == "3 times; work on cuda:0, cuda:1; devtrace.patch"


@pytest.mark.parametrize("verified", [None, {}, 5, {"outcome": "unknown"}, {"outcome": ["further"]}], ids=str)
def test_nothing_is_said_of_a_fix_that_nobody_tried(page, tmp_path, verified):
    page.open(tried_page(tmp_path, verified))
    assert page.all(".verification") == [] and "tried" not in page.text("main").lower()


def test_text_markdown_and_json_say_what_came_of_the_fix(tmp_path):
    tried_page(tmp_path, VERIFIED | {"outcome": "further"})
    said = {}
    for form in ("text", "markdown", "json"):
        said[form] = subprocess.run([DEVTRACE, "report", "--format", form, tmp_path / "tried.jsonl"], capture_output=True, text=True, check=True).stdout
    words = "with this change the program got further in rehearsal, to the next finding (2 findings before, 0 after); +307 KiB a step."
    assert f"  tried {words}" in " ".join(said["text"].split("\n      ")) and "Values of <b>add</b> were not computed." in said["text"]
    assert f"**Tried**: {words} Values of \\<b\\>add\\</b\\> were not computed.\n" in said["markdown"]
    assert next(json.loads(line) for line in said["json"].splitlines() if '"finding"' in line)["cause"]["verified"]["runs"] == 3


def test_operands_stacks_and_facts_follow(page, pages):
    page.open(pages["private_gpt"])
    rows = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in page.all(".operands tbody tr")]
    assert rows[0][0].split()[0] == "input_ids" and "odd one out" in rows[0][0] and rows[0][1] == "cuda:0" and "cpu → cuda:0" in rows[0][5] and "embedding_component.py:40" in rows[0][5]
    titles = [title.text for title in page.all(".stack h3")]
    assert titles == ["Failing call", "input_ids: created", "input_ids: last moved", "embeddings.word_embeddings.weight: created", "embeddings.word_embeddings.weight: last moved"]
    assert "NVIDIA H100" in page.text("main") and "2.11.0+cu130" in page.text("main")


def test_library_frames_are_folded_and_open_on_demand(page, pages):
    page.open(pages["private_gpt"])
    fold = page.find(".stack details")
    assert fold.text == "10 library frames"
    assert not page.find(".stack details .frame").is_displayed()
    fold.find_element(By.CSS_SELECTOR, "summary").click()
    assert "torch/nn/functional.py:2542" in page.text(".stack details")
    assert all("mine" in frame.get_attribute("class") for frame in page.all(".stack > ol > .frame"))


# ---- many findings ---------------------------------------------------------------------------------------------------------------------


def listed(page):
    """(operation, file:line) of the rows in sight, from the top."""
    rows = page.run("return [...document.querySelectorAll('#findings li')].map(row => [parseInt(row.style.top), row.innerText])")
    return [text.split("\n")[:2] for _, text in sorted(rows)]


def test_a_thousand_findings_open_at_once(page, thousand):
    page.open(thousand)
    assert page.text("#list-count") == "1000 findings"
    took = page.run("const t = performance.getEntriesByType('navigation')[0]; return t.domContentLoadedEventEnd")
    print(f"{thousand.stat().st_size >> 20} MiB drawn after {took:.0f} ms")
    assert took < 20_000, "something grows with the square of the findings"
    assert page.run("return document.querySelectorAll('#findings li').length") < 40, "only the rows in sight are in the document"
    assert page.run("return document.querySelectorAll('main .frame').length") < 100, "one finding is drawn at a time"
    assert listed(page)[6] == ["aten::scatter_ ×64", "embedding_component.py:7 in EmbeddingComponent.embed"]


def test_the_list_scrolls_to_its_end(page, thousand):
    page.open(thousand)
    page.run("const rows = document.getElementById('rows'); rows.scrollTop = rows.scrollHeight")
    page.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 50)")
    assert listed(page)[-1][1].startswith("embedding_component.py:1000 ")
    last = page.all("#findings li")[-1]
    assert (last.get_attribute("aria-posinset"), last.get_attribute("aria-setsize")) == ("1000", "1000")
    box = page.run("const a = arguments[0].getBoundingClientRect(), b = document.getElementById('rows').getBoundingClientRect(); return [a.bottom, b.bottom]", last)
    assert abs(box[0] - box[1]) < 2


def test_the_filter_takes_words_in_any_order(page, thousand):
    page.open(thousand)
    field = page.find("#filter")
    field.send_keys("cat embedding_component.py:100")
    assert page.text("#list-count") == "2 of 1000 findings"
    assert [line.split()[0] for _, line in listed(page)] == ["embedding_component.py:100", "embedding_component.py:1000"]
    field.send_keys(" nowhere")
    assert page.find("#no-match").is_displayed()
    assert page.text("#list-count") == "0 of 1000 findings"


def test_a_permalink_opens_its_finding(page, thousand):
    page.open(thousand, hash="#finding-500")
    assert "embedding_component.py:500)" in page.text(".where")
    assert page.find("#findings a[aria-current]").get_attribute("href").endswith("#finding-500")
    assert page.find("#findings a[aria-current]").is_displayed(), "the list is scrolled to it"
    assert page.find(".permalink").get_attribute("href").endswith("#finding-500")
    page.open(thousand, hash="#nonsense")
    assert "embedding_component.py:1)" in page.text(".where")


def test_keys_move_filter_and_never_steal_typing(page, thousand):
    page.open(thousand)
    page.press("jj")
    assert "embedding_component.py:3)" in page.text(".where")
    assert page.run("return location.hash") == "#finding-3"
    page.press("k")
    assert "embedding_component.py:2)" in page.text(".where")
    page.press("/")
    page.find("#filter").send_keys("jkt/c?")
    assert page.find("#filter").get_attribute("value") == "jkt/c?"
    assert page.run("return location.hash") == "#finding-2"
    page.find("#filter").send_keys(Keys.ESCAPE)
    assert page.find("#filter").get_attribute("value") == "" and page.text("#list-count") == "1000 findings"
    page.find("#filter").send_keys(Keys.ESCAPE)
    assert page.run("return document.activeElement.tagName") == "BODY"


def focus(page):
    page.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 50)")
    return page.run("return document.activeElement.id || document.activeElement.getAttribute('href') || document.activeElement.tagName")


def test_enter_goes_into_the_finding_and_escape_back(page, thousand):
    page.open(thousand)
    page.press("/")
    page.find("#filter").send_keys("embedding_component.py:77 " + Keys.ENTER)
    assert focus(page) == "finding" and page.run("return location.hash") == "#finding-77"
    page.press([Keys.ESCAPE])
    assert focus(page) == "#finding-77", "the row in the list"
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert focus(page) == "finding"


def test_the_keys_are_told(page, thousand):
    page.open(thousand)
    page.press("?")
    assert page.find("#help").is_displayed() and "next, previous finding" in page.text("#help")
    page.find("#help").send_keys("j")
    assert page.run("return location.hash") == "", "what lies behind hears nothing"
    page.find("#help").send_keys(Keys.ESCAPE)
    assert not page.find("#help").is_displayed()
    page.find("#help-open").click()
    assert page.find("#help").is_displayed()


def test_the_same_fault_is_one_row(page, tmp_path):
    log = tmp_path / "again.jsonl"
    log.write_text(synthetic_log(5, occurrences=4))
    page.open(render(log, tmp_path))
    assert page.text("#list-count") == "20 findings, 5 different"
    assert [title for title, _ in listed(page)][:2] == ["aten::add ×4", "aten::mm ×4"]
    assert "occurrence 1 of 4" in page.text(".kind")
    page.find(".occurrences a").click()
    assert page.run("return location.hash") == "#finding-6" and "occurrence 2 of 4" in page.text(".kind")
    assert page.find("#findings a[aria-current]").get_attribute("href").endswith("#finding-1"), "its row stands for all"
    page.press("j")
    assert page.run("return location.hash") == "#finding-2"
    page.find("#group").click()
    assert page.text("#list-count") == "20 findings" and len(listed(page)) > 10


def test_on_a_phone_the_list_is_folded_away(page, thousand):
    page.open(thousand, (390, 844))
    assert not page.find("#filter").is_displayed()
    box = page.run("const b = document.querySelector('.fix').getBoundingClientRect(); return b.bottom")
    assert box <= 844
    page.find("#list summary").click()
    assert page.find("#filter").is_displayed()
    page.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 50)")
    assert len(listed(page)) > 4


# ---- how they came there ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_the_picture_has_a_lane_for_each_device_and_every_operand_in_its_own(page, pages, size, theme):
    page.open(pages["private_gpt"], size, theme)
    picture = page.find("svg.picture")
    lanes = page.run("return [...document.querySelectorAll('.picture .device-name')].map(e => [e.textContent, e.getBoundingClientRect().left])")
    assert [name for name, _ in lanes] == ["cpu", "cuda:0", "cuda:1"]
    pills = page.run("return [...document.querySelectorAll('.picture .pill')].map(e => { const b = e.getBoundingClientRect(); return (b.left + b.right) / 2 })")
    width = lanes[1][1] - lanes[0][1]
    assert [round((x - lanes[0][1] - width / 2 + 14) / width) for x in pills] == [1, 2], "input_ids on cuda:0, the weight on cuda:1"
    assert len(page.all(".picture .was")) == 2 and len(page.all(".picture .meeting.bad line")) == 2
    assert "input_ids: cpu, then cuda:0" in picture.get_attribute("aria-label")
    outside = page.run("const p = document.querySelector('svg.picture').getBoundingClientRect(); return [...document.querySelectorAll('svg.picture text')].filter(e => { const b = e.getBoundingClientRect(); return b.right > p.right + 1 || b.left < p.left - 1 }).map(e => e.textContent)")
    assert outside == []


def test_the_stacks_stand_side_by_side(page, pages):
    page.open(pages["private_gpt"])
    tops = [stack.rect["y"] for stack in page.all(".stack")]
    assert tops[0] == tops[1] == tops[2] and tops[3] == tops[4] > tops[0], "failing call, created, last moved; then the next operand"


def test_the_lines_around_are_numbered(page, tmp_path):
    process, finding, end = (json.loads(line) for line in (DATA / "private_gpt.jsonl").read_text().splitlines())
    frame = next(frame for frame in finding["python"] if frame.get("project"))
    frame["around"] = {"line": 39, "text": "batch = one()\n\nfor x in y:\n    two()"}
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(record) for record in (process, finding, end)) + "\n")
    page.open(render(log, tmp_path))
    assert [line.text.rstrip() for line in page.all(".stack .line")] == ["39 batch = one()", "40", "41 for x in y:", "42     two()"]
    assert [line.text for line in page.all(".stack .line.here")] == ["41 for x in y:"]


def test_of_the_lines_around_the_nearest_are_shown(page, tmp_path):
    """The verdict reads more of them than a person who looks at a stack."""
    process, finding, end = (json.loads(line) for line in (DATA / "private_gpt.jsonl").read_text().splitlines())
    mine = [frame for frame in finding["python"] if frame.get("project")]
    for frame in mine:
        frame["around"] = {"line": max(1, frame["line"] - 8), "text": "\n".join(f"    line {number}" for number in range(max(1, frame["line"] - 8), frame["line"] + 25))}
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(record) for record in (process, finding, end)) + "\n")
    page.open(render(log, tmp_path))
    here = mine[0]["line"]
    assert len(mine) > 1, "an outer frame's are there for the verdict alone"
    assert [line.text.rstrip() for line in page.all(".stack .line")] == [f"{number} line {number}" for number in range(here - 3, here + 4)]


def test_the_time_line_is_in_order_and_by_thread(page, thousand):
    page.open(thousand, hash="#finding-3")
    rows = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in page.all(".time-line tbody tr")]
    times = [float(row[0].strip("+ s")) for row in rows]
    assert times == sorted(times) and times[0] >= 0
    said = [row[3] for row in rows]
    for part in ("input_ids created on cpu", "input_ids moved cpu → cuda:0", "cuda:0 made the current device", "copies cpu → cuda:1", "aten::bmm was given tensors"):
        assert any(part in text for text in said), part
    assert {row[2].split()[0] for row in rows} == {"4242", "4243", "4244", "4245"}
    here = next(row for row in rows if row[3].startswith("aten::bmm was given"))
    assert here[2].split()[0] == "4244" and "embedding_component.py:3" in here[4]
    lanes = page.run("return [...document.querySelectorAll('.gutter .mark')].map(e => Math.round(e.getBoundingClientRect().left - e.ownerSVGElement.getBoundingClientRect().left)).map(x => Math.floor(x / 16))")
    assert len(set(lanes)) == 4, "a lane for each thread"
    other = page.find(".time-line td a")
    target = other.get_attribute("href").split("#")[1]
    other.click()
    assert page.run("return location.hash") == "#" + target


# ---- themes, copying, print ----------------------------------------------------------------------------------------------------------


def background(page):
    return page.run("return getComputedStyle(document.body).backgroundColor")


def test_follows_the_system_and_the_button(page, pages):
    dark, light = "rgb(20, 22, 26)", "rgb(255, 255, 255)"

    def opened(theme):
        return background(page.open(pages["private_gpt"], theme=theme))

    def opened_with_the_choice(_):
        # Each page has a process of its own. What one stores comes late to the next, and not at all where the page was closed at
        # once. So the choice is made again until a page that has only been opened shows it.
        if opened("dark") == light:
            return True
        page.find("#theme").click()
        assert background(page) == light
        return False

    assert opened("dark") == dark and opened("light") == light
    WebDriverWait(page.driver, 60).until(opened_with_the_choice, "the choice is never kept")
    page.press("t")
    assert background(page) == dark
    page.run("localStorage.clear()")
    # The browser is the other tests' as well.
    WebDriverWait(page.driver, 60).until(lambda _: opened("light") == light or page.run("localStorage.clear()"), "the choice is never forgotten")


# WCAG's contrast of every piece of text on its background.
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_in_both_themes(page, thousand, theme):
    page.open(thousand, theme=theme)
    assert page.run(CONTRAST) == []


AXE = files("axe_playwright_python").joinpath("axe.min.js")  # the engine alone; it comes in a package for another driver


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
@pytest.mark.parametrize("name", ["thousand", "hostile", "traffic", "empty"])
def test_axe_finds_nothing_to_complain_about(page, pages, thousand, tmp_path, name, size, theme):
    file = {"thousand": lambda: thousand, "hostile": lambda: pages["hostile"], "traffic": lambda: traffic_page(tmp_path, 1, TRAFFIC), "empty": lambda: traffic_page(tmp_path, 0, TRAFFIC)}[name]()
    page.open(file, size, theme)
    page.run("for (const each of document.querySelectorAll('details')) each.open = true")
    page.run(AXE.read_text(encoding="utf-8"))
    complaints = page.driver.execute_async_script("const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations.map(v => [v.id, v.impact, v.nodes.slice(0, 4).map(n => n.html.slice(0, 200) + ' ' + n.failureSummary)])), e => done(String(e)))")
    assert complaints == []


def test_headings_names_and_landmarks(page, thousand):
    page.open(thousand)
    levels = [int(heading.tag_name[1]) for heading in page.all("h1,h2,h3") if heading.is_displayed()]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:])), "no level is skipped"
    for control in page.all("button, input"):
        assert not control.is_displayed() or control.accessible_name, control.get_attribute("outerHTML")
    assert page.find("html").get_attribute("lang") == "en"
    assert len(page.all("main")) == 1 and page.find("nav").get_attribute("aria-label") == "Findings"
    assert "cuda:0 holds input_ids" in page.find(".devices").get_attribute("aria-label")


def clipboard(page):
    return page.driver.execute_async_script("const done = arguments[0]; setTimeout(() => navigator.clipboard.readText().then(done, (e) => done('failed: ' + e)), 300)")


def test_copies_as_markdown(page, pages):
    page.open(pages["private_gpt"])
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    page.find("#copy").click()
    copied = clipboard(page)
    assert copied.startswith("### aten::index\\_select was given tensors on cuda:1 and cuda:0")
    assert "| `input_ids` | `cuda:0` |" in copied
    assert page.text("#copy") == "Copied"


def test_copies_without_paths_and_names_if_asked(page, pages):
    page.open(pages["private_gpt"])
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    page.find("#redact").click()
    assert page.find("#redact").get_attribute("aria-pressed") == "true"
    page.press("c")
    copied = clipboard(page)
    assert copied.startswith("### aten::index\\_select was given tensors on cuda:1 and cuda:0") and "**Fix** at `file1.py:40`" in copied
    for told in ("EmbeddingComponent", "embedding_component", "ingest", "/home", "ada"):
        assert told not in copied
    page.find("#redact").click()
    page.press("c")
    assert "EmbeddingComponent" in clipboard(page)


def test_a_redacted_page_has_nothing_else_in_it(page, tmp_path):
    target = tmp_path / "redacted.html"
    subprocess.run([DEVTRACE, "report", "--redact", "--format", "html", "-o", target, DATA / "private_gpt.jsonl"], check=True)
    whole = target.read_text()
    for told in ("EmbeddingComponent", "embedding_component", "ingest", "/home", "ada", "gpu-07", "GPU-4f1c0e2a", "private"):
        assert told not in whole[whole.index('class="record"'):], told
    page.open(target)
    assert "Redacted" in page.text("#banners") and "cuda:1 and cuda:0" in page.text("h1")
    assert page.text(".fix .plus") == "+ name1 = {key: value.to(self.model.device) for key, value in batch.items()}"


def test_prints_without_controls(page, pages):
    page.open(pages["private_gpt"], theme="dark")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    assert not page.find("#copy").is_displayed()
    assert background(page) == "rgb(255, 255, 255)"
    assert page.run(CONTRAST) == [], "no pale colours of the dark theme on paper"
    pdf = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")


# ---- findings at a launch -----------------------------------------------------------------------------------------------------------


def test_a_launch_shows_where_the_kernel_runs_and_who_chose_that_device(page, tmp_path):
    process, finding, end = (DATA / "private_gpt.jsonl").read_text().splitlines()
    one = json.loads(finding)
    one |= {"kind": "wrong-current-device", "operation": "add", "current_device": "cuda:0", "devices": ["cuda:0", "cuda:1"]}
    one["launch"] = {"kernel": "add", "grid": [1, 1, 1], "block": [128, 1, 1], "stream": "0x0", "parameter": 0, "offset": 0}
    one["operands"] = [{"name": "a", "role": "argument", "device": "cuda:1", "parameter": 0}]
    chosen = {"file": "/app/choose.py", "line": 7, "function": "choose", "source": "torch.cuda.set_device(0)", "project": True}
    for choice, expected in (({"time": 1.0, "device": "cuda:0", "python": [chosen]}, "choose.py:7"), ({"by_default": True}, "by default")):
        one["device_choice"] = choice
        log = tmp_path / "launch.jsonl"
        log.write_text("\n".join([process, json.dumps(one), end]) + "\n")
        page.open(render(log, tmp_path))
        boxes = page.all(".device")
        assert [box.text[:6] for box in boxes] == ["cuda:0", "cuda:1"]
        assert "runs" in boxes[0].text and "add" in boxes[0].text and "runs" not in boxes[1].text
        assert page.find(".devices").get_attribute("aria-label").startswith("cuda:0 runs add and holds nothing")
        assert expected in page.text("main")
        assert [name.text for name in page.all(".picture .device-name")] == ["cuda:0", "cuda:1"]
        assert page.text(".picture .meeting") == "✕ add runs on cuda:0" and len(page.all(".picture .meeting line")) == 2


@pytest.mark.parametrize(
    "function, name",
    [
        ("step", "step"),
        ("void mine::step<float, 4>(float*)", "mine::step<float, 4>"),
        ("main::{lambda()#1}::operator()() const", "main::{lambda()#1}::operator()"),
        ("auto outer(int)::{lambda(auto:1)#1}::operator()<int>(int) const", "outer(int)::{lambda(auto:1)#1}::operator()<int>"),
        ("Key::operator()() const::Local::operator<(Local const&)", "Key::operator()() const::Local::operator<"),
    ],
)
def test_without_python_the_native_place_stands_there(page, tmp_path, function, name):
    process, finding, end = (DATA / "private_gpt.jsonl").read_text().splitlines()
    one = json.loads(finding) | {"kind": "remote-access", "python": []}
    one["native"] = [
        {"module": "/usr/lib/libcudart.so.13", "function": "cudaLaunchKernel", "offset": "0x10"},
        {"module": "/app/train", "function": function, "offset": "0x40", "file": "/app/train.cpp", "line": 12},
    ]
    log = tmp_path / "native.jsonl"
    log.write_text("\n".join([process, json.dumps(one), end]) + "\n")
    page.open(render(log, tmp_path))
    assert f"{name} (" in page.text(".where") and "train.cpp:12" in page.text(".where")


# ---- traffic between devices -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("findings", [0, 1])
def test_traffic_is_a_matrix_and_a_list(page, tmp_path, findings):
    page.open(traffic_page(tmp_path, findings, TRAFFIC))
    assert "Traffic between devices" in [heading.text for heading in page.all("h2")]
    rows = [[cell.text.split("\n")[0] for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in page.all(".matrix tr")]
    assert rows[0] == ["from \\ to", "cpu", "cuda:0", "cuda:1", "cuda:2", "cuda:10"], "devices in the order of their numbers"
    assert rows[1] == ["cpu", "", "8.0 MiB", "–", "–", "–"], "of one call site the last record holds"
    assert rows[2] == ["cuda:0", "–", "", "4.0 GiB", "–", "–"]
    sites = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in page.all(".sites tbody tr")]
    assert [site[0].split("\n")[0] for site in sites] == ["step (main.py:2)", "step (main.py:3)", "step (main.py:1)", "other call sites"]
    assert sites[0][6] == "PCIe 5.0 x16 twice, through the host" and sites[1][6] == "NVLink"
    assert "estimates" in page.text("main")


def test_what_one_line_moved_is_one_row_whatever_was_measured(page, tmp_path):
    """Several stacks of a library end in the same line of the user's: their bytes, copies and times add up."""
    same = [moved(n, "cuda:0", "cuda:1", n << 30, 1, staged=False, timed={"copies": 1, "bytes": n << 30, "nanoseconds": n * 10_000_000}) for n in (1, 2, 3)]
    for record in same:
        record["python"][0]["line"] = 7
    page.open(traffic_page(tmp_path, 1, [*same, moved(4, "cuda:0", "cuda:1", 1 << 30, 1, staged=False)]))
    sites = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in page.all(".sites tbody tr")]
    assert [(site[0].split("\n")[0], site[3], site[4], site[6]) for site in sites] == [
        ("step (main.py:7)", "6.0 GiB", "3", "NVLink, measured: 107 GB/s"),
        ("step (main.py:4)", "1.0 GiB", "1", "NVLink"),
    ]


def test_no_traffic_is_no_table(page, pages):
    page.open(pages["private_gpt"])
    assert page.all(".matrix") == [] and "Traffic" not in page.text("main")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_traffic_is_readable_everywhere(page, tmp_path, size, theme):
    many = [moved(n, f"cuda:{n % 16}", f"cuda:{(n + 1 + n // 16) % 16}", n << 20, n, staged=n % 2 == 0) for n in range(1, 60)]
    page.open(traffic_page(tmp_path, 1, many), size, theme)
    assert page.run(CONTRAST) == []
    assert page.run("return document.documentElement.scrollWidth") <= size[0], "wide tables scroll by themselves"
    assert len(page.all(".sites tbody tr")) == 20 and "more call sites" in page.text("main")


def test_hostile_traffic_is_text(page, tmp_path):
    odd = [
        moved(1, "cpu", "cuda:0", 5, 1, function="</script><b onmouseover=alert(1)>\u202e\x1b[2J"),
        moved(2, "<i>", "cuda:0", "many", None),
        {"record": "traffic", "id": {}, "from": 5, "to": [], "bytes": -1, "python": 7},
        {"record": "traffic", "from": "cpu", "to": "cuda:1", "bytes": 1e300, "copies": -3, "native": [None]},
    ]
    page.open(traffic_page(tmp_path, 1, odd))
    assert page.all("main b[onmouseover], main i") == []
    assert "\\u001b[2J" in page.text(".sites")
