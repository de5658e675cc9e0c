"""The library of a trial: programs read other text than lies on disk, and nothing on disk changes."""

import importlib.util
import json
import marshal
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from c_programs import build
from conftest import BUILD, DEVTRACE, environment, execute

OVERLAY = BUILD / "fix/overlay.so"
TAG = sys.implementation.cache_tag


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


class Trial:
    """A folder of files, some of them read as other text."""

    def __init__(self, folder: Path, beside: Path):
        self.folder, self.beside = folder, beside
        self.rows: list[str] = []

    def file(self, name: str, text: str, instead: str | None = None) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if instead is not None:
            self.replace(path, instead)
        return path

    def replace(self, original: Path, text: str) -> None:
        replacement = self.beside / f"replacement-{len(self.rows)}.py"
        replacement.write_text(text)
        self.rows.append(f"{original}\t{replacement}\n")

    def snapshot(self) -> dict:
        return {
            str(path.relative_to(self.folder)): (path.lstat().st_mode, path.lstat().st_mtime_ns, path.lstat().st_ino,
                                                 path.read_bytes() if path.is_file() else os.readlink(path) if path.is_symlink() else None)
            for path in sorted(self.folder.rglob("*"))
        }

    def run(self, *command, cwd=None, env=None, unchanged=True, preload=(OVERLAY,)):
        table = self.beside / "table"
        table.write_text("".join(self.rows))
        before = self.snapshot()
        variables = {"LD_PRELOAD": ":".join(map(str, preload)), "DEVTRACE_OVERLAY": str(table), **(env or {})}
        outcome = execute(command, cwd or self.folder, environment(None, variables), 60)
        if unchanged:
            assert self.snapshot() == before
        return outcome

    def python(self, *arguments, **how):
        return self.run(sys.executable, *arguments, **how)


@pytest.fixture
def trial(tree, tmp_path):
    return Trial(tree, tmp_path)


def says(outcome, text: str) -> None:
    assert (outcome.code, outcome.out, outcome.err) == (0, text, ""), outcome.err


# ---- the ways to a source ----------------------------------------------------------------------------------------------------------


def test_the_library_brings_nothing_along():
    needed = re.findall(r"NEEDED.*\[(.+)\]", subprocess.run(["readelf", "-d", OVERLAY], capture_output=True, text=True, check=True).stdout)
    # The C library, in as many pieces as it was up to glibc 2.33.
    assert set(needed) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
    defined = subprocess.run(["nm", "-D", "--defined-only", OVERLAY], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in defined.splitlines()} == {
        *("open", "open64", "openat", "openat64", "__open_2", "__open64_2", "__openat_2", "__openat64_2"),
        *("fopen", "fopen64", "freopen", "freopen64"),
        *("bind", "connect", "getsockname"),
        *("devtrace_serve", "devtrace_become_run"),
    }


@pytest.mark.parametrize("how", ["absolute", "relative", "elsewhere", "link", "linked folder", "shebang", "stdin"])
def test_a_main_script(trial, tmp_path, how):
    script = trial.file("program.py", f"#!{sys.executable}\nprint('old')\n", f"#!{sys.executable}\nprint('new')\n")
    if how == "absolute":
        outcome = trial.python(script)
    elif how == "relative":
        outcome = trial.python("../tree/./program.py")
    elif how == "elsewhere":
        outcome = trial.python("tree/program.py", cwd=tmp_path)
    elif how == "link":
        (tmp_path / "start").symlink_to(script)
        outcome = trial.python("start", cwd=tmp_path)
    elif how == "linked folder":
        (tmp_path / "linked").symlink_to(trial.folder)
        outcome = trial.python("linked/program.py", cwd=tmp_path)
    elif how == "shebang":
        script.chmod(0o755)
        outcome = trial.run("./program.py")
    else:
        outcome = trial.run("sh", "-c", f"{sys.executable} < program.py")
    says(outcome, "new\n")


def test_an_original_named_by_a_link(trial, tmp_path):
    script = trial.file("real.py", "print('old')\n")
    (tmp_path / "start.py").symlink_to(script)
    trial.replace(tmp_path / "start.py", "print('new')\n")
    says(trial.python("real.py"), "new\n")


def test_modules_and_packages(trial):
    trial.file("program.py", "import module, package.inner\nprint(module.text, package.text, package.inner.text)\n")
    trial.file("module.py", "text = 'old'\n", "text = 'new'\n")
    trial.file("package/__init__.py", "text = 'old package'\n", "text = 'new package'\n")
    trial.file("package/inner.py", "text = 'inner'\n")
    says(trial.python("program.py"), "new new package inner\n")


@pytest.mark.parametrize("name", ["tool", "package"])
def test_python_m(trial, name):
    trial.file("tool.py", "print('old tool')\n", "print('new tool')\n")
    trial.file("package/__init__.py", "")
    trial.file("package/__main__.py", "print('old package')\n", "print('new package')\n")
    says(trial.python("-m", name), f"new {name}\n")


def test_what_a_program_starts(trial):
    trial.file("program.py", """
import multiprocessing, os, subprocess, sys
def work():
    import module
    print(module.text, flush=True)
if __name__ == "__main__":
    subprocess.run([sys.executable, "module.py"], check=True)
    subprocess.run(f"{sys.executable} module.py", shell=True, check=True)
    os.posix_spawn(sys.executable, [sys.executable, "module.py"], os.environ)
    os.wait()
    for way in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(way).Process(target=work)
        process.start()
        process.join()
""")
    trial.file("module.py", "text = 'old'\nif __name__ == '__main__': print(text)\n", "text = 'new'\nif __name__ == '__main__': print(text)\n")
    says(trial.python("program.py"), "new\n" * 6)


def test_what_python_says_of_its_source(trial):
    trial.file("program.py", """
import inspect, io, linecache, pathlib, tokenize, traceback
import module
print(inspect.getsource(module.f), end="")
print(linecache.getline(module.__file__, 2), end="")
print(pathlib.Path(module.__file__).read_text() == open("module.py").read() == tokenize.open("module.py").read() == io.open_code(module.__file__).read().decode())
try:
    module.f()
except ZeroDivisionError:
    traceback.print_exc(limit=-1)
""")
    trial.file("module.py", "def f():\n    return 1\n", "def f():\n    return 1 / 0  # new\n")
    outcome = trial.python("program.py")
    assert outcome.code == 0 and outcome.out == "def f():\n    return 1 / 0  # new\n    return 1 / 0  # new\nTrue\n", outcome.err
    assert "    return 1 / 0  # new" in outcome.err


# ---- byte code ---------------------------------------------------------------------------------------------------------------------


def lie(source: Path, text: str, folder: Path, tag=TAG, hashed=False) -> Path:
    """Byte code of `text` that claims to be that of `source`, by its time and size or by nothing at all."""
    code = compile(text, str(source), "exec")
    status = source.stat()
    header = (1).to_bytes(4, "little") + bytes(8) if hashed else bytes(4) + b"".join((int(n) & 0xFFFFFFFF).to_bytes(4, "little") for n in (status.st_mtime, status.st_size))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{source.stem}.{tag}.pyc"
    path.write_bytes(importlib.util.MAGIC_NUMBER + header + marshal.dumps(code))
    return path


@pytest.mark.parametrize("hashed", [False, True], ids=["time", "hash"])
@pytest.mark.parametrize("prefix", [False, True], ids=["beside", "prefix"])
def test_byte_code_that_lies(trial, tmp_path, hashed, prefix):
    trial.file("program.py", "import module, other\nprint(module.text, other.text)\n")
    module = trial.file("module.py", "text = 'old'\n", "text = 'new'\n")
    other = trial.file("other.py", "text = 'from source'\n")
    for source in (module, other):
        lie(source, "text = 'byte code'\n", tmp_path / "cache" / str(source.parent)[1:] if prefix else trial.folder / "__pycache__", hashed=hashed)
    env = {"PYTHONPYCACHEPREFIX": str(tmp_path / "cache")} if prefix else {}
    says(trial.python("program.py", env={**env, "DEVTRACE_OVERLAY": ""}), "byte code byte code\n")
    says(trial.python("program.py", env=env), "new byte code\n")
    says(trial.python("-O", "program.py", env=env), "new from source\n")


def test_no_byte_code_outlives_it(trial):
    """A child that leaves environment variables alone would write what the user's next run takes for its own."""
    trial.file("program.py", "import subprocess, sys\nsubprocess.run([sys.executable, '-I', '-c', 'import sys; sys.path.insert(0, \".\"); import module, other'], check=True)\n")
    trial.file("module.py", "text = 'old'\n", "print('new')\n")
    trial.file("other.py", "")
    says(trial.python("program.py", unchanged=False), "new\n")
    assert [path.name for path in (trial.folder / "__pycache__").iterdir()] == [f"other.{TAG}.pyc"]


def test_pytest(trial):
    """Its own byte code, which it has rewritten, lies as well."""
    test = trial.file("test_it.py", "def test_it():\n    assert 1 == 2\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert execute(command, trial.folder, {**environment(None), "PYTHONDONTWRITEBYTECODE": ""}).code == 1
    assert list(trial.folder.glob("__pycache__/test_it.*-pytest-*.pyc"))
    trial.replace(test, "def test_it():\n    assert 1 == 1\n")
    outcome = trial.run(*command)
    assert outcome.code == 0 and "1 passed" in outcome.out, outcome.out
    trial.rows.clear()
    assert trial.run(*command).code == 1


# ---- other programs ----------------------------------------------------------------------------------------------------------------

READS = r"""
#include <fcntl.h>
#include <unistd.h>
#include <errno.h>
static void show(const char* how, int file) {
  char text[100] = "";
  if (file < 0) { printf("%s: %s\n", how, strerror(errno)); return; }
  ssize_t size = read(file, text, sizeof text - 1);
  text[size < 0 ? 0 : size] = 0;
  printf("%s: %d %s %s", how, file, fcntl(file, F_GETFD) & FD_CLOEXEC ? "closes" : "stays", text);
  close(file);
}
static void show_stream(const char* how, FILE* stream) {
  char text[100] = "";
  if (!stream) { printf("%s: %s\n", how, strerror(errno)); return; }
  fgets(text, sizeof text, stream);
  printf("%s: %d %s", how, fileno(stream), text);
  if (stream != stdin) fclose(stream);
}
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);
int main() {
  errno = 77;
  int folder = open("..", O_RDONLY | O_DIRECTORY);
  show("open", open("file.txt", O_RDONLY));
  show("open64", open64("file.txt", O_RDONLY | O_CLOEXEC | O_CREAT, 0600));
  show("openat", openat(folder, "tree/file.txt", O_RDONLY));
  show("openat64", openat64(folder, "tree/file.txt", O_RDONLY));
  show("__open_2", __open_2("file.txt", O_RDONLY));
  show("__open64_2", __open64_2("file.txt", O_RDONLY));
  show("__openat_2", __openat_2(folder, "tree/file.txt", O_RDONLY));
  show("__openat64_2", __openat64_2(folder, "tree/file.txt", O_RDONLY));
  show_stream("fopen", fopen("file.txt", "r"));
  show_stream("fopen64", fopen64("file.txt", "rbe"));
  show_stream("freopen", freopen("file.txt", "r", stdin));
  show_stream("freopen64", freopen64("file.txt", "r", stdin));
  printf("errno %d\n", errno);
  show("both", open("file.txt", O_RDWR));
  show_stream("update", fopen("file.txt", "r+"));
  show("no path", open(strchr("", 'x'), O_RDONLY));
  show("missing", open("file.missing", O_RDONLY));
  pid_t child = vfork();
  if (child == 0) {
    dup2(open("file.txt", O_RDONLY), 0);
    execlp("cat", "cat", NULL);
    _exit(1);
  }
  int status;
  fflush(stdout);
  waitpid(child, &status, 0);
  return status;
}
"""


def test_a_program_in_c(trial, tmp_path):
    program = build(tmp_path, "reads", READS, "-D_GNU_SOURCE")
    trial.file("file.txt", "old\n", "new\n")
    outcome = trial.run(program)
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(outcome.out.splitlines()) == sorted([
        "open: 4 stays new", "open64: 4 closes new", *(f"{name}: 4 stays new" for name in ("openat", "openat64", "__open_2", "__open64_2", "__openat_2", "__openat64_2")),
        *(f"{name}: 4 new" for name in ("fopen", "fopen64")), "freopen: 0 new", "freopen64: 0 new", "errno 77",
        "both: 4 stays old", "update: 4 old", "no path: Bad address", "missing: No such file or directory", "new",
    ])


def test_writing_goes_to_the_original(trial):
    trial.file("program.py", """
import os
print(open("file.txt").read())
with open("file.txt", "a") as file: file.write(" and more")
with open("file.txt", "r+") as file: print(file.read())
print(open("file.txt").read())
os.truncate("file.txt", 3)
with open("other.txt", "w") as file: file.write("other")
os.replace("other.txt", "file.txt")
print(open("file.txt").read())
""")
    trial.file("file.txt", "old", "new")
    says(trial.python("program.py", unchanged=False), "new\nold and more\nnew\nother\n")
    assert (trial.folder / "file.txt").read_text() == "other"


def test_many_threads_and_forks(trial):
    trial.file("program.py", """
import os, threading
def look():
    for _ in range(300):
        assert open("file.txt").read() == "new" and open("other.txt").read() == "other"
def fork():
    for _ in range(20):
        if os.fork() == 0:
            os._exit(open("file.txt").read() != "new")
        assert os.wait()[1] == 0
threads = [threading.Thread(target=look) for _ in range(4)]
for thread in threads: thread.start()
fork()
for thread in threads: thread.join()
""")
    trial.file("file.txt", "old", "new")
    trial.file("other.txt", "other")
    says(trial.python("program.py"), "")


# ---- ports --------------------------------------------------------------------------------------------------------------------------

SERVES = """
import os, socket, sys, time
port, word, family = int(sys.argv[1]), sys.argv[2], socket.AF_INET6 if sys.argv[3:] else socket.AF_INET
address = "::1" if sys.argv[3:] else "127.0.0.1"
server = socket.socket(family)
server.bind((address, port))
server.listen()
print(server.getsockname()[1] == port, flush=True)
sys.stdin.readline()  # both have it now
if os.fork() == 0:
    with server.accept()[0] as peer: peer.sendall(word.encode())
    os._exit(0)
with socket.create_connection((address, port)) as client: print(client.recv(9).decode())
again = socket.socket(family)
try:
    again.bind((address, port))
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("family", [[], ["6"]], ids=["IPv4", "IPv6"])
def test_runs_side_by_side_have_a_port_each(trial, tmp_path, family):
    """As `torchrun` and programs of several ranks want one by its number."""
    script = trial.file("program.py", SERVES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    runs = []
    for word in ("one", "two"):
        (tmp_path / word).mkdir()
        env = environment(None, {"LD_PRELOAD": str(OVERLAY), "DEVTRACE_TRIAL": str(tmp_path / word)})
        runs.append(subprocess.Popen([sys.executable, script, port, word, *family], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    first = [each.stdout.readline() for each in runs]
    assert first == ["True\n", "True\n"]
    assert [each.communicate("\n", timeout=60)[0] for each in runs] == ["one\nAddress already in use\n", "two\nAddress already in use\n"]


def test_a_server_of_others_is_reached(trial, tmp_path):
    """A run that has bound nothing there."""
    trial.file("program.py", "import socket, sys\nwith socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as client: print(client.recv(9).decode())\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True).start()
        says(trial.python("program.py", str(server.getsockname()[1]), env={"DEVTRACE_TRIAL": str(tmp_path)}), "hello\n")


# ---- a table that is not right -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table, complaint", [
    ("{missing}", "No such file or directory"), ("{folder}", "Is a directory"), ("/dev/null", "Invalid argument"), ("{short}", "'{script}' is not two absolute paths"),
    ("{relative}", "'program.py' is not two absolute paths"),
], ids=["missing", "folder", "device", "short", "relative"])
def test_a_bad_table_is_one_line(trial, tmp_path, table, complaint):
    script = trial.file("program.py", "print('old')\n", "print('new')\n")
    (tmp_path / "short").write_text(f"{script}\n")
    (tmp_path / "relative").write_text(f"program.py\t{tmp_path}/replacement-0.py\n")
    places = {"missing": tmp_path / "missing", "folder": tmp_path, "short": tmp_path / "short", "relative": tmp_path / "relative", "script": script}
    path = table.format(**places)
    outcome = trial.python("program.py", env={"DEVTRACE_OVERLAY": path})
    assert (outcome.code, outcome.out) == (0, "old\n")
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"devtrace: DEVTRACE_OVERLAY={path}: {complaint.format(**places)}") and line.endswith("; every file is read as it is")


def test_a_replacement_that_is_gone_is_told(trial, tmp_path):
    script = trial.file("program.py", "print('old')\n", "print('new')\n")
    (tmp_path / "replacement-0.py").unlink()
    outcome = trial.python("program.py")
    assert (outcome.code, outcome.out) == (0, "old\n")
    assert outcome.err == f"devtrace: {tmp_path}/replacement-0.py: No such file or directory; {script} is read as it is\n"


def test_an_original_that_is_gone_is_nobodys(trial):
    trial.file("program.py", "print('old')\n", "print('new')\n")
    trial.replace(trial.folder / "gone.py", "")
    says(trial.python("program.py"), "new\n")


def test_without_a_table_nothing_is_said(trial):
    trial.file("program.py", "print('old')\n", "print('new')\n")
    says(trial.python("program.py", env={"DEVTRACE_OVERLAY": ""}), "old\n")


# ---- with devtrace -----------------------------------------------------------------------------------------------------------------

MIXED = "import torch\na = torch.ones(3, device='cuda:0')\nb = torch.ones(3, device='cuda:1')\nprint(a.sum() + 1)\na + b\n"


@pytest.mark.parametrize("behind", [True, False], ids=["devtrace in front", "overlay in front"])
def test_reports_quote_what_was_read(trial, tmp_path, behind):
    """In a rehearsal: the finding and the lines around it are those of the replacement."""
    script = trial.file("program.py", MIXED.replace("a + b", "print('old')"), MIXED.replace("a + b", "result = torch.add(a, b)  # new"))
    program = [sys.executable, script] if behind else ["sh", "-c", f'LD_PRELOAD="{OVERLAY}:$LD_PRELOAD" exec {sys.executable} {script}']
    outcome = trial.run(DEVTRACE, "rehearse", "--gpus", "2", "--log-path", tmp_path / "log.jsonl", "--", *program, preload=[OVERLAY] if behind else [])
    assert outcome.code == 1, outcome.err
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    (finding,) = [record for record in records if record["record"] == "finding"]
    frame = finding["python"][0]
    assert (frame["file"], frame["line"], frame["source"]) == (str(script), 5, "result = torch.add(a, b)  # new")
    assert "# new" in frame["around"]["text"] and "print('old')" not in json.dumps(finding)
    assert "result = torch.add(a, b)  # new" in outcome.err
