"""Delta tables in a session that has no package for them: a source named "delta" made of delta-rs, if that is there.

What Spark has wins. Ours reads and writes the table at a path by Delta's protocol: files first, then one commit in the
log, which counts once where the options name a transaction (txnAppId, txnVersion).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, DayTimeIntervalType, MapType, StructType, YearMonthIntervalType

from sase.runtime.errors import SaseRunError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter


_provided: WeakSet[SparkSession] = WeakSet()


def provide(spark: SparkSession) -> bool:
    """Sees to it that the session has the format "delta", if there is a way. Whether it is ours."""
    if spark not in _provided and find_spec("deltalake") is not None and not is_known(spark):
        spark.dataSource.register(_source())
        _provided.add(spark)
    return spark in _provided


def prepare(matches: DataFrame) -> bool:
    """`provide`, for rows that are to be written. Refuses what Delta cannot hold before anything is written."""
    for column in matches.schema:
        if _has_interval(column.dataType):
            raise SaseRunError(
                f"Delta has no type for an interval, and {column.name} is one: RETURN a number instead, such as "
                f"unix_seconds(z.ts) - unix_seconds(x.ts) AS {column.name}"
            )
    spark = matches.sparkSession
    ours = provide(spark)
    if not ours and not is_known(spark):
        raise SaseRunError(
            "this Spark does not know Delta: add its package to the session, as with spark-submit --packages, or "
            "install deltalake"
        )
    return ours


def _has_interval(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_interval(field.dataType) for field in kind)
        case ArrayType():
            return _has_interval(kind.elementType)
        case MapType():
            return _has_interval(kind.keyType) or _has_interval(kind.valueType)
        case _:
            return isinstance(kind, DayTimeIntervalType | YearMonthIntervalType)


def is_known(spark: SparkSession) -> bool:
    """Whether the session has the format "delta", whoever made it."""
    try:
        columns_of(spark, "/no table")
    except Exception:
        return False
    return True


def columns_of(spark: SparkSession, place: str) -> StructType | None:
    """The columns of the Delta table at a path; None if there is no table."""
    try:
        return spark.read.format("delta").load(place).schema
    except Exception as error:
        if "[DATA_SOURCE_NOT_FOUND]" in str(error):
            raise
        return None


def _source() -> type[DataSource]:
    """The source. Made in a function, so that it is pickled by value: workers need deltalake, and nothing of ours."""
    import json
    from contextlib import suppress
    from itertools import chain
    from uuid import uuid4

    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        InputPartition,
        WriterCommitMessage,
    )

    class Reader(DataSourceReader):
        """One partition per file, of the version that the query was planned for."""

        def __init__(self, path: str) -> None:
            from deltalake import DeltaTable

            self.path, self.version = path, DeltaTable(path).version()

        def dataset(self) -> Any:
            from deltalake import DeltaTable

            return DeltaTable(self.path, version=self.version).to_pyarrow_dataset()

        def partitions(self) -> Sequence[InputPartition]:
            # Spark wants at least one.
            return [InputPartition(name) for name in self.dataset().files] or [InputPartition(None)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            dataset = self.dataset()
            for fragment in dataset.get_fragments():
                if fragment.path == partition.value:
                    yield from fragment.to_batches(schema=dataset.schema)

    class Written(WriterCommitMessage):
        def __init__(self, name: str, size: int, rows: int) -> None:
            self.name, self.size, self.rows = name, size, rows

    class Writer(DataSourceArrowWriter):
        """One file per task. Until `commit` writes to the log, nobody reads it.

        A file of a write that fails is left for VACUUM: the commit may have been made, and the news of it lost.
        """

        def __init__(self, options: Mapping[str, str], schema: str, overwrite: bool) -> None:
            self.path, self.schema, self.overwrite = options["path"], schema, overwrite
            self.application, self.version = options.get("txnappid"), int(options.get("txnversion", 0))

        def files(self) -> Any:
            from deltalake.fs import DeltaStorageHandler
            from pyarrow.fs import PyFileSystem

            return PyFileSystem(DeltaStorageHandler(self.path))

        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            import pyarrow.parquet as pq

            name, rows = f"part-{uuid4()}.parquet", 0
            batches = (batch for batch in iterator if batch.num_rows)
            if (first := next(batches, None)) is None:
                return Written(name, 0, 0)
            with self.files().open_output_stream(name) as file:
                with pq.ParquetWriter(file, first.schema) as writer:
                    for batch in chain([first], batches):
                        writer.write_batch(batch)
                        rows += batch.num_rows
                return Written(name, file.tell(), rows)

        def commit(self, messages: list[Any]) -> None:
            from time import time

            from deltalake import CommitProperties, DeltaTable, Schema, Transaction
            from deltalake.transaction import AddAction, RemoveAction

            table = DeltaTable(self.path)
            transactions = None
            if self.application is not None:
                done = table.transaction_version(self.application)
                if done is not None and done >= self.version:
                    for each in messages:
                        with suppress(OSError):  # VACUUM will find it
                            self.files().delete_file(each.name)
                    return
                transactions = [Transaction(self.application, self.version)]
            added: list[AddAction | RemoveAction] = [
                AddAction(each.name, each.size, {}, int(time() * 1000), True, json.dumps({"numRecords": each.rows}))
                for each in messages
                if each.rows
            ]
            table.create_write_transaction(
                added,
                "overwrite" if self.overwrite else "append",
                Schema.from_json(self.schema),
                commit_properties=CommitProperties(app_transactions=transactions),
            )

    def columns(table: Any) -> StructType:
        return StructType.fromJson(json.loads(table.schema().to_json()))

    class Delta(DataSource):
        # The names of options come in lower case.

        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> StructType:
            from deltalake import DeltaTable

            return columns(DeltaTable(self.options["path"]))

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(self.options["path"])

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            """Makes the table where there is none: the files need a place."""
            from deltalake import DeltaTable, Schema

            def nullable(part: dict[str, Any]) -> dict[str, Any]:
                """As Delta declares columns: that there was no NULL so far is no promise."""
                return part | dict.fromkeys(part.keys() & {"nullable", "containsNull", "valueContainsNull"}, True)

            path = self.options["path"]
            text = json.dumps(json.loads(schema.json(), object_hook=nullable))
            if not DeltaTable.is_deltatable(path):
                DeltaTable.create(path, Schema.from_json(text))
            table = DeltaTable(path)
            if partitions := table.metadata().partition_columns:
                raise ValueError(f"{path} is partitioned by {', '.join(partitions)}: that takes Delta's own package")
            there, given = columns(table).simpleString(), schema.simpleString()
            if not overwrite and there != given:
                raise ValueError(f"{path} has other columns: {there}, and not {given}")
            return Writer(dict(self.options), text, overwrite)

    return Delta
