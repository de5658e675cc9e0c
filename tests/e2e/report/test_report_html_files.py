"""The page of a file as it may be found: hostile, cut off, without scripts, served."""

import contextlib
import json
import random
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pages import (  # noqa: F401 (fixtures)
    Page,
    browser,
    page,
    pages,  # noqa: F401
    render,
)
from synthetic_log import synthetic_log

# ---- files as they may be found ----------------------------------------------------------------------------------------------------------


def test_hostile_text_is_shown_as_text(page, pages):
    page.open(pages["hostile"])
    assert page.driver.title.startswith("devtrace: ")
    assert "</script><script>document.title='pwned'</script><!-- <b onmouseover=alert(1)>" in page.text("h1")
    assert page.all("b[onmouseover]") == []
    assert "\\u001b[2J" in page.text("h1"), "control characters are spelt"
    assert page.text("#list-count") == "3 findings"
    page.press("j")
    assert "bad ���� bytes" in page.text("h1")
    page.press("j")
    assert page.text("h1") == "an operation was given tensors on different devices"
    assert page.run("return document.documentElement.scrollWidth") <= 1280


def test_hostile_text_on_a_phone_stays_inside(page, pages):
    page.open(pages["hostile"], (390, 844))
    assert page.run("return document.documentElement.scrollWidth") <= 390


def leaves(value, path=()):
    """(path, value) of everything in a record that holds nothing else."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, key))
    else:
        yield path, value


def replaced(record, path, value):
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


HOSTILE = "</script><b onmouseover=alert(1)>\"'`&amp;<!--\u202e\x1b[2J\x00 $& {{script}}"


def test_no_text_of_a_record_becomes_markup(page, tmp_path):
    """Every string of every record at once, wherever the page may show it."""
    records = [json.loads(line) for line in synthetic_log(3).splitlines()]
    for record in records:
        if record["record"] in ("finding", "traffic"):
            record["python"][0]["around"] = {"line": 1, "text": "x"}
        for path, value in list(leaves(record)):
            if isinstance(value, str) and path[-1] not in ("record", "fingerprint", "device", "from", "to") and path[0] != "devices":
                replaced(record, path, HOSTILE)
    log = tmp_path / "hostile.jsonl"
    log.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    page.open(render(log, tmp_path))
    assert page.all("b[onmouseover]") == [] and "</script><b onmouseover=alert(1)>" in page.text("h1")
    assert page.text("#list-count") == "3 findings" and len(page.all(".time-line tr")) > 4 and page.all("svg.picture .pill")
    shown = page.run("return document.body.innerText + [...document.querySelectorAll('[title],[aria-label]')].map(e => e.title + e.getAttribute('aria-label')).join('')")
    assert "\u202e" not in shown and "\x1b" not in shown, "nothing reorders the text, nothing is invisible"
    page.press("j?")
    assert page.run("return document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("seed", range(12))
def test_a_record_may_hold_anything(page, tmp_path, seed):
    """Somebody's own tool may write the log: a field of another type than docs/reference/log.md says counts as absent."""
    draw = random.Random(seed)
    records = [json.loads(line) for line in synthetic_log(3).splitlines()]
    for record in records:
        paths = [path for path, _ in leaves(record) if path != ("record",)]
        paths += [path[:-1] for path in paths if len(path) > 1]
        for path in draw.sample(paths, min(len(paths), 1 + len(paths) // 8)):
            with contextlib.suppress(KeyError, IndexError, TypeError):  # what it lay in is replaced already
                replaced(record, path, draw.choice([None, [], {}, [[]], [{}], -1, 1e300, 2**70, True, "", "x", [None, 7, "y"]]))
    log = tmp_path / "odd.jsonl"
    log.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    page.open(render(log, tmp_path))
    for _ in range(3):
        assert page.text("h1") and page.all("main .facts")
        page.press("j")


@pytest.mark.parametrize("keep", [0.999, 0.9, 0.5, 0.1])
def test_a_page_cut_anywhere_in_its_records_still_opens(page, pages, tmp_path, keep):
    """As after SIGKILL, or on a full disk."""
    whole = pages["hostile"].read_bytes()
    head = whole.index(b'<script type="application/json"')
    cut = tmp_path / "cut.html"
    cut.write_bytes(whole[: head + int((len(whole) - head) * keep)])
    page.open(cut)
    assert page.text("h1")
    assert "killed, or is still running" in page.text("#banners")


def test_the_head_alone_is_a_page(page, pages, tmp_path):
    whole = pages["private_gpt"].read_text()
    records = [match.start() for match in re.finditer('<script type="application/json"', whole)]
    (tmp_path / "head.html").write_text(whole[: records[1]])
    page.open(tmp_path / "head.html")
    assert page.text("h1") == "No findings"
    assert "NVIDIA H100" in page.text("main")


def test_without_scripts_every_finding_is_text(page, pages):
    page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.open(pages["private_gpt"])
        assert "==4242==devtrace: refused-op: aten::index_select" in page.text("body")
    finally:
        page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_served_by_a_server_nothing_else_is_asked_for(browser, pages):
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=pages["private_gpt"].parent))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser.get(f"http://127.0.0.1:{server.server_port}/private_gpt.html")
    assert Page(browser).text("h1").startswith("aten::index_select")
    server.shutdown()
    assert asked == ["/private_gpt.html"]
