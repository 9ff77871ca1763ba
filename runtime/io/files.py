"""Files as Spark sees them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from sase.runtime.errors import SaseRunError

JavaObject = Any


FEW = 4 << 20
"""Bytes of events that are read in a moment."""


def few(specs: Iterable[str]) -> bool:
    """Whether --events names files of this machine that are small. It is asked before there is a Spark."""
    paths = [spec if os.path.exists(spec) else spec.partition("=")[2] for spec in specs]
    return bool(paths) and all(map(os.path.isfile, paths)) and sum(map(os.path.getsize, paths)) <= FEW


class Files:
    """Files as Spark sees them, through Hadoop's FileSystem, so that remote ones are files like any other.

    Spark Connect has no such view: there, nothing is known of a path but its name.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._session: JavaObject = getattr(spark, "_jsparkSession", None)
        self._jvm: JavaObject = getattr(spark, "_jvm", None)

    def matching(self, pattern: str) -> list[JavaObject] | None:
        """The files and directories at a path, which may have wildcards; None if there is no way to tell."""
        if self._session is None:
            return None
        path, system = self._open(pattern)
        return list(system.globStatus(path) or [])

    def exists(self, location: str) -> bool:
        """Whether there is anything at this very path; False if there is no way to tell."""
        if self._session is None:
            return False
        path, system = self._open(location)
        return bool(system.exists(path))

    def has_data(self, location: str) -> bool:
        """Whether there is a file at this very path, or at any depth below it, that is not hidden."""
        if not self.exists(location):
            return False
        path, system = self._open(location)
        return self._holds(system.getFileStatus(path))

    def _holds(self, status: JavaObject) -> bool:
        if str(status.getPath().getName()).startswith(("_", ".")):
            return False
        if not status.isDirectory():
            return True
        _, system = self._open(str(status.getPath()))
        return any(self._holds(child) for child in system.listStatus(status.getPath()))

    def size(self, location: str) -> int | None:
        """The bytes of all files at or below this very path; None if there is no way to tell."""
        if self._session is None:
            return None
        path, system = self._open(location)
        return int(system.getContentSummary(path).getLength())

    def read(self, location: str) -> str | None:
        """A small text; None if there is no such file."""
        if not self.exists(location):
            return None
        path, system = self._open(location)
        stream = system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, location: str, text: str) -> None:
        path, system = self._open(location)
        stream = system.create(path, True)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()

    @property
    def are_known(self) -> bool:
        return self._session is not None

    def delete(self, location: str) -> None:
        """Whatever is there, if anything."""
        path, system = self._open(location)
        system.delete(path, True)

    def beside(self, location: str, what: str) -> str:
        """A hidden place in the same folder, which no reader of that folder takes for data."""
        path = self._open(self.qualified(location))[0]
        return f"{path.getParent()}/.{path.getName()}.{what}"

    def replace(self, target: str, finished: str) -> None:
        """Puts `finished` in the place of whatever is there. What is there goes when nothing can fail any more."""
        before = self.beside(target, "replaced")
        if there := self.exists(target):
            self.delete(before)
            self.rename(target, before)
        try:
            self.rename(finished, target)
        except Exception:
            if there:
                self.rename(before, target)
            raise
        self.delete(before)

    def join(self, folder: str, target: str, head: str) -> None:
        """One file of `head` and the parts that Spark has written to a folder, in their order."""
        path, system = self._open(folder)
        parts = sorted(
            (str(name), status)
            for status in system.listStatus(path)
            if not (name := status.getPath().getName()).startswith(("_", "."))
        )
        system.setWriteChecksum(False)  # a file of the user has no .crc beside it
        try:
            joined = system.create(self._open(target)[0], True)
        finally:
            system.setWriteChecksum(True)
        copy = self._jvm.org.apache.hadoop.io.IOUtils.copyBytes
        try:
            joined.write(bytearray(head, "utf-8"))
            for _, part in parts:
                stream = system.open(part.getPath())
                try:
                    copy(stream, joined, 1 << 20, False)
                finally:
                    stream.close()
        finally:
            joined.close()

    def rename(self, location: str, target: str) -> None:
        path, system = self._open(location)
        if not system.rename(path, self._open(target)[0]):
            raise SaseRunError(f"{location} cannot be renamed to {target}")

    def nanoseconds(self, location: str) -> dict[str, bool]:
        """The columns of Parquet files that have timestamps of nanoseconds, and whether these are in UTC."""
        found: dict[str, bool] = {}
        parquet, waiting = self._jvm.org.apache.parquet.hadoop, self.matching(location) or []
        while waiting:
            status = waiting.pop()
            path, system = self._open(str(status.getPath()))
            if path.getName().startswith(("_", ".")):
                continue
            if status.isDirectory():
                waiting += list(system.listStatus(path))
                continue
            file = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(path, system.getConf()))
            try:
                columns = file.getFooter().getFileMetaData().getSchema().getFields()
            finally:
                file.close()
            for column in columns:
                if str(kind := column.getLogicalTypeAnnotation()).startswith("TIMESTAMP(NANOS"):
                    found[str(column.getName())] = bool(kind.isAdjustedToUTC())
        return found

    def qualified(self, location: str) -> str:
        path, system = self._open(location)
        return str(system.makeQualified(path))

    def format(self, location: str, found: Iterable[JavaObject]) -> str:
        """The one format of the data at a location."""
        formats = {name for status in found for name in self._formats(status)}
        match sorted(formats):
            case [one]:
                return one
            case []:
                raise SaseRunError(f"nothing tells the format of {location}: add --format")
            case several:
                raise SaseRunError(f"{location} has {' and '.join(several)} files: name those to read")

    def _formats(self, status: JavaObject) -> set[str]:
        name = str(status.getPath().getName())
        if not status.isDirectory():
            return {known} if (known := format_of(name)) else set()
        _, system = self._open(str(status.getPath()))
        children = list(system.listStatus(status.getPath()))
        if any(child.getPath().getName() == "_delta_log" for child in children):
            return {"delta"}
        if known := format_of(name):
            return {known}
        data = [child for child in children if not child.getPath().getName().startswith(("_", "."))]
        # Partitions are alike, so the first one that has files tells enough.
        here = {known for child in data if not child.isDirectory() for known in self._formats(child)}
        return here or next(filter(None, (self._formats(child) for child in data if child.isDirectory())), set())

    def _open(self, location: str) -> tuple[JavaObject, JavaObject]:
        # By its whole name: of a shorter one, Java searches all jars to see that it is no class.
        path = getattr(self._jvm, "org.apache.hadoop.fs.Path")(location)
        return path, path.getFileSystem(self._session.sessionState().newHadoopConf())


_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")


def format_of(name: str, compressed: bool = True) -> str | None:
    stem, suffix = os.path.splitext(name.rstrip("/"))
    if compressed and suffix in _COMPRESSIONS:
        suffix = os.path.splitext(stem)[1]
    return _FORMATS.get(suffix.lower())


def lies_in(path: str, folder: str) -> bool:
    """Whether a path is that of a folder, or of something in it; both are qualified."""
    return f"{path}/".startswith(f"{folder}/")
