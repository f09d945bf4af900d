"""A slow and obvious reconciliation: canonical values in dicts, row by row, sharing no code with the engine's streams.

It knows one rule a column, and of the package only ``encode_key`` (held to the published vectors) for sort keys.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from memory_side import widened

from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.types import LogicalType

Row = Mapping[str, Any]


@dataclass
class OracleColumn:
    """One column pair under one name. ``rule``: None, or (its name, its amount or side)."""

    name: str
    source: str
    target: str
    rule: tuple[str, str] | None = None
    sensitive: bool = False

    @property
    def schema(self) -> str:
        """The schema type, by S2."""
        kinds = {self.read(self.source, "source"), self.read(self.target, "target")}
        if len(kinds) == 1:
            return kinds.pop()
        return "float64" if kinds == {"float32", "float64"} else "decimal"

    def read(self, kind: str, side: str) -> str:
        """The kind of one side after a read_as."""
        return "int" if self.rule == ("read_as", side) else kind

    def ruled(self, value: Any, side: str) -> Any:
        """Return one side's value, in the schema type, after the rule."""
        kind = self.source if side == "source" else self.target
        if self.rule == ("read_as", side):
            value = None if value is None else str(int(value))
        if self.rule is not None and self.rule[0] == "casefold" and self.rule[1] in ("both", side):
            value = value if value is None or isinstance(value, dict) else value.casefold()
        return widened(value, self.read(kind, side), self.schema)

    def plain(self, value: Any, side: str) -> Any:
        """Return one side's value in the schema type, no rule applied."""
        return widened(value, self.source if side == "source" else self.target, self.schema)

    def recorded(self, value: Any, side: str) -> Any:
        """Return the recorded form: after a rule that reads or is for one side, before any other."""
        early = self.rule is not None and (self.rule[0] == "read_as" or self.rule[1] in ("source", "target"))
        return self.ruled(value, side) if early else self.plain(value, side)

    def equal_before(self, source: Any, target: Any) -> bool:
        """e_0 of S7: equal under the engines' own types."""
        if self.rule is not None and self.rule[0] == "read_as":
            return source is None and target is None
        return bool(self.plain(source, "source") == self.plain(target, "target"))

    def equal(self, source: Any, target: Any) -> bool:
        """e_1, or e_0 where there is no rule."""
        if self.rule is not None and self.rule[0] == "tolerance":
            same = self.equal_before(source, target)
            mine, other = self.plain(source, "source"), self.plain(target, "target")
            if same or None in (mine, other) or not {mine, other}.isdisjoint({"NaN", "Infinity", "-Infinity"}):
                return same
            return abs(Decimal(mine) - Decimal(other)) <= Decimal(self.rule[1])
        return bool(self.ruled(source, "source") == self.ruled(target, "target"))


@dataclass
class Oracle:
    """What to compare. ``keep``: for each side a test that is True for rows that the filter keeps."""

    key: Sequence[OracleColumn]
    columns: Sequence[OracleColumn]
    keep: Mapping[str, Callable[[Row], bool]] = field(default_factory=dict)
    nulls: str = "refuse"
    duplicates: str = "refuse"
    lower: bytes | None = None
    upper: bytes | None = None
    detail: str = "values"
    secret: bytes = b"secret"
    key_id: str = "k1"
    version: str = "1"

    def __post_init__(self) -> None:
        self.key_types = [LogicalType(column.schema) for column in self.key]
        self.ruled_key = any(column.rule for column in self.key)

    def sort_key(self, row: Row, side: str) -> bytes:
        """Return the key bytes of a row after the key's rules."""
        return encode_key([column.ruled(row[column.name], side) for column in self.key], self.key_types)

    def reconcile(self, source: Sequence[Row], target: Sequence[Row]) -> Verdict:
        """Compare; a refusal is a Verdict with ``refused`` set."""
        verdict = Verdict()
        sides = {"source": list(source), "target": list(target)}
        kept = {name: self._kept(name, rows, verdict) for name, rows in sides.items()}
        if verdict.nulls_seen and self.nulls == "refuse":
            return Verdict(refused="DELTA_KEY_NULL")
        repeated = {key for rows in kept.values() for key, n in Counter(key for key, _ in rows).items() if n > 1}
        if repeated and self.duplicates == "refuse":
            return Verdict(refused="DELTA_KEY_DUPLICATE")
        found = {}
        for name, rows in kept.items():
            found[name] = {key: row for key, row in rows if key not in repeated}
            verdict.population[name]["duplicate_key"] = sum(key in repeated for key, _ in rows)
        for key in sorted({*found["source"], *found["target"]}):
            self._row(key, found["source"].get(key), found["target"].get(key), verdict)
        verdict.summary = [
            [column.name, verdict.diverged[column.name], verdict.tolerated[column.name]] for column in self.columns
        ]
        verdict.rules = [
            [column.name, 0, verdict.tolerated[column.name]] for column in (*self.key, *self.columns) if column.rule
        ]
        return verdict

    def _kept(self, side: str, rows: Sequence[Row], verdict: Verdict) -> list[tuple[bytes, Row]]:
        kept = []
        counts = verdict.population[side]
        for row in rows:
            key = self.sort_key(row, side)
            if (self.lower is not None and key < self.lower) or (self.upper is not None and key >= self.upper):
                continue
            counts["rows"] += 1
            if side in self.keep and not self.keep[side](row):
                counts["skipped"] += 1
            elif self.nulls != "match" and any(row[column.name] is None for column in self.key):
                counts["null_key"] += 1
                verdict.nulls_seen = True
            else:
                kept.append((key, row))
        return kept

    def _row(self, key: bytes, source: Row | None, target: Row | None, verdict: Verdict) -> None:
        if source is not None and target is not None:
            for column in (*self.key, *self.columns):
                before = column.equal_before(source[column.name], target[column.name])
                after = column.equal(source[column.name], target[column.name])
                verdict.tolerated[column.name] += after and not before
                verdict.diverged[column.name] += not after
            names = [column for column in self.columns if not column.equal(source[column.name], target[column.name])]
            if not names:
                verdict.population["unchanged"] += 1
                return
            category, columns = "value_diverged", {"columns": [column.name for column in names]}
        else:
            names, category, columns = list(self.columns), "added" if source is None else "dropped", {}
        record: dict[str, Any] = {
            "category": category,
            **columns,
            "id": self._id(category, key),
            "key": [
                column.ruled(row[column.name], side)
                for row, side in ((source, "source"), (target, "target"))
                if row is not None
                for column in self.key
            ][: len(self.key)],
            "sort_key": key.hex(),
            "source_value": self._values(names, source, "source"),
            "target_value": self._values(names, target, "target"),
        }
        if self.ruled_key:
            for name, row in (("source", source), ("target", target)):
                record[f"{name}_key"] = None if row is None else [row[column.name] for column in self.key]
        verdict.records.append(record)

    def _values(self, columns: Sequence[OracleColumn], row: Row | None, side: str) -> Any:
        return None if row is None else [self._value(column, row[column.name], side) for column in columns]

    def _value(self, column: OracleColumn, value: Any, side: str) -> Any:
        recorded = column.recorded(value, side)
        if column.sensitive or self.detail == "digests":
            parts = [column.name.encode(), canonical_json(recorded)]
            message = b"delta-value/v1\x00" + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
            return {"hmac": hmac.new(self.secret, message, hashlib.sha256).hexdigest(), "key": self.key_id}
        return {"omitted": True} if self.detail in ("keys", "counts") else recorded

    def _id(self, category: str, key: bytes) -> str:
        parts = [self.version.encode(), category.encode(), key]
        message = b"delta-id/v1\x00" + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hashlib.sha256(message).hexdigest()


@dataclass
class Verdict:
    """What the oracle found: records in key order, and all counts."""

    refused: str | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    population: dict[str, Any] = field(
        default_factory=lambda: {
            "source": {"duplicate_key": 0, "null_key": 0, "rows": 0, "skipped": 0},
            "target": {"duplicate_key": 0, "null_key": 0, "rows": 0, "skipped": 0},
            "unchanged": 0,
        }
    )
    summary: list[list[Any]] = field(default_factory=list)
    rules: list[list[Any]] = field(default_factory=list)
    diverged: Counter[str] = field(default_factory=Counter)
    tolerated: Counter[str] = field(default_factory=Counter)
    nulls_seen: bool = False

    @property
    def body(self) -> bytes:
        """The body as bytes."""
        return b"".join(canonical_json(record) + b"\n" for record in self.records)


def canonical_json(value: Any) -> bytes:
    """Return RFC 8785 JSON for texts, lists and objects with ASCII names."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
