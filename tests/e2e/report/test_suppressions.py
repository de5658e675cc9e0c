"""A suppressed finding is written, counted and not told; it fails no run."""

import subprocess
import sys

from conftest import DEVTRACE, environment, execute

SOURCE = """
    import sys
    import torch
    left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")

    def known():
        return left + right

    def other():
        return left * right

    for function in [known, known, known] + ([other] if "other" in sys.argv else []):
        try:
            function()
        except RuntimeError:
            print("refused")
"""


def run(folder, entry, *arguments, options=(), env=None):
    (folder / "program.py").write_text("\n".join(line[4:] for line in SOURCE.splitlines()))
    (folder / "accepted.txt").write_text(entry)
    command = [DEVTRACE, "rehearse", "--gpus", 2, *options, "--", sys.executable, "program.py", *arguments]
    return execute(command, folder, environment(None, env))


def test_a_suppressed_finding_is_counted_and_not_told(tmp_path):
    entry = "# why\nkind=refused-op operation=^aten::add function=^known$ file=program.py$ reason=\"ticket 12\"\n"
    outcome = run(tmp_path, entry, options=["--suppressions", "accepted.txt", "--error-exitcode", 7])
    assert (outcome.code, outcome.out) == (0, "refused\n" * 3), outcome.err
    assert "devtrace" not in outcome.err
    assert outcome.pages == []
    finding = outcome.finding
    assert finding["suppressed"] == {"file": str(tmp_path / "accepted.txt"), "line": 2, "reason": "ticket 12"}
    counts = [record["count"] for record in outcome.records if record["record"] == "count"]
    assert counts[-1] == 3
    end = outcome.records[-1]
    assert (end["findings"], end["suppressed"], "notes" in end) == (3, 3, False)


def test_others_are_told_and_the_gate_knows_both(tmp_path):
    outcome = run(tmp_path, "function=^known$\n", "other", options=["--suppressions", "accepted.txt", "--error-exitcode", 7])
    assert outcome.code == 7
    assert outcome.err.count("SUMMARY: devtrace: ") == 1 and "left * right" in outcome.err
    assert len(outcome.findings) == 2
    done = subprocess.run([DEVTRACE, "check", *outcome.logs], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "1 new, 0 known, 0 gone, 1 suppressed" in done.stdout


def test_the_offered_entry_suppresses_the_finding(tmp_path):
    first = run(tmp_path, "kind=none\n")
    assert first.err.count("SUMMARY: devtrace: ") == 1
    (entry,) = [line.strip().removeprefix("suppress: ") for line in first.err.splitlines() if line.startswith("  suppress: ")]
    assert entry.startswith("kind=refused-op operation=^aten::add$ function=^known$ file=program.py$ expires=20")
    for log in first.logs:
        log.unlink()
    second = run(tmp_path, entry + "\n", options=["--suppressions", "accepted.txt"])
    assert "SUMMARY" not in second.err and second.finding["suppressed"]["line"] == 1


def test_an_expired_entry_and_a_bad_line_are_said_and_do_nothing(tmp_path):
    text = "function=^known$ expires=2020-01-31\nfunktion=known\n"
    outcome = run(tmp_path, text, env={"DEVTRACE_OPTIONS": "suppressions=accepted.txt"})
    assert outcome.err.count("SUMMARY: devtrace: ") == 1
    assert "accepted.txt:1: expired on 2020-01-31: it suppresses no more" in outcome.err
    assert "accepted.txt:2: there is no key 'funktion'" in outcome.err


def test_the_command_refuses_a_bad_file_before_anything_runs(tmp_path):
    outcome = run(tmp_path, "\n\nfunction=a expires=soon\n", options=["--suppressions", "accepted.txt"])
    assert (outcome.code, outcome.out) == (2, "")
    assert "accepted.txt:3: expires=soon: not a date" in outcome.err
    outcome = run(tmp_path, "", options=["--suppressions", "missing.txt"])
    assert (outcome.code, outcome.out) == (2, "") and "missing.txt: cannot be read" in outcome.err


def test_a_file_that_is_not_there_is_one_line_and_the_program_runs(tmp_path):
    outcome = run(tmp_path, "", env={"DEVTRACE_OPTIONS": "suppressions=missing.txt"})
    assert outcome.code == 0 and outcome.out == "refused\n" * 3
    assert outcome.err.count("suppressions=missing.txt: cannot be read") == 1
    assert outcome.err.count("SUMMARY: devtrace: ") == 1
