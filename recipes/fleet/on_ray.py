#!/usr/bin/env python3
"""A matrix (matrix.toml) on a Ray cluster: a task a cell, and devtrace check over all logs at the end.

    on_ray.py matrix.toml [-- OPTIONS of devtrace check]

The cluster is the one of RAY_ADDRESS or of this host; without any, this host is one. The folder of the TOML, with the programs in it, is
sent to the nodes. Every node has devtrace, uv and what reads `logs`: a folder that all of them share, or a bucket.

A cell that is lost with its worker or node runs again elsewhere, `tries` times in all. Exit: as of `matrix.py check`."""

import os
import sys
from pathlib import Path

import matrix as cells
import ray
from ray.exceptions import RayError, RayTaskError

ray.cloudpickle.register_pickle_by_value(cells)


@ray.remote(max_retries=0)  # who loses a cell is told so, and tries again: below
def run(matrix, number, attempt):
    matrix.folder = Path.cwd()  # this node's copy
    node = ray.get_runtime_context().get_node_id()[:8]
    print(f"{matrix.cells[number]}: begins on node {node}", flush=True)
    return f"{cells.run(matrix, number, attempt)} (node {node})"


def start(matrix, number, attempt):
    devices = matrix.cells[number].devices
    needs = {"num_gpus": devices} if matrix.on_gpus else {"num_cpus": 1}
    return run.options(name=str(matrix.cells[number]), scheduling_strategy="SPREAD", **needs).remote(matrix, number, attempt)


def main(words):
    matrix = cells.Matrix(words[0])
    ray.init(runtime_env={"working_dir": str(matrix.folder), "excludes": [f"/{matrix.settings['logs']}"]})
    most = max((node["Resources"].get("GPU", 0) for node in ray.nodes()), default=0)
    if matrix.on_gpus and most < max(matrix.settings["devices"]):
        cells.refuse(f"no node has {max(matrix.settings['devices'])} GPUs; devtrace = [\"rehearse\"] simulates them")
    waiting = {start(matrix, number, 1): (number, 1) for number in range(len(matrix.cells))}
    while waiting:
        (done,), _ = ray.wait(list(waiting), num_returns=1)
        number, attempt = waiting.pop(done)
        try:
            print(ray.get(done), flush=True)
        except RayTaskError as error:  # it ran and failed: it would again
            print(f"{matrix.cells[number]}: failed: {error.cause}", flush=True)
        except RayError as error:
            tries = matrix.settings.get("tries", 3)
            print(f"{matrix.cells[number]}: lost ({type(error).__name__}), " + (f"try {attempt + 1} of {tries}" if attempt < tries else "given up"), flush=True)
            if attempt < tries:
                waiting[start(matrix, number, attempt + 1)] = (number, attempt + 1)
    return cells.check(matrix, words[2:])


if __name__ == "__main__":
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else cells.refuse(__doc__))
