"""Nowhere to write: one clear line, the text report all the same, and the program runs on untouched."""

import functools
import os
import subprocess

import pytest

SOURCE = """
    import resource, sys
    import torch
    left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
    {before}
    try:
        left + right
    except RuntimeError:
        print("refused")
    try:
        left * right
    except RuntimeError:
        print("refused")
    sys.exit(9)
"""


@pytest.fixture
def rehearse(rehearse):
    """Nothing is opened before the program begins: a fork of the tests' server will do."""
    return functools.partial(rehearse, fresh=False)


def source(before="pass"):
    return SOURCE.replace("{before}", before)


def check_text(outcome):
    assert "left + right" in outcome.err and "left * right" in outcome.err
    assert outcome.err.count("SUMMARY: devtrace: ") == 2


def check(outcome, complaints=1):
    assert (outcome.code, outcome.out) == (9, "refused\nrefused\n"), outcome.err
    told = [line for line in outcome.err.splitlines() if line.startswith("devtrace: cannot write")]
    assert len(told) == complaints, outcome.err
    check_text(outcome)


@pytest.fixture
def mounted(tmp_path):
    """mounted(options): a small tmpfs; only root can make one."""
    places = []

    def mount(options):
        place = tmp_path / f"tmpfs-{len(places)}"
        place.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", place], capture_output=True).returncode:
            pytest.skip("cannot mount a tmpfs here")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", place], check=True)


def test_folder_that_is_not_there(rehearse, tmp_path):
    check(rehearse(source(), f"log_path={tmp_path}/missing/devtrace-%p.jsonl"))
    assert not (tmp_path / "missing").exists()


def test_folder_that_is_a_file(rehearse):
    check(rehearse(source(), "log_path=/dev/null/devtrace-%p.jsonl"))


def test_full_device_as_log(rehearse):
    check(rehearse(source(), "log_path=/dev/full:html=0"))


def test_read_only_folder(rehearse, mounted):
    place = mounted("ro,size=64k")
    check(rehearse(source(), f"log_path={place}/devtrace-%p.jsonl"))
    assert list(place.iterdir()) == []


def test_full_disk(rehearse, mounted):
    place = mounted("size=64k")
    filler = os.open(place / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(filler, b"x" * 4096):
            pass
    except OSError:
        pass
    os.close(filler)
    outcome = rehearse(source(), f"log_path={place}/devtrace-%p.jsonl")
    check(outcome)


def test_file_size_limit(rehearse):
    """Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, whose default is death; Python ignores it, others may not."""
    before = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    check(rehearse(source(before), fresh=True))  # the server's output is a file, and would be limited, too


def test_no_file_descriptor_left(rehearse):
    before = "import os; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); hold = [os.dup(0) for _ in range(64 - len(os.listdir('/proc/self/fd')) + 1)]"
    outcome = rehearse(source(before))
    assert (outcome.code, outcome.out) == (9, "refused\nrefused\n"), outcome.err
    # Neither sources nor symbols can be read: what is known is told, and the two may look the same.
    assert "SUMMARY: devtrace: refused-op program.py" in outcome.err


def test_stderr_closed(rehearse):
    outcome = rehearse(source("import os; os.close(2)"))
    assert (outcome.code, outcome.out, len(outcome.findings)) == (9, "refused\nrefused\n", 2)


def test_descriptor_reused_by_the_program(rehearse):
    """A daemon closes every descriptor and opens its own under the same numbers: none of our lines may land in them."""
    outcome = rehearse(
        """
        import os
        import torch

        left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
        def refuse(function):
            try:
                function(left, right)
            except RuntimeError:
                pass
        refuse(torch.add)
        os.closerange(3, 256)
        mine = [open(f"mine-{number}.txt", "w") for number in range(16)]
        refuse(torch.mul)
        """
    )
    assert outcome.code == 0, outcome.err
    assert [path.read_text() for path in sorted(outcome.folder.glob("mine-*.txt"))] == [""] * 16
    assert [finding["operation"] for finding in outcome.findings] == ["aten::add", "aten::mul"]
