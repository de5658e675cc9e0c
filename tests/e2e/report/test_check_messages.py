"""devtrace check --format: a message for each new fault, to be sent to a tracker or a chat by somebody else; and --redact of all that check writes."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from checked_logs import baseline, check, end, finding, log, process  # noqa: F401 (fixtures)
from conftest import DEVTRACE, TOP, environment
from readme_renderer import markdown
from secret_log import LOG as SECRET_LOG
from secret_log import assert_nothing_is_told

SOURCE = "return self.table(x)"


def git(folder, *words):
    own = ("-c", "user.name=Ada @lovelace", "-c", "user.email=ada@example.org")
    return subprocess.run(["git", *own, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path):
    """A checkout whose line 41 Ada wrote, after the first commit."""
    top = tmp_path / "checkout"
    (top / "app").mkdir(parents=True)
    git(top, "init", "-q")
    lines = [f"line {number}" for number in range(1, 51)]
    for message in ("all", "look it up @everyone"):
        (top / "app/embed.py").write_text("\n".join(lines) + "\n")
        git(top, "add", ".")
        git(top, "commit", "-qm", message, "--date", "2026-11-03T04:05:06Z")
        lines[40] = f"        {SOURCE}"
    return top


def faulty(**fields):
    frames = [{"file": "/builds/ada/repo/app/embed.py", "line": 41, "function": "Embed.forward", "source": SOURCE, "project": True}]
    return finding(python=frames, **fields)


def messages(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- issues --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("format", "body"), [("github", "body"), ("gitlab", "description")])
def test_an_issue_a_new_fault(check, log, tmp_path, repository, format, body):
    """The fields are those that the trackers' interfaces take; what is known has no message, and the tally is on stderr."""
    log(process(), finding(number=1, operation="aten::known"), end())
    baseline(check)
    log(process(), finding(number=1, operation="aten::known"), faulty(number=2), end())
    done = check("--baseline", tmp_path / "known.json", "--format", format, tmp_path / "logs", cwd=repository)
    assert done.returncode == 1 and "1 new, 1 known, 0 gone" in done.stderr
    (issue,) = messages(done)
    assert set(issue) == {"title", body}
    assert issue["title"] == "devtrace: refused-op aten::index_select at app/embed.py:41 in Embed.forward"
    text = issue[body]
    assert text.startswith("### aten::index\\_select was given tensors on") and "**Fix** at" in text
    assert "\nSeen by `gpu-07, pid 1, once`.\n" in text
    commit = git(repository, "rev-parse", "HEAD")[:12]
    assert f"\nThe line was last changed by `Ada @lovelace` on 2026-11-03 in `{commit}`: `look it up @everyone`\n" in text


def test_whose_line_it_was_is_said_only_where_that_is_known(check, log, tmp_path, repository):
    log(process(), faulty(), end())

    def said(cwd=repository):
        (issue,) = messages(check("--format", "github", tmp_path / "logs", cwd=cwd))
        return re.findall(r"\nThe line .*\n", issue["body"])

    file = repository / "app/embed.py"
    committed = file.read_text()
    file.write_text(committed.replace(SOURCE, SOURCE + "  # now"))
    assert said() == ["\nThe line is in no commit yet.\n"]
    file.write_text("another line\n" + committed)
    assert said() == [], "line 41 is not the one that the program ran"
    file.write_text(committed)
    assert len(said()) == 1
    (elsewhere := tmp_path / "elsewhere" / "app").mkdir(parents=True)
    (elsewhere / "embed.py").write_text(committed)
    assert said(elsewhere.parent) == [], "no repository"


class Outside(HTMLParser):
    """What a page's text is outside of code, where a tracker looks for mentions, and its elements."""

    def __init__(self, html):
        super().__init__()
        self.inside, self.text, self.tags = 0, "", set()
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.inside += tag in ("code", "pre")
        if not dict(attributes).get("href", "").startswith("#user-content-"):  # the renderer's own, of a heading
            self.tags.add(tag)

    def handle_endtag(self, tag):
        self.inside -= tag in ("code", "pre")

    def handle_data(self, data):
        self.text += "" if self.inside else data


HOSTILE = "@everyone <!channel> <@U1> #12 !34 &56 https://evil.example/ <img src=x> ```\n/close\n`x` [a](b)"


def test_hostile_text_notifies_nobody(check, log, repository, tmp_path):
    """Names and messages hold what mentions people, refers to issues, runs a tracker's command or ends a fence."""
    operand = {"name": HOSTILE, "device": HOSTILE, "role": HOSTILE, "odd": True, "created": {"python": [{"file": HOSTILE, "line": 1, "function": HOSTILE, "project": True}]}}
    cause = {"category": "x", "confidence": HOSTILE, "because": HOSTILE, "fix": HOSTILE, "file": HOSTILE, "line": 3}
    frames = [{"file": f"/x/{HOSTILE}.py", "line": 2, "function": HOSTILE, "source": HOSTILE, "project": True}]
    log(process(host=HOSTILE, torch=HOSTILE, cwd=HOSTILE), finding(operation=HOSTILE, message=HOSTILE, kind=HOSTILE, current_device=HOSTILE, operands=[operand, operand], cause=cause, python=frames,
                                                                   device_choice={"python": frames}), end())
    for format, body in (("github", "body"), ("gitlab", "description")):
        (issue,) = messages(check("--format", format, tmp_path / "logs", cwd=repository))
        page = Outside(markdown.render(issue[body]))
        for text in (page.text, issue["title"]):
            assert "everyone" in text and not re.search(r"[@#!&]\w|://", text), text
        assert "img" not in page.tags and "a" not in page.tags
        assert not any(line.startswith("/") for line in Outside(markdown.render(issue[body])).text.splitlines()), "GitLab would run it"
        assert len(issue["title"]) <= 255
    (message,) = messages(check("--format", "slack-json", tmp_path / "logs", cwd=repository))
    assert_block_kit(message)
    assert not re.search(r"[<>]|@\w", message["text"])


SENDER = """#!{python}
import json, sys
words = sys.argv[1:]
sent = words[words.index("--data") + 1] if "--data" in words else sys.stdin.read()
print(json.dumps([sys.argv[0].rpartition("/")[2], words[-1] if "--data" in words else words[1], sorted(json.loads(sent))]), file=open({log!r}, "a"))
"""


def test_the_pages_lines_send_each(check, log, tmp_path):
    """The shell's lines of docs/guide/fleet.md, with stand-ins for gh, glab and curl."""
    log(process(), finding(), finding(number=2, operation="aten::second"), end())
    (tmp_path / "devtrace-baseline.json").write_text('{"devtrace_baseline": 1, "findings": []}')
    (tmp_path / "bin").mkdir()
    for name in ("gh", "glab", "curl"):
        (tmp_path / "bin" / name).write_text(SENDER.format(python=sys.executable, log=str(tmp_path / "sent")))
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin/devtrace").symlink_to(DEVTRACE)
    env = environment(None, {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "ada/repo", "CI_PROJECT_ID": "9", "SLACK_WEBHOOK_URL": "https://hook"})
    for lines in re.findall(r"```sh\n(.*?)```", (TOP / "docs/guide/fleet.md").read_text(), re.DOTALL)[:3]:
        subprocess.run(["bash", "-c", lines], cwd=tmp_path, env=env, check=True)
    sent = [json.loads(line) for line in (tmp_path / "sent").read_text().splitlines()]
    assert sent == 2 * [["gh", "repos/ada/repo/issues", ["body", "title"]]] + 2 * [["glab", "projects/9/issues", ["description", "title"]]] + 2 * [["curl", "https://hook", ["blocks", "text"]]]


def test_very_many_are_not_all_sent(check, log, tmp_path):
    log(process(), *(finding(number=number, operation=f"aten::op{number}") for number in range(60)), end())
    done = check("--format", "github", "logs")
    assert done.returncode == 1 and len(messages(done)) == 50
    assert "10 more new findings have no message, after the first 50" in done.stderr


def test_a_body_too_long_for_a_tracker_is_a_short_one(check, log):
    log(process(), finding(message="m" * 100_000), end())
    (issue,) = messages(check("--format", "github", "logs"))
    assert len(issue["body"]) < 65_536 and "Seen by" in issue["body"] and issue["body"].count("```") % 2 == 0


def test_nothing_new_is_no_message(check, log):
    log(process(), finding(severity="note"), end())
    done = check("--format", "slack-json", "logs")
    assert (done.returncode, done.stdout) == (0, "") and "0 new" in done.stderr
    done = check("--format", "slack-json", "--quiet", "logs")
    assert done.returncode == 2 and "--quiet" in done.stderr


# ---- Slack ---------------------------------------------------------------------------------------------------------------------------

# Of Block Kit's reference: which blocks, their fields, and how much text each takes.
LONGEST = {"header": 150, "section": 3000, "context": 3000}


def assert_plain(text, longest):
    assert set(text) == {"type", "text", "emoji"} and text["type"] == "plain_text" and text["emoji"] is False
    assert 1 <= len(text["text"]) <= longest


def assert_block_kit(message):
    assert set(message) == {"text", "blocks"} and 1 <= len(message["text"]) <= 4000 and 1 <= len(message["blocks"]) <= 50
    for block in message["blocks"]:
        longest = LONGEST[block["type"]]
        if block["type"] == "context":
            assert set(block) == {"type", "elements"} and 1 <= len(block["elements"]) <= 10
            for element in block["elements"]:
                assert_plain(element, longest)
        else:
            assert set(block) == {"type", "text"}
            assert_plain(block["text"], longest)


def test_a_chats_message(check, log, tmp_path, repository):
    log(process(), faulty(), faulty(number=2, operation="aten::long", message="x" * 10_000, kind="k" * 500), end())
    sent = messages(check("--format", "slack-json", tmp_path / "logs", cwd=repository))
    assert len(sent) == 2
    for message in sent:
        assert_block_kit(message)
    (message,) = [each for each in sent if each["blocks"][0]["text"]["text"] == "devtrace: new refused-op"]
    _, paragraph, facts = message["blocks"]
    assert paragraph["text"]["text"].startswith("aten::index_select was given tensors on") and " Fix at " in paragraph["text"]["text"]
    where, witnesses, who, fingerprint = (each["text"] for each in facts["elements"])
    assert where == "app/embed.py:41 in Embed.forward" and witnesses == "seen by gpu-07, pid 1, once"
    assert who.startswith("last changed by Ada @lovelace on 2026-11-03 in ") and re.fullmatch("fingerprint [0-9a-f]{16}", fingerprint)


# ---- --redact ------------------------------------------------------------------------------------------------------------------------


def test_what_check_writes_tells_nothing_of_the_program(check, tmp_path):
    """All outputs, also of what is gone, suppressed, moved or could not be judged; and the judgement is the one of the true names."""
    records = [json.loads(line) for line in SECRET_LOG.read_text().splitlines()]
    write = lambda name, *all: (tmp_path / "logs" / name).write_text("".join(json.dumps(record) + "\n" for record in all))
    other = lambda **fields: {**records[1], "id": 2, "fingerprint": "00000000000000bb", **fields}
    write("acme-1.jsonl", *records[:4], other(fingerprint="00000000000000cc"), *records[4:])
    assert check("--baseline", "known.json", "--update-baseline", "logs").returncode == 0
    entries = [entry["variable"] if entry["record"] == "placement" else "" for entry in records]
    assert "acme" in entries
    moved = json.loads(json.dumps(records[3]).replace("cuda:1", "cpu"))
    more = {**records[2], "bytes": records[2]["bytes"] * 9}
    write("acme-1.jsonl", records[0], other(), other(fingerprint="00000000000000dd", id=3), records[1], more, moved, *records[4:])
    write("acme-2.jsonl", "no record")
    (tmp_path / "accepted.txt").write_text('file=acme fingerprint=00000000000000dd reason="acme says so"\n')
    options = ["--baseline", "known.json", "--suppressions", "accepted.txt", "--traffic-tolerance", "20%", "--fail-on-placement"]
    files = {name: tmp_path / f"out.{name}" for name in ("junit", "sarif", "github", "markdown", "html")}
    outputs = [word for name, file in files.items() for word in (f"--{name}", file)]
    plain = check(*options, "logs")
    assert plain.returncode == 1 and "acme" in plain.stdout.lower()
    for format in ("text", "github", "gitlab", "slack-json"):
        done = check(*options, *outputs, "--redact", "--format", format, "logs")
        assert done.returncode == 1, done.stderr
        tally = done.stdout if format == "text" else done.stderr
        assert "1 new, 1 known, 1 not seen, 1 suppressed" in tally and "more traffic at 1 call site" in tally, done.stdout + done.stderr
        assert "00000000000000bb" in done.stdout and "cuda:0" in done.stdout
        assert_nothing_is_told(done.stdout)
        for file in files.values():
            assert "00000000000000bb" in file.read_text() or file == files["github"]
            assert_nothing_is_told(file.read_text())


def test_a_redacted_message_names_nobody(check, log, tmp_path, repository):
    log(process(), faulty(), end())
    for format in ("github", "gitlab", "slack-json"):
        plain, redacted = (check("--format", format, *more, tmp_path / "logs", cwd=repository).stdout for more in ((), ("--redact",)))
        assert "Ada" in plain and "Embed.forward" in plain
        assert "Ada" not in redacted and "Embed.forward" not in redacted and "last changed" not in redacted
