"""Which engine holds a side of a case: FORMAT.md's six rules, and the column types of each engine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import servers
from cases.notation import (
    Declared,
    Stored,
    UnknownNotation,
    declared,
    fraction_digits,
    instant_ns,
    value,
)

ENGINES = ("sqlite", "duckdb", "postgresql", "mysql", "parquet", "csv", "jsonl")
FILES = ("parquet", "csv", "jsonl")
ALIASES = {"mariadb": "mysql", "postgres": "postgresql"}


@dataclass(frozen=True)
class SideCase:
    """One side of a case, parsed: ``columns`` in table order, ``rows`` in the order in which they may be returned."""

    engine: str
    columns: dict[str, Declared]
    rows: list[list[Any]] = field(default_factory=list)
    raw: str | None = None
    hints: dict[str, Any] = field(default_factory=dict)

    def values(self, name: str) -> list[Any]:
        """Return what is not NULL in one column."""
        place = list(self.columns).index(name)
        return [row[place] for row in self.rows if row[place] is not None]


def parse_side(form: dict[str, Any]) -> SideCase:
    """Read one side of a case. Raises: UnknownNotation."""
    columns = {name: declared(text) for name, text in form["columns"].items()}
    kinds = list(columns.values())
    rows = [[value(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in form.get("rows") or []]
    hints = {name: hint for name, hint in form.items() if name not in ("engine", "columns", "rows", "raw")}
    engine = ALIASES.get(form["engine"], form["engine"])
    return SideCase(engine, columns, rows, form.get("raw"), hints)


def at_hand() -> tuple[str, ...]:
    """Return the engines that this machine and this package have; DELTA_CASES_ENGINES narrows them down.

    MariaDB counts once the package reads it; a server that is not installed is reported by whoever starts it.
    """
    named = os.environ.get("DELTA_CASES_ENGINES")
    if named:
        return tuple(engine for engine in ENGINES if engine in named.replace(",", " ").split())
    from airflow_delta_provider.adapters.open import ENGINES as READ

    readable = "mysql" in READ
    everything = os.environ.get("DELTA_REQUIRE_ALL") == "1"
    return tuple(
        engine
        for engine in ENGINES
        if engine not in ("postgresql", "mysql")
        or (engine == "postgresql" and (everything or servers.installed("postgresql")))
        or (engine == "mysql" and readable and (everything or servers.installed("mariadb")))
    )


def choose(side: SideCase, case_id: str, which: str, seed: int, engines: Sequence[str]) -> tuple[str, str]:
    """Return the engine for one side and, where it stands in for another, why; an empty engine means that none fits.

    ``any`` and replacements turn with the seed, the case and the side (rules 1 and 3).
    """
    if side.raw is not None:
        return side.engine, ""
    if side.engine in engines:
        return side.engine, ""
    fitting = [engine for engine in engines if fits(engine, side)]
    if not fitting:
        return "", f"no engine holds the {which} exactly ({', '.join(engines)} are at hand)"
    turn = int.from_bytes(hashlib.sha256(f"{case_id} {which}".encode()).digest()[:6], "big")
    chosen = fitting[(turn + seed) % len(fitting)]
    return chosen, "" if side.engine == "any" else f"{chosen} for {side.engine}"


def choose_pair(
    source: SideCase, target: SideCase, case_id: str, seed: int, engines: Sequence[str]
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Choose both sides' engines; text files that would need two types under one name don't meet."""
    first = choose(source, case_id, "source", seed, engines)
    second = choose(target, case_id, "target", seed, engines)
    if first[0] == second[0] and first[0] in ("csv", "jsonl") and target.raw is None:
        names = source.columns.keys() & target.columns.keys()
        if any(column_type(first[0], name, source) != column_type(first[0], name, target) for name in names):
            second = choose(target, case_id, "target", seed, [engine for engine in engines if engine != first[0]])
    return first, second


def fits(engine: str, side: SideCase) -> bool:
    """Tell whether an engine has, for every column, a type of the same logical type that holds every value exactly."""
    if engine in ("sqlite", "duckdb", "mysql") and len({name.lower() for name in side.columns}) < len(side.columns):
        return False
    if any(hint in side.hints for hint in ("generated", "identity")) and engine != "postgresql":
        return False
    if "unique" in side.hints and engine in FILES:
        return False
    if "session_time_zone" in side.hints and engine not in ("postgresql", "mysql"):
        return False
    if any(kind.kind == "enum" for kind in side.columns.values()) and engine in FILES:
        return False  # files know no order of labels
    if engine == "csv" and len(side.columns) == 1 and any(row[0] is None for row in side.rows):
        return False  # a NULL alone in its line is an empty line, which readers skip
    try:
        return all(column_type(engine, name, side) is not None for name in side.columns)
    except UnknownNotation:
        return False


def column_type(engine: str, name: str, side: SideCase) -> str | None:
    """Return an engine's type for one column, or None where it has none that holds the values exactly.

    For files it is the Arrow type (Parquet) or the logical type (CSV, JSON Lines) by name.
    """
    kind, cells = side.columns[name], side.values(name)
    if any(isinstance(cell, Stored) for cell in cells):
        return kind.text if engine == "sqlite" else None
    if kind.kind in ("text", "char", "enum") and not _text_fits(engine, cells):
        return None
    return _TYPES[engine](kind, cells, side.hints.get("unit"))


def required_type(engine: str, name: str, side: SideCase) -> str:
    """Return an engine's type for one column. Raises: ValueError where it has none that holds the values."""
    found = column_type(engine, name, side)
    if found is None:
        raise ValueError(f"{engine} has no type for column {name!r}, declared {side.columns[name].text!r}")
    return found


def _text_fits(engine: str, cells: Iterable[str]) -> bool:
    odd = any("\x00" in cell for cell in cells)
    torn = any(0xD800 <= ord(character) <= 0xDFFF for cell in cells for character in cell)
    return not (odd and engine in ("postgresql", "csv", "jsonl")) and not (torn and engine != "sqlite")


def _int_bits(kind: Declared, cells: list[int]) -> int | None:
    """Return 32 or 64 for signed widths that hold the values, 65 for unsigned 64 bits, None for wider ones."""
    low, high = min(cells, default=0), max(cells, default=0)
    if kind.unsigned:
        return 65 if low >= 0 and high < 2**64 else None
    if kind.base != "bigint" and low >= -(2**31) and high < 2**31:
        return 32
    return 64 if low >= -(2**63) and high < 2**63 else None


def _decimal_shape(kind: Declared, cells: list[str], digits_max: int, scale_max: int) -> tuple[int, int] | None:
    """Return precision and scale that hold every value, as declared if the engine can; None if it can't."""
    numbers = [Decimal(str(cell)) for cell in cells]
    if not all(number.is_finite() for number in numbers):
        return None
    if kind.arguments:
        precision, scale = (*kind.arguments, 0)[:2]
        return (precision, scale) if precision <= digits_max and scale <= scale_max else None
    parts = [number.as_tuple() for number in numbers]
    scale = max((max(-int(part.exponent), 0) for part in parts), default=0)
    whole = max((len(part.digits) + int(part.exponent) for part in parts), default=1)
    needed = max(whole, 1) + scale
    if needed > digits_max or scale > scale_max:
        return None
    return min(needed + 10, digits_max), scale


def _digits(kind: Declared, cells: list[str]) -> int:
    """Return the digits of a second that the declared type and its values need; 6 where nothing is declared."""
    stated = kind.arguments[0] if kind.arguments else (0 if kind.base == "datetime" else 6)
    return max(stated, max((fraction_digits(cell) for cell in cells), default=0))


def _within(cells: list[str], lower: str, upper: str) -> bool:
    """Tell whether every time stamp is one of the calendar and lies in a range, both ends included."""
    try:
        return all(instant_ns(lower) <= instant_ns(cell) <= instant_ns(upper) for cell in cells)
    except UnknownNotation:
        return False


def _calendar(cells: list[str]) -> bool:
    """Tell whether nothing but infinities and dates of the calendar occurs."""
    return _within([cell for cell in cells if not cell.endswith("infinity")], "4713-01-01 BC", "294000-01-01")


def _postgresql(kind: Declared, cells: list[Any], unit: str | None) -> str | None:
    if kind.item is not None:
        inner = _postgresql(kind.item, _elements(cells), unit)
        return f"{inner}[]" if inner else None
    if kind.kind == "int":
        return {32: "integer", 64: "bigint"}.get(_int_bits(kind, cells) or 0)
    if kind.kind == "decimal":
        return "numeric" + _parenthesised(kind.arguments)
    if kind.kind in ("timestamp", "timestamp_tz"):
        digits = _digits(kind, cells)
        name = "timestamp" if kind.kind == "timestamp" else "timestamptz"
        return f"{name}({digits})" if digits <= 6 and _calendar(cells) else None
    if kind.kind == "date":
        return "date" if _calendar(cells) else None
    if kind.kind == "enum":
        return "enum"
    if kind.kind == "bytes":
        return "bytea"
    sized = {"varchar": "varchar", "varchar2": "varchar", "nvarchar": "varchar", "nvarchar2": "varchar"}
    if kind.kind in ("char", "bit") or (kind.base in sized and kind.arguments):
        return sized.get(kind.base, kind.kind) + _parenthesised(kind.arguments or (1,))
    names = {"float32": "real", "float64": "double precision", "bool": "boolean", "text": "text", "uuid": "uuid"}
    names |= {"time": "time", "interval": "interval", "json": "json"}
    return names.get(kind.kind)


def _mysql(kind: Declared, cells: list[Any], unit: str | None) -> str | None:
    if kind.kind == "int":
        if kind.base == "tinyint":
            return kind.base + _parenthesised(kind.arguments)
        return {32: "int", 64: "bigint", 65: "bigint unsigned"}.get(_int_bits(kind, cells) or 0)
    if kind.kind == "decimal":
        shape = _decimal_shape(kind, cells, 65, 38)
        return f"decimal{_parenthesised(shape)}" if shape else None
    if kind.kind in ("float32", "float64"):
        name = "float" if kind.kind == "float32" else "double"
        return name if all(cell - cell == 0 for cell in cells) else None
    if kind.kind == "timestamp":
        digits, real = _digits(kind, cells), [cell for cell in cells if not cell.startswith("0000-00-00")]
        fine = digits <= 6 and _within(real, "1000-01-01", "9999-12-31 23:59:59.999999")
        return f"datetime({digits})" if fine else None
    if kind.kind == "timestamp_tz":
        digits, real = _digits(kind, cells), [cell for cell in cells if not cell.startswith("0000-00-00")]
        fine = digits <= 6 and _within(real, "1970-01-01 00:00:01", "2038-01-19 03:14:07.999999")
        return f"timestamp({digits})" if fine else None
    if kind.kind == "date":
        real = [cell for cell in cells if not cell.startswith("0000-00-00")]
        return "date" if _within(real, "1000-01-01", "9999-12-31") else None
    if kind.kind in ("enum", "char", "bit") or (kind.kind in ("text", "bytes") and kind.arguments):
        base = {"varchar2": "varchar", "nvarchar": "varchar", "nvarchar2": "varchar", "raw": "varbinary"}
        inside = ",".join("'" + str(part).replace("'", "''") + "'" for part in kind.arguments)
        if kind.kind == "enum":
            return f"enum({inside})"
        return base.get(kind.base, kind.base) + _parenthesised(kind.arguments)
    return {"text": "longtext", "bytes": "longblob", "time": "time(6)", "json": "json"}.get(kind.kind)


def _duckdb(kind: Declared, cells: list[Any], unit: str | None) -> str | None:
    if kind.item is not None:
        inner = _duckdb(kind.item, _elements(cells), unit)
        return f"{inner}[]" if inner else None
    if kind.kind == "int":
        return {32: "INTEGER", 64: "BIGINT", 65: "UBIGINT"}.get(_int_bits(kind, cells) or 0)
    if kind.kind == "decimal":
        shape = _decimal_shape(kind, cells, 38, 38)
        return f"DECIMAL{_parenthesised(shape)}" if shape else None
    if kind.kind == "timestamp":
        digits = _digits(kind, cells)
        if digits <= 6:
            return "TIMESTAMP" if _calendar(cells) else None
        return "TIMESTAMP_NS" if digits <= 9 and _within(cells, "1677-09-22", "2262-04-11") else None
    if kind.kind == "timestamp_tz":
        return "TIMESTAMPTZ" if _digits(kind, cells) <= 6 and _calendar(cells) else None
    if kind.kind == "date":
        return "DATE" if _calendar(cells) else None
    if kind.kind == "enum":
        return "ENUM (" + ", ".join("'" + label.replace("'", "''") + "'" for label in kind.arguments) + ")"
    names = {"float32": "FLOAT", "float64": "DOUBLE", "bool": "BOOLEAN", "text": "VARCHAR", "bytes": "BLOB"}
    names |= {"uuid": "UUID", "time": "TIME", "json": "JSON"}
    return names.get(kind.kind)


def _sqlite(kind: Declared, cells: list[Any], unit: str | None) -> str | None:
    if kind.kind == "int":
        return "INTEGER" if all(-(2**63) <= cell < 2**63 for cell in cells) else None
    if kind.kind == "float64":
        # SQLite turns NaN into NULL and keeps no sign of a zero.
        exact = all(cell == cell and str(cell) != "-0.0" for cell in cells)
        return "REAL" if exact else None
    return {"text": "TEXT", "bytes": "BLOB"}.get(kind.kind)


def _parquet(kind: Declared, cells: list[Any], unit: str | None) -> str | None:
    if kind.item is not None:
        inner = _parquet(kind.item, _elements(cells), unit)
        return f"list<{inner}>" if inner else None
    if kind.kind == "int":
        return {32: "int32", 64: "int64", 65: "uint64"}.get(_int_bits(kind, cells) or 0)
    if kind.kind == "decimal":
        shape = _decimal_shape(kind, cells, 76, 76)
        return f"decimal{_parenthesised(shape)}" if shape else None
    if kind.kind in ("timestamp", "timestamp_tz"):
        wanted = unit or ("us" if _digits(kind, cells) <= 6 else "ns")
        spans = {"ns": ("1677-09-22", "2262-04-11"), "us": ("0001-01-01", "9999-12-31 23:59:59.999999")}
        fine = _digits_of(cells) <= {"s": 0, "ms": 3, "us": 6, "ns": 9}[wanted]
        zone = "" if kind.kind == "timestamp" else ",UTC"
        return f"timestamp[{wanted}{zone}]" if fine and _within(cells, *spans.get(wanted, spans["us"])) else None
    if kind.kind == "date":
        return "date32" if _within(cells, "0001-01-01", "9999-12-31") else None
    if kind.kind == "time":
        day_end = [cell for cell in cells if cell.startswith("24")]
        return None if day_end or _digits_of(cells) > 6 else "time64[us]"
    names = {"float32": "float", "float64": "double", "bool": "bool", "text": "string", "bytes": "binary"}
    names |= {"uuid": "uuid"}
    return names.get(kind.kind)


def _csv(kind: Declared, cells: list[Any], unit: str | None) -> str | None:
    if kind.kind == "decimal" and not all(Decimal(str(cell)).is_finite() for cell in cells):
        return None
    return {"int": "int", "decimal": "decimal", "text": "text"}.get(kind.kind)


def _jsonl(kind: Declared, cells: list[Any], unit: str | None) -> str | None:
    return {"int": "int", "bool": "bool", "text": "text"}.get(kind.kind)


_TYPES: dict[str, Callable[[Declared, list[Any], str | None], str | None]] = {
    "sqlite": _sqlite,
    "duckdb": _duckdb,
    "postgresql": _postgresql,
    "mysql": _mysql,
    "parquet": _parquet,
    "csv": _csv,
    "jsonl": _jsonl,
}


def _elements(cells: list[list[Any]]) -> list[Any]:
    return [element for cell in cells for element in cell if element is not None]


def _digits_of(cells: list[str]) -> int:
    return max((fraction_digits(cell) for cell in cells), default=0)


def _parenthesised(arguments: Sequence[Any]) -> str:
    return f"({','.join(map(str, arguments))})" if arguments else ""
