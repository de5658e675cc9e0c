"""What devtrace check writes for others to read: JUnit, SARIF, Markdown, HTML."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as xml

import jsonschema
import pytest
from checked_logs import SARIF, baseline, check, end, finding, log, process  # noqa: F401 (fixtures)
from conftest import DEVTRACE

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


def test_outputs_go_through_no_link_of_anothers(check, log, tmp_path):
    """The name under which a file is written first may be taken, by a link to a file of ours; a link that is named stays one."""
    log(process(), elsewhere(), end())
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "j.xml.part").symlink_to(tmp_path / "mine")
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "baseline.json").symlink_to("real.json")
    assert check("--junit", "j.xml", "logs").returncode == 1
    assert (tmp_path / "mine").read_text() == "mine" and "testsuite" in (tmp_path / "j.xml").read_text()
    (tmp_path / "real.json").unlink()
    assert check("--baseline", "baseline.json", "--update-baseline", "logs").returncode in (0, 1)
    assert (tmp_path / "baseline.json").is_symlink() and json.loads((tmp_path / "real.json").read_text())


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


def annotations(text):
    """As GitHub's runner reads workflow commands: (command, properties, message) of each line."""
    unescaped = lambda each: re.sub("%(25|0D|0A|3A|2C)", lambda found: chr(int(found[1], 16)), each)
    found = []
    for line in text.splitlines():
        if match := re.fullmatch(r"::(error|notice) ([^:]*)::(.*)", line):
            properties = dict(each.split("=", 1) for each in match[2].split(","))
            found.append((match[1], {key: unescaped(value) for key, value in properties.items()}, unescaped(match[3])))
    return found


def test_github_shows_each_finding_at_its_line(log, tmp_path, repository):
    (repository / "app/a,b:c.py").write_text("")
    frames = [{"file": "/builds/ada/repo/app/a,b:c.py", "line": 7, "function": "f", "source": "x + y", "project": True}]
    cause = {"category": "c", "confidence": "high", "because": "100% of it\n::error::is elsewhere.", "fix": "x = x.to(y.device)\nx + y", "file": "app/embed.py",
             "line": 40, "repairs": "cause"}
    log(process(), elsewhere(), finding(number=2, python=frames, operation="aten::add", cause=cause), finding(number=3, python=[], native=[], severity="note"), end())
    done = subprocess.run([DEVTRACE, "report", "--format", "github", tmp_path / "logs"], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(annotations(done.stdout)) == len(done.stdout.splitlines()) == 3, done.stdout
    by_file = {properties.get("file"): (command, properties, message) for command, properties, message in annotations(done.stdout)}
    command, properties, message = by_file["app/embed.py"]
    assert (command, properties["line"], properties["title"]) == ("error", "41", "devtrace: refused-op in Embed.forward")
    assert message.startswith("aten::index_select was given tensors on cuda:1 and cuda:0: input_ids on cuda:0")
    assert "encoded = {key: value.to(self.model.device) for key, value in batch.items()}" in message
    command, properties, message = by_file["app/a,b:c.py"]
    assert properties["line"] == "7" and "Why: 100% of it\n::error::is elsewhere. Fix at app/embed.py:40 (repairs the cause): x = x.to(y.device)\nx + y" in message
    assert by_file[None][0] == "notice"


def test_the_gate_tells_github_of_what_is_new(check, log):
    log(process(), finding(operation="aten::old"), end())
    baseline(check)
    log(process(), finding(operation="aten::old"), finding(number=2, operation="aten::fresh"), end())
    done = check("--baseline", "known.json", "--github", "-", "--quiet", "logs")
    ((command, properties, message),) = annotations(done.stdout)
    assert (command, properties["file"], properties["line"]) == ("error", "embedding_component.py", "41"), "as its process knew it"
    assert done.returncode == 1 and message.startswith("aten::fresh was given") and "1 new, 1 known" in done.stdout


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
    for option in ("--junit", "--sarif", "--github", "--markdown", "--html"):
        done = check(option, "no/such/folder/x", "logs")
        assert done.returncode == 2 and "no/such/folder/x: cannot be written" in done.stderr
    (tmp_path / "known.json").mkdir()
    done = check("--baseline", "known.json", "--update-baseline", "logs")
    assert done.returncode == 2


def test_what_never_ends_is_not_read(check, log, tmp_path):
    log()
    os.mkfifo(tmp_path / "fifo")  # that nobody writes to
    for endless in ("/dev/zero", "fifo"):
        for arguments in (["--baseline", endless], ["--suppressions", endless], [endless]):
            done = check(*arguments, "logs")
            assert done.returncode == 2 and f"{endless}: " in done.stderr
        done = subprocess.run([DEVTRACE, "report", endless], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and f"{endless}: is no file but a FIFO" in done.stderr
