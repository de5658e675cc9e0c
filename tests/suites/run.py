"""Other projects' test suites under rehearsal; writes docs/evidence/suites.md. Needs PyPI.

    python tests/suites/run.py --build build --markdown docs/evidence/suites.md
"""

import argparse
import importlib.metadata
import json
import sys
from pathlib import Path

from suite_runner import run
from suites import SUITES
from suites_page import markdown

TOP = Path(__file__).resolve().parent.parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with the devtrace command")
    parser.add_argument("--json", type=Path, help="write what came out there")
    parser.add_argument("--markdown", type=Path, help="write the page there")
    parser.add_argument("--suites", nargs="*", help="only these")
    parser.add_argument("--files", nargs="*", default=[], help="only these files")
    parser.add_argument("--keep", action="store_true", help="files that ran already do not run again")
    parser.add_argument("--read", nargs="*", type=Path, help="run nothing: what earlier runs wrote by --json")
    options = parser.parse_args()
    build = (TOP / options.build).resolve()
    if options.read:
        verdicts = {name: suite for file in options.read for name, suite in json.loads(file.read_text()).items()}
    else:
        verdicts = {s.name: run(s, build, build / "suites", options.files, options.keep) for s in SUITES if not options.suites or s.name in options.suites}
    if options.json:
        options.json.write_text(json.dumps(verdicts, indent=1) + "\n")
    if options.markdown:
        versions = f"PyTorch {importlib.metadata.version('torch')}, transformers {importlib.metadata.version('transformers')}"
        options.markdown.write_text(markdown(verdicts, versions), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
