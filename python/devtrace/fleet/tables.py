"""Rows that the command sends become Parquet files: `devtrace report --format parquet`.

On standard input a line of JSON says what comes: the schema, a batch's place, how many bytes of a table's rows follow, the
manifest that ends a batch. A batch's files appear whole, its manifest last."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

try:
    import pyarrow as arrow
    import pyarrow.json as arrow_json
    import pyarrow.parquet as parquet
except ImportError as error:
    raise SystemExit(f"devtrace report: --format parquet needs Arrow: pip install 'devtrace[fleet]' ({error}; {sys.executable})") from None

TYPES = {
    "string": arrow.string(),
    "int": arrow.int64(),
    "number": arrow.float64(),
    "boolean": arrow.bool_(),
    "time": arrow.timestamp("us"),  # UTC
}
# Bytes of rows: to set zstd up for forty columns takes longer than to write so few.
SMALL = 1 << 18


class Schema:
    """A table's: as the rows say it, and as the file has it."""

    def __init__(self, columns: list[list[str]], structs: dict[str, list[list[str]]]) -> None:
        def of(name: str) -> arrow.DataType:
            if name.startswith("["):
                return arrow.list_(of(name[1:-1]))
            if name in structs:
                return arrow.struct([(field, of(type_)) for field, type_ in structs[name]])
            return TYPES[name]

        self.written = arrow.schema([(name, of(type_)) for name, type_ in columns])
        number = arrow.int64()
        self.read = arrow.schema([(each.name, number if each.type == TYPES["time"] else each.type) for each in self.written])

    def table(self, rows: bytes) -> arrow.Table:
        options = arrow_json.ParseOptions(explicit_schema=self.read, unexpected_field_behavior="error")
        read = arrow_json.read_json(arrow.BufferReader(rows), arrow_json.ReadOptions(use_threads=False, block_size=len(rows)), options)
        return read.select(self.written.names).cast(self.written)


class Batch:
    """The files of one batch while they are written, under names that no reader takes for a table's."""

    def __init__(self, top: Path, partition: str, name: str) -> None:
        self.top, self.partition, self.name = top, partition, name
        self.open: dict[str, tuple[parquet.ParquetWriter, Path]] = {}

    def file(self, table: str, end: str = ".parquet") -> Path:
        folder = self.top / table / self.partition
        folder.mkdir(parents=True, exist_ok=True)
        return folder / (self.name + end)

    def add(self, table: str, schema: Schema, rows: bytes) -> None:
        if table not in self.open:
            part = self.file(table, f".parquet.{os.getpid()}").with_name(f".{self.name}.{os.getpid()}")
            codec = "zstd" if len(rows) > SMALL else "snappy"
            self.open[table] = parquet.ParquetWriter(part, schema.written, compression=codec, store_schema=False), part
        self.open[table][0].write_table(schema.table(rows))

    def end(self, manifest: str) -> None:
        for table, (writer, part) in self.open.items():
            writer.close()
            part.replace(self.file(table))
        self.open.clear()
        part = self.file("_logs", ".part")
        part.write_text(manifest, encoding="utf-8", errors="surrogateescape")
        part.replace(self.file("_logs", ".txt"))

    def leave(self) -> None:
        for writer, part in self.open.values():
            writer.close()
            part.unlink()


def make_empty(top: Path, schemas: dict[str, Schema]) -> None:
    """A file without rows in each table: engines know its columns before the first finding."""
    for table, schema in schemas.items():
        folder = top / table / "date=1970-01-01/host=unknown"
        if table != "operands" and not (folder / "empty.parquet").exists():
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f".empty.{os.getpid()}"
            parquet.write_table(schema.written.empty_table(), part, store_schema=False)
            part.replace(folder / "empty.parquet")


def write(stream: BinaryIO, top: Path) -> None:
    schemas: dict[str, Schema] = {}
    batch = None
    try:
        for line in stream:
            head: dict[str, Any] = json.loads(line)
            if "schema" in head:
                schemas = {name: Schema(columns, head["schema"]) for name, columns in head["schema"].items()}
                make_empty(top, schemas)
            elif "partition" in head:
                batch = Batch(top, head["partition"], head["name"])
            elif "rows" in head:
                batch.add(head["rows"], schemas[head["rows"]], stream.read(head["bytes"]))
            else:
                batch.end(head["manifest"])
    finally:
        if batch:
            batch.leave()


if __name__ == "__main__":
    try:
        write(sys.stdin.buffer, Path(sys.argv[1]))
    except (OSError, arrow.ArrowException) as error:
        raise SystemExit(f"devtrace report: {sys.argv[1]}: {error}") from None
