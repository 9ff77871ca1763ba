"""What a stream leaves behind: matches and rejected events, each micro-batch once, and what its checkpoint is of."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sase.runtime.arguments import LIMIT
from sase.runtime.errors import SaseRunError, explained
from sase.runtime.io import output
from sase.runtime.io.files import Files
from sase.runtime.stream.ssc import Stream
from sase.runtime.stream.together import Together


@dataclass(frozen=True)
class Places:
    """Where matches and rejected events go; None where they are printed."""

    out: str | None
    format: str
    late: str | None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Places:
        out = arguments.out and arguments.out.rstrip("/")
        return cls(out, output.format_to_write(arguments), arguments.late_out or (out and output.late_place(out)))

    def qualified(self, files: Files) -> dict[str, str | None]:
        out, late = (place and files.qualified(place) for place in (self.out, self.late))
        return {"out": out, "format": self.format, "late": late}


@dataclass(frozen=True)
class Checkpoint:
    """Where Spark keeps the state; a file in it says what that is made of."""

    place: str | None
    made_of: Mapping[str, Any]

    def fits(self, files: Files, places: Places) -> bool:
        """Whether there is one to go on from.

        Refuses a state that belongs to another query, and an output that belongs to another checkpoint.
        """
        if self.place is None:
            return False
        if (known := files.read(self._label)) is None:
            if files.has_data(self.place):
                raise SaseRunError(
                    f"{self.place} is the checkpoint of another program, or no checkpoint at all: choose another"
                )
            for place in filter(None, (places.out, places.late)):
                if files.has_data(place):
                    raise SaseRunError(
                        f"{place} has data, and {self.place} is a new checkpoint: choose another place, or the "
                        "--checkpoint that belongs to it"
                    )
            return False
        before = json.loads(known)
        differ = [name for name, value in self.made_of.items() if before.get(name) != value]
        if differ:
            raise SaseRunError(
                f"{self.place} has {self._other(differ[0], before)}: start with a new --checkpoint and --out, or go "
                "back to what it was made with. (Conditions between events and RETURN may change as long as they read "
                "the same attributes.)"
            )
        return True

    def _other(self, name: str, before: Mapping[str, Any]) -> str:
        match name:
            case "state":
                return "the state of another query, or of another version of this one"
            case "buckets":
                return f"{before[name]} buckets of keys, and not {self.made_of[name]}"
            case _:
                option = {"out": "--out", "late": "--late-out", "format": "--out-format"}[name]
                return f"{option} {before.get(name) or 'nowhere'}, and not {self.made_of[name] or 'nowhere'}"

    def label(self, files: Files) -> None:
        if self.place is not None:
            # Whole or not at all: this moment, too, is one to be killed at.
            hidden = f"{self.place.rstrip('/')}/_sase.json"
            files.write(hidden, json.dumps(self.made_of))
            files.rename(hidden, self._label)

    @property
    def _label(self) -> str:
        return f"{(self.place or '').rstrip('/')}/sase.json"


@dataclass
class Sink:
    """Writes each micro-batch once: a batch that is repeated after a crash finds its output there, or no trace of it.

    Files of batch N appear together, by renaming their directory to `batch=N`. Delta is told the batch's number and
    drops a repetition by itself.
    """

    stream: Stream | Together
    spark: SparkSession
    arguments: argparse.Namespace
    places: Places
    resumed: bool
    rejected: int = 0
    matches: int = 0
    states: dict[int, int] = field(default_factory=dict)
    failure: SaseRunError | None = None
    """Why the last micro-batch was not written; Spark passes on no more than its text."""

    def failed(self) -> SaseRunError | None:
        return self.failure

    @property
    def remembered(self) -> str:
        """How many events. After a restart, a bucket that has not worked yet may have some."""
        unknown = self.resumed and len(self.states) < self.stream.states
        return f"{'≥ ' if unknown else ''}{sum(self.states.values()):,}"

    def write(self, packed: DataFrame, batch: int) -> None:
        packed = packed.persist()
        try:
            with explained():
                self._write(packed, batch)
        except SaseRunError as error:
            self.failure = error
            raise
        finally:
            packed.unpersist()

    def _write(self, packed: DataFrame, batch: int) -> None:
        rows = packed.select("bucket", "kind", "size").collect()
        sizes = {kind: sum(row["size"] for row in rows if row["kind"] == kind) for kind in ("match", "rejected")}
        if sizes["match"]:
            self.matches += self._matches(self.stream.matches(packed), batch)
        if sizes["rejected"]:
            self.rejected += sizes["rejected"]
            self._rejected(self.stream.rejected(packed), batch)
        self.states |= {row["bucket"]: row["size"] for row in rows if row["kind"] == "state"}

    def _matches(self, matches: DataFrame, batch: int) -> int:
        if self.places.out is None:
            return output.show(matches, self.arguments.limit or LIMIT)
        return self._save(matches, self.places.out, self.places.format, batch)

    def _rejected(self, rejected: DataFrame, batch: int) -> None:
        if self.places.late is None:
            print("rejected:", file=sys.stderr)
            for row in output.some_of(rejected):
                print(f"  {row}", file=sys.stderr)
            return
        self._save(rejected, self.places.late, "json", batch)

    def _save(self, rows: DataFrame, place: str, format: str, batch: int) -> int:
        files = Files(self.spark)
        if format == "delta":
            # Spark's name for the checkpoint: it has one as long as it lives.
            name = json.loads(files.read(f"{self.arguments.checkpoint}/metadata") or "{}")["id"]
            # Not counted as it is written: of a repetition, nothing is.
            output.write(rows, place, format, "append", txnAppId=name, txnVersion=batch)
            return rows.count()
        target, unfinished = f"{place}/batch={batch}", f"{place}/_unfinished/{batch}"
        if files.exists(target):
            return 0  # written before a crash: the same events give the same rows
        found = output.save(rows, unfinished, format, "overwrite")
        files.rename(unfinished, target)
        return found
