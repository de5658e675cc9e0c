"""What ordinary Python exceptions cost with the hook of exceptions and without: in one process, which takes turns.

exceptions_bench.py --build FOLDER: for texts of several lengths the ratio of a loop's CPU time with the hook to without.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

LOOP = """
import ctypes, statistics, time

new = ctypes.c_void_p.from_address(id(ValueError) + 312)  # tp_new
original = new.value
import torch
hook = new.value
assert hook != original, "the hook is not set"

def constant(text, count):
    for _ in range(count):
        try:
            raise ValueError(text)
        except ValueError:
            pass

def anew(_, count):
    for number in range(count):
        try:
            raise ValueError(f"invalid literal for int() of base 10: {number!r}")
        except ValueError:
            pass

def cost(function, loop, text):
    new.value = function
    began = time.process_time()
    loop(text, 10000)
    return time.process_time() - began

for name, loop, text in (
    ("no text", constant, ""), ("3 characters", constant, "bad"), ("43 characters", constant, "invalid literal for int() with base 10: 'x'"),
    ("120 characters", constant, "x" * 120), ("43 characters, made anew", anew, None),
):
    pairs = [(cost(hook, loop, text), cost(original, loop, text)) for _ in range(100)]
    ratio = statistics.median(one / other for one, other in pairs)
    each = statistics.median(other for _, other in pairs) / 10000 * 1e9
    print(f"an exception with {name}: {each:.0f} ns; with the hook {(ratio - 1) * 100:+.1f} %")
new.value = hook
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build", type=Path)
    library = (parser.parse_args().build / "libdevtrace.so").resolve()
    subprocess.run([sys.executable, "-c", LOOP], env={**os.environ, "LD_PRELOAD": str(library)}, check=True)


main()
