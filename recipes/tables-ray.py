"""A fleet's faults through Ray Data: `python tables-ray.py FOLDER` prints each fault, in how many processes and how often, a JSON object a
line. FOLDER: what `devtrace report LOGS --format parquet -o FOLDER` writes. For what is no SQL: each batch of rows is a table of Arrow's, given to
any function of yours on any node of the cluster."""

import json
import sys
from pathlib import Path

import pyarrow
import pyarrow.compute
import ray
from ray.data.aggregate import Count, Sum
from ray.data.datasource.partitioning import Partitioning

folder = Path(sys.argv[1]).resolve()
ray.init(logging_level="ERROR", log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False


def table(name, columns):
    # An empty file's types are those of no row.
    files = sorted(str(file) for file in (folder / name).rglob("*.parquet") if file.name != "empty.parquet")
    hive = Partitioning("hive", base_dir=str(folder / name), field_types={"host": str})
    return ray.data.read_parquet(files, partitioning=hive, columns=columns) if files else None


old = table("outgrown", ["log", "log_bytes"])
outgrown = {(row["log"], row["log_bytes"]) for row in old.take_all()} if old else set()


def faults_that_hold(batch: pyarrow.Table) -> pyarrow.Table:
    """Without notes, what is suppressed, and the older rows of logs that have grown since."""
    keep = [
        (log, size) not in outgrown and severity != "note" and not suppressed
        for log, size, severity, suppressed in zip(*(batch[name].to_pylist() for name in ("log", "log_bytes", "severity", "suppressed")))
    ]
    return batch.filter(pyarrow.array(keep, pyarrow.bool_()))


rows = table("findings", ["log", "log_bytes", "severity", "suppressed", "fingerprint", "count"])
if rows:
    held = rows.map_batches(faults_that_hold, batch_format="pyarrow")
    by_fault = held.groupby("fingerprint").aggregate(Count(alias_name="processes"), Sum("count", alias_name="occurrences"))
    for row in sorted(by_fault.take_all(), key=lambda row: row["fingerprint"]):
        print(json.dumps(row))
