"""devtrace check on what cannot be judged, and on more than anybody has: what it says, and what it costs."""

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
from checked_logs import DATA, SARIF, check, end, finding, lines, log, process  # noqa: F401 (fixtures)
from conftest import DEVTRACE
from nightly import first

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


@pytest.mark.parametrize("name", first(1, FLOODS))
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
