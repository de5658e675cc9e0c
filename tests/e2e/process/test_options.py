"""DEVTRACE_OPTIONS that are wrong: one clear line for each, and the program runs on untouched."""

import functools
import subprocess

import pytest
from conftest import TOP

SOURCE = """
    import sys
    import torch
    try:
        torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
    except RuntimeError:
        print("refused")
    sys.exit(9)
"""


@pytest.fixture
def rehearse(rehearse):
    """Options are read where the program begins, in a fork of the tests' server, too; those of the library's start are looked at there (conftest.py)."""
    return functools.partial(rehearse, fresh=False)


@pytest.mark.parametrize(
    "options, named",
    [
        ("no_such_option=1", ["no_such_option"]),
        ("html=perhaps", ["html"]),
        ("max_findings=-3", ["max_findings"]),
        ("max_findings=99999999999999999999999", ["max_findings"]),
        ("dedupe", ["dedupe"]),
        ("=1", ["=1"]),
        ("first_wrong=1:html=perhaps:text=1", ["first_wrong", "html"]),
        ("x" * 5000 + "=1", ["xxxx"]),
        ("caf\u00e9=1", ["caf"]),
    ],
)
def test_wrong_options_are_told_in_one_line_each(rehearse, options, named):
    outcome = rehearse(SOURCE, options)
    assert (outcome.code, outcome.out) == (9, "refused\n"), outcome.err
    told = [line for line in outcome.err.splitlines() if "DEVTRACE_OPTIONS" in line]
    assert len(told) == len(named), outcome.err
    for line, name in zip(told, named):
        assert name in line and line.startswith("devtrace:")
    assert outcome.finding["operation"] == "aten::add"  # the defaults stand


@pytest.mark.parametrize("options", ["", ":", ":::html=1::"])
def test_empty_options_are_no_mistake(rehearse, options):
    outcome = rehearse(SOURCE, options)
    assert (outcome.code, outcome.out) == (9, "refused\n")
    assert "DEVTRACE_OPTIONS" not in outcome.err
    assert len(outcome.pages) == 1


def test_help_prints_the_table(rehearse):
    outcome = rehearse(SOURCE, "help=1")
    assert (outcome.code, outcome.out) == (9, "refused\n")
    for option in ("log_path", "html", "text", "error_exitcode", "max_findings", "dedupe"):
        assert any(line.split()[:1] and line.split()[0].startswith(option) for line in outcome.err.splitlines()), option


def test_outputs_can_be_turned_off(rehearse):
    outcome = rehearse(SOURCE, "text=0:html=0")
    assert (outcome.code, outcome.out, outcome.err) == (9, "refused\n", "")
    assert outcome.pages == [] and len(outcome.findings) == 1


def test_log_path_with_placeholders(rehearse, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    outcome = rehearse(SOURCE, f"log_path={logs}/%q{{RANK}}-%h-%p.jsonl", env={"RANK": "5"})
    assert outcome.code == 9
    names = sorted(path.name for path in logs.iterdir())
    assert len(names) == 2 and names[0].startswith("5-") and [name.rsplit(".", 1)[1] for name in names] == ["html", "jsonl"]
    assert outcome.logs == []


def test_max_findings_counts_what_it_drops(rehearse):
    outcome = rehearse(
        """
        import torch
        a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
        for _ in range(3):
            try: a + b
            except RuntimeError: pass
            try: a - b
            except RuntimeError: pass
            try: a * b
            except RuntimeError: pass
            try: a / b
            except RuntimeError: pass
        """,
        "max_findings=2",
    )
    assert [finding["operation"] for finding in outcome.findings] == ["aten::add", "aten::sub"]
    assert [(record["findings"], record["dropped"]) for record in outcome.records if record["record"] == "end"] == [(12, 6)]


def test_one_line_that_runs_several_operations_has_a_finding_for_each(rehearse):
    outcome = rehearse(
        """
        import torch
        a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
        for _ in range(2):
            for function in (torch.add, torch.sub, torch.mul):
                try:
                    function(a, b)
                except RuntimeError:
                    pass
        """
    )
    assert [finding["operation"] for finding in outcome.findings] == ["aten::add", "aten::sub", "aten::mul"]
    assert sorted((record["id"], record["count"]) for record in outcome.records if record["record"] == "count") == [(1, 2), (2, 2), (3, 2)]


def test_error_exitcode(rehearse):
    refused = rehearse(SOURCE.replace("sys.exit(9)", "pass"), "error_exitcode=42")
    assert (refused.code, refused.out) == (42, "refused\n")
    fine = rehearse("import torch; torch.ones(3, device='cuda:0'); print('fine')", "error_exitcode=42")
    assert (fine.code, fine.out) == (0, "fine\n")


def test_verbose_tells_what_was_decided_and_why(rehearse):
    outcome = rehearse(
        """
        import torch
        a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
        def refused():
            try: a + b
            except RuntimeError: pass
        for _ in range(3): refused()
        try: a - b
        except RuntimeError: pass
        """,
        "verbose=1:text=0:max_findings=1",
    )
    told = [line for line in outcome.err.splitlines() if line.startswith("devtrace: [")]
    for words in (
        ["loaded into", "verbose=1"],
        ["CUDA runtime: /", "libcudart.so", "version libcudart.so.1"],
        ["libc10.so", "in /"],
        ["Python 3.", "laid out as those of 3."],
        ["log: /", ".jsonl"],
        ["finding ", ": number 1"],
        ["finding ", ": dropped"],
    ):
        assert any(all(word in line for word in words) for line in told), (words, told)


def test_without_verbose_nothing_is_told_of_decisions(rehearse):
    outcome = rehearse(SOURCE, "text=0:verbose=0")
    assert (outcome.code, outcome.out, outcome.err) == (9, "refused\n", "")


def test_the_page_of_commands_is_what_their_help_says():
    done = subprocess.run([TOP / "scripts/reference-pages", "commands", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
