"""Run by test_stacks.py inside the interpreter under test (3.9 on). Takes stacks through the probe in every kind of Python frame,
and prints what the probe said beside what Python itself says, as JSON."""

import asyncio
import atexit
import contextlib
import ctypes
import functools
import gc
import json
import os
import sys
import sysconfig
import threading
import traceback
import types

PROBE = sys.argv[1]
HELD = ctypes.PyDLL(PROBE)  # calls with the GIL held
RELEASED = ctypes.CDLL(PROBE)  # calls with the GIL released
for library in (HELD, RELEASED):
    library.probe_capture.restype = ctypes.c_uint32
    library.probe_resolve.restype = library.probe_status.restype = ctypes.c_size_t
    library.probe_stacks.restype = library.probe_bytes.restype = ctypes.c_size_t
    library.probe_time.restype = ctypes.c_double

DEEPEST = 512
results = []


def text_of(function, *arguments):
    out = ctypes.create_string_buffer(1 << 18)
    size = function(*arguments, out, len(out))
    assert size < len(out)
    return out.raw[:size].decode("utf-8", "surrogateescape")


def resolved(stack):
    parts = text_of(HELD.probe_resolve, ctypes.c_uint32(stack)).split("\0")[:-1]
    return [[parts[i], parts[i + 1], int(parts[i + 2])] for i in range(0, len(parts), 3)]


def name_of(code):
    return str(code.co_qualname if hasattr(code, "co_qualname") else code.co_name)


def python_says(frame):
    return [[str(f.f_code.co_filename), name_of(f.f_code), line or 0] for f, line in traceback.walk_stack(frame)]


def both(library):
    # One line, so that both are asked at the same instruction's line.
    pair = library.probe_capture(), python_says(sys._getframe())
    return pair


def record(case, result=None):
    """Takes this stack both ways; returns `result`, so that it fits anywhere in an expression."""
    for mode, library in (("held", HELD), ("released", RELEASED)):
        stack, want = both(library)
        got = resolved(stack)
        if len(want) > DEEPEST:
            want = want[:DEEPEST] + [["", "[deeper frames left out]", 0]]
        results.append({"case": case, "mode": mode, "got": got, "want": want})
    return result


def cases():
    def nested():
        def inner():
            record("nested function")

        inner()

    class Thing:
        def method(self):
            record("method")

        @classmethod
        def of_class(cls):
            record("class method")

        @staticmethod
        def static():
            record("static method")

        @property
        def attribute(self):
            return record("property", 1)

        def __getattr__(self, name):
            return record("__getattr__", 1)

        def __lt__(self, other):
            return record("comparison called from C", True)

        def __hash__(self):
            return record("hash called from C", 1)

        def __del__(self):
            record("destructor")

        def __iter__(self):
            yield record("iterator", 1)

        record("class body")

    nested()
    thing = Thing()
    thing.method()
    Thing.of_class()
    Thing.static()
    thing.attribute
    thing.missing
    sorted([thing, Thing()])
    {thing: 1}
    list(thing)
    del thing
    gc.collect()

    def generator():
        record("generator, before its first yield")
        yield 1
        record("generator, resumed")
        received = yield 2
        record("generator, sent to", received)

    values = generator()
    next(values)
    next(values)
    with contextlib.suppress(StopIteration):
        values.send(3)

    def delegating():
        yield from generator()

    list(delegating())
    [record("list comprehension") for _ in range(1)]
    {record("set comprehension") for _ in range(1)}
    {1: record("dict comprehension") for _ in range(1)}
    list(record("generator expression") for _ in range(1))
    [[record("nested comprehension") for _ in range(1)] for _ in range(1)]
    (lambda: record("lambda"))()
    (lambda f: f())(lambda: record("lambda in lambda"))

    sorted([2, 1], key=lambda value: record("key of sorted", value))
    list(map(lambda value: record("map", value), [1]))
    list(filter(lambda value: record("filter", value), [1]))
    functools.reduce(lambda a, b: record("reduce", a), [1, 2])
    functools.partial(record, "partial")()
    functools.partial(lambda case: record(case), "lambda in partial")()

    def decorated(function):
        @functools.wraps(function)
        def wrapper(*arguments, **keywords):
            return function(*arguments, **keywords)

        return wrapper

    @decorated
    @functools.lru_cache(maxsize=None)
    @decorated
    def under_decorators():
        record("under three decorators, one in C")

    under_decorators()

    @contextlib.contextmanager
    def manager():
        record("entering a context")
        try:
            yield
        finally:
            record("leaving a context")

    with manager():
        record("in a context")

    async def coroutine(depth):
        record("coroutine")
        await asyncio.sleep(0)
        record("coroutine, resumed")
        if depth:
            await coroutine(depth - 1)

    async def asynchronous():
        async def values():
            yield record("asynchronous generator", 1)
            await asyncio.sleep(0)
            yield record("asynchronous generator, resumed", 2)

        [value async for value in values()]
        await asyncio.gather(coroutine(1), coroutine(0))

    asyncio.run(asynchronous())

    try:
        raise ValueError
    except ValueError:
        record("exception handler")
    finally:
        record("finally")

    # What the next statements are for is that they are spread out.
    dict(
        first=record(
            "argument in a statement of several lines",
        ),
        second=[
            1,
            record(
                "later argument"
            ),
        ],
    )
    value = (
        1
        + record("operand", 1)
        +
        record("later operand", 1)
    )  # fmt: skip
    assert (
        record("first operand of and", True)
        and
        record("second operand of and", value)
    )  # fmt: skip

    sys.settrace(lambda frame, event, argument: lambda *_: None)
    nested()
    sys.settrace(None)


def executed():
    def run(case, source, file, **names):
        exec(compile(source, file, "exec"), {"record": record, **names})

    run("module", "record('executed code')", "<string>")
    run("far", "\n" * 70_000 + "def f():\n  record('far down a file')\n" + "\n" * 300 + "f()", "far.py")
    run("latin", "def café(): record('Latin-1 name')\ncafé()", "naïve.py")
    run("ucs2", "def 装置(): record('UCS-2 name')\n装置()", "/tmp/装置/模型.py")
    run("ucs4", "class 𐌰:\n  def 𐌱(self): record('UCS-4 name')\n𐌰().𐌱()", "𝄞.py")
    run("surrogate", "record('file name that is not UTF-8')", os.fsdecode(b"/tmp/\xff\xfe.py"))
    run("empty", "record('empty file name')", "")
    run("long", "record('long file name')", "/long" * 700)
    eval("record('eval')")
    eval(compile("[record('eval of a comprehension') for _ in (1,)]", "<eval>", "eval"))

    def plain():
        record("renamed code")

    class Str(str):
        pass

    for name in ("renamed", "umbenannt-ä", Str("subclass"), Str("subclass-装")):
        with contextlib.suppress(TypeError):  # some versions refuse subclasses
            types.FunctionType(plain.__code__.replace(co_name=name, co_filename=name), globals(), closure=plain.__closure__)()
    if hasattr(plain.__code__, "co_qualname"):
        types.FunctionType(plain.__code__.replace(co_qualname="A.<locals>.b"), globals())()
    types.FunctionType(plain.__code__.replace(co_firstlineno=1000), globals())()

    # Every statement's own line, with jumps back and forth and lines that the optimiser touches.
    source = "\n".join(
        ["def f(n):", " for i in range(n):", "  if i % 2:", "   record('odd')", "   continue", "  try:", "   record('even')"]
        + ["   1 / (i - 2)", "  except ZeroDivisionError:", "   record('caught')", "  finally:", "   record('finally')"]
        + [" while n:", "  n -= 1", "  record('while'); record('same line')", " else:", "  return record('else')", "f(4)"]
    )
    run("flow", source, "flow.py")


def recursive(depth):
    if depth == 0:
        return record("deep recursion")
    return recursive(depth - 1)


def recursion():
    sys.setrecursionlimit(5000)
    here = len(python_says(sys._getframe()))
    for total in (100, DEEPEST - 1, DEEPEST, DEEPEST + 1, 1500):
        recursive(total - here - 3)  # recursive(0), record, both


def threads():
    def work():
        record("thread")

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


def reused():
    """Code objects that die and whose memory the next one gets, alike in all but one thing."""
    seen = set()
    repeats = 0
    for i in range(300):
        source = "\n" * (i % 7) + "pair = both(RELEASED)"
        names = {"both": both, "RELEASED": RELEASED}
        code = compile(source, "file%d.py" % (i % 3), "exec")
        repeats += id(code) in seen
        seen.add(id(code))
        exec(code, names)
        del code
        results.append({"case": "reused code", "mode": "released", "got": resolved(names["pair"][0]), "want": names["pair"][1]})
    for i in range(300):
        names = {"both": both, "RELEASED": RELEASED}
        exec(compile("def f():%s return both(RELEASED)" % ("\n" * (1 + i % 5)), "same.py", "exec"), names)
        pair = names["f"]()
        results.append({"case": "reused function", "mode": "released", "got": resolved(pair[0]), "want": pair[1]})
    return repeats


def hammer():
    """Threads that capture while others collect, and make and drop code."""
    wrong = []
    stop = threading.Event()
    taken = [0]

    def check(pair):
        taken[0] += 1
        if resolved(pair[0]) != pair[1] and len(wrong) < 3:
            wrong.append([resolved(pair[0]), pair[1]])

    def deep(n, library):
        if n:
            return deep(n - 1, library)
        return both(library)

    def walker(seed):
        i = seed
        while not stop.is_set():
            i += 1
            check(deep(i % 40, RELEASED if i % 2 else HELD))

    def maker(seed):
        i = seed
        while not stop.is_set():
            i += 1
            names = {"both": both, "library": RELEASED}
            exec(compile("\n" * (i % 11) + "def f():\n return both(library)\npair = f()", "made%d.py" % (i % 5), "exec"), names)
            check(names["pair"])

    def collector():
        while not stop.is_set():
            gc.collect()

    workers = [threading.Thread(target=walker, args=(i,)) for i in range(4)]
    workers += [threading.Thread(target=maker, args=(i,)) for i in range(3)]
    workers += [threading.Thread(target=collector)]
    sys.setswitchinterval(1e-5)
    for worker in workers:
        worker.start()
    stop.wait(1.5)
    stop.set()
    for worker in workers:
        worker.join()
    sys.setswitchinterval(0.005)
    return {"taken": taken[0], "wrong": wrong}


def stable():
    """The same stack has the same id, another line another one; the count of stacks says so."""

    def take(n):
        if n:
            return take(n - 1)
        return RELEASED.probe_capture()

    def held():
        return HELD.probe_stacks(), HELD.probe_bytes()

    same, remade, usage = set(), set(), []
    for _ in range(2):
        for _ in range(3000):
            same.add(take(5))
            # A new code object every time, but the same file, function and line: the same stack.
            names = {"take": RELEASED.probe_capture}
            exec(compile("stack = take()", "again.py", "exec"), names)
            remade.add(names["stack"])
        usage.append(held())
    return {
        "same": len(same),
        "remade": len(remade),
        "none": 0 in same | remade,
        "depths": len({take(n) for n in range(10)}),
        "grown": usage[0] != usage[1],
    }


def forked():
    """Children forked while other threads capture: both sides keep right."""
    os.register_at_fork(
        before=HELD.probe_before_fork, after_in_parent=HELD.probe_after_fork, after_in_child=HELD.probe_after_fork
    )
    stop = threading.Event()

    def walker():
        i = 0
        while not stop.is_set():
            i += 1
            exec("\n" * (i % 50) + "take()", {"take": RELEASED.probe_capture})

    workers = [threading.Thread(target=walker) for _ in range(3)]
    for worker in workers:
        worker.start()
    # Compiled before: a free-threaded Python's child may wait for ever for a name that a thread of its parent's was interning.
    bodies = [compile("\n" * i + "pair = both(library)", "<string>", "exec") for i in range(20)]
    codes = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            good = True
            for body in bodies:
                names = {"both": both, "library": RELEASED}
                exec(body, names)
                good = good and resolved(names["pair"][0]) == names["pair"][1]
            os._exit(0 if good else 1)
        codes.append(os.waitpid(pid, 0)[1])
    stop.set()
    for worker in workers:
        worker.join()
    return codes


def lines_differ():
    """Line tables of the standard library, every instruction: where the probe's line is not Python's."""
    directory = sysconfig.get_paths()["stdlib"]
    different = []
    codes = 0

    def visit(code):
        nonlocal codes
        codes += 1
        units = len(code.co_code) // 2
        want = [0] * units
        if hasattr(code, "co_lines"):
            table = code.co_linetable
            for start, end, line in code.co_lines():
                want[start // 2 : end // 2] = [line or 0] * (end // 2 - start // 2)
        else:
            import dis

            table = code.co_lnotab
            starts = list(dis.findlinestarts(code)) + [(2 * units, None)]
            for (start, line), (end, _) in zip(starts, starts[1:]):
                want[start // 2 : end // 2] = [line] * (end // 2 - start // 2)
        got = (ctypes.c_int * units)()
        HELD.probe_lines(sys.version_info[1], table, ctypes.c_size_t(len(table)), code.co_firstlineno, got, ctypes.c_size_t(units))
        if list(got) != want and len(different) < 5:
            at = next(i for i in range(units) if got[i] != want[i])
            different.append([code.co_filename, code.co_name, 2 * at, got[at], want[at]])
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                visit(constant)

    for name in sorted(os.listdir(directory)):
        if name.endswith(".py") and name < "s":
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                visit(compile(file.read(), name, "exec"))
    visit(compile("f(\n" + "\n" * 40_000 + "g(),\n\nh(\n)\n)", "gaps.py", "exec"))
    return {"codes": codes, "different": different}


def main():
    first = RELEASED.probe_capture()  # before anything was checked under the GIL
    output = {"first": resolved(first), "first_want": python_says(sys._getframe())}
    output["early_status"] = text_of(HELD.probe_status)
    for _ in range(1000):
        len(output)
    cases()
    executed()
    recursion()
    threads()
    output["repeats"] = reused()
    output["hammer"] = hammer()
    output["stable"] = stable()
    output["forked"] = forked()
    output["lines"] = lines_differ()
    output["results"] = results
    output["free_threaded"] = not getattr(sys, "_is_gil_enabled", lambda: True)()
    output["status"] = text_of(HELD.probe_status)

    def at_end():
        stack, want = both(RELEASED)
        output["at exit"] = [resolved(stack), want]
        with open(sys.argv[2], "w") as file:
            json.dump(output, file)

    atexit.register(at_end)

    # Still capturing while the interpreter goes away: must not crash.
    def forever():
        while True:
            RELEASED.probe_time(100)

    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()


class Late:
    def __del__(self, released=RELEASED.probe_capture, held=HELD.probe_capture):
        released()
        held()


late = Late()
if __name__ == "__main__":
    main()
