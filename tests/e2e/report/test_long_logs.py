"""devtrace report and check on logs of very many findings, and on one that is still being written."""

import json
import resource
import subprocess

import pytest
from checked_logs import FINDING, end, process
from conftest import DEVTRACE
from pages import browser, page  # noqa: F401 (fixtures)

MANY = 5_000
SHOWN = 1_000


def line(number, group, **fields):
    """A finding as devtrace writes it: the first and the last fields in its order, without blanks."""
    first = {"record": "finding", "id": number, "kind": FINDING["kind"], "severity": "error", "fingerprint": f"{group:016x}", "time": 1795550016.5 + number}
    rest = {key: value for key, value in FINDING.items() if key not in ("record", "id", "kind", "severity", "fingerprint", "time", "count", "pid")}
    return json.dumps({**first, **rest, **fields, "count": 1, "pid": 1}, separators=(",", ":")) + "\n"


def long_log(path, groups, findings=MANY):
    with open(path, "w") as out:
        out.write(json.dumps(process()) + "\n")
        for number in range(findings):
            out.write(line(number + 1, number % groups))
        out.write(json.dumps({"record": "count", "id": findings, "fingerprint": f"{(findings - 1) % groups:016x}", "count": 7, "pid": 1}) + "\n")
        out.write(json.dumps(end(findings=findings)) + "\n")
    return path


def devtrace(folder, *words, memory=1_000_000_000):
    return subprocess.run([DEVTRACE, *words], cwd=folder, capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)))


@pytest.mark.parametrize(("groups", "shown", "others"), [(MANY, SHOWN, MANY - SHOWN), (5, SHOWN, 0), (1500, SHOWN, 500)])
def test_the_first_thousand_are_shown_and_the_rest_is_said(tmp_path, groups, shown, others):
    log = long_log(tmp_path / "devtrace-1.jsonl", groups)
    done = devtrace(tmp_path, "report", log.name)
    assert done.returncode == 0, done.stderr
    says = f"{MANY - shown} more findings are not shown, with {others} other fingerprints"
    assert done.stdout.count("SUMMARY: devtrace: ") == shown and says in done.stdout
    text = (tmp_path / "devtrace-1.html").read_text()
    assert text.count(' data-row="') == shown and says in text
    assert says in devtrace(tmp_path, "report", "--format", "markdown", log.name).stdout
    whole = devtrace(tmp_path, "report", "--format", "json", log.name).stdout
    assert whole.count('{"record":"finding"') == MANY


def test_a_new_finding_behind_a_thousand_repetitions_is_shown(tmp_path):
    log = tmp_path / "devtrace-1.jsonl"
    with open(log, "w") as out:
        out.write(json.dumps(process()) + "\n")
        for number in range(3 * SHOWN):
            out.write(line(number + 1, 1))
        out.write(line(3 * SHOWN + 1, 2, operation="aten::the_last"))
        out.write(json.dumps(end()) + "\n")
    done = devtrace(tmp_path, "report", "--format", "text", log.name)
    assert "aten::the_last" in done.stdout
    assert f"{2 * SHOWN} more findings are not shown, with 0 other fingerprints" in done.stdout


def test_the_page_says_what_it_leaves_out(page, tmp_path):  # noqa: F811
    log = long_log(tmp_path / "devtrace-1.jsonl", MANY, findings=SHOWN + 234)
    assert devtrace(tmp_path, "report", "--format", "html", log.name).returncode == 0
    page.open(log.with_suffix(".html"))
    assert "234 more findings are not shown" in page.text("#banners")


@pytest.mark.parametrize("redact", [[], ["--redact"]])
def test_what_is_not_shown_is_not_parsed(tmp_path, redact):
    """It would be found to be no JSON. Redacted, too: what is replaced in a finding is learnt from it."""
    log = long_log(tmp_path / "devtrace-1.jsonl", MANY, findings=SHOWN + 234)
    records = log.read_text().splitlines(keepends=True)
    records[SHOWN + 100] = records[SHOWN + 100].replace('"message":', '"message"')
    log.write_text("".join(records))
    done = devtrace(tmp_path, "report", *redact, "--format", "text", log.name)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.count("SUMMARY: devtrace: ") == SHOWN and "234 more findings are not shown" in done.stdout


@pytest.mark.parametrize("redact", [[], ["--redact"]])
def test_repetitions_in_several_logs_are_counted_without_being_parsed(tmp_path, redact):
    for number in (1, 2):
        log = long_log(tmp_path / f"devtrace-{number}.jsonl", 5, findings=50)
        records = log.read_text().splitlines(keepends=True)
        records[20] = records[20].replace('"message":', '"message"')
        log.write_text("".join(records))
    done = devtrace(tmp_path, "report", *redact, "--format", "text", ".")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.count("SUMMARY: devtrace: ") == 5


def test_the_gate_counts_all_of_them(tmp_path):
    long_log(tmp_path / "devtrace-1.jsonl", 5)
    done = devtrace(tmp_path, "check", "devtrace-1.jsonl")
    assert done.returncode == 1 and "5 new, 0 known" in done.stdout, done.stdout + done.stderr
    # The last one's count is stated anew at the end: 7 in the place of 1.
    assert done.stdout.count(f"{MANY // 5} times") == 4 and f"{MANY // 5 + 6} times" in done.stdout


@pytest.mark.slow
def test_the_gate_knows_each_of_very_many(tmp_path):
    several = 25_000  # more than it parses
    log = long_log(tmp_path / "devtrace-1.jsonl", several, findings=several)
    accepted = devtrace(tmp_path, "check", "--baseline", "known.json", "--update-baseline", log.name)
    assert accepted.returncode == 0, accepted.stderr
    again = devtrace(tmp_path, "check", "--baseline", "known.json", log.name)
    assert again.returncode == 0 and f"0 new, {several} known, 0 gone" in again.stdout, again.stdout[-500:] + again.stderr
    with open(log, "a") as out:
        out.write(line(several + 1, 0xFFFFFF))
    more = devtrace(tmp_path, "check", "--baseline", "known.json", "--html", "page.html", log.name)
    assert more.returncode == 1 and f"1 new, {several} known, 0 gone" in more.stdout
    text = (tmp_path / "page.html").read_text()
    assert text.count(' data-row="') == SHOWN and f"{several + 1 - SHOWN} more different findings are not shown" in text


def test_several_long_logs_are_one_report(tmp_path):
    for number in (1, 2):
        long_log(tmp_path / f"devtrace-{number}.jsonl", 1500, findings=1500)
    done = devtrace(tmp_path, "report", ".")
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, (tmp_path / "devtrace-all.html").read_text()):
        assert "500 more different findings are not shown, after the first 1000" in text


def test_a_finding_that_is_told_again_without_its_suppression_is_none_that_is_suppressed(tmp_path):
    log = tmp_path / "devtrace-1.jsonl"
    by = {"file": "accepted.txt", "line": 4, "reason": "known"}
    for last, code in ((line(2, 1, suppressed=by), 0), (line(2, 1), 1)):
        log.write_text(json.dumps(process()) + "\n" + line(1, 1, suppressed=by) + last + json.dumps(end()) + "\n")
        assert devtrace(tmp_path, "check", log.name).returncode == code


def test_a_log_that_is_being_written(tmp_path):
    """At every length that it may have at that moment: what is whole is told, the half line is said, and nothing fails."""
    log = tmp_path / "devtrace-1.jsonl"
    head, one, last = json.dumps(process()) + "\n", line(1, 1), json.dumps(end()) + "\n"
    text = head + one + last
    for length in (len(head), len(head) + 1, len(head) + len(one) // 2, len(head) + len(one) - 2, len(head) + len(one), len(text) - 2):
        log.write_text(text[:length])
        done = devtrace(tmp_path, "report", "--format", "text", log.name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("SUMMARY: devtrace: ") == (length >= len(head) + len(one) - 1)
        half = not text[:length].endswith("\n")
        assert ("the last line is cut off" in done.stderr) == half
        assert "the process was killed, or is still running" in done.stderr
        gate = devtrace(tmp_path, "check", log.name)
        assert gate.returncode == (1 if length >= len(head) + len(one) - 1 else 2) and ("the last line is cut off" in gate.stderr) == half
    log.write_text(text)
    assert devtrace(tmp_path, "report", "--format", "text", log.name).stderr == ""
