"""How MySQL and MariaDB digest their rows: every value as text, by bytes; their own hash functions are too weak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.digests import NULL, Digests, Written
from airflow_delta_provider.adapters.dialects.mysql_stream import texts
from airflow_delta_provider.adapters.dialects.mysql_types import Native
from airflow_delta_provider.adapters.dialects.statement import Statement, Value, joined, sql
from airflow_delta_provider.adapters.fingerprints import FAST
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core.types import LogicalType

DECIMAL_DIGITS_MAX = 65
DECIMAL_SCALE_MAX = 30
INT_DIGITS_MAX = 20
NOT_DECLINED = frozenset((0, 1053, 1317, 1927, 2006, 2013, 2014, 2027))
"""A statement or a connection that was killed, a server that shuts down, a line that broke."""


class MysqlDigests(Digests):
    """MySQL 8 and MariaDB 10.2 and newer.

    A function whose result is longer than the server's largest packet gives NULL, so that each NULL but the column's own
    is written as an unproved value: its bucket differs and is read.
    """

    fence = "LIMIT 18446744073709551615"

    def text(self, connection: Any, column: ReadColumn, kind: LogicalType, select: str, form: str) -> Written | None:
        """Write texts by their bytes in UTF-8 and numbers by their digits."""
        text = f"CAST(CONVERT({select} USING utf8mb4) AS BINARY)"
        match form:
            case "int" | "own:float":
                return f"CAST({select} AS CHAR)", ""
            case "text" | "own:json_text":
                return f"CONCAT(LENGTH({text}), ':', {text})", ""
            case "bytes" | "uuid":
                return f"LOWER(HEX({select}))", ""
            case "date":
                return f"DATE_FORMAT({select}, '%Y-%m-%d')", _no_day(select)
            case "timestamp" | "timestamp_tz":
                return f"DATE_FORMAT({select}, '%Y-%m-%d %H:%i:%s.%f')", _no_day(select)
            case "own:time":
                return f"CAST({select} AS CHAR)", f"NOT {select} BETWEEN '00:00:00' AND '24:00:00'"
        return None

    def decimal(self, kind: LogicalType, select: str, scale: int) -> Written | None:
        """Return the digits of a number that the engine's own decimals hold at this scale."""
        whole = INT_DIGITS_MAX if kind.kind == "int" else None
        if kind.kind == "decimal" and kind.precision is not None and kind.scale is not None and kind.scale <= scale:
            whole = kind.precision - kind.scale
        if whole is None or scale > DECIMAL_SCALE_MAX or whole + scale > DECIMAL_DIGITS_MAX:
            return None
        return f"CAST({select} AS DECIMAL({DECIMAL_DIGITS_MAX},{scale}))", ""

    def declined(self, connection: Any, error: BaseException, took_s: float) -> bool:
        """Go by the error's number; one that was not numbered by the server is the driver's own."""
        from pymysql.err import Error

        number = error.args[0] if isinstance(error, Error) and error.args else None
        return isinstance(number, int) and number not in NOT_DECLINED and bool(connection.open)

    def term(self, select: str, written: Written, mark: str) -> Statement:
        """Return a column's text; a NULL that is not the column's is an unproved value."""
        text, bad = written
        unproved = sql(f" WHEN {bad} THEN ", Value(mark)) if bad else sql()
        return sql(
            f"CASE WHEN ({select}) IS NULL THEN {NULL}", unproved, f" ELSE IFNULL({text}, ", Value(mark), ") END"
        )

    def row(self, terms: Sequence[Statement], mark: str) -> Statement:
        """Return the text of a row; one that is too long is an unproved value."""
        return sql("IFNULL(CONCAT_WS(';', ", joined(", ", terms), "), ", Value(mark), ")")

    def lanes(self, function: str) -> tuple[str, str] | None:
        """Return the halves of an MD5 in hex; there is no strong hash of the engine's own."""
        if function == FAST:
            return None
        low, high = (f"CAST(CONV(SUBSTR(h, {start}, 16), 16, -10) AS SIGNED)" for start in (1, 17))
        return low, high

    def inner(self, text: Statement, function: str) -> Statement:
        """Return the MD5 in hex."""
        return sql("MD5(", text, ")")

    def by_width(self, field: str, base: Value, width: Value) -> Statement:
        """Divide whole numbers."""
        return sql(f"({field} - CAST(", base, " AS SIGNED)) DIV CAST(", width, " AS SIGNED)")

    def by_hash(self, text: Statement, count: Value) -> Statement:
        """Take the bits as a whole number."""
        return sql("CAST(CONV(SUBSTR(MD5(", text, "), 1, 8), 16, 10) AS UNSIGNED) & (", count, " - 1)")

    def big(self, number: str) -> str:
        """Return a number as it is."""
        return number

    def whole(self) -> ReadColumn:
        """Return a BIGINT."""
        return _computed(LogicalType("int"), pa.int64())

    def payload(self) -> ReadColumn:
        """Return a LONGTEXT."""
        return _computed(LogicalType("text"), pa.string())

    def total(self) -> ReadColumn:
        """Return a DECIMAL without places."""
        return _computed(LogicalType("decimal"), pa.decimal128(38, 0))


def _computed(kind: LogicalType, arrow: pa.DataType) -> ReadColumn:
    return ReadColumn(Column("", kind, kind.kind), "", arrow, "", Native(lambda cells: texts(cells).cast(arrow)))


def _no_day(select: str) -> str:
    """Return a condition for what is no day, and for days that not every engine has."""
    last = f"LAST_DAY({select})"
    outside = f"NOT {select} BETWEEN '1000-01-01' AND '9999-12-31 23:59:59.999999'"
    return f"{last} IS NULL OR DAYOFMONTH({select}) NOT BETWEEN 1 AND DAYOFMONTH({last}) OR {outside}"
