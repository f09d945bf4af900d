"""The table of docs/format.md, S11, once more and slowly: a dict of keys, one row at a time, no streams and no batches."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from airflow_delta_provider.core import log
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.predecessor import load_generation, pack_reader
from airflow_delta_provider.core.store import blobs


def lp(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def canonical(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


class SweepOracle:
    """Remembers every key. ``sweep`` takes rows of (key values, non-key values, kept by the filter, refusing code)."""

    def __init__(self, version: str, key_types: list[Any]) -> None:
        self.version, self.key_types = version, key_types
        self.entries: dict[bytes, dict[str, Any]] = {}
        self.records: list[dict[str, Any]] = []
        self.counts: dict[str, int] = {}

    def digest(self, key: bytes, row: list[Any]) -> str:
        data = b"delta-row/v1\x00" + lp(self.version.encode()) + lp(key) + lp(canonical(row))
        return hashlib.sha256(data).hexdigest()

    def sweep(self, rows: list[tuple[list[Any], list[Any], bool, str | None]], null_key: int = 0) -> None:
        names = ("absent", "changed", "duplicate_key", "failed", "new", "null_key", "read", "skipped", "unchanged")
        self.counts, self.records = dict.fromkeys(names, 0), []
        self.counts["null_key"] = null_key
        self.counts["read"] = len(rows) + null_key
        grouped: dict[bytes, list[Any]] = {}
        for row in rows:
            grouped.setdefault(encode_key(row[0], self.key_types), []).append(row)
        for key in sorted(self.entries.keys() | grouped.keys()):
            self._step(key, grouped.get(key, []))

    def _step(self, key: bytes, rows: list[Any]) -> None:
        known = key in self.entries
        entry = self.entries.setdefault(
            key,
            {"disposition": "none", "version": 0, "row_digest": None, "previous": None, "reason": None, "key": None},
        )
        was = entry["disposition"] not in ("none", "absent") and entry["version"] >= 1
        if not rows:
            if was:
                self.counts["absent"] += 1
                self._record("dropped", key, entry, entry["row_digest"], None)
            entry.update(disposition="absent", reason=None)
            return
        if not known:
            entry["key"] = rows[0][0]
        _, row, kept, code = rows[0]
        if len(rows) > 1:
            self.counts["duplicate_key"] += len(rows)
            entry.update(disposition="skipped", reason="DELTA_KEY_DUPLICATE")
        elif not kept:
            self.counts["skipped"] += 1
            entry.update(disposition="skipped", reason="DELTA_ROW_FILTERED")
        elif code is not None:
            self.counts["failed"] += 1
            entry.update(disposition="failed", reason=code)
        else:
            self._row(key, entry, row, was)

    def _row(self, key: bytes, entry: dict[str, Any], row: list[Any], was: bool) -> None:
        digest, old = self.digest(key, row), entry["row_digest"]
        if not was:
            self.counts["new"] += 1
            self._record("added", key, entry, None, row)
        elif digest == old:
            self.counts["unchanged"] += 1
        else:
            self.counts["changed"] += 1
            self._record("value_diverged", key, entry, old, row)
        if digest != old:
            entry.update(version=entry["version"] + 1, row_digest=digest, previous=old)
        entry.update(disposition="present", reason=None)

    def _record(self, category: str, key: bytes, entry: dict[str, Any], old: str | None, row: list[Any] | None) -> None:
        record = {
            "category": category,
            "key": entry["key"],
            "sort_key": key.hex(),
            "source_value": None if old is None else {"row_digest": old},
            "target_value": row,
        }
        self.records.append(record)

    def lines(self) -> list[dict[str, Any]]:
        """The entries as a generation holds them."""
        return [
            {
                "disposition": entry["disposition"],
                "head": {name: entry[name] for name in ("previous", "row_digest", "version")},
                "key": entry["key"],
                "reason": entry["reason"],
                "sort_key": key.hex(),
            }
            for key, entry in sorted(self.entries.items())
        ]


def stored_lines(store: Any, pair_id: str, header_id: str) -> list[dict[str, Any]]:
    """Return the entries of a published generation."""
    generation, read = load_generation(store, pair_id, header_id), pack_reader(store)
    return [json.loads(line) for row in generation.rows for line in read(row.sha256).splitlines()]


def stored_records(store: Any, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of a sweep's manifest, without their ids."""
    body = blobs.get_blob(store, manifest["body"]["sha256"])
    records = [json.loads(line) for line in body.splitlines()]
    return [{name: part for name, part in one.items() if name not in ("id", "columns")} for one in records]


def kinds(store: Any, pair_id: str) -> list[str]:
    """Return the kinds of a pair's log entries."""
    return [entry.kind for entry in log.read_log(store, pair_id)]
