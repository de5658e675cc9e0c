"""`make transparent` compares commands without and with devtrace; here: a few, and that it would notice."""

import subprocess
import sys

from conftest import BUILD, TOP

COMPARE = TOP / "tests/transparent/compare.py"


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
