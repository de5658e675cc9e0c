"""Everything in the bundle on this machine: results/results.json and results/results.md.

    run [--results FOLDER] [--minutes 8] [--steps machine,tests,…] [--tests EXPRESSION of pytest's -k] [--simulated DEVICES]

--simulated tries the bundle itself on so many simulated devices, for which build/simulate has to lie in it. Exit code 1: something that ran is not as it should be.
"""

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

from page import page
from steps import MISSING, STEPS, TOP, Bundle, NotRun


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--results", type=Path, default=TOP / "results")
    arguments.add_argument("--minutes", type=float, default=8)
    arguments.add_argument("--steps", default=",".join(STEPS))
    arguments.add_argument("--tests", default="")
    arguments.add_argument("--simulated", type=int, default=0)
    options = arguments.parse_args()
    wanted = options.steps.split(",")
    if unknown := set(wanted) - set(STEPS):
        arguments.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    if options.results.exists() and any(options.results.iterdir()):
        arguments.error(f"{options.results} is not empty")
    options.results.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    bundle = Bundle(options.results.resolve(), options.simulated, begin + options.minutes * 60, options.tests)
    results = {"date": time.strftime("%Y-%m-%d"), "steps": {}, "not_run": MISSING | {name: "not asked for" if name not in wanted else "the run ended before" for name in STEPS}}
    for name, step in STEPS.items():
        if name not in wanted:
            continue
        print(f"{name} …", flush=True)
        since = time.monotonic()
        try:
            bundle.left()
            results["steps"][name] = {"ok": True, **step(bundle)}
        except NotRun as why:
            results["not_run"][name] = str(why)
        except Exception:  # one step's fault is not the others'
            results["steps"][name] = {"ok": False, "error": traceback.format_exc()[-3000:]}
        if name in results["steps"]:
            del results["not_run"][name]
            results["steps"][name]["seconds"] = round(time.monotonic() - since, 1)
        results["seconds"] = round(time.monotonic() - begin, 1)
        # Anew after each step: what ends the whole run leaves what was found.
        (options.results / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (options.results / "results.md").write_text(page(results))
    print((options.results / "results.md").read_text())
    return int(not all(step["ok"] for step in results["steps"].values()))


sys.exit(main())
