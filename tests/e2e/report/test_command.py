"""The devtrace command: what it starts, what it hands on, how it ends. Small shared objects stand in for the real libraries. A failed check of
the command itself shows its stack, and ends as without it."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DEVTRACE, TOP

DATA = TOP / "tests" / "data"

# Loaded into a program it says so by a variable's name in its own memory, and nothing else: /proc/self/maps shows it.
EMPTY_LIBRARY = "int devtrace_test_library;\n"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A shared object that can be preloaded anywhere."""
    folder = tmp_path_factory.mktemp("library")
    source = folder / "empty.c"
    source.write_text(EMPTY_LIBRARY)
    target = folder / "libdevtrace.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", target, source], check=True)
    return target


@pytest.fixture
def installed(tmp_path, library):
    """The command in a folder of its own with libraries beside it, as in a build folder."""
    folder = tmp_path / "installed"
    (folder / "simulate").mkdir(parents=True)
    shutil.copy(DEVTRACE, folder / "devtrace")
    shutil.copy(library, folder / "libdevtrace.so")
    for name in ("libcudart.so.13", "libcuda.so.1"):
        shutil.copy(library, folder / "simulate" / name)
    (folder / "simulate" / "preload.list").write_text("libcudart.so.13\nlibcuda.so.1\n")
    return folder


def clean(extra=None):
    env = {key: value for key, value in os.environ.items() if not key.startswith("DEVTRACE_") and key not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    return {**env, **(extra or {})}


@pytest.fixture
def devtrace(installed, tmp_path):
    def run(*arguments, env=None, cwd=tmp_path):
        return subprocess.run([installed / "devtrace", *map(str, arguments)], env=clean(env), cwd=cwd, capture_output=True, text=True, timeout=60)

    return run


# ---- the program's end --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exits_with_the_programs_code(devtrace, code):
    assert devtrace("run", "--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_exits_with_128_and_the_signal(devtrace, number):
    assert devtrace("run", "--", "sh", "-c", f"kill -{int(number)} $$").returncode == 128 + number


def test_says_when_there_is_no_such_program(devtrace):
    done = devtrace("run", "--", "no-such-program")
    assert done.returncode == 127
    assert done.stderr == "devtrace run: cannot run 'no-such-program': No such file or directory\n"


def test_says_when_the_program_cannot_be_run(devtrace, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("not a program\n")
    done = devtrace("run", "--", plain)
    assert done.returncode == 126
    assert "Permission denied" in done.stderr


def test_findings_anywhere_in_the_tree_set_the_exit_code(devtrace, tmp_path):
    tally = tmp_path / "tally"
    finding = 'printf f >> "$DEVTRACE_TALLY"'
    tree = f'echo "$DEVTRACE_TALLY" > {tally}; (sh -c \'{finding}\'); exit 3'
    assert devtrace("run", "--error-exitcode", 66, "--", "sh", "-c", tree).returncode == 66
    assert not Path(tally.read_text().strip()).exists(), "the tally is not left behind"
    assert devtrace("run", "--error-exitcode", 66, "--", "sh", "-c", "exit 3").returncode == 3
    assert devtrace("run", "--", "sh", "-c", 'exit "${DEVTRACE_TALLY:+1}0"').returncode == 0


# ---- signals and the terminal --------------------------------------------------------------------------------------------------------

COUNTS_SIGNALS = """
import signal, sys, time
seen = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
    signal.signal(number, lambda number, frame: seen.append(number))
print("ready", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end and len(seen) < int(sys.argv[2]):
    time.sleep(0.01)
time.sleep(0.2)
print("seen", *map(int, seen), flush=True)
sys.exit(5)
"""


@pytest.fixture
def counter(tmp_path):
    path = tmp_path / "counter.py"
    path.write_text(COUNTS_SIGNALS)
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_hands_signals_on(installed, counter, number):
    process = subprocess.Popen([installed / "devtrace", "run", "--", sys.executable, counter, "20", "1"], env=clean(), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert out == f"seen {int(number)}\n"
    assert process.returncode == 5


def test_the_terminals_interrupt_arrives_once(installed, counter):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(installed / "devtrace", ["devtrace", "run", "--", sys.executable, str(counter), "3", "2"], clean())
    text = b""
    while b"ready" not in text:
        text += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while b"seen" not in text or not text.endswith(b"\n"):
        text += os.read(terminal, 1000)
    _, status = os.waitpid(pid, 0)
    assert text.decode().split("seen", 1)[1].split() == ["2"]
    assert os.waitstatus_to_exitcode(status) == 5


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def start_stoppable(installed, program):
    """In a process group whose parent is outside it: SIGTSTP does nothing in an orphaned one."""
    process = subprocess.Popen([installed / "devtrace", "run", "--", sys.executable, "-c", program], env=clean(),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0)
    assert process.stdout.readline() == "up\n"
    return process


def test_stops_and_goes_on_with_the_program(installed):
    process = start_stoppable(installed, "print('up', flush=True); input(); print('done')")
    process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert state_of(children[0]) == "T"
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate("go on\n", timeout=20)
    assert (out, process.returncode) == ("done\n", 0)


def test_a_program_that_somebody_else_stops_goes_on_by_itself(installed):
    """No shell waits for it: whoever stopped the program lets the program go on, and knows nothing of a launcher."""
    process = subprocess.Popen([installed / "devtrace", "run", "--", sys.executable, "-c", "print('up', flush=True); input(); print('done')"],
                               env=clean(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout.readline() == "up\n"
    child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    os.kill(child, signal.SIGSTOP)
    deadline = time.monotonic() + 20
    while state_of(child) != "T" and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)  # a launcher that stopped as well would have by now; one that is late is not told apart
    os.kill(child, signal.SIGCONT)
    out, _ = process.communicate("go on\n", timeout=20)
    assert (out, process.returncode) == ("done\n", 0)


def test_stays_awake_with_a_program_that_does_not_stop(installed):
    program = "import signal; signal.signal(signal.SIGTSTP, lambda *_: print('no', flush=True)); print('up', flush=True); input(); print('done')"
    process = start_stoppable(installed, program)
    process.send_signal(signal.SIGTSTP)
    assert process.stdout.readline() == "no\n"
    out, _ = process.communicate("go on\n", timeout=20)
    assert (out, process.returncode) == ("done\n", 0)


# ---- what the program gets -----------------------------------------------------------------------------------------------------------


def shown(done):
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_dashes_before_the_program_are_optional(devtrace):
    for words in (["--", "printf", "%s,"], ["printf", "%s,"]):
        assert devtrace("run", *words, "--help", "--", "-x", "a b").stdout == "--help,--,-x,a b,"


def test_its_library_comes_first(devtrace, installed, library):
    env = shown(devtrace("run", "env", env={"LD_PRELOAD": str(library)}))
    assert env["LD_PRELOAD"] == f"{installed / 'libdevtrace.so'}:{library}"


def test_finds_its_library(installed, library, tmp_path):
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / "devtrace").mkdir(parents=True)
    shutil.copy(DEVTRACE, prefix / "bin" / "devtrace")

    def run(env=None):
        return subprocess.run([prefix / "bin" / "devtrace", "run", "env"], env=clean(env), capture_output=True, text=True)

    missing = run()
    assert missing.returncode == 2
    assert "libdevtrace.so was not found" in missing.stderr
    shutil.copy(library, prefix / "lib" / "libdevtrace.so")
    assert shown(run())["LD_PRELOAD"] == str(prefix / "lib" / "libdevtrace.so")
    shutil.copy(library, prefix / "lib" / "devtrace" / "libdevtrace.so")
    assert shown(run())["LD_PRELOAD"] == str(prefix / "lib" / "devtrace" / "libdevtrace.so")
    assert shown(run({"DEVTRACE_LIBRARY": str(library)}))["LD_PRELOAD"] == str(library)
    wrong = run({"DEVTRACE_LIBRARY": "/no/such.so"})
    assert (wrong.returncode, wrong.stderr) == (2, "devtrace run: DEVTRACE_LIBRARY=/no/such.so: no such file\n")


def test_says_that_a_blank_in_the_path_cannot_be_preloaded(tmp_path, library):
    folder = tmp_path / "my tools"
    folder.mkdir()
    shutil.copy(library, folder / "libdevtrace.so")
    done = subprocess.run([DEVTRACE, "run", "true"], env=clean({"DEVTRACE_LIBRARY": str(folder / "libdevtrace.so")}), capture_output=True, text=True)
    assert done.returncode == 2
    assert "LD_PRELOAD cannot hold the path" in done.stderr


def test_options_are_added_to_those_of_the_environment(devtrace):
    env = shown(devtrace("run", "--log-path", "logs/a:%p.jsonl", "--no-html", "--no-text", "--option", "native=0", "--option", "max_findings=3", "env",
                         env={"DEVTRACE_OPTIONS": "dedupe=0"}))
    assert env["DEVTRACE_OPTIONS"] == 'dedupe=0:log_path="logs/a:%p.jsonl":html=0:text=0:native=0:max_findings=3'
    assert "DEVTRACE_OPTIONS" not in shown(devtrace("run", "env"))


def test_rehearse_puts_the_simulated_libraries_under_the_program(devtrace, installed):
    simulate = installed / "simulate"
    env = shown(devtrace("rehearse", "--gpus", "3", "--part", "A100", "--memory", "24GiB", "--peer", "0-1,1-2", "--", "env", env={"LD_LIBRARY_PATH": "/x"}))
    assert env["LD_PRELOAD"].split(":") == [str(installed / "libdevtrace.so"), str(simulate / "libcudart.so.13"), str(simulate / "libcuda.so.1")]
    assert env["LD_LIBRARY_PATH"] == f"{simulate}:/x"
    assert not os.path.exists(env.pop("DEVTRACE_SIM_NOT_COMPUTED")), "it is read at the end, and gone"
    assert {key: env[key] for key in env if key.startswith("DEVTRACE_SIM")} == {
        "DEVTRACE_SIM_GPUS": "3", "DEVTRACE_SIM_PART": "a100", "DEVTRACE_SIM_MEMORY": "24GiB", "DEVTRACE_SIM_PEER": "0-1,1-2"}


def test_rehearse_without_tracing_or_values(devtrace, installed):
    env = shown(devtrace("rehearse", "--no-trace", "--no-values", "env"))
    assert "libdevtrace.so" not in env["LD_PRELOAD"]
    assert env["DEVTRACE_SIM_GPUS"] == "2"
    assert env["DEVTRACE_SIM_VALUES"] == "0"


def test_rehearse_says_what_is_missing(devtrace, installed):
    (installed / "simulate" / "libcuda.so.1").unlink()
    done = devtrace("rehearse", "true")
    assert done.returncode == 2
    assert "libcuda.so.1, which does not exist" in done.stderr


# ---- usage ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, said", [
    ([], "A subcommand is required"),
    (["attac"], "there is no subcommand attac"),
    (["run"], "no program is given"),
    (["run", "--"], "no program is given"),
    (["run", "--colour", "true"], "there is no option --colour"),
    (["run", "--option", "html", "true"], "--option html: not of the form KEY=VALUE"),
    (["run", "--error-exitcode", "256", "true"], "--error-exitcode"),
    (["rehearse", "--gpus", "0", "true"], "--gpus"),
    (["rehearse", "--gpus", "17", "true"], "--gpus"),
    (["rehearse", "--part", "gtx480", "true"], "'gtx480' is no GPU model devtrace knows; it knows h100"),
    (["rehearse", "--memory", "lots", "true"], "'lots' is no size"),
    (["rehearse", "--memory", "1KiB", "true"], "'1KiB' is no size from 2MiB to 1TiB"),
    (["rehearse", "--async", "-1", "true"], "'-1' is no whole number from 0 to 18446744073709551615"),
    (["rehearse", "--async", "", "true"], "'' is no whole number"),
    (["rehearse", "--peer", "0-", "true"], "neither all, none nor pairs"),
    (["rehearse", "--peer", "0-0", "true"], "neither all, none nor pairs of different devices"),
    (["report"], "logs is required"),
    (["report", "--format", "pdf", "x"], "--format"),
    (["check"], "logs is required"),
    (["check", "--expect-processes", "0", "x"], "--expect-processes"),
    (["check", "--traffic-tolerance", "lots", "x"], "'lots' is no share; write 20% or 0.2"),
    (["check", "--date", "soon", "x"], "'soon' is not a date"),
    (["check", "--root", "no/such/folder", "x"], "--root"),
])
def test_bad_usage_is_one_clear_message_and_2(devtrace, words, said):
    done = devtrace(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "--help" in done.stderr or "KEY=VALUE" in done.stderr
    assert done.stdout == ""


def test_peers_are_of_devices_that_there_are(devtrace):
    done = devtrace("rehearse", "--gpus", "4", "--peer", "0-1,0-9", "true")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "devtrace rehearse: --peer 0-1,0-9: there is no device 9; --gpus 4 gives 0 to 3\n")


def test_help_and_version(devtrace):
    assert devtrace("--version").stdout.startswith("devtrace 0.")
    help_text = devtrace("--help").stdout
    for name in ("run", "rehearse", "report", "check"):
        assert name in help_text
        own = devtrace(name, "--help")
        assert own.returncode == 0
        assert own.stdout.count(f"Usage: devtrace {name} ") == 1


# ---- report --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def logs(tmp_path):
    for name in ("private_gpt", "petals", "hostile"):
        shutil.copy(DATA / f"{name}.jsonl", tmp_path / f"{name}.jsonl")
    return tmp_path


def test_report_shows_text_and_leaves_the_page_beside_the_log(devtrace, logs):
    done = devtrace("report", "private_gpt.jsonl")
    assert done.returncode == 0
    assert done.stdout.startswith("==4242==devtrace: refused-op: aten::index_select")
    assert "SUMMARY: devtrace: " in done.stdout
    assert "\033" not in done.stdout
    assert done.stderr == "devtrace report: HTML in private_gpt.html\n"
    assert "aten::index_select" in (logs / "private_gpt.html").read_text()


@pytest.mark.parametrize("format", ["text", "json", "markdown", "html"])
def test_a_redacted_report_tells_nothing_of_the_program(devtrace, logs, format):
    plain = devtrace("report", "--format", format, "-o", "-", "private_gpt.jsonl").stdout
    done = devtrace("report", "--redact", "--format", format, "-o", "-", "private_gpt.jsonl")
    assert done.returncode == 0 and "index_select" in done.stdout.replace("\\", "") and "EmbeddingComponent" in plain
    for told in ("EmbeddingComponent", "embedding_component", "ingest", "/home", "ada", "gpu-07"):
        assert told not in done.stdout[max(0, done.stdout.find('class="record"')):], told
    if format == "text":
        assert done.stdout.count("SUMMARY: devtrace: refused-op file1.py:41 in Name2.name3: input_ids on cuda:0") == 1


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_a_redacted_report_of_several_logs_is_one(devtrace, logs, format):
    """As without --redact: told once, with its witnesses; which of them shared a machine is told, and not which machine."""
    records = [json.loads(line) for line in (logs / "private_gpt.jsonl").read_text().splitlines()]
    for pid, host in ((4243, "gpu-07"), (4244, "gpu-08")):
        process = {**records[0], "pid": pid, "host": host, "start_ticks": pid, "boot": f"boot of {host}"}
        lines = [process, *({**record, "pid": pid} for record in records[1:])]
        (logs / f"{host}-{pid}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = sorted(path.name for path in logs.glob("gpu-*.jsonl"))
    done = devtrace("report", "--redact", "--format", format, "-o", "-", "petals.jsonl", "private_gpt.jsonl", *names)
    assert done.returncode == 0, done.stderr
    shown = done.stdout[max(0, done.stdout.find('class="record"')):]
    for told in ("EmbeddingComponent", "embedding_component", "ingest", "/home", "ada", "gpu-0", "boot of"):
        assert told not in shown, told
    assert "3 processes" in shown and "machine2" in shown and "machine3" in shown
    if format == "text":
        assert done.stdout.count("SUMMARY: devtrace: refused-op") == 2
    if format == "html":
        assert shown.count("data-row=") == 2 and shown.count('"record":"process"') == 1


def test_the_text_says_what_was_dropped_and_that_the_end_is_missing(devtrace, logs):
    process, finding, end = (logs / "private_gpt.jsonl").read_text().splitlines()
    (logs / "cut.jsonl").write_text("\n".join([process, finding]) + "\n")
    (logs / "dropped.jsonl").write_text("\n".join([process, finding, json.dumps(json.loads(end) | {"dropped": 3})]) + "\n")
    for format in ("text", "markdown"):
        assert "its log has no end" in devtrace("report", "--format", format, "cut.jsonl").stdout
        assert "3 more findings were dropped" in devtrace("report", "--format", format, "dropped.jsonl").stdout


@pytest.mark.parametrize(("file", "begin"), [("a.html", "<!doctype html>"), ("a.md", "### "), ("a.json", '{"record":"process"'), ("a.txt", "==")])
def test_a_files_name_says_the_format_and_nothing_else_is_written(devtrace, logs, file, begin):
    before = {each.name for each in logs.iterdir()}
    done = devtrace("report", "-o", file, "private_gpt.jsonl")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert (logs / file).read_text().startswith(begin)
    assert {each.name for each in logs.iterdir()} == before | {file}


def test_report_formats(devtrace, logs):
    records = [json.loads(line) for line in devtrace("report", "--format", "json", "private_gpt.jsonl").stdout.splitlines()]
    assert [record["record"] for record in records] == ["process", "finding", "end"]
    assert "| `input_ids` | `cuda:0` |" in devtrace("report", "--format", "markdown", "private_gpt.jsonl").stdout
    assert devtrace("report", "--format", "html", "-o", "-", "private_gpt.jsonl").stdout.startswith("<!doctype html>")
    assert not (logs / "private_gpt.html").exists()
    assert devtrace("report", "--format", "markdown", "-o", "out.md", "private_gpt.jsonl", "petals.jsonl").returncode == 0
    assert [line.split(" ")[1] for line in (logs / "out.md").read_text().splitlines() if line.startswith("### ")] == ["aten::index\\_select", "aten::cat", "The", "The"]
    assert not list(logs.glob("*.part"))


@pytest.fixture
def browser(tmp_path):
    """A command that writes down what it was given, and its file."""
    script = tmp_path / "bin" / "browse"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\necho "$@" >> "${0%/*}/asked"\n')
    script.chmod(0o755)
    return script, script.with_name("asked")


def test_a_report_is_opened(devtrace, logs, browser):
    script, asked = browser
    for variable, words in (("no-such-browser:browse --new", "--new {}"), ("browse --page=%s -q", "--page={} -q"), (str(script), "{}")):
        done = devtrace("report", "private_gpt.jsonl", "--open", env={"BROWSER": variable, "PATH": f"{script.parent}:{os.environ['PATH']}"})
        assert done.returncode == 0, done.stderr
        assert asked.read_text() == words.format(logs / "private_gpt.html") + "\n"
        asked.unlink()
    script.rename(script.with_name("xdg-open"))
    env = {"BROWSER": "", "PATH": str(script.parent)}
    for words, page in ((["."], "devtrace-all.html"), (["petals.jsonl", "-o", "own.html"], "own.html")):
        assert devtrace("report", *words, "--open", env=env).returncode in (0, 2)
        assert asked.read_text() == f"{logs / page}\n"
        asked.unlink()


def test_without_a_browser_it_is_said_where_the_page_is(devtrace, logs, browser):
    script, _ = browser
    nothing = str(logs / "empty")
    page = logs / "private_gpt.html"
    for env, said in (({"BROWSER": "", "PATH": nothing}, "there is no xdg-open to open the page with: set BROWSER to a command, or open"),
                      ({"BROWSER": "lost", "PATH": nothing}, "there is no lost to open the page with: set BROWSER to a command, or open"),
                      ({"BROWSER": "false"}, "'false' ended with 1: open")):
        done = devtrace("report", "private_gpt.jsonl", "--open", env=env)
        assert done.returncode == 2 and done.stderr.splitlines()[1].startswith(f"devtrace report: {said} {page} "), done.stderr
        assert page.read_text().startswith("<!doctype html>") and "SUMMARY" in done.stdout
    for words in (["--format", "text"], ["--format", "html", "-o", "-"], ["--format", "github"], ["--format", "html", "petals.jsonl"]):
        done = devtrace("report", "private_gpt.jsonl", *words, "--open", env={"BROWSER": str(script)})
        assert done.returncode == 2 and "--open shows one page, and" in done.stderr
    done = devtrace("report", "lost.jsonl", "--open", env={"BROWSER": str(script)})
    assert done.returncode == 2 and "--open" not in done.stderr


def test_report_takes_folders(devtrace, logs):
    done = devtrace("report", "--format", "text", ".")
    assert done.stdout.count("SUMMARY: devtrace: ") == 5
    assert "hostile.jsonl:7: the last line is cut off" in done.stderr
    assert "petals.jsonl: has no end record" in done.stderr


def test_report_completes_what_a_log_lacks(devtrace, logs):
    process, finding, _ = [json.loads(line) for line in (logs / "private_gpt.jsonl").read_text().splitlines()]
    want = finding.pop("fingerprint"), finding.pop("cause")
    (logs / "bare.jsonl").write_text(json.dumps(process) + "\n" + json.dumps(finding) + "\n")
    got = json.loads(devtrace("report", "--format", "json", "bare.jsonl").stdout.splitlines()[1])
    assert (got["fingerprint"], got["cause"]) == want


def test_report_goes_on_after_an_unreadable_log_and_fails(devtrace, logs):
    (logs / "empty.jsonl").write_text("")
    (logs / "foreign.jsonl").write_text("hello\n")
    (logs / "future.jsonl").write_text('{"record":"process","schema":99}\n')
    done = devtrace("report", "--format", "text", "empty.jsonl", "foreign.jsonl", "future.jsonl", "missing.jsonl", "private_gpt.jsonl")
    assert done.returncode == 2
    for said in ("empty.jsonl: empty", "foreign.jsonl:1: not a devtrace log", "future.jsonl:1: written in schema 99", "missing.jsonl: no such file"):
        assert said in done.stderr
    assert done.stdout.count("SUMMARY: ") == 1


def test_report_leaves_no_page_of_an_unreadable_log(devtrace, logs):
    (logs / "foreign.jsonl").write_text("hello\n")
    assert devtrace("report", "foreign.jsonl").returncode == 2
    assert not list(logs.glob("foreign.h*"))


def test_report_says_when_the_output_cannot_be_written(devtrace, logs):
    done = devtrace("report", "--format", "json", "-o", "/dev/full", "private_gpt.jsonl")
    assert done.returncode == 2
    done = devtrace("report", "--format", "json", "-o", "no/such/folder.json", "private_gpt.jsonl")
    assert done.returncode == 2
    assert "no/such/folder.json: cannot be written: No such file or directory" in done.stderr


def test_report_of_a_thousand_findings_is_bounded(devtrace, tmp_path):
    process, finding, end = (DATA / "private_gpt.jsonl").read_text().splitlines()
    finding = json.loads(finding)
    with open(tmp_path / "many.jsonl", "w") as log:
        log.write(process + "\n")
        for number in range(1, 1001):
            log.write(json.dumps({**finding, "id": number}) + "\n")
        log.write(end + "\n")
    done = devtrace("report", "many.jsonl")
    assert done.returncode == 0
    assert done.stdout.count("SUMMARY: ") == 1000


def waits(process: subprocess.Popen) -> bool:
    """It has set its handlers, and waits in a system call for its program."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGABRT - 1) & 1) and "\nState:\tS" in status


@pytest.mark.parametrize("failure", [signal.SIGABRT, signal.SIGSEGV], ids=["abort", "bad address"])
def test_a_failure_shows_functions(tmp_path, failure):
    process = subprocess.Popen([DEVTRACE, "run", "--", "sleep", "3"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until = time.time() + 30
    while not waits(process) and time.time() < until:
        time.sleep(0.05)
    process.send_signal(failure)
    shown = process.communicate(timeout=60)[1]
    assert process.returncode == -failure
    assert shown.startswith(f"devtrace: failed by signal {int(failure)}:\n")
    assert " main " in shown and "devtrace::" in shown
