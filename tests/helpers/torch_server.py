"""A process that has imported PyTorch and forks for each program: importing takes seconds of a processor each time.

The process runs under `devtrace rehearse` and uses no CUDA, so its children may. A child has the environment, folder, arguments and
end of a program that starts by itself. What differs: /proc/self/cmdline, the parent, the outermost native frames, what
gc.get_objects() shows of PyTorch's own, what the libraries that were loaded before do at exit. And all that happens before or while
PyTorch is imported."""

import fcntl
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import ClassVar


class TorchServer:
    """Of one environment; runs one program after the other."""

    running: ClassVar[list] = []

    def __init__(self, command: list, env: dict):
        self.env = env
        self.folder = tempfile.TemporaryDirectory()
        library = Path(self.folder.name) / "libpython-fork.so"  # by that name its frames are Python's, not the program's
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).with_suffix(".c"), "-pthread"], check=True)
        self.out, self.err = (tempfile.TemporaryFile() for _ in range(2))
        for file in (self.out, self.err):
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
        self.orders, theirs = socket.socketpair()
        start = f"import sys; sys.path[0] = {str(Path(__file__).parent)!r}; from torch_server import serve; serve({theirs.fileno()}, {str(library)!r})"
        self.process = subprocess.Popen(
            [*map(str, command), "-c", start], env=env, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, pass_fds=[theirs.fileno()]
        )  # fmt: skip
        theirs.close()
        self.answers = self.orders.makefile()
        self.pid = int(self.answers.readline() or self.failed())  # what was started is devtrace, which waits for it
        self.running.append(self)

    def run(self, arguments: list[str], folder: Path, env: dict, timeout: float) -> tuple[int | None, str, str]:
        """Exit code as a shell has it, output, errors; the code is None where the program was killed after `timeout` seconds."""
        removed = [name for name in self.env if name not in env]
        changed = {name: value for name, value in env.items() if self.env.get(name) != value}
        self.orders.sendall(json.dumps([arguments, str(folder), changed, removed]).encode() + b"\n")
        pid = int(self.answers.readline() or self.failed())
        expired = threading.Event()

        def end():
            expired.set()
            os.killpg(pid, signal.SIGKILL)

        timer = threading.Timer(timeout, end)
        timer.start()
        code = int(self.answers.readline() or self.failed())
        timer.cancel()
        return None if expired.is_set() else code, *map(taken, (self.out, self.err))

    def ticks(self) -> list[int]:
        """Of a processor: user and system, its own and its children's."""
        return [int(each) for each in Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:15]]

    def failed(self):
        raise RuntimeError(f"the server ended with {self.process.wait()}: {taken(self.err)}")

    def close(self) -> None:
        self.orders.close()
        self.answers.close()
        self.running.remove(self)
        self.process.wait()
        self.folder.cleanup()


def taken(file) -> str:
    """What was appended to the file since the last time."""
    file.seek(0)
    text = file.read().decode(errors="replace")
    file.truncate(0)
    return text.replace("\r\n", "\n")


def serve(descriptor: int, library: str) -> None:
    """In the server's process."""
    os.write(descriptor, b"%d\n" % os.getpid())
    import ctypes
    import gc

    import torch._dynamo  # noqa: F401 (which every optimizer imports, too: more than a second)

    # With a flag that there is none of it makes no device, but puts what computes true values into PyTorch: a third of a second.
    ctypes.PyDLL("libcuda.so.1").cuInit(1)
    gc.collect()
    gc.freeze()  # what a child's collections would look at, and copy by that
    helper, wait = ctypes.PyDLL(library), functools.partial(next_program, descriptor)
    helper.start(ctypes.py_object(wait))
    while True:
        signal.pause()


def next_program(descriptor: int) -> bytes:
    """Forks for each order, one after the other. Returns in the children, with the program's path."""
    orders = socket.socket(fileno=descriptor)
    for line in orders.makefile():
        arguments, folder, changed, removed = json.loads(line)
        before, home = dict(os.environ), os.getcwd()
        # The library reads its options in the fork.
        for name in removed:
            os.environ.pop(name, None)
        os.environ.update(changed)
        os.chdir(folder)
        child = os.fork()
        if child == 0:
            os.setsid()
            orders.close()
            return forget_the_server(arguments)
        os.environ.clear()
        os.environ.update(before)
        os.chdir(home)
        orders.sendall(b"%d\n" % child)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        orders.sendall(b"%d\n" % (code if code >= 0 else 128 - code))
    os._exit(0)


def forget_the_server(arguments: list[str]) -> bytes:
    """The program finds nothing of the server among its modules and variables."""
    path = os.path.abspath(arguments[0])
    sys.argv[:] = sys.orig_argv[1:] = arguments
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    main = sys.modules["__main__"].__dict__
    for name in ("sys", "serve"):
        del main[name]
    del sys.modules[__name__]
    return os.fsencode(path)
