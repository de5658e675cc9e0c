"""python -m devtrace: the command of this very environment, whatever PATH says."""

import os
import sys

from .installation import DevtraceError, command

if __name__ == "__main__":
    try:
        program = command()
    except DevtraceError as error:
        raise SystemExit(str(error)) from None
    os.execv(program, [program, *sys.argv[1:]])
