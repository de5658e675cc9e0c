"""Mistakes of ranks from public threads (tests/workloads/ranks/): what one finding says of each, its fix applied, and the repaired twin, of which nothing is said."""

import re
import sys
from pathlib import Path

import pytest
from conftest import TOP

sys.path.insert(0, str(TOP / "tests/workloads"))
from case_form import cases_in  # noqa: E402
from verdict_score import apply  # noqa: E402

CASES = cases_in(TOP / "tests/workloads/ranks")
# Which line is meant is known, and what it should say is not: who calls what is the program's affair.
WITHOUT_FIX = {"only_rank_zero_reduces", "last_batch", "early_stop"}
# ... nor where the wrapper was made.
WITHOUT_LINE = {"wrapped_on_first_device"}


def run(rehearse, main, folder):
    return rehearse([TOP / "tests/helpers/forked_torchrun.py", 2, main.name], options="collective_wait=3", folder=folder, env={"RANKS_END_AFTER": "6"})


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_mistake_of_ranks(rehearse, case, tmp_path):
    outcome = run(rehearse, case.copy(tmp_path), tmp_path)
    # Ranks that make the same mistake are one finding.
    assert len({each["fingerprint"] for each in outcome.findings}) == 1, outcome.err
    finding = outcome.findings[0]
    cause = finding["cause"]
    assert finding["kind"] == case.first("kind", "refused-op") and re.fullmatch(case.operation or ".*", finding["operation"])
    assert cause["category"] in case.first("category").split("|"), cause
    repaired = tmp_path / "repaired"
    repaired.mkdir()
    right = run(rehearse, case.copy(repaired, repaired=True), repaired)
    assert right.code == 0 and right.findings == [], right.err
    if case.name not in WITHOUT_LINE:
        places = {(place.file, line) for place in case.lines for line in case.lines_at(place)}
        assert (Path(cause["file"]).name, cause["line"]) in places, cause
    if case.name in WITHOUT_FIX | WITHOUT_LINE:
        assert "fix" not in cause
        return
    fixed = tmp_path / "fixed"
    fixed.mkdir()
    main = case.copy(fixed)
    apply(fixed / Path(cause["file"]).name, cause["line"], cause["fix"])
    again = run(rehearse, main, fixed)
    assert again.code == 0 and again.findings == [] and again.out == right.out, again.err + cause["fix"]


RANK = """
import os
import torch, torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
if rank == 0:
    print("total", total.item())
dist.destroy_process_group()
"""


def test_the_rank_in_the_job_taken_for_that_on_the_machine(rehearse, tmp_path):
    """https://github.com/openai/gpt-oss/issues/267: the first rank of the second machine asks for a device that is not there."""
    finding = rehearse(RANK, env={"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4"}).finding
    cause = finding["cause"]
    assert (finding["operation"], cause["category"], cause["line"]) == ("torch.cuda.set_device", "missing-device", 6), cause
    assert cause["fix"] == 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'
