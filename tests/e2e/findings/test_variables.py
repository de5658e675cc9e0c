"""What Python frames hold, as the tracker reads it without the GIL, against what every CPython on this machine says."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD
from interpreters import PARAMETERS

PROBE = BUILD / "tests" / "stack_probe.so"
CASES = Path(__file__).with_name("variable_cases.py")


@pytest.fixture(scope="module", params=PARAMETERS)
def results(request, tmp_path_factory) -> list:
    output = tmp_path_factory.mktemp("variables") / "said.json"
    done = subprocess.run([request.param, "-I", "-W", "ignore", CASES, PROBE, output], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(output.read_text())


def test_variables_and_what_they_hold_are_pythons_own(results):
    assert len(results) == 4
    for result in results:
        assert result["got"] == result["want"]
        assert len(result["got"]) > 320


def test_a_module_and_the_callers_are_seen(results):
    for result in results:
        assert result["global"] and result["body"] and result["caller"]
