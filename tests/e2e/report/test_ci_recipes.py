"""The composite action for GitHub and the template for GitLab: their steps, read from the YAML and run, with no network.

In the place of `gh` stands a program that keeps the comments in a file; GitLab's interface is a server of this process, which curl asks."""

import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from conftest import DEVTRACE, TOP, environment

RECIPES = TOP / "recipes"
# Without PyTorch, whose import takes seconds: memory of a device is said to be the host's, or the other way round.
COPY = """
def copy{name}():
    runtime = ctypes.CDLL("libcudart.so.13")
    own, host = ctypes.c_void_p(), ctypes.create_string_buffer(16)
    runtime.cudaMalloc(ctypes.byref(own), ctypes.c_size_t(16))
    runtime.cudaMemcpy(own, host, ctypes.c_size_t(16), 2)

def test_{name}():
    copy{name}()
"""
TESTS = "import ctypes\n" + COPY.format(name="_old")
FRESH = COPY.format(name="_fresh")
GH = """#!{python}
import json, subprocess, sys
words, state = sys.argv[1:], "{folder}/comments.json"
comments = json.load(open(state))
assert words.pop(0) == "api"
option = lambda name: words.pop(words.index(name) + 1) if name in words else None
jq, method, field = option("--jq"), option("--method") or "GET", option("--field")
(path,) = [each for each in words if not each.startswith("-")]
if (method, path) == ("GET", "repos/ada/repo/issues/7/comments") and "--paginate" in words:
    for page in (comments[:1], comments[1:]):  # of one each
        print(subprocess.run(["jq", "-r", jq], input=json.dumps(page), capture_output=True, text=True, check=True).stdout, end="")
    sys.exit({readable})
name, _, file = field.partition("=@")
assert name == "body"
body = open(file).read()
if (method, path) == ("POST", "repos/ada/repo/issues/7/comments"):
    comments.append({{"id": 100 + len(comments), "user": {{"type": "Bot"}}, "body": body}})
else:
    (comment,) = [each for each in comments if (method, path) == ("PATCH", f"repos/ada/repo/issues/comments/{{each['id']}}")]
    comment["body"] = body
json.dump(comments, open(state, "w"))
"""


@pytest.fixture
def repository(tmp_path):
    """A checkout whose known fault is in its baseline, and another one is new; on PATH `devtrace` and `python`."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "bin").mkdir()
    for name, program in (("devtrace", DEVTRACE), ("python", sys.executable), ("python3", sys.executable)):
        tool(tmp_path, name, f'#!/bin/sh\nexec {program} "$@"\n')
    rehearsed = [DEVTRACE, "rehearse", "--gpus", "2", "--no-html", "--log-path", "old/devtrace-%p.jsonl", "--", sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    subprocess.run(rehearsed, cwd=tmp_path, env=environment(None), capture_output=True, check=True)
    update = [DEVTRACE, "check", "--baseline", "devtrace-baseline.json", "--update-baseline", "old"]
    subprocess.run(update, cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "test_it.py").write_text(TESTS + FRESH)
    return tmp_path


def tool(folder, name, text):
    (folder / "bin" / name).write_text(text)
    (folder / "bin" / name).chmod(0o755)


def path_of(folder):
    return f"{folder / 'bin'}:{os.environ['PATH']}"


# ---- GitHub --------------------------------------------------------------------------------------------------------------------------


class Action:
    """A composite action, its steps run one after the other as the runner does."""

    def __init__(self, folder, comments=(), readable=0):
        self.folder, self.comments_file = folder, folder / "comments.json"
        self.comments_file.write_text(json.dumps(list(comments)))
        tool(folder, "gh", GH.format(python=sys.executable, folder=folder, readable=readable))

    def run(self, event="7", **inputs):
        described = yaml.safe_load((RECIPES / "github-action/action.yml").read_text())
        assert described["runs"]["using"] == "composite" and set(inputs) <= set(described["inputs"])
        known = {"github.token": "t", "github.repository": "ada/repo", "github.event.pull_request.number": event, "github.run_id": "1",
                 "github.server_url": "https://github.example"}
        fill = lambda text: re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: known[found[1]], str(text))
        for name, each in described["inputs"].items():
            known[f"inputs.{name}"] = fill(inputs.get(name, each["default"]))
        self.output, self.summary = "", self.folder / "summary.md"
        self.summary.write_text("")
        for step in described["runs"]["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
                continue
            assert step["shell"] == "bash" and "${{" not in step["run"]  # what stands there by an expression would be code
            outputs, script = self.folder / "outputs", self.folder / "step.sh"
            outputs.write_text("")
            script.write_text(step["run"])
            env = {"PATH": path_of(self.folder), "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(self.summary)}
            env |= {name: fill(value) for name, value in step.get("env", {}).items()}
            done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", script], cwd=self.folder, env=environment(None, env), capture_output=True,
                                  text=True, timeout=200)
            self.output += done.stdout + done.stderr
            for line in outputs.read_text().splitlines():
                name, _, value = line.partition("=")
                known[f"steps.{step['id']}.outputs.{name}"] = value
            if done.returncode:
                return done.returncode
        self.gate = fill(described["outputs"]["gate"]["value"])
        return 0

    @property
    def comments(self):
        return [each["body"] for each in json.loads(self.comments_file.read_text())]


OTHERS = {"id": 5, "user": {"type": "User"}, "body": "<!-- devtrace: devtrace -->\nno comment of the job's"}


def test_the_action_comments_what_is_new_once(repository):
    action = Action(repository, [OTHERS])
    assert action.run(package="") == 1, action.output
    assert re.search(r"^::error file=test_it.py,line=16,title=devtrace%3A copy-mismatch in copy_fresh::", action.output, re.MULTILINE), action.output
    first, comment = action.comments
    assert first == OTHERS["body"] and comment.startswith("<!-- devtrace: devtrace -->\n## devtrace: something new\n\n1 new, 1 known, 0 gone")
    assert comment.endswith("[The job](https://github.example/ada/repo/actions/runs/1), with the page of all findings.\n")
    assert action.summary.read_text() in comment and (repository / "devtrace-logs/devtrace.html").exists()

    assert action.run() == 1 and len(action.comments) == 2, "a second push changes the comment"
    assert action.run(title="other") == 1 and len(action.comments) == 3, "another job has its own"
    (repository / "test_it.py").write_text(TESTS)
    assert action.run() == 0 and action.gate == "0", action.output
    assert len(action.comments) == 3 and action.comments[1].startswith("<!-- devtrace: devtrace -->\n## devtrace: nothing new")


def test_the_fix_stands_in_the_comment_and_at_the_line(repository):
    """Of PyTorch itself, in a test that fails by it."""
    (repository / "test_it.py").write_text("import torch\n\n\ndef test_sum():\n    weight = torch.ones(3, device='cuda:1')\n    x = torch.ones(3)\n"
                                           "    assert (x * weight).sum() == 3\n")  # fmt: skip
    action = Action(repository)
    assert action.run() == 1 and "1 failed" in action.output, action.output
    (annotation,) = [line for line in action.output.splitlines() if line.startswith("::error file=test_it.py,line=7,")]
    assert "aten::mul was given tensors on" in annotation and "Fix at test_it.py:" in annotation
    assert "| **new** | `refused-op` | `aten::mul` | `test_it.py:7` |" in action.comments[0] and "weight.device" in action.comments[0], action.comments[0]


def test_nothing_new_needs_no_comment(repository):
    (repository / "test_it.py").write_text(TESTS)
    action = Action(repository)
    assert action.run() == 0 and action.comments == [], action.output


def test_the_tests_own_failure_stands(repository):
    (repository / "test_it.py").write_text(TESTS + "\ndef test_more():\n    assert False\n")
    action = Action(repository)
    assert action.run() == 1 and action.comments == [] and "1 failed, 1 passed" in action.output


def test_a_fork_or_a_branch_gets_no_comment(repository):
    fork = Action(repository, readable=1)
    assert fork.run() == 1 and fork.comments == [] and "::warning title=devtrace::no comment: they cannot be read" in fork.output
    branch = Action(repository)
    assert branch.run(event="") == 1 and branch.comments == [] and "::error file=test_it.py,line=16" in branch.output


def test_without_a_baseline_every_finding_is_new(repository):
    (repository / "devtrace-baseline.json").unlink()
    action = Action(repository)
    assert action.run(check="--quiet") == 1 and "2 new, 0 known, 0 gone" in action.comments[0], action.output


def test_tests_that_use_no_device_cannot_be_judged(repository):
    (repository / "test_it.py").write_text("def test_it():\n    pass\n")
    action = Action(repository)
    assert action.run() == 2 and "could not judge" in action.comments[0], action.output


def test_a_long_comment_is_cut(repository):
    faults = "".join(COPY.format(name=f"_{number}").replace("    own, host", f"    {'ä' * 4000} = 1\n    own, host") for number in range(30))
    (repository / "test_it.py").write_text(TESTS + faults)
    action = Action(repository)
    assert action.run() == 1, action.output
    assert len(action.comments[0]) < 65536 and action.comments[0].splitlines()[-1].startswith("[The job]"), len(action.comments[0])


# ---- GitLab --------------------------------------------------------------------------------------------------------------------------


class GitLab(HTTPServer):
    """The notes of merge request 3 of project 9, for who has the token."""

    def __init__(self, notes):
        super().__init__(("127.0.0.1", 0), Handler)
        self.notes = notes
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def answer(self, value, code=200):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if self.headers["PRIVATE-TOKEN"] != "secret":
            return self.answer({"message": "401 Unauthorized"}, 401)
        if path == "/user":
            return self.answer({"id": 42})
        assert path == "/projects/9/merge_requests/3/notes"
        asked = {key: int(value) for key, value in urllib.parse.parse_qsl(query)}
        first = (asked["page"] - 1) * asked["per_page"]
        self.answer(self.server.notes[first : first + asked["per_page"]])

    def do_POST(self):
        body = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["body"][0]
        notes = self.server.notes
        if self.command == "POST":
            assert self.path == "/projects/9/merge_requests/3/notes"
            notes.append({"id": len(notes), "author": {"id": 42}, "body": body})
        else:
            (note,) = [each for each in notes if self.path == f"/projects/9/merge_requests/3/notes/{each['id']}"]
            note["body"] = body
        self.answer({}, 201)

    do_PUT = do_POST


@pytest.fixture
def gitlab(repository):
    """gitlab(variables…): the job, as the runner runs it; its end and the notes. A page of other notes comes first."""
    mark = "<!-- devtrace: devtrace -->\n"
    others = [{"id": index, "author": {"id": 1}, "body": f"{mark if index == 3 else ''}{index}"} for index in range(120)]
    server = GitLab(others)

    def run(**variables):
        job = yaml.safe_load((RECIPES / "gitlab-rehearse.yml").read_text())[".devtrace"]
        env = {**job["variables"], "PATH": path_of(repository), "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}", "CI_PROJECT_ID": "9",
               "CI_MERGE_REQUEST_IID": "3", "DEVTRACE_TOKEN": "secret", "CI_JOB_URL": "https://gitlab.example/1", "no_proxy": "*", **variables}
        # As the runner does where an image has no bash; with one, `pipefail` is set besides.
        done = subprocess.run(["sh", "-c", "set -e\n" + "\n".join(job["script"])], cwd=repository, env=environment(None, env), capture_output=True,
                              text=True, timeout=200)
        assert [note["body"] for note in server.notes[:120]] == [note["body"] for note in others[:120]]
        return done, [note["body"] for note in server.notes[120:]]

    yield run
    server.shutdown()
    server.server_close()


def test_the_template_notes_what_is_new_once(gitlab, repository):
    done, notes = gitlab()
    assert done.returncode == 1 and len(notes) == 1, done.stdout + done.stderr
    assert notes[0].startswith("<!-- devtrace: devtrace -->\n## devtrace: something new\n\n1 new, 1 known, 0 gone")
    assert notes[0].endswith("[The job](https://gitlab.example/1), with the page of all findings.\n")
    assert (repository / "junit.xml").exists() and (repository / "devtrace-logs/devtrace.html").exists()
    _, notes = gitlab()
    assert len(notes) == 1, "a second push changes the note"
    (repository / "test_it.py").write_text(TESTS)
    done, notes = gitlab()
    assert done.returncode == 0 and len(notes) == 1 and "## devtrace: nothing new" in notes[0], done.stdout + done.stderr


def test_the_template_judges_without_a_note_too(gitlab, repository):
    for variables, said in (({"DEVTRACE_TOKEN": ""}, "DEVTRACE_TOKEN is not set"), ({"DEVTRACE_TOKEN": "wrong"}, "no note on the merge request: see above"),
                            ({"CI_MERGE_REQUEST_IID": ""}, "1 new, 1 known")):
        done, notes = gitlab(**variables)
        assert done.returncode == 1 and notes == [] and said in done.stdout, done.stdout + done.stderr
    (repository / "test_it.py").write_text(TESTS + "\ndef test_more():\n    assert False\n")
    done, notes = gitlab()
    assert done.returncode == 1 and notes == [] and "0 new, 1 known" in done.stdout
