"""The views of queries.sql on Spark: `spark-submit tables-spark.py FOLDER [VIEW…]` prints their rows, a JSON object a line.

FOLDER: what `devtrace report LOGS --format parquet -o FOLDER` writes, by a path that all workers see; on a cluster the same files in HDFS
or a bucket (`s3a://…`) do. The SQL is DuckDB's, but for how the files are opened and that the views are this session's."""

import re
import sys
from pathlib import Path

from pyspark.sql import SparkSession

folder, *views = sys.argv[1:]
session = SparkSession.builder.appName("devtrace").config("spark.sql.session.timeZone", "UTC").getOrCreate()
for table in ("findings", "traffic", "processes", "memory", "outgrown"):
    session.read.option("mergeSchema", "true").parquet(f"{folder}/{table}").createOrReplaceTempView(f"all_{table}")

text = re.sub(r"^--.*\n", "", (Path(__file__).parent / "queries.sql").read_text(encoding="utf-8"), flags=re.MULTILINE)
for statement in text.split(";"):
    name = re.search(r"VIEW (\w+)", statement)
    if name and not name[1].startswith("all_"):
        session.sql(statement.replace("REPLACE VIEW", "REPLACE TEMPORARY VIEW"))
for view in views or ["faults"]:
    for row in session.table(view).toJSON().collect():
        print(f'{{"{view}":{row}}}')
session.stop()
