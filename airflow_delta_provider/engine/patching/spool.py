"""Decided records on their way to the database and the ledger: kept in a local file, read back in batches."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_delta_provider.adapters.writers.changes import Change
from airflow_delta_provider.core.patch import Decision


@dataclass(slots=True)
class Item:
    """One record with what is to become of it.

    ``number``: its place in the manifest's body. ``key``: canonical, for people. ``raw_key``: the key columns as
    stored, None where the side cannot hold the key. ``change``: what to write where ``decision`` leaves that open.
    """

    number: int
    id: str
    sort_key: bytes
    key: list[Any]
    raw_key: list[Any] | None
    decision: Decision
    change: Change | None = None

    def listed(self, reason: str | None) -> dict[str, Any]:
        """Return the form in which a person sees the record."""
        return {"id": self.id, "key": self.key, "reason": reason}


class Spool:
    """A file of batches of items. Written once, read any number of times; only this process reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self.items = 0

    def write(self, items: Sequence[Item]) -> None:
        """Add one batch, as plain tuples: those of classes take several times as long."""
        pickle.dump([_plain(item) for item in items], self._file, pickle.HIGHEST_PROTOCOL)
        self.items += len(items)

    def close(self) -> None:
        """End writing."""
        self._file.close()

    def batches(self) -> Iterator[list[Item]]:
        """Yield the batches in the order in which they were written."""
        with self._path.open("rb") as file:
            while True:
                try:
                    plain = pickle.load(file)
                except EOFError:
                    return
                yield [_item(*part) for part in plain]


def _plain(item: Item) -> tuple[Any, ...]:
    one, made = item.change, item.decision
    change = None if one is None else (one.op, one.key, one.values, one.guard)
    decision = (made.op, made.outcome, made.reason, made.wanted)
    return item.number, item.id, item.sort_key, item.key, item.raw_key, decision, change


def _item(
    number: int, record_id: str, sort_key: bytes, key: list[Any], raw_key: list[Any] | None, decision: Any, change: Any
) -> Item:
    made = None if change is None else Change(*change)
    return Item(number, record_id, sort_key, key, raw_key, Decision(*decision), made)
