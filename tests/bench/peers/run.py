"""What devtrace costs beside what people would use instead, written as docs/evidence/cost.md.

    python tests/bench/peers/run.py --build build [--rounds 40] [--instructions] [--write]

Without --write the figures stay in BUILD/cost.json.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
sys.path.insert(0, str(HERE))
import measure  # noqa: E402
import page  # noqa: E402
from programs import PROGRAMS  # noqa: E402
from ways import WAYS  # noqa: E402

# Counted, not timed: an import of PyTorch under valgrind takes half a minute, so the peers that are far off are left out.
COUNTED = ("nothing", "devtrace", "refusals", "provenance", "native", "launches", "copies", "placement", "history", "history-all")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=Path)
    parser.add_argument("--rounds", type=int, default=40, help="turns of each way")
    parser.add_argument("--programs", nargs="*", default=[*PROGRAMS, *measure.START_UPS], choices=[*PROGRAMS, *measure.START_UPS])
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--instructions", action="store_true", help="count instructions as well (minutes a program)")
    parser.add_argument("--write", action="store_true", help="write docs/evidence/cost.md and its pictures")
    options = parser.parse_args()
    devtrace = options.build.resolve() / "devtrace"
    kept = options.build / "cost.json"
    found = json.loads(kept.read_text()) if kept.exists() else {"times": {}, "instructions": {}}
    found |= {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "python": platform.python_version()}

    def keep():
        kept.write_text(json.dumps(found, indent=1))

    programs = [program for program in options.programs if program in PROGRAMS]
    start_ups = {name: source for name, source in measure.START_UPS.items() if name in options.programs}
    if options.rounds:
        for program in programs:
            print(f"{program} ...", flush=True)
            found["times"][program] = measure.times(devtrace, program, options.ways, options.rounds)
            keep()
        for name, source in start_ups.items():
            found["times"][name] = measure.start_up(
                devtrace, source, options.ways, max(3, options.rounds // 8) * measure.TIMES_AS_OFTEN.get(name, 1)
            )
            keep()
        found["findings"] = measure.findings(devtrace)
        keep()
    if options.instructions:
        for program in programs:
            if program == "loader":
                continue  # its processes wait for one another: how often is not the same in two runs
            counted = found["instructions"].setdefault(program, {})
            for way in options.ways:
                if way not in COUNTED or not measure.can_run(program, way):
                    continue
                one = measure.instructions(devtrace, program, way)
                counted[way] = one and one.all
                print(f"{program} with {way}: {counted[way]} instructions a step", flush=True)
                if one and way == "devtrace":
                    found.setdefault("parts", {})[program] = one.parts
                    if bare := counted.get("nothing"):
                        print(f"{one.all / bare:.4f} times\n{page.where_it_goes(one.parts, bare)}")
                keep()
        for name, source in start_ups.items():
            counted = found["instructions"].setdefault(name, {})
            for way in ("nothing", "devtrace"):
                counted[way] = measure.start_up_instructions(devtrace, source, way)
                print(f"{source} with {way}: {counted[way]} instructions", flush=True)
            keep()
    print(page.text(found))
    if options.write:
        page.write(found, TOP / "docs/evidence")
    return 0


if __name__ == "__main__":
    sys.exit(main())
