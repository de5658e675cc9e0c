"""The report exists before the exception does: seen from inside `except`, and after a SIGKILL there."""

import json

REFUSE = """
    import glob, json, os, signal, sys
    import torch

    left = torch.ones(3, device="cuda:0")
    right = torch.ones(3, device="cuda:1")
    try:
        left + right
    except RuntimeError as error:
        {inside}
"""


def test_everything_is_there_inside_except(rehearse):
    inside = """
        stem = f"devtrace-{os.getpid()}"
        lines = [json.loads(line) for line in open(stem + ".jsonl")]
        print("EXCEPT", file=sys.stderr, flush=True)
        print(json.dumps({"kinds": [line["record"] for line in lines], "html": os.path.getsize(stem + ".html"), "error": str(error)}))
    """
    outcome = rehearse(REFUSE.replace("{inside}", inside.strip()))
    assert outcome.code == 0, outcome.err
    seen = json.loads(outcome.out)
    assert seen["kinds"] == ["process", "finding"]
    assert seen["html"] > 1000
    assert "cuda:0" in seen["error"] and "cuda:1" in seen["error"]
    before, _, after = outcome.err.partition("EXCEPT")
    assert "cuda:0" in before and "cuda:1" in before and "program.py" in before
    assert "cuda:1" not in after
    assert outcome.finding["message"] == seen["error"].splitlines()[0]
    assert [record["record"] for record in outcome.records] == ["process", "finding", "end"]


def test_survives_sigkill_inside_except(rehearse):
    outcome = rehearse(REFUSE.replace("{inside}", "os.kill(os.getpid(), signal.SIGKILL)"))
    assert outcome.code == 128 + 9
    assert outcome.finding["operation"] == "aten::add"
    assert [record["record"] for record in outcome.records] == ["process", "finding"]
    page = outcome.pages[0].read_text()  # only ever appended to, so it has no closing tag that a kill could take
    assert "aten::add" in page and "program.py" in page and outcome.finding["fingerprint"] in page
    assert "cuda:1" in outcome.err


def test_an_uncaught_refusal_keeps_traceback_and_exit_code(rehearse):
    source = """
        import torch
        torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
    """
    traced = rehearse(source)
    plain = rehearse(source, trace=False)
    assert traced.code == plain.code == 1
    assert plain.err.strip().endswith(traced.findings[0]["message"])
    assert traced.err.strip().endswith(plain.err.strip().splitlines()[-1])
