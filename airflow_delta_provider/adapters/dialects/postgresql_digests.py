"""How PostgreSQL digests its rows: every value as text or in its binary form, never by the type's own equality."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.digests import Digests, Written
from airflow_delta_provider.adapters.dialects.postgresql_types import Native
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, sql
from airflow_delta_provider.adapters.fingerprints import FAST, OWN
from airflow_delta_provider.adapters.pgcopy.form import Form as CopyForm
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.types import LogicalType

NUMERIC_DIGITS_MAX = 1000
INTERVAL_HOURS_MAX = 2_562_046
"""Longest time part of an interval that a stream carries."""
SEEDS = (1, 2)
QUERY_CANCELED = "57014"
_SENT = {
    "float": "float8send({0}::float8 + 0)",
    "timestamp": "timestamp_send({0})",
    "timestamp_tz": "timestamptz_send({0})",
    "date": "date_send({0})",
    "time": "time_send({0})",
}


class PostgresqlDigests(Digests):
    """PostgreSQL 12 and newer. ``md5`` works on the bytes of a text, whatever its collation."""

    fence = "OFFSET 0"

    def text(self, connection: Any, column: ReadColumn, kind: LogicalType, select: str, form: str) -> Written | None:
        """Write texts by their bytes, times by their digits, and for the same engine the binary form in hex."""
        if form in ("text", OWN + "json_text"):
            if connection.info.parameter_status("server_encoding") != "UTF8" or column.native.form.name.startswith(
                "raw"
            ):
                return None
            return f"pg_catalog.octet_length({select}::text) || ':' || {select}::text", ""
        if form == OWN + "array":
            if kind.item is None or kind.item.kind == "interval":
                return None
            bad = f"pg_catalog.array_ndims({select}) > 1 OR pg_catalog.array_lower({select}, 1) <> 1"
            return f"pg_catalog.encode(pg_catalog.array_send({select}), 'hex')", bad
        if form == OWN + "interval":
            hours = f"pg_catalog.date_part('hour', {select})"
            bad = f"NOT {hours} BETWEEN -{INTERVAL_HOURS_MAX} AND {INTERVAL_HOURS_MAX}"
            return f"pg_catalog.encode(pg_catalog.interval_send({select}), 'hex')", bad
        if form.startswith(OWN) and form.removeprefix(OWN) in _SENT:
            sent = _SENT[form.removeprefix(OWN)].format(select)
            return f"pg_catalog.encode(pg_catalog.{sent}, 'hex')", ""
        return _plain(form, select)

    def decimal(self, kind: LogicalType, select: str, scale: int) -> Written | None:
        """Return the digits of a number that the engine's own decimals hold at this scale."""
        if kind.kind == "int":
            return f"{select}::numeric({NUMERIC_DIGITS_MAX},{scale})::text", ""
        if kind.precision is None or kind.scale is None or kind.precision - kind.scale + scale > NUMERIC_DIGITS_MAX:
            return None
        if kind.scale > scale:
            return None
        return f"{select}::numeric({NUMERIC_DIGITS_MAX},{scale})::text", ""

    def lanes(self, function: str) -> tuple[str, str]:
        """Return the halves of an MD5 in hex, or the engine's 64-bit hash of the text under two seeds."""
        if function == FAST:
            low, high = (f'pg_catalog.hashtextextended(h COLLATE "C", {seed})' for seed in SEEDS)
            return low, high
        low, high = (f"('x' || pg_catalog.substr(h, {start}, 16))::bit(64)::int8" for start in (1, 17))
        return low, high

    def inner(self, text: Statement, function: str) -> Statement:
        """Return the MD5 in hex, or for the engine's hash the text itself."""
        return text if function == FAST else sql("pg_catalog.md5(", text, ")")

    def by_width(self, field: str, base: Value, width: Value) -> Statement:
        """Divide as bigint."""
        return sql(f"({field}::bigint - CAST(", base, " AS bigint)) / CAST(", width, " AS bigint)")

    def by_hash(self, text: Statement, count: Value) -> Statement:
        """Take the bits as a positive bigint."""
        md5 = sql("pg_catalog.substr(pg_catalog.md5(", text, "), 1, 8)")
        return sql("('x' || ", md5, ")::bit(32)::int8 & CAST(", sql(count), " - 1 AS bigint)")

    def declined(self, connection: Any, error: BaseException, took_s: float) -> bool:
        """Ask for the session's timeout, since a statement that it ends and one that is cancelled fail with one state."""
        state = getattr(error, "sqlstate", None)
        if state is None or connection.closed:
            return False
        if state != QUERY_CANCELED:
            return True
        asked = connection.execute(
            "SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'"
        )
        timeout_ms = int(asked.fetchone()[0])
        return 0 < timeout_ms <= took_s * 1000

    def literal(self, text: str) -> Statement:
        """Give a literal its type."""
        return sql("CAST(", Value(text), " AS text)")

    def big(self, number: str) -> str:
        """Return a bigint."""
        return f"{number}::bigint"

    def whole(self) -> ReadColumn:
        """Return a bigint."""
        return ReadColumn(
            Column("", LogicalType("int"), "bigint"), "", pa.int64(), "", Native(CopyForm("int8"), "bigint")
        )

    def payload(self) -> ReadColumn:
        """Return a text."""
        native = Native(CopyForm("text"), "text")
        return ReadColumn(Column("", LogicalType("text"), "text"), "", pa.large_string(), "", native)

    def total(self) -> ReadColumn:
        """Return a numeric without places."""
        native = Native(CopyForm("numeric", 38, 0), "numeric")
        return ReadColumn(Column("", LogicalType("decimal"), "numeric"), "", pa.decimal128(38, 0), "", native)


def _plain(form: str, select: str) -> Written | None:
    match form:
        case "int" | "own:decimal":
            return f"{select}::text", ""
        case "uuid":
            return f"pg_catalog.encode(pg_catalog.uuid_send({select}), 'hex')", ""
        case "bool":
            return f"CASE WHEN {select} THEN '1' WHEN NOT {select} THEN '0' END", ""
        case "bytes":
            return f"pg_catalog.encode({select}, 'hex')", ""
        case "date":
            return f"pg_catalog.to_char({select}, 'YYYY-MM-DD')", _outside(select, "date", "")
        case "timestamp" | "timestamp_tz":
            kind = "timestamp" if form == "timestamp" else "timestamptz"
            text = f"pg_catalog.to_char({select}, 'YYYY-MM-DD HH24:MI:SS.US')"
            return text, _outside(select, kind, " 23:59:59.999999")
    return None


def _outside(select: str, kind: str, last: str) -> str:
    """Return a condition for days that not every engine has, and for those of which the texts have another length."""
    return f"NOT {select} BETWEEN '1000-01-01'::{kind} AND '9999-12-31{last}'::{kind}"
