"""SARIF's `fixes`, applied as an editor does: the program then runs. Lines that are no longer as they were get none."""

import json
import subprocess
import urllib.parse

import jsonschema
import pytest
from checked_logs import SARIF
from conftest import DEVTRACE

# A statement over several lines, another one that the same variable meets below, a tab and what is not ASCII in front of what is replaced.
SEVERAL = """import torch


class Model:
\tdef __init__(self, größe):
\t\tself.gewicht = torch.ones(größe, device="cuda:0")

\tdef loss(self, größe):
\t\tvalues, weights = torch.arange(größe), torch.ones(größe)
\t\tvalues.to(self.gewicht.device); weights.to(self.gewicht.device)
\t\treturn self.gewicht + values + weights


print(Model(3).loss(3).sum().item())
"""
ALSO = """import torch
def steps(size):
    return torch.arange(size).long(), torch.ones(size) / size
def loss(x):
    t, weights = steps(len(x))
    t.to(x.device)
    weights.to(x.device)
    return (x.index_select(0, t).sum(1) * weights).mean()
print(loss(torch.ones(3, 3, device="cuda:1")).item())
"""
LINES = """import torch
def total(batch, weight):
    if True:
        result = torch.nn.functional.linear(
            batch,
            weight)  # 𝄞 é
        return result.sum()
print(total(torch.ones(2, 3), torch.ones(4, 3, device="cuda:0")).item())
"""


def apply(root, change):
    """One artifactChange. Columns are UTF-16 code units from 1, which is how VS Code takes them, whatever columnKind says."""
    path = root / urllib.parse.unquote(change["artifactLocation"]["uri"])
    lines = path.read_bytes().decode().split("\n")
    part = lambda line, *ends: line.encode("utf-16-le")[slice(*[end and 2 * end - 2 for end in ends])].decode("utf-16-le")
    for replacement in sorted(change["replacements"], key=lambda each: -each["deletedRegion"]["startLine"]):
        region = replacement["deletedRegion"]
        first, last = region["startLine"] - 1, region["endLine"] - 1
        before, after = part(lines[first], None, region["startColumn"]), part(lines[last], region["endColumn"], None)
        assert not after.strip() and not before.strip()
        lines[first : last + 1] = (before + replacement["insertedContent"]["text"] + after).split("\n")
    path.write_bytes("\n".join(lines).encode())


@pytest.fixture
def judged(tmp_path, rehearse):
    """judged(text): the program's folder, what came of it, and its result in SARIF."""

    def run(text):
        (tmp_path / ".git").mkdir()
        (tmp_path / "my app.py").write_bytes(text.encode())
        outcome = rehearse([tmp_path / "my app.py"], "text=0:html=0", folder=tmp_path)
        subprocess.run([DEVTRACE, "check", "--quiet", "--sarif", "s.sarif", *outcome.logs], cwd=tmp_path, capture_output=True)
        return outcome

    return run


def result_in(folder):
    sarif = json.loads((folder / "s.sarif").read_text())
    assert sarif["runs"][0]["columnKind"] == "utf16CodeUnits"
    jsonschema.Draft4Validator(SARIF).validate(sarif)
    (result,) = sarif["runs"][0]["results"]
    return result


@pytest.mark.parametrize("text, printed", [(ALSO, "1.0"), (LINES, "24.0"), (LINES.replace("\n", "\r\n"), "24.0"), (SEVERAL, "9.0")],
                         ids=["several lines", "a statement over several lines", "the same with carriage returns", "tabs"])
def test_an_applied_fix_runs(judged, rehearse, tmp_path, text, printed):
    broken = judged(text)
    assert broken.code == 1
    (fix,) = result_in(tmp_path)["fixes"]
    assert fix["description"]["text"].startswith("devtrace's fix")
    for change in fix["artifactChanges"]:
        assert change["artifactLocation"] == {"uri": "my%20app.py", "uriBaseId": "SRCROOT"}
        apply(tmp_path, change)
    repaired = (tmp_path / "my app.py").read_bytes().decode()
    assert repaired.count("\r\n") == (repaired.count("\n") if "\r\n" in text else 0)
    again = rehearse([tmp_path / "my app.py"], "text=0:html=0", folder=tmp_path)
    assert again.code == 0 and again.out.splitlines()[-1] == printed, repaired + again.err


def test_a_line_that_was_changed_since_is_left_alone(judged, tmp_path):
    outcome = judged(ALSO)
    path = tmp_path / "my app.py"
    for text in (ALSO.replace("    weights.to(x.device)\n", "    weights.to(x.device, dtype=x.dtype)\n"), "# a line above\n" + ALSO, ""):
        path.write_text(text)
        subprocess.run([DEVTRACE, "check", "--quiet", "--sarif", "s.sarif", *outcome.logs], cwd=tmp_path, capture_output=True)
        assert "fixes" not in result_in(tmp_path), text
