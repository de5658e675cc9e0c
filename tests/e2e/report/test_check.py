"""devtrace check: new, known and gone against a baseline, of many processes, with suppressions, and its page."""

import copy
import json
import subprocess

import pytest
from checked_logs import baseline, check, end, finding, log, process  # noqa: F401 (fixtures)
from conftest import DEVTRACE
from pages import browser, page  # noqa: F401 (fixtures)

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


# ---- the page -----------------------------------------------------------------------------------------------------------------------


def test_the_page_says_what_is_new_known_and_gone(check, log, page, tmp_path):
    log(process(), finding(), finding(number=2, operation="aten::old"), end())
    baseline(check)
    log(process(), finding(), finding(number=3, operation="aten::fresh"), end())
    assert check("--baseline", "known.json", "--html", "h.html", "logs").returncode == 1
    page.open(tmp_path / "h.html")
    assert "Compared with a baseline: 1 new, 1 known, 1 gone" in page.text("#banners")
    rows = {row.text.split("\n")[0]: row.text.split("\n")[-1].split(" · ")[0] for row in page.all("#findings li")}
    assert {name.split(" ×")[0]: status for name, status in rows.items()} == {"aten::fresh": "new", "aten::index_select": "known", "aten::old": "gone"}
    assert page.all(".why .tag")[0].text == "new"
    facts = page.run("return Object.fromEntries([...document.querySelectorAll('dl.facts dt')].map((dt) => [dt.textContent, dt.nextElementSibling.textContent]))")
    assert facts["To suppress it"].strip().startswith("[") or "operation" in facts["To suppress it"]
    assert facts["Seen by"]
    page.find("#filter").send_keys("gone")
    assert [row.text.split("\n")[0] for row in page.all("#findings li")] == ["aten::old"]
