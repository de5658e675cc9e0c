"""pytest --devtrace, as somebody's own test suite uses it."""

import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import DEVTRACE, TOP, environment
from nightly import first

SUITE = """
    import pytest
    import torch

    def mix():
        return torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")

    def test_clean():
        assert (torch.ones(3, device="cuda:1") + 1).sum().item() == 6

    def test_swallows_the_error():
        with pytest.raises(RuntimeError):
            mix()

    def test_does_it_again():
        with pytest.raises(RuntimeError):
            mix()

    def test_dies_of_it():
        torch.ones(2, device="cuda:0") * torch.ones(2, device="cuda:1")

    @pytest.mark.devtrace(allow="the error is what is tested")
    def test_on_purpose():
        with pytest.raises(RuntimeError):
            mix()

    @pytest.fixture
    def bad():
        try:
            torch.ones(4, device="cuda:0") - torch.ones(4, device="cuda:1")
        except RuntimeError:
            pass

    def test_with_a_bad_fixture(bad):
        pass

    def test_clean_at_last():
        pass
"""


def run(folder, *arguments):
    env = environment(None, {"PYTHONPATH": str(TOP / "python"), "DEVTRACE": str(DEVTRACE)})
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=200)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_it.py").write_text(textwrap.dedent(SUITE))
    return folder, run(folder, "--devtrace", "--devtrace-gpus", "2", "--devtrace-logs", "logs", "-rA")


def verdicts(text):
    return dict(reversed(match) for match in re.findall(r"^(PASSED|FAILED|ERROR) test_it.py::(\w+)", text, re.MULTILINE))


def test_the_test_that_made_the_finding_fails(outcome):
    _, done = outcome
    assert done.returncode == 1, done.stderr + done.stdout
    assert verdicts(done.stdout) == {
        "test_clean": "PASSED", "test_swallows_the_error": "FAILED", "test_does_it_again": "FAILED", "test_dies_of_it": "FAILED",
        "test_on_purpose": "PASSED", "test_with_a_bad_fixture": "ERROR", "test_clean_at_last": "PASSED",
    }


def section(text, test):
    return re.split(r"^_{3,} (?:ERROR at \w+ of )?(\w+) _{3,}$", text, flags=re.MULTILINE)[1:][
        2 * re.findall(r"^_{3,} (?:ERROR at \w+ of )?(\w+) _{3,}$", text, flags=re.MULTILINE).index(test) + 1]


def test_its_output_has_the_report(outcome):
    _, done = outcome
    for test, line in {"test_swallows_the_error": 'torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")',
                       "test_does_it_again": "torch.ones(3",
                       "test_with_a_bad_fixture": "torch.ones(4"}.items():
        text = section(done.stdout, test)
        assert "devtrace: 1 finding in this test" in text and "SUMMARY: devtrace: refused-op test_it.py:" in text and line in text
    died = section(done.stdout, "test_dies_of_it")
    assert "Expected all tensors to be on the same device" in died and re.search(r"-+ Captured devtrace call -+\n==\d+==devtrace: refused-op", died)


def test_the_logs_are_for_the_gate(outcome):
    folder, _ = outcome
    done = subprocess.run([DEVTRACE, "check", "logs"], cwd=folder, capture_output=True, text=True)
    # Both mix() in tests are one line in three callers: the fingerprint knows the callers.
    assert done.returncode == 1 and re.match(r"\d new, 0 known", done.stdout.splitlines()[-1]), done.stdout + done.stderr


def test_suppressed_findings_fail_no_test(tmp_path):
    (tmp_path / "test_it.py").write_text(textwrap.dedent(SUITE).replace("test_dies_of_it", "no_test").replace("(bad)", "()"))
    (tmp_path / "accepted.txt").write_text("function=^mix$ file=test_it.py$\n")
    done = run(tmp_path, "--devtrace", "--devtrace-gpus", "2", "--devtrace-suppressions", "accepted.txt")
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


DELETES_THE_LOG = """
    import pathlib
    import pytest
    import torch

    def mix(size):
        with pytest.raises(RuntimeError):
            torch.ones(size, device="cuda:0") + torch.ones(size, device="cuda:1")

    def test_clean_but_deletes():
        for log in pathlib.Path("logs").glob("*.jsonl"):
            log.unlink()

    def test_clean_without_a_log():
        assert torch.ones(3, device="cuda:1").sum().item() == 3

    def test_after_it():
        mix(3)

    def test_deletes_its_own():
        try:
            torch.ones(3, device="cuda:0") * torch.ones(3, device="cuda:1")
        except RuntimeError:
            pass
        test_clean_but_deletes()

    def test_deletes_it_before_its_own():
        test_clean_but_deletes()
        mix(5)

    def test_clean_at_last():
        pass
"""


def test_a_test_that_deletes_the_log(tmp_path):
    (tmp_path / "test_it.py").write_text(textwrap.dedent(DELETES_THE_LOG))
    done = run(tmp_path, "--devtrace", "--devtrace-gpus", "2", "--devtrace-logs", "logs", "-rA")
    assert verdicts(done.stdout) == {
        "test_clean_but_deletes": "PASSED", "test_clean_without_a_log": "PASSED", "test_after_it": "FAILED",
        "test_deletes_its_own": "FAILED", "test_deletes_it_before_its_own": "FAILED", "test_clean_at_last": "PASSED",
    }, done.stdout
    for test in ("test_after_it", "test_deletes_it_before_its_own"):
        assert "SUMMARY: devtrace: refused-op test_it.py:" in section(done.stdout, test)
    assert "Its record went with the log, which a test deleted" in section(done.stdout, "test_deletes_its_own")


def test_a_test_says_how_many_devices_it_needs(tmp_path):
    (tmp_path / "test_it.py").write_text("import pytest\n" + "".join(f"@pytest.mark.gpus({count})\ndef test_{count}():\n    pass\n" for count in (1, 2, 3)))
    done = run(tmp_path, "-rs", "--strict-markers", "--devtrace", "--devtrace-gpus", "2")
    assert "2 passed, 1 skipped" in done.stdout and "it needs 3 CUDA devices, and there are 2: pytest --devtrace --devtrace-gpus 3 simulates them" in done.stdout, done.stdout
    assert "3 skipped" in run(tmp_path).stdout, "without devices"


@pytest.mark.parametrize("ci", first(1, ["true", ""]))
def test_workers_of_xdist_watch_too(tmp_path, ci):
    """Where CI is set pytest's closing summary repeats whole messages: each report is counted in its test's section."""
    (tmp_path / "test_it.py").write_text(textwrap.dedent(SUITE))
    env = environment(None, {"PYTHONPATH": str(TOP / "python"), "DEVTRACE": str(DEVTRACE), "CI": ci})
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--devtrace", "--devtrace-gpus", "2", "-rA"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and "3 failed, 3 passed, 1 error" in done.stdout, done.stdout
    sections, _, _ = done.stdout.partition("short test summary info")
    assert sections.count("devtrace: 1 finding in this test\n\n==") == 3


def test_without_the_option_nothing_happens(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it():\n    import ctypes\n    assert not hasattr(ctypes.CDLL(None), 'devtrace_version')\n")
    assert run(tmp_path).returncode == 0


def test_installed_it_needs_a_path_and_no_more(tmp_path):
    """`make install` leaves lib/devtrace/python beside bin/devtrace."""
    (tmp_path / "test_it.py").write_text("def test_it():\n    import ctypes\n    assert hasattr(ctypes.CDLL(None), 'devtrace_version')\n")
    place = tmp_path / "opt"
    (place / "lib/devtrace").mkdir(parents=True)
    (place / "bin").mkdir()
    shutil.copytree(TOP / "python", place / "lib/devtrace/python")
    (place / "bin/devtrace").symlink_to(DEVTRACE)
    env = environment(None, {"PYTHONPATH": str(place / "lib/devtrace/python")})
    done = subprocess.run([sys.executable, "-m", "pytest", "--devtrace", "-p", "no:cacheprovider", "test_it.py"], cwd=tmp_path, env=env, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
