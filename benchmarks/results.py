"""Result files: one JSON a measurement, so that a run can be interrupted at any time and taken up again."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.measure import Result


class Results:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, name: str) -> Result | None:
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def save(self, name: str, result: Result) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        staged = self.folder / f"{name}.json.{os.getpid()}"
        staged.write_text(json.dumps(result, indent=1, default=list) + "\n")
        os.replace(staged, self.folder / f"{name}.json")

    def is_complete(self, name: str) -> bool:
        """What was missing last time may be there now, and what failed may work: such a measurement is repeated."""
        result = self.load(name)
        if result is None or result.get("status", "done") != "done":
            return False
        return all(entry["status"] in ("done", "over limit") for entry in result["contenders"].values())
