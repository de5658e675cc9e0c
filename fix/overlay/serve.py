"""Read in the place of the program's main file, in a process that imports what the program imports and forks for each run.

Importing PyTorch and its like is most of a short run. The process has the words, folder and interpreter of the program. What
differs in a fork: its parent, and all that happens before or while those libraries are imported. `devtrace fix` sees by a run of
the program as it is whether that matters, and runs its result once from a fresh start.

DEVTRACE_SERVER names a socket and a copy of the main file. Lines that come: {"set": {name: value}, "unset": [name], "output": file, "parent": pid};
lines that go: "ready", or why not; then the number of each process."""


def serve():
    import ctypes
    import gc
    import os
    import signal
    import socket

    with open("/proc/self/comm") as comm:
        name = comm.read().strip()
    # What ends the processes of runs leaves alone what has the name of the process that clears up.
    with open("/proc/self/comm", "w") as comm:
        comm.write("devtrace-guard")
    descriptor, main = os.environ.pop("DEVTRACE_SERVER").split(" ", 1)
    orders = socket.socket(fileno=int(descriptor))
    orders.set_inheritable(False)
    trouble = imported(main)
    if trouble:
        orders.sendall(trouble.encode() + b"\n")
        os._exit(0)
    gc.collect()
    gc.freeze()  # what a fork's collections would look at, and copy by that
    path = os.fsencode(os.path.abspath(__file__))
    overlay = ctypes.PyDLL(None)
    wait = lambda: next_run(orders, overlay, path, name)  # noqa: E731
    overlay.devtrace_serve(ctypes.py_object(wait))
    orders.sendall(b"ready\n")
    while True:
        signal.pause()


def imported(main):
    """Imports what the program's files import of libraries, at their outermost level, in their order. Returns why that cannot serve."""
    import ast
    import ctypes
    import os
    import sys
    import sysconfig
    from importlib.util import find_spec

    own = [os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]

    def is_library(path):
        path = os.path.realpath(path)
        return "site-packages" in path or "dist-packages" in path or any(path.startswith(folder + os.sep) for folder in own)

    def is_of_library(name):
        if name in sys.builtin_module_names:
            return True
        try:
            spec = find_spec(name)
        except (ImportError, ValueError, AttributeError):
            return False
        return spec is not None and (spec.origin in ("built-in", "frozen") or bool(spec.origin) and is_library(spec.origin))

    def of_project(folders, name):
        for folder in folders:
            stem = os.path.join(folder, *name.split("."))
            for path in (stem + ".py", os.path.join(stem, "__init__.py")):
                if os.path.isfile(path):
                    return path
        return None

    roots = [folder or os.getcwd() for folder in sys.path if not is_library(os.path.join(folder, ""))]
    seen, texts = set(), []

    def walk(path, place):
        if path in seen or len(seen) > 200:
            return
        seen.add(path)
        try:
            with open(path, "rb") as file:
                texts.append(file.read())
            tree = ast.parse(texts[-1])
        except (OSError, SyntaxError, ValueError):
            return
        for node in tree.body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    follow(alias.name, ast.Import([alias]), roots)
            elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
                folder = place
                for _ in range(node.level - 1):
                    folder = os.path.dirname(folder)
                follow(node.module or "", None if node.level else node, [folder] if node.level else roots)
                for alias in node.names:
                    if node.level or of_project(roots, node.module):
                        follow(f"{node.module or ''}.{alias.name}".strip("."), None, [folder] if node.level else roots)

    def follow(name, node, folders):
        if node is not None and is_of_library(name.split(".")[0]):
            try:
                exec(compile(ast.Module([ast.fix_missing_locations(node)], []), "<import>", "exec"), {"__name__": "imports"})
            except BaseException:  # noqa: BLE001, S110 (whatever it is, the program itself will meet it)
                pass
        elif path := of_project(folders, name):
            walk(path, os.path.dirname(path))

    walk(main, os.path.dirname(os.path.abspath(__file__)))
    if "torch" not in sys.modules and any(b"torch" in text for text in texts) and is_of_library("torch"):
        try:
            import torch  # noqa: F401
        except Exception as error:  # noqa: BLE001
            return f"PyTorch cannot be imported: {error}"
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if module is not sys.modules["__main__"] and isinstance(file, str) and os.path.isfile(file) and not is_library(file):
            return f"{name} is imported, and no library's"
    if torch := sys.modules.get("torch"):
        if any(b"optim" in text or b"compile" in text for text in texts):
            import torch._dynamo  # noqa: F811 (which every optimizer imports: more than a second, and a folder in $TMPDIR)
        # With a flag that there is none of it makes no device, but puts what computes true values into PyTorch: a third of a second.
        try:
            ctypes.PyDLL("libcuda.so.1").cuInit(1)
        except OSError:
            return "there is no libcuda.so.1"
        if torch.cuda.is_initialized():
            return "CUDA is used while libraries are imported"
    return ""


def next_run(orders, overlay, path, name):
    """Forks for each order. Returns in the forks, with the program's path."""
    import json
    import os
    import signal

    for line in orders.makefile():
        order = json.loads(line)
        theirs, ours = os.pipe()
        middle = os.fork()
        if middle == 0:
            # The library reads its options in the fork.
            for variable in order["unset"]:
                os.environ.pop(variable, None)
            os.environ.update(order["set"])
            if os.fork() == 0:
                os.close(theirs)
                orders.close()
                with open("/proc/self/comm", "w") as comm:
                    comm.write(name)
                begin(order, overlay, ours)
                return path
            os.kill(os.getpid(), signal.SIGKILL)  # the fork is now a child of devtrace's, and nothing is done at this end
        os.close(ours)
        os.waitpid(middle, 0)
        orders.sendall((os.read(theirs, 32) or b"none") + b"\n")
        os.close(theirs)
    os._exit(0)


def begin(order, overlay, ours):
    import os
    import sys
    import time

    for _ in range(5000):
        if os.getppid() == order["parent"]:
            break
        time.sleep(0.001)
    os.setpgid(0, 0)
    overlay.devtrace_become_run()
    out = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)
    os.write(ours, b"%d" % os.getpid())
    os.close(ours)
    # The program finds nothing of this file among its variables, nor does who quotes its lines.
    main = sys.modules["__main__"].__dict__
    for name in ("serve", "imported", "next_run", "begin"):
        main.pop(name, None)
    main["__doc__"] = None
    if linecache := sys.modules.get("linecache"):
        linecache.cache.pop(main["__file__"], None)


serve()
