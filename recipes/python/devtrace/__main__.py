"""python -m devtrace: the command of this very environment, whatever PATH says."""

import importlib.metadata
import os
import sys


def command() -> str:
    for file in importlib.metadata.distribution("devtrace").files or ():
        if file.name == "devtrace" and file.parent.name == "bin":
            return os.path.realpath(file.locate())
    raise SystemExit("devtrace: its command was not installed with it")


if __name__ == "__main__":
    program = command()
    os.execv(program, [program, *sys.argv[1:]])
