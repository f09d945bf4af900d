"""What column types each engine has, and which values one of them holds faithfully."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from differential.model import DAY_NS, INFINITIES, NS, number, plain

ENGINES = ("sqlite", "duckdb", "postgresql", "mysql", "parquet", "arrow", "csv", "jsonl")
YEAR_1, YEAR_1000, YEAR_10000 = -719_162, -354_285, 2_932_897
"""Days since 1970-01-01 on which these years begin."""
LABELS = ("z", "a", "B", "ä")


@dataclass(frozen=True)
class Declared:
    """A column type of one engine. ``stored`` is the logical value that a written value has there."""

    kind: str
    native: str
    holds: Callable[[Any], bool] = lambda value: True
    stored: Callable[[Any], Any] = lambda value: value


def _ints(native: str, low: int, high: int) -> Declared:
    return Declared("int", native, lambda value: low <= value <= high)


def _decimal(native: str, precision: int, scale: int) -> Declared:
    def holds(value: Decimal) -> bool:
        exact = number(value)
        if isinstance(exact, str):
            return False
        digits = plain(abs(exact)).partition(".")
        return len(digits[2]) <= scale and len(digits[0].lstrip("0")) <= precision - scale

    return Declared("decimal", native, holds)


def _text(native: str, length: int | None = None, nul: bool = True, padded: bool = False) -> Declared:
    def holds(value: str) -> bool:
        return (nul or "\x00" not in value) and (length is None or len(value) <= length)

    return Declared("text", native, holds, (lambda value: value.rstrip(" ")) if padded else lambda value: value)


def _times(kind: str, native: str, unit: int, low: int, high: int, infinite: bool = False) -> Declared:
    def holds(value: Any) -> bool:
        return infinite if value in INFINITIES else value % unit == 0 and low <= value < high

    return Declared(kind, native, holds)


def _dates(native: str, low: int, high: int, infinite: bool = False) -> Declared:
    return Declared("date", native, lambda value: infinite if value in INFINITIES else low <= value < high)


def _finite(value: float) -> bool:
    return value - value == 0


def _items(kind: str, native: str, nul: bool = True) -> Declared:
    return Declared(kind, native, lambda value: nul or not any("\x00" in (item or "") for item in value))


FAR = 200_000 * 366
NS_LOW, NS_HIGH = -106_700 * DAY_NS, 106_700 * DAY_NS
_STAMPS = (YEAR_1 * DAY_NS, YEAR_10000 * DAY_NS)

CATALOG: dict[str, list[Declared]] = {
    "sqlite": [
        _ints("INTEGER", -(2**63), 2**63 - 1),
        Declared("float64", "REAL", lambda value: value == value),
        _text("TEXT"),
        Declared("bytes", "BLOB"),
        Declared(
            "decimal", "", lambda value: value.is_finite() and abs(value) < 2**53 and Decimal(float(value)) == value
        ),
    ],
    "duckdb": [
        _ints("SMALLINT", -(2**15), 2**15 - 1),
        _ints("BIGINT", -(2**63), 2**63 - 1),
        _ints("UBIGINT", 0, 2**64 - 1),
        _ints("HUGEINT", -(2**127), 2**127 - 1),
        _ints("UHUGEINT", 0, 2**128 - 1),
        _decimal("DECIMAL(18,3)", 18, 3),
        _decimal("DECIMAL(38,10)", 38, 10),
        _decimal("DECIMAL(38,0)", 38, 0),
        Declared("float32", "FLOAT"),
        Declared("float64", "DOUBLE"),
        Declared("bool", "BOOLEAN"),
        _text("VARCHAR"),
        Declared("text", "ENUM", lambda value: value in LABELS),
        Declared("bytes", "BLOB"),
        Declared("uuid", "UUID"),
        _dates("DATE", -FAR, FAR, True),
        _times("time", "TIME", 1000, 0, DAY_NS + 1),
        _times("timestamp", "TIMESTAMP", 1000, -FAR * DAY_NS, FAR * DAY_NS, True),
        _times("timestamp", "TIMESTAMP_S", NS, *_STAMPS),
        _times("timestamp", "TIMESTAMP_MS", 10**6, *_STAMPS),
        _times("timestamp", "TIMESTAMP_NS", 1, NS_LOW, NS_HIGH),
        _times("timestamp_tz", "TIMESTAMPTZ", 1000, -FAR * DAY_NS, FAR * DAY_NS, True),
        Declared("interval", "INTERVAL", lambda value: value[2] % 1000 == 0),
        Declared("json_text", "JSON"),
        _items("array:int", "BIGINT[]"),
        _items("array:text", "VARCHAR[]"),
    ],
    "postgresql": [
        _ints("smallint", -(2**15), 2**15 - 1),
        _ints("integer", -(2**31), 2**31 - 1),
        _ints("bigint", -(2**63), 2**63 - 1),
        Declared("decimal", "numeric"),
        _decimal("numeric(20,6)", 20, 6),
        _decimal("numeric(60,20)", 60, 20),
        Declared("float32", "real"),
        Declared("float64", "double precision"),
        Declared("bool", "boolean"),
        _text("text", nul=False),
        _text("varchar(40)", 40, nul=False),
        _text("char(12)", 12, nul=False, padded=True),
        Declared("text", "ENUM", lambda value: value in LABELS),
        Declared("bytes", "bytea"),
        Declared("uuid", "uuid"),
        _dates("date", -4712 * 366 - 719_528 + 4712, FAR, True),
        _times("time", "time", 1000, 0, DAY_NS + 1),
        _times("timestamp", "timestamp", 1000, -2_440_000 * DAY_NS, FAR * DAY_NS, True),
        _times("timestamp", "timestamp(3)", 10**6, *_STAMPS, True),
        _times("timestamp_tz", "timestamptz", 1000, -2_440_000 * DAY_NS, FAR * DAY_NS, True),
        Declared("interval", "interval", lambda value: value[2] % 1000 == 0),
        Declared("json_text", "json"),
        _items("array:int", "bigint[]"),
        _items("array:text", "text[]", nul=False),
    ],
    "mysql": [
        _ints("smallint", -(2**15), 2**15 - 1),
        _ints("mediumint unsigned", 0, 2**24 - 1),
        _ints("int unsigned", 0, 2**32 - 1),
        _ints("bigint", -(2**63), 2**63 - 1),
        _ints("bigint unsigned", 0, 2**64 - 1),
        _decimal("decimal(20,6)", 20, 6),
        _decimal("decimal(65,30)", 65, 30),
        Declared("float32", "float", _finite),
        Declared("float64", "double", _finite),
        _text("longtext"),
        _text("varchar(60)", 60),
        _text("varchar(60) COLLATE utf8mb4_general_ci", 60),
        _text("varchar(60) COLLATE utf8mb4_bin", 60),
        _text("char(12)", 12, padded=True),
        Declared("text", "ENUM", lambda value: value in LABELS),
        Declared("bytes", "varbinary(64)"),
        Declared("bytes", "longblob"),
        Declared("uuid", "uuid", lambda value: value.version in (1, 4)),
        _dates("date", YEAR_1000, YEAR_10000),
        _times("time", "time(6)", 1000, 0, DAY_NS),
        _times("timestamp", "datetime(6)", 1000, YEAR_1000 * DAY_NS, YEAR_10000 * DAY_NS),
        _times("timestamp", "datetime", NS, YEAR_1000 * DAY_NS, YEAR_10000 * DAY_NS),
        _times("timestamp_tz", "timestamp(6)", 1000, NS, (2**31 - 1) * NS),
    ],
    "parquet": [
        _ints("int8", -128, 127),
        _ints("int32", -(2**31), 2**31 - 1),
        _ints("int64", -(2**63), 2**63 - 1),
        _ints("uint64", 0, 2**64 - 1),
        _decimal("decimal128(9,2)", 9, 2),
        _decimal("decimal128(38,12)", 38, 12),
        _decimal("decimal256(76,30)", 76, 30),
        Declared("float32", "float"),
        Declared("float64", "double"),
        Declared("bool", "bool"),
        _text("string"),
        _text("large_string"),
        _text("dictionary"),
        Declared("bytes", "binary"),
        Declared("bytes", "large_binary"),
        Declared("uuid", "uuid"),
        _dates("date32", -FAR, FAR),
        _times("time", "time32[ms]", 10**6, 0, DAY_NS),
        _times("time", "time64[us]", 1000, 0, DAY_NS),
        _times("time", "time64[ns]", 1, 0, DAY_NS),
        *(
            _times(kind, f"timestamp[{unit}{zone}]", size, low, high)
            for kind, zone in (("timestamp", ""), ("timestamp_tz", ",UTC"), ("timestamp_tz", ",+05:30"))
            for unit, size, low, high in (
                ("ms", 10**6, -FAR * DAY_NS, FAR * DAY_NS),
                ("us", 1000, -FAR * DAY_NS, FAR * DAY_NS),
                ("ns", 1, NS_LOW, NS_HIGH),
            )
        ),
        _items("array:int", "list<int64>"),
        _items("array:text", "list<string>"),
    ],
    "csv": [
        _ints("int", -(2**127), 2**128 - 1),
        Declared("decimal", "decimal"),
        Declared("float32", "float32"),
        Declared("float64", "float64"),
        Declared("bool", "bool"),
        _text("text", nul=False),
        Declared("bytes", "bytes"),
        Declared("uuid", "uuid"),
        _dates("date", -FAR, FAR, True),
        _times("time", "time", 1, 0, DAY_NS + 1),
        _times("timestamp", "timestamp", 1, -FAR * DAY_NS, FAR * DAY_NS),
        _times("timestamp_tz", "timestamp_tz", 1, -FAR * DAY_NS, FAR * DAY_NS),
        Declared("interval", "interval"),
        Declared("json_text", "json_text"),
    ],
}
CATALOG["arrow"] = [
    *CATALOG["parquet"],
    Declared("interval", "month_day_nano"),
    _times("timestamp", "timestamp[s]", NS, -FAR * DAY_NS, FAR * DAY_NS),
]
CATALOG["jsonl"] = [each for each in CATALOG["csv"] if each.kind != "text"] + [_text("text")]
