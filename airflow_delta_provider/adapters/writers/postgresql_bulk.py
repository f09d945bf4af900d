"""PostgreSQL: many changes at once. COPY into temporary tables, then one guarded statement a kind, counted and compared.

Nothing is weaker than row by row: each statement demands key and guard of every row, and gives back whether each row
now holds exactly what was wanted. Where one does not, the whole is taken back and the rows are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow.compute as pc

from airflow_delta_provider.adapters.writers.changes import (
    Bulk,
    CellRefusedError,
    Change,
    RowShape,
    TakenError,
    WriteColumn,
)
from airflow_delta_provider.adapters.writers.postgresql_values import bare_type, compared_as_text, text_of
from airflow_delta_provider.core.errors import PatchWriteError, ValueLossyError

if TYPE_CHECKING:
    from airflow_delta_provider.adapters.writers.postgresql import PostgresqlWriter

GROUPS_MAX = 16
"""Sets of columns that occur in changes of one kind; more are not worth a table each."""
BLOCK_BYTES = 2**20
LINES_HELD = 2_000
STAGE = "pg_temp.delta_stage"
NEW = "delta_new"
ORDER = ("delete", "update", "insert")
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_NULL = "\\N"
_PLAIN = ("int", "decimal", "float32", "float64", "uuid")
"""Kinds whose canonical form PostgreSQL reads as it is and COPY takes unescaped."""
_MOMENTS = ("date", "timestamp", "timestamp_tz")
_YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_WRITTEN = rf"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}(?:T[0-9:]{{8}}(?:\.[0-9]{{1,6}})?Z?)?"
"""Dates and time stamps that PostgreSQL reads as they are; this, as Arrow and Python look for it."""
_MOMENT_JSON = rf'^(?:null|"{_WRITTEN}")$'
_MOMENT = re.compile(_WRITTEN)
_TEXT, _CSV = "", " WITH (FORMAT csv, NULL 'null', QUOTE '\"', ESCAPE '\\')"
_ESCAPE = re.compile(rb"\\(u[0-9a-f]{4}|.)")
_CONTROLS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}

Encoder = Callable[[Any], str]


class _Group:
    """Changes of one shape, one line each in two files: as COPY's text, and as CSV, which JSON values are already."""

    def __init__(self, writer: PostgresqlWriter, shape: RowShape, path: Path) -> None:
        self.op = shape.op
        self.paths = {_TEXT: path.with_suffix(".text"), _CSV: path.with_suffix(".csv")}
        self.rows = 0
        self._files: dict[str, BinaryIO] = {form: path.open("wb") for form, path in self.paths.items()}
        self._held: list[str] = []
        self._shape = shape
        self.fields = [(f"k{at}", name) for at, name in enumerate(shape.key)]
        self.fields += [(f"n{at}", name) for at, name in enumerate(shape.values)]
        self.fields += [(f"g{at}", name) for at, name in enumerate(shape.guard)]
        self._keys, self._news, self._olds = (
            [(name, _encoder(writer.columns[name])) for name in names]
            for names in (shape.key, shape.values, shape.guard)
        )

    def add(self, change: Change) -> None:
        """Add one change."""
        key, values, guard = change.key, change.values, change.guard
        cells = [encode(key[name]) for name, encode in self._keys]
        cells += [encode(values[name]) for name, encode in self._news]
        cells += [encode(guard[name]) for name, encode in self._olds]
        self._held.append("\t".join(cells))
        self.rows += 1
        if len(self._held) >= LINES_HELD:
            self._flush()

    def add_lines(self, lines: Sequence[bytes]) -> None:
        """Add changes that are CSV already."""
        if lines:
            self._files[_CSV].write(b"\n".join(lines) + b"\n")
            self.rows += len(lines)

    def close(self) -> None:
        """End writing."""
        self._flush()
        for file in self._files.values():
            file.close()

    def _flush(self) -> None:
        if self._held:
            self._files[_TEXT].write(("\n".join(self._held) + "\n").encode())
            self._held = []


class PostgresqlBulk(Bulk):
    """Changes in files of a folder, ready to be written at once."""

    def __init__(self, writer: PostgresqlWriter, folder: Path) -> None:
        self._writer = writer
        self._folder = folder
        self._groups: dict[RowShape, _Group] = {}

    def add(self, change: Change) -> bool:
        """Add a line to a file; False where there is no text for a value, no key, or too many sets of columns."""
        group = self._group(RowShape.of(change))
        if group is None or None in change.key.values():
            return False
        try:
            group.add(change)
        except ValueLossyError:
            return False
        return True

    def rows(self, shape: RowShape, lines: Sequence[bytes]) -> Sequence[int]:
        """Add lines to a file: JSON strings are CSV fields but for control characters, ``null`` is told by COPY."""
        group = self._group(shape)
        if group is None:
            return range(len(lines))
        refused: list[int] = []
        whole = b"\n".join(lines)
        if b"\\" in whole or b'{"' in whole:
            made = [_csv(line) for line in lines]
            refused = [place for place, line in enumerate(made) if line is None]
            lines = [line for line in made if line is not None]
        group.add_lines(lines)
        return refused

    def reads(self, name: str, texts: Any) -> bool:
        """Look at dates and time stamps, whose far years PostgreSQL writes otherwise; of other kinds all or none."""
        column = self._writer.columns[name]
        kind = column.type.kind if column.type else ""
        if kind in _MOMENTS:
            return bool(pc.all(pc.match_substring_regex(texts, _MOMENT_JSON), min_count=0).as_py())
        return kind in (*_PLAIN, "text", "bool")

    def close(self) -> None:
        """End writing."""
        for group in self._groups.values():
            group.close()

    def _group(self, shape: RowShape) -> _Group | None:
        group = self._groups.get(shape)
        if group is None and len(self._groups) < GROUPS_MAX:
            group = _Group(self._writer, shape, self._folder / f"stage{len(self._groups)}")
            self._groups[shape] = group
        return group

    def run(self) -> bool:
        """Write everything inside the open transaction; False where any row was not as guarded or is not as wanted."""
        ordered = sorted(self._groups.values(), key=lambda group: ORDER.index(group.op))
        try:
            return all(self._run(number, group) for number, group in enumerate(ordered))
        except (CellRefusedError, TakenError, PatchWriteError):
            return False

    def _run(self, number: int, group: _Group) -> bool:
        connection, stage = self._writer.connection, f"{STAGE}{number}"
        columns = ", ".join(f"{mark} {_stage_type(self._writer.columns[name])}" for mark, name in group.fields)
        with self._writer.writing():
            connection.execute(f"CREATE TEMPORARY TABLE {stage} ({columns}) ON COMMIT DROP".encode())
            for form, path in group.paths.items():
                if path.stat().st_size:
                    with (
                        path.open("rb") as lines,
                        connection.cursor() as cursor,
                        cursor.copy(f"COPY {stage} FROM STDIN{form}".encode()) as copy,
                    ):
                        while block := lines.read(BLOCK_BYTES):
                            copy.write(block)
            connection.execute(f"ANALYZE {stage}".encode())
            found = connection.execute(self._statement(group, stage).encode()).fetchone()
        return found is not None and found == (group.rows, group.rows)

    def _statement(self, group: _Group, stage: str) -> str:
        writer = self._writer
        by_mark = {letter: [(m, n) for m, n in group.fields if m[0] == letter] for letter in "kng"}
        if group.op == "insert":
            body = self._insert([*by_mark["k"], *by_mark["n"]], stage)
            checked = [*by_mark["k"], *by_mark["n"]]
            whole = ", ".join(f"{NEW}.{mark}" for mark, _ in checked)
            keys = " AND ".join(self._key_term(mark, name, "w") for mark, name in by_mark["k"])
            same = " AND ".join(self._same(mark, name, "w") for mark, name in checked)
            # INSERT gives back the new row only: it is joined with the wanted one by its key.
            return (
                f"WITH w AS ({body}), d AS (SELECT {same} AS held FROM w JOIN (SELECT {whole} FROM {stage} AS {NEW})"
                f" AS {NEW} ON {keys}) SELECT count(*), count(*) FILTER (WHERE held) FROM d"
            )
        terms = [self._key_term(mark, name) for mark, name in by_mark["k"]]
        terms += [
            self._same(mark, name)
            for mark, name in (*by_mark["k"], *by_mark["g"])
            if mark[0] == "g" or compared_as_text(writer.columns[name])
        ]
        where = " AND ".join(terms)
        if group.op == "delete":
            body = f"DELETE FROM {writer.aliased()} USING {stage} AS {NEW} WHERE {where} RETURNING true AS held"
        else:
            sets = ", ".join(f"{writer.dialect.quote(name)} = {self._cast(mark, name)}" for mark, name in by_mark["n"])
            held = " AND ".join(self._same(mark, name) for mark, name in by_mark["n"])
            body = f"UPDATE {writer.aliased()} SET {sets} FROM {stage} AS {NEW} WHERE {where} RETURNING {held} AS held"
        return f"WITH d AS ({body}) SELECT count(*), count(*) FILTER (WHERE held) FROM d"

    def _insert(self, fields: Sequence[tuple[str, str]], stage: str) -> str:
        writer = self._writer
        names = ", ".join(writer.dialect.quote(name) for _, name in fields)
        values = ", ".join(self._cast(mark, name) for mark, name in fields)
        always = any(writer.columns[name].always for _, name in fields)
        head = f"INSERT INTO {writer.relation.source} ({names}){' OVERRIDING SYSTEM VALUE' if always else ''}"
        return f"{head} SELECT {values} FROM {stage} AS {NEW} RETURNING {names}"

    def _key_term(self, mark: str, name: str, alias: str = "") -> str:
        return f"{self._field(name, alias)} = {self._cast(mark, name)}"

    def _field(self, name: str, alias: str) -> str:
        return f"{alias}.{self._writer.dialect.quote(name)}" if alias else self._writer.dialect.field(name)

    def _cast(self, mark: str, name: str) -> str:
        return f"CAST({NEW}.{mark} AS {bare_type(self._writer.columns[name])})"

    def _same(self, mark: str, name: str, alias: str = "") -> str:
        """Write that a column holds exactly a staged value, NULL included."""
        column, field = self._writer.columns[name], self._field(name, alias)
        kind = column.type.kind if column.type else ""
        if kind == "text":
            return f'{field}::text COLLATE "C" IS NOT DISTINCT FROM {NEW}.{mark}'
        if compared_as_text(column):
            return f"{field}::text IS NOT DISTINCT FROM {self._cast(mark, name)}::text"
        return f"{field} IS NOT DISTINCT FROM {NEW}.{mark}"


def _stage_type(column: WriteColumn) -> str:
    return "text" if compared_as_text(column) else bare_type(column)


def _encoder(column: WriteColumn) -> Encoder:
    """Return what writes a value of a column as COPY reads it. Raises (when called): ValueLossyError."""
    kind = column.type.kind if column.type else ""

    def escaped(value: Any) -> str:
        return _NULL if value is None else text_of(column, value).translate(_ESCAPED)

    def plain(value: Any) -> str:
        return _NULL if value is None else str(value)

    def moment(value: Any) -> str:
        return str(value) if value is not None and _MOMENT.fullmatch(value) else escaped(value)

    if kind in _PLAIN:
        return plain
    return moment if kind in _MOMENTS else escaped


def _csv(line: bytes) -> bytes | None:
    """Return JSON values as CSV fields, None where one is an object or holds U+0000, which PostgreSQL has no text for."""
    if b'{"' in line or b"\\u0000" in line:
        return None
    return _ESCAPE.sub(_unescaped, line) if b"\\" in line else line


def _unescaped(found: re.Match[bytes]) -> bytes:
    mark = found[1]
    if mark in (b'"', b"\\"):
        return found[0]
    return _CONTROLS.get(mark) or bytes((int(mark[1:], 16),))
