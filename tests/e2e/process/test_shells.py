"""What bash, zsh and fish complete of the command, in the shells themselves, and its manual page."""

import re
import shutil
import subprocess

import pytest
from conftest import BUILD, DEVTRACE, environment


def script(shell):
    return subprocess.run([DEVTRACE, "--completion", shell], capture_output=True, text=True, check=True).stdout


def bash(tmp_path, line):
    (tmp_path / "script").write_text(script("bash"))
    program = f"source ./script; COMP_WORDS=({line}x); COMP_WORDS[-1]=${{COMP_WORDS[-1]%x}}; COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _devtrace; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return ["bash", "--norc", "-c", program]


def fish(tmp_path, line):
    (tmp_path / "script").write_text(script("fish"))
    return ["fish", "--no-config", "-c", f"source ./script; complete -C '{line}' | string split -f1 \\t"]


def zsh(tmp_path, line):
    """Its completion is only there at a terminal: in one, what Ctrl-X ? shows is what the function has given to it."""
    (tmp_path / "script").write_text(script("zsh"))
    words = line.split(" ")
    shown = "_describe() { print -l -- ${(P)2%%:*} }; _arguments() { shift; print -rl -- ${${@%%\\[*}%%[=+]} }"
    return ["zsh", "-f", "-c", f"compdef() {{ true }}; {shown}; source ./script; words=({' '.join(words)} ''); CURRENT={len(words)}; _devtrace"]


@pytest.mark.parametrize("shell", [bash, fish, zsh])
@pytest.mark.parametrize("line, has, has_not", [
    ("devtrace ", {"run", "rehearse", "doctor"}, {"--gpus"}),
    ("devtrace rehearse --", {"--gpus", "--keep-going", "--log-path"}, {"--baseline"}),
    ("devtrace check --", {"--baseline", "--sarif"}, {"--gpus"}),
])
def test_completion(tmp_path, shell, line, has, has_not):
    if not shutil.which(shell.__name__):
        pytest.skip(f"no {shell.__name__} on PATH")
    done = subprocess.run(shell(tmp_path, line), cwd=tmp_path, capture_output=True, text=True, env=environment(None, {"PATH": f"{BUILD}:/usr/bin:/bin"}))
    found = set(done.stdout.split())
    assert done.stderr == "" and has <= found and not has_not & found, done.stdout + done.stderr


def test_bash_completes_files_and_programs(tmp_path):
    (tmp_path / "devtrace-1.jsonl").write_text("")
    for line in ("devtrace report devtr", "devtrace run -- devtr"):
        done = subprocess.run(bash(tmp_path, line), cwd=tmp_path, capture_output=True, text=True)
        assert "devtrace-1.jsonl" in done.stdout.split(), done.stdout + done.stderr


def test_the_manual_page(tmp_path):
    page = subprocess.run([DEVTRACE, "--man"], capture_output=True, text=True, check=True).stdout
    names = [line[2:].split()[0] for line in subprocess.run([DEVTRACE, "--help"], capture_output=True, text=True, check=True).stdout.partition("Subcommands:")[2]
             .partition("Examples:")[0].splitlines() if line.startswith("  ") and line[2] != " "]
    assert "rehearse" in names and all(f"\n.SS devtrace {name}\n" in page for name in names)
    if not shutil.which("groff"):
        pytest.skip("no groff on PATH")
    done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, capture_output=True, text=True)
    assert done.returncode == 0 and "--keep-going" in re.sub(".\x08", "", done.stdout)
    assert [line for line in done.stderr.splitlines() if "cannot" not in line and "break" not in line] == [], done.stderr


@pytest.mark.parametrize("arguments, complaint", [(["--completion", "ksh"], "not in {bash,zsh,fish}"), ([], "A subcommand is required")])
def test_bad_input(arguments, complaint):
    done = subprocess.run([DEVTRACE, *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and complaint in done.stderr, done.stderr
