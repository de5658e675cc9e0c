"""`make transparent` compares commands, and Python's own tests, without and with devtrace; here: a few, and that it would notice."""

import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest
from conftest import BUILD, TOP
from running import wait_for

COMPARE, OWN_TESTS = (TOP / "tests/transparent" / name for name in ("compare.py", "own_tests.py"))


def compare(folder, *commands, build=BUILD, limit=60):
    listed = folder / "commands.txt"
    listed.write_text("\n".join(commands) + "\n")
    return subprocess.run([sys.executable, COMPARE, "--build", build, "--limit", str(limit), listed], capture_output=True, text=True, timeout=100)


def test_commands_that_are_the_same(tmp_path):
    done = compare(tmp_path, "sort numbers | head -3", "sh -c 'kill -TERM $$'", "bash -c 'exec 9<>text; read -u 9 a; echo $a'", "$PYTHON -c 'import os; os.fork()'")
    assert (done.returncode, done.stdout) == (0, "4 same\n"), done.stdout + done.stderr


def test_what_outlives_its_output_is_waited_for(tmp_path):
    """The probe writes as a process ends: what is counted before is another number each time, and its folder cannot be removed."""
    done = compare(tmp_path, "(exec >&- 2>&-; i=0; while [ $i -lt 3000 ]; do : > ../probe/$i; i=$((i+1)); done) &")
    assert (done.returncode, done.stdout) == (0, "1 same\n"), done.stdout + done.stderr


def test_what_says_nothing_is_counted_apart(tmp_path):
    """What nobody could run is no command that was the same."""
    done = compare(tmp_path, "true", "no-such-command-anywhere", "sleep 100", limit=10)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 no end, 1 not there, 1 same"), done.stdout + done.stderr
    assert compare(tmp_path, "no-such-command-anywhere").returncode == 1, "nothing was compared"


def test_what_is_not_the_same_is_noticed(tmp_path):
    """A library in devtrace's place that prints, keeps a descriptor, handles a signal, sets a variable, leaves a file and another exit code."""
    source = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void handler(int signal) {}
__attribute__((constructor)) static void begin(void) { BEGIN }
__attribute__((destructor(101))) static void end(void) { END }
"""
    cases = {
        "output": ('write(1, "x", 1);', ""),
        "errors": ('write(2, "x", 1);', ""),
        "files": ('close(open("left", O_CREAT, 0600));', ""),
        "exit code": ("", "_exit(9);"),
        "processes": ('open("/dev/null", O_RDONLY);', ""),
        "processes ": ("signal(SIGUSR2, handler);", ""),
        "processes  ": ('setenv("MORE", "1", 1);', ""),
        "memory": ("for (volatile char* at = malloc(64 << 20), *to = at + (64 << 20); at < to; at += 4096) *at = 1;", ""),
    }
    for what, (begin, end) in cases.items():
        subprocess.run(
            ["gcc", "-x", "c", "-w", "-shared", "-fPIC", "-O0", "-o", tmp_path / "libdevtrace.so", "-"],
            input=source.replace("BEGIN", begin).replace("END", end), text=True, check=True,
        )  # fmt: skip
        done = compare(tmp_path, "cat text", build=tmp_path)
        assert done.returncode == 1 and what.strip() in done.stdout.split(":", 1)[1], (what, done.stdout, done.stderr)


def own_tests(*arguments, build=BUILD):
    return subprocess.run([sys.executable, OWN_TESTS, "--build", build, "--rows", "sample", *arguments], capture_output=True, text=True, timeout=500)


@pytest.mark.slow
@pytest.mark.timeout(550)
@pytest.mark.skipif(not (find_spec("test") and find_spec("test.test_raise")), reason="this Python has no tests of its own (Debian: libpython3-testsuite)")
def test_a_sample_of_pythons_own_tests():
    done = own_tests()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "different" not in done.stdout, done.stdout
    assert int(re.search(r"(\d+) same", done.stdout)[1]) > 700, done.stdout


def test_a_row_that_is_not_there_is_no_row_that_is_the_same():
    done = own_tests("3.7", "--only", "test_raise")
    assert done.returncode == 1 and "3.7: there is no such row; there are " in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "tools"),
    [([], ["compare.py", "own_tests.py"]), (["ONLY=perl"], ["compare.py"]), (["ROWS=sample"], ["own_tests.py"]), (["ONLY=perl", "ROWS=sample"], ["compare.py", "own_tests.py"])],
)
def test_what_is_asked_for_runs(given, tools):
    """The page is of all rows, and so of a run of all."""
    told = subprocess.run(["make", "--dry-run", "--old-file=all", "transparent", f"BUILD={BUILD}", *given], cwd=TOP, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"tests/transparent/(\w+\.py)", told) == tools
    assert ("transparent.md" in told) == (not given)


def test_a_module_under_way_ends_with_the_tool(tmp_path):
    command = tmp_path / "devtrace"
    command.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 100\n")
    command.chmod(0o755)
    tool = subprocess.Popen([sys.executable, OWN_TESTS, "--build", tmp_path, "--rows", "sample", "--only", "test_raise"])
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), 100)
    tool.terminate()
    assert tool.wait(20) == 128 + signal.SIGTERM
    wait_for(lambda: not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}"))


def test_own_tests_that_are_not_the_same_are_noticed(tmp_path):
    """In devtrace's place a module that lets tests fail, changes the exit code, or does harm a single time: only an end by a signal is ours at once."""
    command = tmp_path / "devtrace"
    command.write_text('#!/bin/sh\nshift 2\nPYTHONPATH=$(dirname $0) exec "$@"\n')
    command.chmod(0o755)
    once = f"import os, types\nfirst = not os.path.exists('{tmp_path}/once')\nopen('{tmp_path}/once', 'w')\nif first: "
    cases = {
        r"^different .* test.test_raise.TestTracebackType.test_constructor: .*'error'": "import types\ntypes.TracebackType = object",
        r"^different .* exit code: .*'7'": "import atexit, os\natexit.register(os._exit, 7)",
        r"^different .* exit code: .*'-9'": once + "os.kill(os.getpid(), 9)",
        r"^unsteady .* test_raise: exit code": once + "types.TracebackType = object",
    }
    for what, source in cases.items():
        (tmp_path / "once").unlink(missing_ok=True)
        (tmp_path / "sitecustomize.py").write_text(source)
        done = own_tests("--only", "test_raise", build=tmp_path)
        assert re.search(what, done.stdout, re.M), (what, done.stdout, done.stderr)
        assert done.returncode == what.startswith("^different"), (what, done.stdout, done.stderr)
