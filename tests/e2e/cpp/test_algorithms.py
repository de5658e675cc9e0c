"""Algorithms of Thrust and CUB, eighty in five programs, computed in a rehearsal: each gives what Thrust gives on the host."""

import pytest
from conftest import TOP
from cpp_programs import build_nvcc, run
from nvcc_programs import needs_nvcc

SOURCE = (TOP / "tests/programs/algorithms.cu").read_text()


# nvcc takes half a minute to a minute for each.
@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 6))
def test_algorithms_give_what_the_host_gives(part, tmp_path):
    program = build_nvcc(SOURCE, f"-DPART={part}", "-std=c++17", "-w")
    outcome = run(program, folder=tmp_path, flags=["--kernels"], gpus=1, timeout=600)
    assert (outcome.code, outcome.out.split("\n")[-2]) == (0, "16 of 16"), outcome.out + outcome.err
    assert outcome.findings == [] and "not computed" not in outcome.err
