"""The C++ workload: a plate's heat on two devices, several files, nvcc and cuBLAS; broken, repaired, and repaired as the report says."""

import shutil
import subprocess

import pytest
from conftest import TOP, only
from cpp_programs import line_of, nvcc, own, run

FOLDER = TOP / "tests/workloads/halo_exchange"


def make(source, out):
    subprocess.run(["make", "-s", "-C", source, f"NVCC={nvcc()}", f"OUT={out}"], check=True, capture_output=True)
    return out / "heat"


@pytest.fixture(scope="module")
def heat(tmp_path_factory):
    return make(FOLDER, tmp_path_factory.mktemp("heat"))


def test_the_defect_to_the_line(heat, tmp_path):
    outcome = run(heat, folder=tmp_path)
    assert outcome.code == 1 and "illegal memory access" in outcome.err
    finding = only(outcome, "wrong-current-device")
    stencil, slab, main = ((FOLDER / name).read_text() for name in ("stencil.cu", "slab.cpp", "heat.cpp"))
    frames = [(frame["function"].split("(")[0], frame["file"].split("/")[-1], frame["line"]) for frame in own(finding)]
    assert frames == [("advance", "stencil.cu", line_of(stencil, "diffuse<<<")), ("main", "heat.cpp", line_of(main, "advance(*slab);"))]
    field, following = finding["operands"]
    assert (field["name"], field["type"], field["parameter_name"], field["device"]) == ("slab.field", "float const*", "field", "cuda:0")
    assert (following["name"], following["type"], following["parameter_name"]) == ("slab.next", "float*", "next")
    assert field["bytes"] == 4 * 66 * 256 and field["created"]["call"] == "cudaMalloc"
    assert [frame["line"] for frame in own(field["created"])][1] == line_of(slab, "field = plate(")
    assert own(finding["device_choice"])[0]["line"] == line_of(slab, "cudaSetDevice(device), ")
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("missing-set-device", "high", "cause")
    assert cause["file"].endswith("halo_exchange/stencil.cu") and cause["line"] == line_of(stencil, "diffuse<<<")
    for part in ("slab.field created on cuda:0 by cudaMalloc in plate (", "called by Slab::Slab (", "at advance ("):
        assert part in outcome.err
    assert "a tensor" not in outcome.err and "unknown place" not in outcome.err


def test_the_repaired_program_has_no_finding(heat, tmp_path):
    outcome = run(heat, "--fixed", folder=tmp_path)
    assert (outcome.code, outcome.findings) == (0, []) and outcome.out.endswith("done\n"), outcome.err


def test_the_reported_fix_makes_it_run(heat, tmp_path):
    cause = only(run(heat, folder=tmp_path), "wrong-current-device")["cause"]
    copy = tmp_path / "source"
    shutil.copytree(FOLDER, copy)
    lines = (copy / "stencil.cu").read_text().splitlines(keepends=True)
    lines[cause["line"] - 1] = cause["fix"] + "\n"
    (copy / "stencil.cu").write_text("".join(lines))
    outcome = run(make(copy, copy), folder=tmp_path)
    assert (outcome.code, outcome.findings) == (0, []) and outcome.out.endswith("done\n"), outcome.err
