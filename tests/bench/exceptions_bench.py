"""What ordinary Python exceptions, and calls of classes that are none, cost with the hook of exceptions and without: in one process, which takes turns.

exceptions_bench.py --build FOLDER: for each way to raise one or to make an object the ratio of a loop's CPU time with the hook to
without. The first row has no hook in either: how far the figures can be trusted.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

LOOP = """
import abc, ctypes, dataclasses, statistics, sys, time

# Where an exception is made: tp_call of metaclasses, and from 3.14 on tp_vectorcall of exceptions.
TP_CALL, TP_VECTORCALL = 128, 400

class Own(Exception):
    def __init__(self, code):
        super().__init__(f"the request was answered with {code}, which nobody expected")

class OwnLookup(KeyError):
    pass

class Settings:
    learning_rate = 1

class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

@dataclasses.dataclass
class Batch:
    size: int

class Shape(abc.ABC):
    pass

EXCEPTIONS = (ValueError, KeyError, IndexError, AttributeError, StopIteration, AssertionError, FileNotFoundError, TypeError, Own, OwnLookup)

places = [ctypes.c_void_p.from_address(id(of) + TP_CALL) for of in (type, abc.ABCMeta)]
if sys.version_info >= (3, 14):
    places += [ctypes.c_void_p.from_address(id(of) + TP_VECTORCALL) for of in EXCEPTIONS]
before = [slot.value for slot in places]
import torch
hooked = [slot.value for slot in places]
assert all(one != other for one, other in zip(hooked, before) if other), "the hook is not set"

ROWS = (
    ("nothing: both without the hook", "raise ValueError(text)", "", ValueError),
    ("no text", "raise ValueError(text)", "", ValueError),
    ("3 characters", "raise ValueError(text)", "bad", ValueError),
    ("43 characters, the same each time", "raise ValueError(text)", "invalid literal for int() with base 10: 'x'", ValueError),
    ("120 characters, the same each time", "raise ValueError(text)", "x" * 120, ValueError),
    ("43 characters, made anew each time", "raise ValueError(f'invalid literal for int() of base 10: {number!r}')", "", ValueError),
    ("120 characters, made anew each time", "raise ValueError(f'{text} {number}')", "x" * 115, ValueError),
    ("`int('x')`", "int('x')", "", ValueError),
    ("`float('x')`", "float('x')", "", ValueError),
    ("`1 + 'x'`", "1 + 'x'", "", TypeError),
    ("`{}['k']`", "empty['k']", "", KeyError),
    ("`[][9]`", "none[9]", "", IndexError),
    ("`next(iter(()))`", "next(iter(()))", "", StopIteration),
    ("an attribute that is not there", "settings.momentum", "", AttributeError),
    ("`getattr(x, 'y', None)`", "getattr(settings, 'momentum', None)", "", AttributeError),
    ("`hasattr(x, 'y')`", "hasattr(settings, 'momentum')", "", AttributeError),
    ("`open` of a file that is not there", "open('/nowhere/at/all')", "", FileNotFoundError),
    ("an assertion without a text", "assert not number + 1", "", AssertionError),
    ("an assertion with a text", "assert not number + 1, f'expected batch size 32, got {number}'", "", AssertionError),
    ("a class of the program's, text made anew", "raise Own(number)", "", Own),
    ("a class of the program's below KeyError, text made anew", "raise OwnLookup(f'no setting of the name {number}')", "", OwnLookup),
    ("`object()`, no exception", "object()", "", ValueError),
    ("a class of the program's that is no exception", "Settings()", "", ValueError),
    ("one with an `__init__` of two arguments", "Point(number, 2)", "", ValueError),
    ("a dataclass", "Batch(number)", "", ValueError),
    ("one below abc.ABC", "Shape()", "", ValueError),
)

def loop_of(body, error):
    names = {**globals(), "settings": Settings(), "empty": {}, "none": []}
    exec(f'''
def loop(text, count):
    for number in range(count):
        try:
            {body}
        except {error.__name__}:
            pass
''', names)
    return names["loop"]

def cost(functions, loop, text, count):
    for slot, function in zip(places, functions):
        slot.value = function
    began = time.process_time()
    loop(text, count)
    return time.process_time() - began

for name, body, text, error in ROWS:
    loop = loop_of(body, error)
    with_hook = before if name.startswith("nothing") else hooked
    count = max(200, int(0.0015 / (cost(before, loop, text, 500) / 500)))
    # Short turns, the order changed each time: the machine's other work meets both ways alike.
    pairs = []
    for turn in range(600):
        both = [(with_hook, 0), (before, 1)][:: 1 if turn % 2 else -1]
        times = {which: cost(functions, loop, text, count) for functions, which in both}
        pairs.append((times[0], times[1]))
    ratio = statistics.median(one / other for one, other in pairs)
    each = statistics.median(other for _, other in pairs) / count * 1e9
    print(f"| {name} | {each:.0f} ns | {(ratio - 1) * 100:+.1f} % |", flush=True)
cost(hooked, lambda *_: None, "", 0)
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build", type=Path)
    library = (parser.parse_args().build / "libdevtrace.so").resolve()
    subprocess.run([sys.executable, "-c", LOOP], env={**os.environ, "LD_PRELOAD": str(library)}, check=True)


main()
