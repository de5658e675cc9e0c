"""What is typed by mistake, or cannot be: one line says what to do, and the process is as it was."""

import os
import shutil
import subprocess
import tempfile

import pytest
from c_programs import build
from conftest import BUILD, DEVTRACE, environment
from running import Running, command, running, wait_for  # noqa: F401
from test_attach_programs import C_SERVER, DRIVER, FORBIDS, RUNTIME, start


def refused(code, *arguments, env=None) -> str:
    done = command(*arguments, env=env)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"devtrace {arguments[0]}: "), done.stderr
    return done.stderr


def untouched(pid) -> bool:
    return "libdevtrace.so" not in open(f"/proc/{pid}/maps").read() and "TracerPid:\t0" in open(f"/proc/{pid}/status").read()


@pytest.mark.parametrize("action", ["attach", "detach", "top"])
def test_a_name_is_no_number(action):
    for wrong in ("python", "12x", "99999999999", "-5", "0"):
        done = command(action, "--", wrong) if wrong[0] == "-" else command(action, wrong)
        assert done.returncode == 2 and f"'{wrong}' is not the number of a process; to find one: pgrep -fa" in done.stderr


def test_a_threads_number_is_told_from_its_processs(tmp_path, running):  # noqa: F811
    running.append(start(tmp_path, "idle"))
    server = running[0]
    thread = next(int(each) for each in os.listdir(f"/proc/{server.pid}/task") if int(each) != server.pid)
    for action in ("attach", "detach", "top"):
        assert f"{thread} is a thread of process {server.pid}; give that number" in refused(3, action, thread)
    assert untouched(server.pid)
    assert server.end() == 0


def test_a_launchers_number_leads_to_its_program(tmp_path, running):  # noqa: F811
    program = build(tmp_path, "server", C_SERVER, "-g", RUNTIME, DRIVER)
    env = environment(None, {"LD_LIBRARY_PATH": str(RUNTIME.parent)})
    running.append(Running(["sh", "-c", f"{program} idle; exit $?"], tmp_path, env))
    server, launcher = running[0], running[0].process.pid
    assert launcher != server.pid
    assert f"its child process {server.pid} has; give that number, or --children" in refused(6, "attach", launcher)
    assert untouched(server.pid)
    done = command("attach", "--no-wait", "--children", launcher)
    assert done.returncode == 0 and f"attached to process {server.pid}" in done.stderr
    assert f"devtrace detach --children {launcher}" in done.stderr
    server.ask("wrong")
    done = command("detach", "--children", launcher)
    assert done.returncode == 0 and f"process {server.pid} is detached from" in done.stderr, done.stderr
    assert command("detach", "--children", launcher).returncode == 7
    assert server.end() == 0
    assert [one["kind"] for one in server.findings] == ["copy-mismatch"]


@pytest.mark.parametrize(
    "make, says",
    [
        (["gcc", "-static", "-o", "waits", "waits.c"], "is linked statically"),
        (["sh", "-c", "as --32 -o waits.o waits.s && ld -m elf_i386 -o waits waits.o"], "another architecture"),
    ],
    ids=["static", "32 bits"],
)
def test_programs_that_cannot_load_it(tmp_path, make, says):
    (tmp_path / "waits.c").write_text("int pause(void); int main() { return pause(); }")
    (tmp_path / "waits.s").write_text(".globl _start\n_start: mov $29, %eax\n int $0x80\n jmp _start\n")
    if subprocess.run(make, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("cannot be built here")
    try:
        process = subprocess.Popen([tmp_path / "waits"])
    except OSError as error:
        pytest.skip(f"cannot be run here: {error}")
    try:
        wait_for(lambda: os.readlink(f"/proc/{process.pid}/exe") == str(tmp_path / "waits"))
        assert says in refused(5, "attach", process.pid)
        assert process.poll() is None and untouched(process.pid)
    finally:
        process.kill()
        process.wait()


# Stands for the kernel, which maps a program before its loader: maps the loader after so many nanoseconds.
SLOW_LOADER = r"""
static long call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return number;
}
void _start(void) {
  const long time[2] = {NANOSECONDS / 1000000000, NANOSECONDS % 1000000000};
  call(35 /* nanosleep */, (long)time, 0, 0, 0, 0, 0);
  call(9 /* mmap */, 0, 4096, 5 /* read, execute */, 2 /* private */, call(2 /* open */, (long)LOADER, 0, 0, 0, 0, 0), 0);
  for (;;) call(34 /* pause */, 0, 0, 0, 0, 0, 0);
}
"""


@pytest.mark.parametrize(
    "seconds, code, says", [(0.3, 6, "has not loaded CUDA"), (1000, 5, "is just being started")], ids=["waited for", "not waited for"]
)
def test_a_process_that_has_just_been_started_is_not_linked_statically(tmp_path, seconds, code, says):
    flags = [f"-DNANOSECONDS={int(seconds * 1e9)}L", '-DLOADER="/lib64/ld-linux-x86-64.so.2"']
    subprocess.run(
        ["gcc", "-x", "c", "-O1", "-nostdlib", "-static", "-fno-stack-protector", *flags, "-o", tmp_path / "slow", "-"],
        input=SLOW_LOADER, text=True, check=True,
    )
    program = build(tmp_path, "program", "int main() { return 0; }", f"-Wl,--dynamic-linker={tmp_path / 'slow'}", "-Wl,-z,noseparate-code")
    process = subprocess.Popen([program])
    try:
        wait_for(lambda: os.readlink(f"/proc/{process.pid}/exe") == str(program))
        assert says in refused(code, "attach", process.pid)
        assert process.poll() is None and untouched(process.pid)
    finally:
        process.kill()
        process.wait()


def test_a_main_thread_that_has_ended(tmp_path, running):  # noqa: F811
    source = C_SERVER.replace('printf("ready %d\\n", getpid());', 'printf("ready %d\\n", getpid()); fflush(stdout); pthread_exit(0);')
    program = build(tmp_path, "server", source, RUNTIME, DRIVER)
    running.append(Running([DEVTRACE, "rehearse", "--no-trace", "--", program, "idle"], tmp_path, environment(None)))
    server = running[0]
    wait_for(lambda: ") Z " in open(f"/proc/{server.pid}/stat").read())
    assert "main thread" in refused(5, "attach", server.pid)


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
def test_a_log_that_cannot_be_written_is_told_and_can_be_put_elsewhere(tmp_path, running):  # noqa: F811
    program = build(tmp_path, "server", FORBIDS.replace("PR_SET_DUMPABLE, 0", "PR_SET_DUMPABLE, 1"), RUNTIME, DRIVER)
    running.append(Running([DEVTRACE, "rehearse", "--no-trace", "--", program], tmp_path, environment(None)))
    server = running[0]
    done = command("attach", "--no-wait", server.pid)
    assert done.returncode == 0 and f"cannot write the log {tmp_path}/devtrace-{server.pid}.jsonl" in done.stderr, done.stderr
    assert "--log-path FILE" in done.stderr
    done = command("detach", server.pid)
    assert done.stderr == f"devtrace detach: process {server.pid} is detached from; it wrote no log\n"
    # Attached to or not, another place is tried.
    with tempfile.TemporaryDirectory() as elsewhere:  # pytest's own folders are closed to others
        os.chown(elsewhere, 1000, 1000)
        assert "cannot write the log" in command("attach", "--no-wait", "--log-path", tmp_path / "no.jsonl", server.pid).stderr
        log = f"{elsewhere}/log.jsonl"
        done = command("attach", "--no-wait", "--log-path", log, server.pid)
        assert done.returncode == 0 and f"is attached to already; log {log}\n" in done.stderr, done.stderr
        assert os.path.exists(log)
        assert command("detach", server.pid).stderr.endswith(f"devtrace report {log}\n")


def test_a_log_in_another_mount_namespace_is_named_as_it_is_seen_from_here(tmp_path, running):  # noqa: F811
    """A service with a folder of its own, as systemd's PrivateTmp makes one."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace may be made here")
    program = build(tmp_path, "server", C_SERVER, "-g", RUNTIME, DRIVER)
    private = tmp_path / "private"
    private.mkdir()
    env = environment(None, {"LD_LIBRARY_PATH": str(RUNTIME.parent)})
    running.append(Running(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {private} && exec {program} idle"], tmp_path, env))
    server = running[0]
    log = private / "log.jsonl"
    done = command("attach", "--no-wait", "--log-path", log, server.pid)
    seen = f"/proc/{server.pid}/root{log}"
    assert done.returncode == 0 and f"log {seen};" in done.stderr, done.stderr
    assert not log.exists() and os.path.exists(seen)
    server.ask("wrong")
    done = command("top", "--duration", "1", server.pid)
    assert "1 finding;" in done.stderr, done.stderr
    assert f"devtrace report {seen}" in command("detach", server.pid).stderr
    assert server.end() == 0


def test_the_library_is_hidden_from_the_process(tmp_path, running):  # noqa: F811
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace may be made here")
    program = build(tmp_path, "server", C_SERVER, "-g", RUNTIME, DRIVER)
    library = tmp_path / "lib" / "libdevtrace.so"
    library.parent.mkdir()
    shutil.copy(BUILD / "libdevtrace.so", library)
    env = environment(None, {"LD_LIBRARY_PATH": str(RUNTIME.parent)})
    running.append(Running(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {library.parent} && exec {program} idle"], tmp_path, env))
    server = running[0]
    text = refused(9, "attach", server.pid, env={**environment(None), "DEVTRACE_LIBRARY": str(library)})
    assert f"does not see {library}" in text and "run devtrace attach in there" in text
    assert untouched(server.pid)
    assert server.end() == 0
