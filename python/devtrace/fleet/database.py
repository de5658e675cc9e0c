"""A fleet's tables in DuckDB: a folder of Parquet files, or a database that has them, with the views of recipes/queries.sql."""

from __future__ import annotations

import os
import re
from pathlib import Path

import duckdb

HERE = Path(__file__).resolve().parent


def queries() -> str:
    """The text of queries.sql: of a source tree, else where the command's installation has it."""
    command = Path(os.path.realpath(os.environ.get("DEVTRACE", "devtrace")))
    for folder in (HERE.parents[2] / "recipes", command.parent.parent / "share/devtrace", HERE.parents[3] / "share/devtrace"):
        if (folder / "queries.sql").exists():
            return (folder / "queries.sql").read_text(encoding="utf-8")
    raise SystemExit("devtrace fleet: queries.sql is neither in recipes nor in share/devtrace of the installation")


def statements() -> dict[str, str]:
    """Each view's name and the statement that makes it, in order."""
    text = re.sub(r"^--.*\n", "", queries(), flags=re.MULTILINE)
    return {re.search(r"VIEW (\w+)", each)[1]: each.strip() for each in text.split(";") if each.strip()}


def connect(database: Path, mixed: bool = False) -> duckdb.DuckDBPyConnection:
    """Nothing in the folder or the file is changed. `mixed`: files of several devtraces, whose columns differ."""
    if database.is_dir():
        if not (database / "processes").is_dir():
            raise SystemExit(f"devtrace fleet: {database} has no tables: devtrace report LOGS --format parquet -o {database} writes them")
        connection = duckdb.connect()
        connection.execute("SET file_search_path = ?", [str(database.resolve())])
        hive = "hive_partitioning = true"
        for statement in statements().values():
            connection.execute(statement.replace(hive, f"{hive}, union_by_name = true") if mixed else statement)
        return connection
    if not database.exists():
        raise SystemExit(f"devtrace fleet: {database}: no such file or folder")
    connection = duckdb.connect(str(database), read_only=True)
    there = {name for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()}
    if not {"findings", "processes"} <= there:
        raise SystemExit(f"devtrace fleet: {database} has none of the views that recipes/queries.sql makes")
    return connection
