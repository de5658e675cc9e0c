"""What devtrace writes lands in its own files and on stderr, and waits for nobody."""

import json
import os
import signal
import subprocess
import time

import pytest
from c_programs import WITH_CUDA, build
from conftest import DEVTRACE, environment, execute, only

# Copies that state the wrong end, from as many call sites as are asked for; what happens before them is the test's.
CHILDREN = 200  # which of the next pids a child will have is not known on a busy machine
MISTAKES = f"#define CHILDREN {CHILDREN}" + r"""
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMalloc(void**, size_t);
int main(int count, char** arguments) {
  void *a, *b;
  int sites = atoi(arguments[1]);
  cudaMalloc(&a, 1 << 20);
  cudaMalloc(&b, 1 << 20);
  BEFORE
  for (int i = 0; i < sites; ++i) cudaMemcpy(a, b, 100 + i, 1);
  puts("end");
}
"""


@pytest.fixture
def program(tmp_path):
    def make(before="", sites=1):
        made = build(tmp_path, "program", MISTAKES.replace("BEFORE", before), "-rdynamic", *WITH_CUDA)
        return [DEVTRACE, "rehearse", "--gpus", 2, "--", made, sites]

    return make


def run(command, folder, options=None, env=None):
    outcome = execute(command, folder, environment(options, env), 30)
    assert (outcome.code, outcome.out) == (0, "end\n"), outcome.err
    return outcome


@pytest.mark.parametrize("place", ["/dev/full", "/dev/zero", "/dev/stderr", "/dev/null", "fifo"])
def test_a_log_that_is_no_file(tmp_path, program, place):
    os.mkfifo(tmp_path / "fifo")
    run(program(), tmp_path, f"log_path={place}")


def test_fifos_under_the_names_of_log_and_page(tmp_path, program):
    """Somebody has made them before: nobody reads them."""
    made = program(r"""
  char name[99];
  for (int next = getpid() + 1; next < getpid() + CHILDREN; ++next) {
    sprintf(name, "log-%d.jsonl", next), mkfifo(name, 0600);
    sprintf(name, "log-%d.html", next), mkfifo(name, 0600);
  }
  if (fork()) { int status; wait(&status); puts("end"); return status; }
  cudaMalloc(&a, 1 << 20); cudaMalloc(&b, 1 << 20);
  fflush(stdout), close(1);
""")  # fmt: skip
    outcome = run(made, tmp_path, "log_path=log-%p.jsonl")
    assert "SUMMARY: devtrace: copy-mismatch" in outcome.err


@pytest.mark.parametrize("option", ["suppressions=fifo", ""])
def test_fifos_that_are_read_from_or_tallied_to(tmp_path, program, option):
    os.mkfifo(tmp_path / "fifo")
    outcome = run(program(), tmp_path, option, {"DEVTRACE_TALLY": "" if option else str(tmp_path / "fifo")})
    only(outcome, "copy-mismatch")
    if option:
        assert "suppressions=fifo: cannot be read" in outcome.err


def test_links_under_the_names_of_log_and_page_are_not_followed(tmp_path, program):
    (tmp_path / "mine").write_text("mine")
    made = program(r"""
  char name[99];
  for (int next = getpid() + 1; next < getpid() + CHILDREN; ++next) {
    sprintf(name, "log-%d.jsonl", next), symlink("mine", name);
    sprintf(name, "log-%d.html", next), symlink("mine", name);
  }
  if (fork()) { int status; wait(&status); puts("end"); return status; }
  cudaMalloc(&a, 1 << 20); cudaMalloc(&b, 1 << 20);
  fflush(stdout), close(1);
""")  # fmt: skip
    outcome = run(made, tmp_path, "log_path=log-%p.jsonl")
    assert (tmp_path / "mine").read_text() == "mine"
    assert "cannot write the log" in outcome.err and "SUMMARY: devtrace: copy-mismatch" in outcome.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_anothers_file_in_a_folder_of_everybody(tmp_path, program):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "log.jsonl").write_text("")
    os.chown(shared / "log.jsonl", 65534, 65534)
    outcome = run(program(), tmp_path, f"log_path={shared}/log.jsonl:html=0")
    assert (shared / "log.jsonl").read_text() == "" and "cannot write the log" in outcome.err


@pytest.mark.parametrize("opened", ['open("mine", O_WRONLY | O_CREAT, 0600)', 'open("mine", O_RDWR | O_CREAT | O_CLOEXEC, 0600)'])
def test_descriptor_2_that_was_closed_and_is_the_programs_file(tmp_path, program, opened):
    outcome = run(program(f'close(2); {opened}; write(2, "mine", 4);'), tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"
    only(outcome, "copy-mismatch")


def test_stderr_that_the_program_sends_to_a_file(tmp_path, program):
    """As a daemon does, to append."""
    run(program('dup2(open("errors", O_WRONLY | O_CREAT | O_APPEND, 0600), 2);'), tmp_path)
    assert "SUMMARY: devtrace: copy-mismatch" in (tmp_path / "errors").read_text()


def test_stderr_that_the_program_sends_to_a_file_of_its_own(tmp_path, program):
    """Not to append: that cannot be told from a file that took the number. See docs/evidence/guarantees.md."""
    outcome = run(program('dup2(open("errors", O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);'), tmp_path)
    assert (tmp_path / "errors").read_text() == ""
    only(outcome, "copy-mismatch")


# A filter that lets a program open and make nothing more: each call is answered with EPERM.
FILTER = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#define DENY(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1)
static void deny(void) {
  struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    DENY(SYS_open), DENY(SYS_openat), DENY(SYS_creat), DENY(SYS_pipe2), DENY(SYS_pipe), DENY(SYS_memfd_create), DENY(SYS_process_vm_readv),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) exit(9);
}
"""


def test_a_filter_that_answers_with_an_error(tmp_path):
    """As a full disk or a missing descriptor: what is known is told on stderr."""
    source = FILTER + MISTAKES.replace("BEFORE", 'deny(); if (open("text", O_CREAT | O_WRONLY, 0600) != -1) return 8;')
    made = build(tmp_path, "program", source, "-rdynamic", *WITH_CUDA)
    outcome = run([DEVTRACE, "rehearse", "--gpus", 2, "--", made, 1], tmp_path)
    assert "SUMMARY: devtrace: copy-mismatch" in outcome.err


def test_stderr_at_the_limit_of_its_size(tmp_path, program):
    """SIGXFSZ, whose default is to kill."""
    command = program('dup2(open("errors", O_WRONLY | O_CREAT | O_APPEND, 0600), 2); setrlimit(RLIMIT_FSIZE, &(struct rlimit){50, 50});')
    outcome = execute(command, tmp_path, environment("log_path=/dev/null:html=0"), 30)
    assert (outcome.code, outcome.out) == (0, "end\n")


def test_a_pipe_that_nobody_reads(tmp_path, program):
    """Its 64 KiB are full after some sixty findings; the program ends all the same, in seconds."""
    command = [str(part) for part in program(sites=400)]
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment("dedupe=0:html=0"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "end\n"
        assert process.wait(timeout=25) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert time.monotonic() - began < 40
    logs = list(tmp_path.glob("devtrace-*.jsonl"))
    assert sum('"record":"finding"' in line for line in logs[0].read_text().splitlines()) == 400


def test_a_live_log_of_another_container_is_not_replaced(tmp_path, program):
    """The same host name, the same start of the machine, the same pid: but not of the same set of pids."""
    (tmp_path / "first").mkdir()
    outcome = run(program(), tmp_path / "first")
    process = outcome.records[0]
    made = program(r"""
  char name[99], text[4096], *at;
  FILE* file = fopen("process.json", "r");
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  for (int next = getpid() + 1; next < getpid() + CHILDREN; ++next) {
    sprintf(name, "log-%d.jsonl", next);
    file = fopen(name, "w"), fputs(text, file), fclose(file);
  }
  if (fork()) { int status; wait(&status); puts("end"); return status; }
  cudaMalloc(&a, 1 << 20); cudaMalloc(&b, 1 << 20);
  fflush(stdout), close(1);
""")  # fmt: skip
    theirs = json.dumps({**process, "pid_namespace": "pid:[1]", "start_ticks": 1}) + "\n"
    (tmp_path / "process.json").write_text(theirs)
    run(made, tmp_path, "log_path=log-%p.jsonl:html=0")
    names = sorted(path.name for path in tmp_path.glob("log-*.jsonl"))
    kept = [path for path in tmp_path.glob("log-*.jsonl") if path.read_text() == theirs]
    assert len(kept) == CHILDREN - 1 and any(process["host"] in name for name in names), names


def test_messages_obey_no_control_byte(tmp_path, program):
    """Of an option's text, of a folder's name; the command's own as well."""
    folder = tmp_path / "a\x1b[2Jb\nc"
    folder.mkdir()
    outcome = run(program(), tmp_path, f"log_path={folder}/none/log.jsonl:no\x1b[2Jsuch=1:suppressions={folder}/none")
    assert "cannot write the log" in outcome.err and "there is no option" in outcome.err and "cannot be read" in outcome.err
    assert "\x1b" not in outcome.err
    command = execute([DEVTRACE, "report", f"{folder}/none.jsonl"], tmp_path, environment(None), 30)
    assert command.code != 0 and command.err and "\x1b" not in command.err


def test_two_per_cent_signs_are_no_pid(tmp_path, program):
    """The log of an earlier process under that name is kept."""
    run(program(), tmp_path, "log_path=log-%%p.jsonl:html=0")
    run(program(), tmp_path, "log_path=log-%%p.jsonl:html=0")
    records = [json.loads(line)["record"] for line in (tmp_path / "log-%p.jsonl").read_text().splitlines()]
    assert records.count("process") == 2 and records.count("finding") == 2


def test_a_line_of_megabytes_is_not_quoted(rehearse):
    outcome = rehearse("""
import torch
a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
LONG = "a + b  # " + "x" * (7 << 20)
open("long.py", "w").write(LONG)
for _ in range(3):
    try:
        exec(compile(LONG, "long.py", "exec"))
    except RuntimeError:
        pass
""")  # fmt: skip
    finding = only(outcome, "refused-op")
    assert {one["name"] for one in finding["operands"]} == {"a", "b"}
    assert sum(path.stat().st_size for path in outcome.logs) < 1 << 20
    assert sum(path.stat().st_size for path in outcome.pages) < 2 << 20


def test_refusals_past_max_findings_are_not_looked_at(rehearse):
    """They are only counted: the failing line of a hundred more is parsed, which audit hooks see, and of no others."""
    outcome = rehearse("""
import sys, torch
a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
parsed = 0
def count(event, arguments):
    global parsed
    parsed += event == "compile" and arguments[1] == "<devtrace>"
sys.addaudithook(count)
for number in range(300):
    try:
        exec(compile("a + b", f"made-{number}.py", "exec"))
    except RuntimeError:
        pass
print(parsed)
""", "max_findings=2:dedupe=0")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert len(outcome.findings) == 2 and 0 < int(outcome.out) < 1000  # some seven a finding
    end = outcome.records[-1]
    assert (end["findings"], end["dropped"]) == (300, 298)
