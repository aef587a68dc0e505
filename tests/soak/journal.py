"""What a client writes down: a line before each operation and a line after it, flushed before it goes on."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    """``{"n": 7, "op": "append", …}`` before, then ``{"n": 7, "ok": …}`` or ``{"n": 7, "error": …}``."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._number = 0

    def before(self, op: str, **sent: Any) -> int:
        self._number += 1
        self._write({"n": self._number, "op": op, **sent})
        return self._number

    def after(self, number: int, **outcome: Any) -> None:
        self._write({"n": number, **outcome})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The operations in order, each with its outcome in one dict; neither ``ok`` nor ``error``: it was under way."""
    waiting: dict[str, Any] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if "op" not in entry:
                waiting |= entry
                continue
            if waiting:
                yield waiting
            waiting = entry
    if waiting:
        yield waiting


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:24]
