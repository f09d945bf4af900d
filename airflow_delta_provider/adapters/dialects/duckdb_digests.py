"""How DuckDB digests its rows: every value as text, by bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.digests import Digests, Written
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, sql
from airflow_delta_provider.adapters.fingerprints import FAST
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.types import LogicalType

DECIMAL_DIGITS_MAX = 38
INT_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Most decimal digits of a whole number, by its bits."""
SEEDS = ("1;", "2;")


class DuckdbDigests(Digests):
    """DuckDB 1.0 and newer; it computes a common inner expression once by itself."""

    remote = False
    fence = ""

    def text(self, connection: Any, column: ReadColumn, kind: LogicalType, select: str, form: str) -> Written | None:
        """Write texts by their bytes and numbers by their digits; nested values and intervals are not written."""
        text = f"CAST({select} AS VARCHAR)"
        match form:
            case "int" | "own:date" | "own:time" | "own:timestamp":
                return text, ""
            case "own:float":
                return f"CAST(CAST({select} AS DOUBLE) AS VARCHAR)", ""
            case "text" | "own:json_text":
                plain = f"({text} COLLATE C)"
                return f"strlen({plain}) || ':' || {plain}", ""
            case "bool":
                return f"CASE WHEN {select} THEN '1' WHEN NOT {select} THEN '0' END", ""
            case "bytes":
                return f"lower(hex({select}))", ""
            case "uuid":
                return f"replace({text}, '-', '')", ""
            case "date":
                return f"strftime({select}, '%Y-%m-%d')", _outside(select, "DATE", "")
            case "timestamp" | "timestamp_tz" if (kind.digits or 0) <= 6:
                stamp = f"CAST({select} AS TIMESTAMP)"  # of an instant in the session's zone, which is UTC
                return f"strftime({stamp}, '%Y-%m-%d %H:%M:%S.%f')", _outside(stamp, "TIMESTAMP", " 23:59:59.999999")
        return None

    def declined(self, connection: Any, error: BaseException, took_s: float) -> bool:
        """Say no to an interruption and to a database that cannot go on."""
        import duckdb

        ended = (duckdb.InterruptException, duckdb.FatalException, duckdb.ConnectionException, duckdb.InternalException)
        return isinstance(error, duckdb.Error) and not isinstance(error, ended)

    def decimal(self, kind: LogicalType, select: str, scale: int) -> Written | None:
        """Return the digits of a number that the engine's own decimals hold at this scale."""
        whole = INT_DIGITS.get(kind.bits or 0) if kind.kind == "int" else None
        if kind.kind == "decimal" and kind.precision is not None and kind.scale is not None and kind.scale <= scale:
            whole = kind.precision - kind.scale
        if whole is None or whole + scale > DECIMAL_DIGITS_MAX:
            return None
        return f"CAST(CAST({select} AS DECIMAL({DECIMAL_DIGITS_MAX}, {scale})) AS VARCHAR)", ""

    def lanes(self, function: str) -> tuple[str, str]:
        """Return the halves of an MD5 in hex, or the engine's 64-bit hash of the text's bytes behind two prefixes.

        Of a text itself ``hash`` would follow the collation that a column gave it.
        """
        if function == FAST:
            low, high = (_signed(f"hash(encode('{seed}' || h))") for seed in SEEDS)
            return low, high
        low, high = (_signed(f"CAST('0x' || substr(h, {start}, 16) AS UBIGINT)") for start in (1, 17))
        return low, high

    def inner(self, text: Statement, function: str) -> Statement:
        """Return the MD5 in hex, or for the engine's hash the text itself."""
        return text if function == FAST else sql("md5(", text, ")")

    def by_width(self, field: str, base: Value, width: Value) -> Statement:
        """Divide as BIGINT."""
        return sql(f"(CAST({field} AS BIGINT) - CAST(", base, " AS BIGINT)) // CAST(", width, " AS BIGINT)")

    def by_hash(self, text: Statement, count: Value) -> Statement:
        """Take the bits as a BIGINT."""
        return sql("CAST('0x' || substr(md5(", text, "), 1, 8) AS BIGINT) % CAST(", count, " AS BIGINT)")

    def big(self, number: str) -> str:
        """Return a BIGINT."""
        return f"CAST({number} AS BIGINT)"

    def whole(self) -> ReadColumn:
        """Return a BIGINT."""
        return ReadColumn(Column("", LogicalType("int"), "BIGINT"), "", pa.int64(), "", "BIGINT")

    def payload(self) -> ReadColumn:
        """Return a VARCHAR."""
        return ReadColumn(Column("", LogicalType("text"), "VARCHAR"), "", pa.string(), "", "VARCHAR")

    def total(self) -> ReadColumn:
        """Return a HUGEINT, which arrives as a decimal."""
        return ReadColumn(Column("", LogicalType("decimal"), "HUGEINT"), "", pa.decimal128(38, 0), "", "HUGEINT")


def _signed(lane: str) -> str:
    return f"CAST({lane} AS HUGEINT) - CASE WHEN {lane} >= 9223372036854775808 THEN 18446744073709551616 ELSE 0 END"


def _outside(select: str, kind: str, last: str) -> str:
    """Return a condition for days that not every engine has, and for those of which the texts have another length."""
    return f"NOT {select} BETWEEN {kind} '1000-01-01' AND {kind} '9999-12-31{last}'"
